"""The memory trace: every access of a kernel's programs to global memory, in execution order.

The schema says nothing of the recorder: Triton's interpreter, the emulator's event log or an instrumented GPU run can
all fill it. Operations are rows of one table, the accesses of their active lanes rows of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

LOAD, STORE, ATOMIC = 0, 1, 2
UNNAMED = -1
"""Tensor number of an address outside every named tensor; the access's index is then the byte address itself."""


@dataclass(frozen=True)
class TracedTensor:
    """A tensor that the run could touch. `strides` are in elements; `dtype` is numpy's name or bfloat16."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def coordinates(self, index: np.ndarray) -> tuple[np.ndarray, ...]:
        """Position along every axis of elements `index`, counted from the tensor's first element in memory order."""
        rest, found = index, {}
        for axis in sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis]):
            found[axis], rest = np.divmod(rest, max(1, self.strides[axis]))
        return tuple(found[axis] for axis in range(len(self.shape)))


@dataclass(frozen=True)
class Source:
    """The text that was executed; `lines` of the trace count from `first_line`."""

    file: str
    first_line: int
    text: str


@dataclass(frozen=True)
class MemoryTrace:
    """One run of one kernel.

    Columns of operations [E], in execution order:
    program int32: which program ran it, x fastest · kind uint8: LOAD, STORE or ATOMIC · line int32: of the source, 0 if
    unknown · lanes int32: how wide it was, masked lanes included · first int64 [E + 1]: its accesses are rows first[e]
    to first[e + 1] of the access columns

    Columns of accesses [A], active lanes only, in lane order:
    lane int32 · tensor int16: number in `tensors`, or UNNAMED · index int64: element of that tensor · bits uint64: the
    value read or written, as its bits

    Attributes:
        machine: what ran it, as a badge says it: "Triton interpreter", "emulated sm_100a".
        grid: programs (or CTAs) along x, y, z.
        source: the kernel's text, or None.
    """

    machine: str
    kernel: str
    grid: tuple[int, int, int]
    tensors: tuple[TracedTensor, ...]
    source: Source | None
    program: np.ndarray
    kind: np.ndarray
    line: np.ndarray
    lanes: np.ndarray
    first: np.ndarray
    lane: np.ndarray
    tensor: np.ndarray
    index: np.ndarray
    bits: np.ndarray

    @property
    def operations(self) -> int:
        return len(self.kind)

    @property
    def accesses(self) -> int:
        return len(self.index)

    def number(self, name: str) -> int:
        """The number of a tensor by its name. KeyError, naming those there are."""
        for number, tensor in enumerate(self.tensors):
            if tensor.name == name:
                return number
        raise KeyError(f"no tensor {name!r} in this trace; it has {', '.join(each.name for each in self.tensors)}")

    def rows(self, operation: int) -> slice:
        """The accesses of an operation."""
        return slice(int(self.first[operation]), int(self.first[operation + 1]))

    def values(self) -> np.ndarray:
        """The values of all accesses as float64 (integers exact below 2^53, pointers' bits as they are)."""
        out = self.bits.astype(np.float64)
        for number, dtype in self._dtypes():
            chosen = self.tensor == number
            raw = self.bits[chosen].astype(f"u{dtype.itemsize}")
            out[chosen] = raw.view(dtype).astype(np.float64)
        return out

    def _dtypes(self) -> Iterator[tuple[int, np.dtype]]:
        for number, tensor in enumerate(self.tensors):
            if tensor.dtype != "bfloat16":
                yield number, np.dtype(tensor.dtype)
