"""CuTe's layout algebra, as far as the canonical operand layouts of the PTX ISA need it.

An independent formulation of what the emulator computes chunk by chunk: a layout is (shape, stride) of nested tuples, a
swizzle an exclusive-or of index bits; the canonical layouts are copied from the ISA's table ("canonical layouts").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Nested = Any


def product(shape: Nested) -> int:
    return shape if isinstance(shape, int) else int(np.prod([product(s) for s in shape]))


def offset(index: int, shape: Nested, stride: Nested) -> int:
    """The offset of a linear (colexicographic) index in a nested mode."""
    if isinstance(shape, int):
        assert 0 <= index < shape
        return index * stride
    total = 0
    for s, d in zip(shape, stride, strict=True):
        size = product(s)
        total += offset(index % size, s, d)
        index //= size
    return total


@dataclass(frozen=True)
class CuteSwizzle:
    """Swizzle<B, M, S>: bits [M, M+B) ^= bits [M+S, M+S+B)."""

    bits: int
    base: int
    shift: int

    def __call__(self, value: int) -> int:
        mask = ((1 << self.bits) - 1) << (self.base + self.shift)
        return value ^ ((value & mask) >> self.shift)


SWIZZLES = {
    "none": (CuteSwizzle(0, 4, 3), 0, 0),
    "32B": (CuteSwizzle(1, 4, 3), 6, 3),
    "64B": (CuteSwizzle(2, 4, 3), 4, 2),
    "128B": (CuteSwizzle(3, 4, 3), 2, 1),
    "128B_atom_32B": (CuteSwizzle(2, 5, 2), 1, None),
}
ATOM = {"none": 1, "32B": 2, "64B": 4, "128B": 8, "128B_atom_32B": 8}  # 16-byte units along the contiguous mode


@dataclass(frozen=True)
class Operand:
    """An operand of `rows` (M or N) by `k` elements of `element_bytes`, in a canonical layout with packed atoms."""

    rows: int
    k: int
    element_bytes: int
    swizzle: str
    mn_major: bool

    @property
    def _units(self) -> tuple[int, int]:
        """(LBO, SBO) in 16-byte units for atoms packed one after the other."""
        atom, rows, t = ATOM[self.swizzle], self.rows, 16 // self.element_bytes
        if not self.mn_major:
            groups = rows // 8
            return (8 * groups, 8) if self.swizzle == "none" else (1, 8 * atom)
        k_atom = 4 if self.swizzle == "128B_atom_32B" else 8
        if self.swizzle == "none":
            return 8 * (rows // t), 8  # LBO: next eight K; SBO: next T rows
        return k_atom * atom, k_atom * atom * (rows // (t * atom))

    def address(self, row: int, k: int) -> int:
        """The byte offset of an element, swizzled, from a base aligned to the pattern."""
        t = 16 // self.element_bytes
        lbo, sbo = (u * t for u in self._units)
        atom = ATOM[self.swizzle]
        swizzle = SWIZZLES[self.swizzle][0]
        if not self.mn_major:
            m = self.rows // 8
            if self.swizzle == "none":
                linear = offset(row, (8, m), (t, sbo)) + offset(k, (t, self.k // t), (1, lbo))
            else:
                linear = offset(row, (8, m), (atom * t, sbo)) + offset(k, (t, self.k // t), (1, t))
        else:
            k_atom = 4 if self.swizzle == "128B_atom_32B" else 8
            m = self.rows // (t * atom)
            if self.swizzle == "none":
                linear = offset(row, (t, 1, m), (1, t, sbo)) + offset(k, (8, self.k // 8), (t, lbo))
            else:
                linear = offset(row, (t, atom, m), (1, t, lbo)) + offset(k, (k_atom, self.k // k_atom), (atom * t, sbo))
        return swizzle(linear * self.element_bytes)

    def place(self, smem: np.ndarray, base: int, matrix: np.ndarray) -> None:
        """Writes (rows, k) elements into shared-memory bytes."""
        raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(self.rows, self.k, self.element_bytes)
        for row in range(self.rows):
            for k in range(self.k):
                at = base + self.address(row, k)
                smem[at : at + self.element_bytes] = raw[row, k]

    def descriptor(self, base: int, flavour: str = "tcgen05") -> int:
        lbo, sbo = self._units
        _, tcgen05, wgmma = SWIZZLES[self.swizzle]
        bits = (base >> 4) | lbo << 16 | sbo << 32
        if flavour == "tcgen05":
            return bits | 1 << 46 | tcgen05 << 61
        assert wgmma is not None
        return bits | wgmma << 62
