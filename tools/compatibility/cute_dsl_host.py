"""CuTe DSL libraries as they are: what their host code compiles and calls, on an emulated GPU."""

from __future__ import annotations

import contextlib
import ctypes
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import torch

from sglab.compilers.cute import compiled_cute
from sglab.compilers.cute_host import OnDevice, host_launches
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.errors import LaunchError

_WIDEST_ALIGNMENT = 16


@contextlib.contextmanager
def launches_on(device: EmulatedDevice) -> Iterator[None]:
    """Within it, a function that host code has compiled is compiled when it is called, for the tensors of that call,
    and its kernels run on `device`."""
    import cutlass.cute as cute

    compiler = cute.compile
    _Later.device = device

    def compile_later(function: Any, *examples: Any, options: Any = None, **named: Any) -> _Later:
        return _Later(compiler, function, _in_order(function, examples, named))

    with (
        patch.object(cute, "compile", compile_later),
        hardware_of(device),
        patch.object(torch.Tensor, "is_cuda", True),
    ):
        yield


@contextlib.contextmanager
def hardware_of(device: EmulatedDevice) -> Iterator[None]:
    """Within it, host code that is compiled has this device for the GPU at hand."""
    import cutlass.utils

    with patch.object(cutlass.utils, "HardwareInfo", lambda *_: _Hardware(device)):
        yield


def _in_order(function: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
    """Arguments by position, as the compiled function takes them."""
    if not named:
        return given
    bound = inspect.signature(function).bind(*given, **named)
    bound.apply_defaults()
    return bound.args


class _Hardware:
    """What host code reads of a GPU while it is compiled, under the DSL's names."""

    def __init__(self, device: EmulatedDevice) -> None:
        self._sms = device.sms

    def get_device_multiprocessor_count(self) -> int:
        return self._sms

    def get_max_active_clusters(self, cluster_size: int) -> int:
        return self._sms // cluster_size


class _Later:
    """What host code takes for a compiled function. Compiling takes longer than most of these kernels: it is done once
    for arguments of the same form."""

    device: EmulatedDevice

    def __init__(self, compiler: Any, function: Any, examples: Sequence[Any]) -> None:
        self._compiler, self._function, self._examples = compiler, function, examples
        self._compiled: dict[str, Any] = {}

    def __call__(self, *args: Any) -> None:
        import cutlass.cute as cute

        rest = iter(args)
        given = [_stream() if _is_stream(one) else next(rest) for one in self._examples]
        arguments = [_argument(*pair) for pair in zip(self._examples, given, strict=True)]
        memory = [one for one in args if isinstance(one, torch.Tensor)]
        name = type(self._function).__name__
        form = repr([_form(*pair) for pair in zip(self._examples, given, strict=True)])
        if form not in self._compiled:
            with patch.object(cute, "compile", self._compiler):
                known = [one.example if isinstance(one, _Declared) else one for one in arguments]
                self._compiled[form] = compiled_cute(self._function, known, str(self.device.arch))
        compiled = self._compiled[form]
        for launch in host_launches(compiled, arguments, name, self.device.encode):
            kernel = launch.kernel
            self.device.run(kernel.prepare(self.device, launch.config, args=launch.arguments, extra=memory))


def _form(example: Any, given: Any) -> Any:
    """What code may depend on of an argument: nothing where host code declared what is known of it."""
    if _is_stream(example) or _is_declared(example):
        return None
    if isinstance(given, torch.Tensor):
        return tuple(given.shape), given.stride(), str(given.dtype)
    return [_form(None, one) for one in given] if isinstance(given, (tuple, list)) else given


def _is_stream(example: Any) -> bool:
    """Streams are passed by the environment, not by the caller."""
    return "Stream" in type(example).__name__


def _is_declared(example: Any) -> bool:
    """Whether host code compiles for a description of a tensor, which has no memory."""
    from cutlass.cute.runtime import _FakeTensor

    return type(example) is _FakeTensor


def _stream() -> Any:
    from cuda.bindings.driver import CUstream

    return CUstream(0)


def _argument(example: Any, given: Any) -> Any:
    """An argument as the DSL takes it: with the alignment, and known to the compiler as far, as the example was."""
    if isinstance(given, torch.Tensor):
        if _is_declared(example):
            return _Declared(example, given)
        from cutlass.cute.runtime import from_dlpack

        tensor = from_dlpack(OnDevice(given.detach()), _WIDEST_ALIGNMENT)
        return _unknown(tensor, example, given)
    if given is None or _is_stream(example) or isinstance(given, type(example)):
        return given
    return type(example)(given)


def _unknown(tensor: Any, example: Any, given: torch.Tensor) -> Any:
    """The tensor with the sizes and strides hidden from the compiler that the example left open."""
    shapes = getattr(example, "dynamic_shapes_mask", ())
    if not any(shapes):
        return tensor
    if all(shapes):
        unit = [mode for mode, stride in enumerate(example.stride) if stride == 1]
        return tensor.mark_layout_dynamic(unit[0] if unit else None)
    for mode in (mode for mode, is_open in enumerate(shapes) if is_open):
        tensor = tensor.mark_compact_shape_dynamic(mode, given.dim_order())
    return tensor


class _Declared:
    """A tensor of which the compiler knows only what host code declared, its example.

    The compiled function takes a struct: the address, then the sizes and strides that were left open, each as wide as
    it was declared.
    """

    def __init__(self, example: Any, given: torch.Tensor) -> None:
        self.example = example
        sizes = _open("size", example.shape, given.shape, given.shape)
        strides = _open("stride", example.stride, given.stride(), given.shape)
        layout = _struct(sizes=_integers(sizes), strides=_integers(strides))
        self._struct = _struct(address=ctypes.c_uint64(given.data_ptr()), layout=layout)

    def __c_pointers__(self) -> list[int]:
        return [ctypes.addressof(self._struct)]


def _open(what: str, declared: Sequence[Any], given: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Width and value of each one that was left open.

    Raises:
        LaunchError: the tensor is not of the form that was declared. No stride matters to a dimension of one element.
    """
    found = []
    for mode, (known, value) in enumerate(zip(declared, given, strict=True)):
        fixed = isinstance(known, int)
        fits = known == value if fixed else value % known.divisibility == 0
        if not fits and (what == "size" or sizes[mode] != 1):
            wanted = known if fixed else f"a multiple of {known.divisibility}"
            raise LaunchError(f"{what} of dimension {mode}: the function was compiled for {wanted}; got {value}")
        if not fixed:
            found.append((known.width, value))
    return found


def _integers(values: Sequence[tuple[int, int]]) -> ctypes.Structure:
    kinds = {32: ctypes.c_int32, 64: ctypes.c_int64}
    return _struct(**{f"of_{at}": kinds[width](value) for at, (width, value) in enumerate(values)})


def _struct(**fields: Any) -> ctypes.Structure:
    """A struct of C with these values."""
    made = type("Struct", (ctypes.Structure,), {"_fields_": [(name, type(value)) for name, value in fields.items()]})
    return made(**fields)
