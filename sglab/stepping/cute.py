"""CuTe DSL functions as launches: `sglab.cute(function)(x, y, out)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglab.compilers.cute import compiled_cute
from sglab.compilers.cute_host import HostLaunch, OnDevice, host_launches
from sglab.emulator.captures import Capture, capture
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.errors import LaunchError, missing
from sglab.stepping.device import COPIED, arch_of, emulated, stepped_on
from sglab.stepping.host import HostCopies, as_tensor, gpu_of
from sglab.stepping.launch import KernelLaunch

_WIDEST_ALIGNMENT = 16


def cute(function: Any) -> CuteFunction:
    """A `@cute.jit` function that launches where its tensors are.

    The function's host part runs as it is, so that grids, clusters, shared memory and arguments are its own.

    Raises:
        MissingDependencyError: nvidia-cutlass-dsl is not installed.
    """
    try:
        import cutlass.cute  # noqa: F401
    except ImportError:
        raise missing("nvidia-cutlass-dsl", "cute", "Compiling a CuTe DSL function") from None
    if not callable(function):
        raise LaunchError(f"function: expected a @cute.jit function; got {type(function).__name__}")
    if getattr(function, "_decorator_kind", "") == "kernel":
        raise LaunchError(
            f"function: expected a @cute.jit function; got the @cute.kernel {function.__name__}. Give the @cute.jit "
            "function that launches it"
        )
    return CuteFunction(function)


class CuteFunction:
    """A `@cute.jit` function: call it, or hand it to `sglab.step`."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name = getattr(function, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> KernelLaunch | Capture:
        """Runs it where its tensors are, on their GPU or on an emulated one.

        Args:
            args, kwargs: the function's own; torch tensors and numpy arrays become tensors of the DSL with their shapes
                known to the compiler. What the DSL takes otherwise is passed on as it is.

        Returns:
            the launch, or a Capture of several; widgets open either.

        Raises:
            CompileError: with what the DSL says.
            KernelError: a kernel failed.
        """
        values = {name: as_tensor(value) for name, value in self._named(args, kwargs).items()}
        index = gpu_of(values.values())
        if index is None:
            made = self._launches(values, emulated(arch_of(None)), shows=False)
            if isinstance(made, KernelLaunch):
                made.report = made.device.run(made.launch)
            return made
        made = self._launches(values, stepped_on(None, arch_of(index)), shows=False)
        self.function(*(_dsl_tensor(one, one) if hasattr(one, "data_ptr") else one for one in values.values()))
        return made

    def prepare(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], device: EmulatedDevice | None
    ) -> KernelLaunch | Capture:
        """The launch, not run. Of several, each needs what the one before has written: they are run and captured."""
        values = {name: as_tensor(value) for name, value in self._named(args, kwargs).items()}
        return self._launches(values, stepped_on(device, arch_of(gpu_of(values.values()))), shows=True)

    def _launches(self, values: Mapping[str, Any], device: EmulatedDevice, shows: bool) -> KernelLaunch | Capture:
        copies = HostCopies()
        values = {name: copies.of(value) for name, value in values.items()}
        tensors = {name: value for name, value in values.items() if hasattr(value, "data_ptr")}
        arguments = [_dsl_tensor(OnDevice(one), one) if name in tensors else one for name, one in values.items()]
        compiled = compiled_cute(self.function, arguments, str(device.arch))
        found = host_launches(compiled, arguments, self.name, device.encode)
        if not found:
            raise LaunchError(f"{self.name}: launches no kernel with these arguments")
        if len(found) == 1:
            remarks = (COPIED,) if len(copies) else ()
            prepared = _prepared(found[0], device, tensors)
            return KernelLaunch.of(device, prepared, tensors, remarks, shows)
        return capture(lambda: [device.run(_prepared(one, device, tensors)) for one in found])

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by parameter."""
        import inspect

        signature = inspect.signature(self.function)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise LaunchError(f"{self.name}{signature}: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def __repr__(self) -> str:
        return f"<CuTe DSL function {self.name}>"


def _prepared(launch: HostLaunch, device: EmulatedDevice, memory: Mapping[str, Any]) -> Any:
    return launch.kernel.prepare(device, launch.config, args=launch.arguments, extra=memory)


def _dsl_tensor(dlpack: Any, tensor: Any) -> Any:
    """A tensor as the DSL takes it. 16 bytes of alignment, where the address has them, let it copy in vectors."""
    from cutlass.cute.runtime import from_dlpack

    aligned = tensor.data_ptr() % _WIDEST_ALIGNMENT == 0
    return from_dlpack(dlpack, _WIDEST_ALIGNMENT if aligned else tensor.element_size())
