"""Tiles in shared memory as the kernel means them: by logical coordinates, with the swizzle undone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.events.tables import TensorMapInfo
from sglab.gpu import core
from sglab.gpu.errors import SessionError

# Per swizzle of a tensor map (TensorMapInfo.swizzle): address ^= (address >> shift) & mask, for each pair.
_SWIZZLES: tuple[tuple[tuple[int, int], ...], ...] = (
    (),
    ((3, 0x10),),
    ((3, 0x30),),
    ((3, 0x70),),
    ((2, 0x60),),
    ((2, 0x60), (4, 0x08)),
    ((1, 0x40),),
)
_NATIVE: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "f32_ftz": np.float32,
    "u8": np.uint8,
    "s8": np.int8,
    "u16": np.uint16,
    "u32": np.uint32,
    "s32": np.int32,
    "tf32_ftz": np.float32,
    "u64": np.uint64,
    "s64": np.int64,
}


@dataclass(frozen=True)
class Tile:
    """A tile of a CTA's shared memory.

    Attributes:
        values: its elements by logical coordinates: of a tensor map's box, outermost dimension first; of a matrix
            operand, (rows, k), rows being M of A or N of B. bf16 and 8-bit floats come as float32.
        offsets: the same shape: where each element is, as a byte offset in the CTA's window.
        element: its type: f16, bf16, e4m3, ….
    """

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    element: str

    def coordinates(self, offset: int) -> tuple[int, ...] | None:
        """The element that a byte belongs to; None: the byte is not the tile's."""
        size = element_bytes(self.element)
        found = np.argwhere((self.offsets <= offset) & (offset < self.offsets + size))
        return tuple(found[0].tolist()) if len(found) else None


def element_bytes(element: str) -> int:
    """Bytes of an element. raises SessionError: it has less than one, or is not known"""
    if element in _NATIVE:
        return int(np.dtype(_NATIVE[element]).itemsize)
    if element in ("bf16", "e4m3", "e5m2", "ue8m0"):
        return 2 if element == "bf16" else 1
    known = ", ".join([*_NATIVE, "bf16", "e4m3", "e5m2", "ue8m0"])
    raise SessionError(f"elements of type {element!r} cannot be shown as a tile; those that can: {known}")


def box_offsets(info: TensorMapInfo, start: int) -> npt.NDArray[np.int64]:
    """Offsets of the elements of a tensor map's box at `start`, outermost dimension first."""
    if info.interleave or info.im2col:
        raise SessionError("tiles of tensor maps with interleave or im2col cannot be shown")
    size = element_bytes(info.element)
    shape = info.box[::-1]
    linear = start + size * np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    swizzled = linear.copy()
    for shift, mask in _SWIZZLES[info.swizzle]:
        swizzled ^= (linear >> shift) & mask
    return swizzled


def operand_offsets(
    descriptor: int, rows: int, k: int, element: str, major: str, instruction: str
) -> npt.NDArray[np.int64]:
    """Offsets of the elements of a matrix operand that a descriptor of `instruction` (tcgen05 or wgmma) points to."""
    if major not in ("K", "MN"):
        raise SessionError(f"major must be 'K' or 'MN'; got {major!r}")
    size = element_bytes(element)
    along, across = (k, rows) if major == "K" else (rows, k)
    try:
        chunks = core.tensor.chunk_addresses(descriptor, major == "MN", across, -(-along * size // 16), instruction)
    except ValueError as error:
        raise SessionError(str(error)) from None
    inside = np.arange(0, 16, size)
    offsets = (chunks[:, :, None] + inside).reshape(across, -1)[:, :along]
    return np.asarray(offsets if major == "K" else offsets.T, np.int64)


def read_tile(shared: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], element: str) -> Tile:
    """The elements at these offsets. raises SessionError: they are outside shared memory"""
    size = element_bytes(element)
    if offsets.size and (offsets.min() < 0 or offsets.max() + size > len(shared)):
        raise SessionError(
            f"the tile covers offsets {offsets.min()} to {offsets.max() + size}; shared memory has {len(shared)} bytes"
        )
    raw = np.ascontiguousarray(shared[offsets[..., None] + np.arange(size)])
    if element in _NATIVE:
        return Tile(raw.view(_NATIVE[element])[..., 0], offsets, element)
    if element == "bf16":
        return Tile((raw.view(np.uint16)[..., 0].astype(np.uint32) << 16).view(np.float32), offsets, element)
    return Tile(_eight_bit_values(element)[raw[..., 0]], offsets, element)


@cache
def _eight_bit_values(element: str) -> npt.NDArray[np.float32]:
    return np.array([core.tensor.decode_element(element, raw) for raw in range(256)], np.float32)
