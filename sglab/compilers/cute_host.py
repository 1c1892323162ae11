"""The host part of a CuTe DSL function, run without a GPU: what it would launch, with every argument in place.

The DSL compiles a `@cute.jit` function to a host function that computes grids, builds tensor maps and calls CUDA's
runtime through a few C symbols. Here the host function runs with symbols of our own, which keep the launches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sglab.compilers.vouched import vouch
from sglab.gpu.errors import CompileError
from sglab.gpu.geometry import LaunchConfig
from sglab.gpu.module import Kernel, Module
from sglab.gpu.signature import Dim3
from sglab.gpu.tensor_map import TiledEncoding

Encode = Callable[[TiledEncoding], bytes]
_CLUSTER = 4
"""cudaLaunchAttributeClusterDimension"""
_KDLCUDA = 2
"""DLPack's number of CUDA memory"""
_INVALID = 1
_SYMBOLS = {
    "_cudaLaunchKernelEx": (3, "_launch"),
    "_cudaLibraryLoadData": (8, ""),
    "_cudaLibraryGetKernel": (3, "_get_kernel"),
    "_cuKernelGetAttribute": (4, "_kernel_attribute"),
    "_cudaDeviceGetAttribute": (3, "_device_attribute"),
    "_cudaGetDevice": (1, "_get_device"),
    "_cudaKernelSetAttributeForDevice": (4, ""),
    "_cudaFuncSetAttribute": (3, ""),
    "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (4, "_occupancy"),
    "_cuTensorMapEncodeTiled": (12, "_encode_map"),
    "_cudaLaunchKernel": (10, "_old_launch"),
}
"""Name -> how many arguments, all of them machine words, and the method of _Host that serves it."""


class _Config(ctypes.Structure):
    """cudaLaunchConfig_t"""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("smem", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    )


