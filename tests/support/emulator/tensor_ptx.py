"""Small PTX kernels on the emulator: numpy arrays as arguments, plain and mapped."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from sglab import _core

HEADER = ".version 8.7\n.target {arch}\n.address_size 64\n"


@dataclass
class Map:
    """A tiled tensor map over a dense numpy array; box innermost first."""

    array: np.ndarray
    box: tuple[int, ...]
    swizzle: int = 0
    types: dict = field(
        default_factory=lambda: {"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "float16": 6, "float32": 7}
    )

    def encode(self) -> bytes:
        a = self.array
        dims = list(reversed(a.shape))
        strides = [a.itemsize * int(np.prod(dims[: i + 1])) for i in range(len(dims) - 1)]
        return _core.tma.encode_tiled(
            self.types[a.dtype.name],
            a.ctypes.data,
            dims,
            strides,
            list(self.box),
            [1] * len(dims),
            swizzle=self.swizzle,
        )


def kernel_text(body: str, parameters: str, arch: str = "sm_100a", shared: str = "") -> str:
    return (
        HEADER.format(arch=arch)
        + f".visible .entry kernel({parameters})\n{{\n{shared}\n"
        + ".reg .b16 %h<16>; .reg .b32 %r<256>; .reg .b64 %rd<64>; .reg .f32 %f<64>; .reg .pred %p<16>;\n"
        + body
        + "\nret;\n}\n"
    )


def launch(
    text: str,
    *arguments: object,
    grid: int = 1,
    block: int = 32,
    cluster: int = 1,
    smem: int = 0,
    arch: str = "sm_100a",
    scheduler: str = "fair",
    seed: int = 0,
    threads: int = 1,
    observed: bool = False,
) -> object:
    """Runs the kernel named `kernel`: arrays travel as addresses, ints as u32, Maps as 128 bytes.

    Args:
        observed: with a sanitizer, which looks at every operation.
    """
    kernel = _core.Module(text, "test").kernel("kernel")
    assert kernel.unsupported == [], kernel.unsupported
    parameters, allocations = bytearray(), []
    for (name, _, alignment, *_), value in zip(kernel.params, arguments, strict=True):
        parameters += bytes(-len(parameters) % alignment)
        if isinstance(value, int):
            parameters += struct.pack("<I", value)
            continue
        array = value.array if isinstance(value, Map) else value
        allocations.append((array.ctypes.data, array.nbytes, name))
        parameters += value.encode() if isinstance(value, Map) else struct.pack("<Q", array.ctypes.data)
    machine = _core.Machine(arch, 4, threads, scheduler, seed)
    observer = _core.sanitizer(["tensor"], False, _core.MarkedMemory(), _core.GridHistory(), False)
    return machine.launch(
        kernel,
        (grid, 1, 1),
        (block, 1, 1),
        (cluster, 1, 1),
        smem,
        bytes(parameters),
        allocations,
        10_000_000,
        observer if observed else None,
    )


def aligned(shape: tuple[int, ...], dtype: object, alignment: int = 128) -> np.ndarray:
    """A zeroed array whose address is a multiple of `alignment`."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size].view(dtype).reshape(shape)
