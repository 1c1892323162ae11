"""Offsets within a workspace buffer.

Source: FlashInfer 0.7.2 `include/flashinfer/allocator.h` (`AlignedAllocator`).
"""

from __future__ import annotations


class AlignedAllocator:
    """Hands out aligned offsets one after the other, from an aligned base; nothing is freed."""

    def __init__(self) -> None:
        self.num_allocated_bytes = 0

    def aligned_alloc_offset(self, size: int, alignment: int = 16) -> int:
        """Offset of `size` bytes at a multiple of `alignment`."""
        offset = -(-self.num_allocated_bytes // alignment) * alignment
        self.num_allocated_bytes = offset + size
        return offset
