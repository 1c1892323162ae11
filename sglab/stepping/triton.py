"""`fn[grid]` of a plain `@triton.jit` function (Gluon's, autotuned or with heuristics, too) as a launch, without a
driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from types import FunctionType
from typing import Any

from sglab.emulator.device import EmulatedDevice
from sglab.gpu.errors import LaunchError
from sglab.stepping.device import COPIED, arch_of, stepped_on
from sglab.stepping.host import HostCopies, as_tensor, gpu_of
from sglab.stepping.launch import KernelLaunch
from sglab.triton.emulator import EmulatedLauncher
from sglab.triton.interpreter import InterpretedStore, interpret, last_store
from sglab.triton.routing import canonical_grid, tensors
from sglab.triton.specialize import Specializer, language_is_interpreted

_MOST_WRAPPERS = 16


def is_triton(function: Any) -> bool:
    """Whether `function` is what `triton.jit`, `triton.autotune` or `triton.heuristics` make."""
    bases = type(function).__mro__
    return any(base.__name__ == "KernelInterface" and base.__module__.startswith("triton.") for base in bases)


def gridded(launch: Any) -> tuple[Any, Any] | None:
    """The kernel and the grid inside of what `kernel[grid]` gives: a function that remembers both."""
    launch = getattr(launch, "__wrapped__", launch)  # by launched_on
    if isinstance(launch, partial) and "grid" in launch.keywords:
        owner = getattr(launch.func, "__self__", None)
        return (owner, launch.keywords["grid"]) if is_triton(owner) else None
    if not isinstance(launch, FunctionType) or launch.__closure__ is None:
        return None
    names = launch.__code__.co_freevars
    held = {name: cell.cell_contents for name, cell in zip(names, launch.__closure__, strict=True)}
    if set(held) == {"self", "grid"} and is_triton(held["self"]):
        return held["self"], held["grid"]
    return None


def triton_launch(
    function: Any, grid: Any, args: tuple, kwargs: Mapping[str, Any], device: EmulatedDevice | None
) -> KernelLaunch:
    """The launch, compiled but not run.

    Raises:
        LaunchError: an argument does not fit, or Triton cannot compile in this process.
        CompileError: Triton refuses the kernel.
    """
    if language_is_interpreted():
        raise LaunchError("TRITON_INTERPRET was set when Triton was imported, so nothing can be compiled. Unset it")
    args, kwargs = tuple(map(as_tensor, args)), {name: as_tensor(value) for name, value in kwargs.items()}
    copies = HostCopies()
    gpu = gpu_of([value for _, value in tensors({"args": args, **kwargs})])
    args = tuple(map(copies.of, args))
    kernel, options, remarks = _unwrapped(function, args, copies.of(kwargs))
    device = stepped_on(device, arch_of(gpu))
    specializer = Specializer(kernel, device.arch.capability)
    bound = specializer.bind(args, options)
    sizes = canonical_grid(kernel.__name__, grid, bound.values)
    if 0 in sizes:
        raise LaunchError(f"{kernel.__name__}: grid {sizes} has no programs: there is nothing to step")
    launch = EmulatedLauncher(kernel).prepare(device, specializer, bound, sizes)
    lacking = device.unsupported(launch.kernel)
    if lacking:
        raise LaunchError(f"{kernel.__name__}: the emulator lacks {', '.join(lacking)}")
    named = {name: one for name, one in tensors(bound.values) if hasattr(one, "untyped_storage")}
    made = KernelLaunch.of(device, launch, named, (*remarks, *([COPIED] if len(copies) else [])))
    made.interpreted = _Interpreted(kernel, sizes, bound.values)
    return made


@dataclass(frozen=True)
class _Interpreted:
    """See launch.Interpreted."""

    kernel: Any
    grid: tuple[int, int, int]
    values: Mapping[str, Any]

    def run(self) -> None:
        interpret(self.kernel, self.grid, self.values)

    def last_store(self, address: int, nbytes: int) -> InterpretedStore | None:
        return last_store(self.kernel, self.grid, self.values, address, nbytes)


@contextmanager
def launched_on(device: EmulatedDevice) -> Iterator[None]:
    """What is launched meanwhile of plain `@triton.jit` kernels, on tensors that are on no GPU, runs on `device`."""
    from triton.runtime.jit import KernelInterface

    usual = KernelInterface.__getitem__

    def chosen(function: Any, grid: Any) -> Any:
        theirs = usual(function, grid)
        if not type(function).__module__.startswith("triton."):
            return theirs  # sglab's own finds its device itself

        @wraps(theirs)
        def launch(*args: Any, **kwargs: Any) -> Any:
            if gpu_of([value for _, value in tensors({"args": args, **kwargs})]) is not None:
                return theirs(*args, **kwargs)
            return device.run(triton_launch(function, grid, args, kwargs, device).launch)

        return launch

    KernelInterface.__getitem__ = chosen
    try:
        yield
    finally:
        KernelInterface.__getitem__ = usual


def _unwrapped(function: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any], list[str]]:
    """The compiled function below autotuning and heuristics, the keywords that these add, and remarks."""
    options, remarks = dict(kwargs), list[str]()
    for _ in range(_MOST_WRAPPERS):
        if not hasattr(function, "configs") and not hasattr(function, "values"):
            return function, options, remarks
        known = {**dict(zip(function.arg_names, args, strict=False)), **options}
        if hasattr(function, "configs"):
            config = function.configs[0]
            options = {**config.all_kwargs(), **options}
            if config.pre_hook is not None:
                config.pre_hook({**known, **options})
            if len(function.configs) > 1:
                count = len(function.configs)
                remarks.append(
                    f"Autotuning measures on GPUs. Taken is the first of its {count} configurations: {config}"
                )
        else:
            options |= {name: rule({**known, **options}) for name, rule in function.values.items()}
        function = function.fn
    raise LaunchError(f"{function}: more than {_MOST_WRAPPERS} decorators around a Triton kernel")
