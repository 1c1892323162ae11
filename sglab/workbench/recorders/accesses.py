"""Collects the accesses of a run and makes a MemoryTrace of them, on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sglab.workbench.recorders.memory import UNNAMED, MemoryTrace, Source, TracedTensor


class AccessTable:
    """Operations with their accesses, as they come; addresses get the names of `tensors`, which share no storage."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self._tensors = tuple(
            TracedTensor(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(tensor.stride()))
            for name, tensor in tensors.items()
        )
        extents = [
            (t.data_ptr(), t.data_ptr() + extent(t) * t.element_size(), t.element_size(), n)
            for n, t in enumerate(tensors.values())
        ]
        extents.sort()
        self._starts = np.array([each[0] for each in extents], dtype=np.uint64)
        self._ends = np.array([each[1] for each in extents], dtype=np.uint64)
        self._sizes = np.array([each[2] for each in extents], dtype=np.uint64)
        self._numbers = np.array([each[3] for each in extents], dtype=np.int16)
        self._operations: list[tuple[int, int, int, int]] = []
        self._accesses: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []

    def add(
        self, program: int, kind: int, line: int, width: int, lane: np.ndarray, address: np.ndarray, bits: np.ndarray
    ) -> None:
        """One operation of a program: of its active lanes the addresses, and the values read or written as bits."""
        numbers, index = self._locate(address.astype(np.uint64))
        self._operations.append((program, kind, line, width))
        self._accesses.append((lane.astype(np.int32), numbers, index, bits.astype(np.uint64)))

    def _locate(self, addresses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tensor number and element of each address."""
        if not len(self._starts):
            return np.full(len(addresses), UNNAMED, dtype=np.int16), addresses.astype(np.int64)
        place = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        safe = np.maximum(place, 0)
        inside = (place >= 0) & (addresses < self._ends[safe])
        index = (addresses - self._starts[safe]) // self._sizes[safe]
        numbers = np.where(inside, self._numbers[safe], np.int16(UNNAMED))
        return numbers, np.where(inside, index, addresses).astype(np.int64)

    def trace(self, machine: str, kernel: str, grid: tuple[int, int, int], source: Source | None) -> MemoryTrace:
        """What was added so far, as columns."""
        counts = [len(lanes) for lanes, *_ in self._accesses]
        program, kind, line, width = zip(*self._operations, strict=True) if self._operations else ((), (), (), ())
        return MemoryTrace(
            machine=machine,
            kernel=kernel,
            grid=grid,
            tensors=self._tensors,
            source=source,
            program=np.array(program, np.int32),
            kind=np.array(kind, np.uint8),
            line=np.array(line, np.int32),
            lanes=np.array(width, np.int32),
            first=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64),
            lane=_joined([access[0] for access in self._accesses], np.int32),
            tensor=_joined([access[1] for access in self._accesses], np.int16),
            index=_joined([access[2] for access in self._accesses], np.int64),
            bits=_joined([access[3] for access in self._accesses], np.uint64),
        )


def extent(tensor: Any) -> int:
    """Elements from a tensor's first to one past its last in memory."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _joined(parts: list[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)
