"""`sglab.step`: one line from a kernel and its arguments to a launch in the debugger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglab.emulator.captures import Capture
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.errors import LaunchError
from sglab.stepping.cuda import Gridded, OwnKernel, Program
from sglab.stepping.cute import CuteFunction
from sglab.stepping.launch import KernelLaunch
from sglab.stepping.numba import is_configured, numba_launch
from sglab.stepping.triton import gridded, is_triton, triton_launch

TAKES = (
    "a kernel with its grid: triton_kernel[grid], sglab.cuda(source)[grid, block], sglab.ptx(text)[grid, block], "
    "numba_kernel[grid, block], or sglab.cute(function)"
)


def step(
    kernel: Any,
    *args: Any,
    device: EmulatedDevice | None = None,
    extra: Sequence[Any] = (),
    **kwargs: Any,
) -> KernelLaunch | Capture:
    """A launch of anybody's kernel, before its first instruction. A cell that ends with it shows the debugger; every
    other widget of launches opens it, too: `sglab.widgets.WarpRoles(launch)`.

    Nothing has run: tensors change as the launch is stepped. Tensors on a GPU are copied, and the copies are stepped.

    Args:
        kernel: `fn[grid]` of a plain `@triton.jit` (or Gluon) function, `sglab.cuda(source)[grid, block]`,
            `sglab.ptx(text)[grid, block]`, a Numba kernel `fn[grid, block]`, `sglab.cute(function)`; or the kernel
            without its sizes, which then are the first arguments.
        args, kwargs: the kernel's own.
        device: the emulated GPU to step on; by default one like the GPU that the tensors are on, or a B200, with all
            sanitizers.
        extra: tensors that a CUDA or PTX kernel reaches through pointers inside structs or other tensors.

    Returns:
        the launch; a Capture of all launches where a CuTe DSL function makes several.

    Raises:
        LaunchError: an argument does not fit, or `kernel` is nothing that can be launched.
        CompileError: the compiler refused the kernel.
    """
    if is_triton(kernel):
        if not args or hasattr(args[0], "__array__"):  # the kernel's own first argument
            raise LaunchError(
                f"sglab.step: the grid is missing. Write sglab.step({getattr(kernel, '__name__', 'kernel')}[grid], …)"
            )
        return triton_launch(kernel, args[0], args[1:], kwargs, device)
    if (found := gridded(kernel)) is not None:
        return triton_launch(*found, args, kwargs, device)
    if isinstance(kernel, (Program, OwnKernel)):
        if len(args) < 2 or any(hasattr(size, "__array__") for size in args[:2]):  # the kernel's own arguments
            raise LaunchError("sglab.step(kernel, grid, block, …): sizes are missing; or write kernel[grid, block]")
        kernel, args = kernel[args[0], args[1]], args[2:]
    if is_configured(kernel):
        _no_keywords(kwargs)
        return numba_launch(kernel, args, device)
    if isinstance(kernel, CuteFunction):
        return kernel.prepare(args, kwargs, device)
    if isinstance(kernel, Gridded):
        _no_keywords(kwargs)
        return kernel.prepare(args, extra, device)
    raise LaunchError(f"kernel: expected {TAKES}; got {type(kernel).__name__}{_hint(kernel)}")


def _no_keywords(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise LaunchError(f"this kernel takes its arguments by position; got {', '.join(kwargs)}=")


def _hint(kernel: Any) -> str:
    module = type(kernel).__module__
    if module.startswith("triton.runtime.interpreter"):
        return ": TRITON_INTERPRET was set when it was defined; unset it"
    if module.startswith(("numba.", "numba_cuda.")):
        return ": give it sizes, kernel[grid, block]"
    if isinstance(kernel, str):
        return ": pass sglab.cuda(text)[grid, block] or sglab.ptx(text)[grid, block]"
    if module.startswith(("cuda.tile", "cutile")):
        return ": cuTile compiles to machine code, without PTX, and cannot be stepped"
    if (kind := getattr(kernel, "_decorator_kind", "")) in ("jit", "kernel"):  # of the CuTe DSL
        name = getattr(kernel, "__name__", "function")
        return (
            f": a @cute.jit function; pass sglab.cute({name})"
            if kind == "jit"
            else f": the @cute.kernel {name}; pass sglab.cute of the @cute.jit function that launches it"
        )
    return ""