class _Attribute(ctypes.Structure):
    """cudaLaunchAttribute"""

    _fields_ = (("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


@dataclass(frozen=True)
class HostLaunch:
    """One launch that the host function makes: `arguments` are raw bytes, one per parameter."""

    kernel: Kernel
    config: LaunchConfig
    arguments: tuple[bytes, ...]


class OnDevice:
    """A CPU tensor that the DSL takes for one in GPU memory, where the emulator will have it."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def __dlpack__(self, stream: Any = None) -> Any:
        capsule = self._tensor.__dlpack__()
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor: data pointer, then the device's type as 32 bits
        ctypes.c_int32.from_address(get(capsule, b"dltensor") + 8).value = _KDLCUDA
        return capsule


def host_launches(compiled: Any, arguments: Sequence[Any], name: str, encode: Encode) -> list[HostLaunch]:
    """Runs the host function of what `cute.compile` returned.

    Args:
        arguments: what the function was compiled with, or the same of other tensors.
        encode: the device's encoding of a tensor map.

    Raises:
        CompileError: the host function failed, or asks for what is not there without a GPU.
    """
    from cutlass._mlir import execution_engine

    module = Module(vouch(compiled.__ptx__), f"{name} (CuTe DSL)")
    engine = execution_engine.ExecutionEngine(compiled.ir_module, opt_level=2, shared_libs=[])
    host = _Host(module, encode)
    for symbol, callback in host.callbacks():
        engine.raw_register_runtime(symbol, ctypes.cast(callback, ctypes.c_void_p))
    engine.initialize()
    # What was compiled in (cutlass.Constexpr) is no argument of the host function; with it too many, it would crash.
    fixed = {one["argument_index"] for one in compiled.execution_args.get_constexpr_args()}
    passed = tuple(one for index, one in enumerate(arguments) if index not in fixed)
    words, adapted = compiled.execution_args.generate_execution_args(passed, {})
    library, device, status = ctypes.c_void_p(), ctypes.c_int32(0), ctypes.c_int32(0)
    held = ctypes.pointer(library)
    for step, given in (
        ("cuda_init", (ctypes.pointer(held), ctypes.pointer(status))),
        ("cuda_load_to_device", (ctypes.pointer(held), ctypes.pointer(device), ctypes.pointer(status))),
    ):
        _call(engine.raw_lookup(step), given)
    _call(engine.raw_lookup(f"_mlir_ciface_{compiled.function_name}"), (*words, ctypes.pointer(status)))
    del adapted
    if host.problem or status.value:
        raise CompileError(f"{name}: its host part failed: {host.problem or f'CUDA error {status.value}'}")
    return host.launches


def _call(function: int, arguments: Sequence[Any]) -> None:
    """Calls MLIR's packed form: one array of pointers to the arguments."""
    words = [one if isinstance(one, int) else ctypes.cast(one, ctypes.c_void_p).value for one in arguments]
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)((ctypes.c_void_p * len(words))(*words))


class _Host:
    """CUDA's runtime, as far as such a host function uses it."""

    def __init__(self, module: Module, encode: Encode) -> None:
        self._module, self._encode = module, encode
        self._names: list[str] = []
        self.launches: list[HostLaunch] = []
        self.problem = ""

    def callbacks(self) -> Iterator[tuple[str, Any]]:
        """Symbols and their C functions, which live as long as this object."""
        self._kept = {symbol: self._callback(count, method) for symbol, (count, method) in _SYMBOLS.items()}
        yield from self._kept.items()

    def _callback(self, count: int, name: str) -> Any:
        method = getattr(self, name) if name else None

        def call(*words: int | None) -> int:
            try:
                if method is not None:
                    method(*(word or 0 for word in words))
                return 0
            except Exception as error:  # nothing may leave a C callback; it is raised when the host function is done
                self.problem = self.problem or f"{type(error).__name__}: {error}"
                return _INVALID

        return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * count)(call)

    def _get_kernel(self, kernel: int, library: int, name: int) -> None:
        self._names.append(ctypes.string_at(name).decode())
        ctypes.c_void_p.from_address(kernel).value = len(self._names)

    def _get_device(self, device: int) -> None:
        ctypes.c_int32.from_address(device).value = 0

    def _device_attribute(self, value: int, attribute: int, device: int) -> None:
        """The only one that a host function asks for is the most shared memory of a CTA."""
        ctypes.c_int32.from_address(value).value = 232_448

    def _kernel_attribute(self, value: int, attribute: int, kernel: int, device: int) -> None:
        ctypes.c_int32.from_address(value).value = 0

    def _occupancy(self, count: int, kernel: int, threads: int, smem: int) -> None:
        ctypes.c_int32.from_address(count).value = 1

    def _launch(self, config: int, kernel: int, arguments: int) -> None:
        given = _Config.from_address(config)
        cluster: Dim3 = (1, 1, 1)
        for index in range(given.count):
            attribute = _Attribute.from_address(given.attributes + index * ctypes.sizeof(_Attribute))
            if attribute.id == _CLUSTER:
                cluster = tuple(attribute.value[:3])
        entry = self._module[self._names[kernel - 1]]
        pointers = (ctypes.c_void_p * len(entry.params)).from_address(arguments) if entry.params else ()
        data = tuple(
            ctypes.string_at(pointer, parameter.size) for pointer, parameter in zip(pointers, entry.params, strict=True)
        )
        wanted = LaunchConfig(tuple(given.grid), tuple(given.block), cluster, given.smem)
        self.launches.append(HostLaunch(entry, wanted, data))

    def _old_launch(self, *words: int) -> None:
        raise CompileError("it launches a kernel through cudaLaunchKernel, which is not provided here")

    def _encode_map(self, into: int, *words: int) -> None:
        kind, rank, address, dims, strides, box, steps, interleave, swizzle, promotion, fill = words
        wide, narrow = ctypes.c_uint64 * rank, ctypes.c_uint32 * rank
        encoding = TiledEncoding(
            data_type=kind & 0xFFFFFFFF,
            address=address,
            global_dim=tuple(wide.from_address(dims)),
            global_strides=tuple((ctypes.c_uint64 * (rank - 1)).from_address(strides)) if rank > 1 else (),
            box_dim=tuple(narrow.from_address(box)),
            element_strides=tuple(narrow.from_address(steps)),
            interleave=interleave & 0xFFFFFFFF,
            swizzle=swizzle & 0xFFFFFFFF,
            l2_promotion=promotion & 0xFFFFFFFF,
            oob_fill=fill & 0xFFFFFFFF,
        )
        ctypes.memmove(into, self._encode(encoding), 128)
