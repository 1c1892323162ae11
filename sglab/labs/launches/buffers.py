"""Memory of a launch, by name, without torch: what a kernel takes for tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

ALIGN = 1024
"""Of a buffer's first byte: enough for TMA and every swizzle."""


class Buffer:
    """Bytes with a place, in the form in which sglab.gpu takes tensors.

    Args:
        content: an array; the buffer holds a copy of it.
    """

    def __init__(self, content: Any) -> None:
        flat = np.ascontiguousarray(content)
        room = np.zeros(flat.nbytes + ALIGN, np.uint8)
        begin = -room.ctypes.data % ALIGN
        self.bytes = room[begin : begin + flat.nbytes]
        self.bytes[:] = flat.reshape(-1).view(np.uint8)
        self.shape, self._dtype, self.device = flat.shape, flat.dtype, "cpu"
        self.dtype = f"torch.{flat.dtype}"

    def array(self) -> Any:
        """What it holds now, a copy."""
        return self.bytes.copy().view(self._dtype).reshape(self.shape)

    def data_ptr(self) -> int:
        return int(self.bytes.ctypes.data)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def element_size(self) -> int:
        return int(self._dtype.itemsize)

    def is_contiguous(self) -> bool:
        return True

    def stride(self, dim: int | None = None) -> Any:
        """In elements, of one dimension or of all."""
        steps = np.cumprod((1, *self.shape[:0:-1]))
        every = tuple(int(step) for step in steps[: len(self.shape)][::-1])
        return every if dim is None else every[dim]
