"""The `triton_kernel` decorator: Triton's own launch syntax, on whichever machine the tensors call for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from sglab.gpu.errors import LaunchError, missing
from sglab.gpu.triton.interpreter import interpret
from sglab.gpu.triton.record import LaunchRecord
from sglab.gpu.triton.routing import canonical_grid, choose


@overload
def triton_kernel(function: Callable) -> Any: ...
@overload
def triton_kernel(**options: Any) -> Callable[[Callable], Any]: ...
def triton_kernel(function: Callable | None = None, **options: Any) -> Any:
    """Makes a Triton kernel, or a helper that kernels call, out of a Python function. Used like `triton.jit`.

    The result is a `triton.JITFunction`: `kernel[grid](*arguments, **options)` launches it. CUDA tensors run on their
    GPU; CPU tensors run on the emulator, or under Triton's interpreter where the emulator cannot.
    `route="cuda" | "emulator" | "interpreter"`, or the environment variable SGLAB_TRITON, insists on one of them.
    A launch returns a LaunchRecord, also kept as `kernel.last_launch`.

    options: those of `triton.jit` (do_not_specialize, noinline, …)
    raises MissingDependencyError: Triton is not installed
    """
    if function is None:
        return lambda inner: triton_kernel(inner, **options)
    return _kernel_class()(function, **options)


@functools.cache
def _kernel_class() -> type:
    """TritonKernel, a subclass of Triton's JITFunction: other kernels may call it, and Triton can compile it."""
    try:
        from triton.backends.nvidia.compiler import CUDAOptions
        from triton.runtime.jit import JITFunction
    except ImportError:
        raise missing("triton", "kernels", "A Triton kernel") from None

    launch_options = frozenset(CUDAOptions.__dataclass_fields__)

    class TritonKernel(JITFunction):  # type: ignore[misc]
        last_launch: LaunchRecord | None = None

        def run(self, *args: Any, grid: Any, warmup: bool, route: str | None = None, **kwargs: Any) -> Any:
            if warmup:
                return super().run(*args, grid=grid, warmup=True, **kwargs)
            arguments = self._bind(args, kwargs)
            chosen, reason = choose(self.__name__, arguments, route, _emulator_refusal)
            sizes = canonical_grid(self.__name__, grid, arguments)
            compiled = None
            if chosen == "cuda":
                compiled = super().run(*args, grid=sizes, warmup=False, **kwargs)
            else:
                remark = interpret(self, sizes, arguments)
                reason = f"{reason}; {remark}" if remark else reason
            self.last_launch = LaunchRecord(self.__name__, chosen, reason, sizes, compiled)
            return self.last_launch

        @property
        def last_route(self) -> str | None:
            """Route of the last launch; None before the first."""
            return self.last_launch.route if self.last_launch else None

        def _bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
            """Every parameter by name, in order. Launch options are left out, unknown names refused."""
            names = set(self.arg_names)
            unknown = [name for name in kwargs if name not in names and name not in launch_options]
            if unknown:
                expected = ", ".join(self.arg_names)
                raise LaunchError(f"{self.__name__}: no parameter or option '{unknown[0]}'; parameters are {expected}")
            try:
                bound = self.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in names})
            except TypeError as error:
                raise LaunchError(f"{self.__name__}({', '.join(self.arg_names)}): {error}") from None
            bound.apply_defaults()
            return dict(bound.arguments)

    return TritonKernel


def _emulator_refusal() -> str | None:
    return "this build of sglab has no emulator for Triton kernels"
