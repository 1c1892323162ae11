"""Numba-CUDA kernels as launches: Numba compiles them to PTX without a GPU.

Numba passes an array as nine words and more: two null pointers, its size, the bytes of an element, its address, its
shape, and its strides in bytes (numba/cuda/dispatcher.py, `_prepare_args`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sglab.compilers.vouched import vouch
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.arguments import Allocation, Strided
from sglab.gpu.errors import CompileError, LaunchError
from sglab.gpu.geometry import LaunchConfig
from sglab.gpu.module import Module
from sglab.gpu.progress import announced
from sglab.stepping.device import COPIED, arch_of, stepped_on
from sglab.stepping.host import HostCopies, as_tensor, gpu_of
from sglab.stepping.launch import KernelLaunch

_COMPILERS = ("libnvrtc", "libnvvm", "libNVVM", "libnvJitLink", "libdevice")
_PASSED_ON = ("fastmath", "opt", "launch_bounds")


def is_configured(kernel: Any) -> bool:
    """Whether `kernel` is what `numba_kernel[grid, block]` gives."""
    module = type(kernel).__module__
    return module.startswith(("numba.", "numba_cuda.")) and hasattr(kernel, "dispatcher") and hasattr(kernel, "griddim")


def numba_launch(kernel: Any, args: Sequence[Any], device: EmulatedDevice | None) -> KernelLaunch:
    """The launch, compiled but not run.

    Args:
        kernel: `numba_kernel[grid, block]`.
        args: numpy arrays, torch tensors and numbers.

    Raises:
        LaunchError: an argument is missing, or of a type that Numba does not take.
        CompileError: with what Numba says.
    """
    function = kernel.dispatcher.py_func
    try:
        names = list(inspect.signature(function).bind(*args).arguments)
    except TypeError as error:
        raise LaunchError(f"{function.__name__}{inspect.signature(function)}: {error}") from None
    values = [as_tensor(value) for value in args]
    copies, index = HostCopies(), gpu_of(values)
    values = [copies.of(value) for value in values]
    types = [_type(function.__name__, name, value) for name, value in zip(names, values, strict=True)]
    device = stepped_on(device, arch_of(index))
    module = _compiled(kernel.dispatcher, types, device.arch.capability)
    config = LaunchConfig(tuple(kernel.griddim), tuple(kernel.blockdim), smem=int(kernel.sharedmem))
    flat = [part for kind, value in zip(types, values, strict=True) for part in _flat(kind, value)]
    tensors = {name: one for name, one in zip(names, values, strict=True) if hasattr(one, "data_ptr")}
    prepared = module[next(iter(module))].prepare(device, config, args=flat)
    launch = replace(prepared, spans=tuple(_named(span, names, tensors) for span in prepared.spans))
    return KernelLaunch.of(device, launch, tensors, (COPIED,) if len(copies) else ())


def _named(span: Allocation, names: Sequence[str], tensors: Mapping[str, Any]) -> Allocation:
    """A launch's memory under the name of the parameter: PTX counts the words of all arrays."""
    found = [name for name, one in tensors.items() if span.address <= one.data_ptr() < span.address + span.nbytes]
    shown = ", ".join(f"{name} (argument {names.index(name)})" for name in found)
    return span._replace(name=shown or span.name)


def _type(function: str, name: str, value: Any) -> Any:
    """Numba's type of an argument."""
    from numba import typeof

    try:
        return typeof(value.numpy() if hasattr(value, "data_ptr") else value)
    except (TypeError, ValueError) as error:
        raise LaunchError(f"{function}, {name}: Numba has no type for this argument: {error}") from None


def _compiled(dispatcher: Any, types: Sequence[Any], capability: int) -> Module:
    from numba import cuda

    name = dispatcher.py_func.__name__
    options = {key: value for key, value in dispatcher.targetoptions.items() if key in _PASSED_ON and value is not None}
    cc = divmod(capability, 10)
    with announced(f"compiling the Numba kernel {name} for sm_{capability}"):
        try:
            text, _ = cuda.compile_ptx(dispatcher.py_func, tuple(types), lineinfo=True, cc=cc, **options)
        except Exception as error:  # Numba's errors have no base in common, nor have its libraries'
            what = f"compiling the Numba kernel {name} for sm_{capability}: {_said(error)}"
            raise CompileError(what) from error
    (entry,) = Module(text)
    return Module(vouch(text.replace(entry, name)), f"{name} (Numba)")  # Numba's names have some hundred letters


def _said(error: Exception) -> str:
    """What Numba says; where one of NVIDIA's compilers is missing, which `numba-cuda` alone lacks, what to do."""
    said = str(error).strip()
    missing = next((part for part in _COMPILERS if part in said), None)
    if missing is None:
        return said
    return f"{missing} is not installed. It comes with: pip install 'sglab[numba]', or 'numba-cuda[cu13]'"


def _flat(kind: Any, value: Any) -> Iterator[Any]:
    """A value as the words that the kernel takes."""
    if hasattr(value, "data_ptr"):
        size = value.element_size()
        yield from (None, None, value.numel(), size, Strided(value))
        yield from value.shape
        yield from (stride * size for stride in value.stride())
    elif isinstance(value, tuple):
        for inner, one in zip(kind, value, strict=True):
            yield from _flat(inner, one)
    elif isinstance(value, complex):
        yield from (value.real, value.imag)
    else:
        yield value
