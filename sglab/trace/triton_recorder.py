"""Records what a Triton kernel does to global memory while Triton's interpreter runs it.

The interpreter sends every load, store and atomic, vector by vector, through a handful of functions that get the
pointers and the mask. A recorder stands in front of them and hands each call on unchanged.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from sglab.gpu.triton.routing import ENVIRONMENT

from .memory import ATOMIC, LOAD, STORE, UNNAMED, MemoryTrace, Source, TracedTensor

MACHINE = "Triton interpreter"


@contextmanager
def record_triton(kernel: Any, tensors: Mapping[str, Any]) -> Iterator[Recording]:
    """Within it, launches of `kernel` from this thread are recorded; then `trace()` of what it yields is complete.

    kernel: a kernel of `sglab.gpu.triton.triton_kernel`. Triton's interpreter runs it, whatever else could run it.
    tensors: the tensors whose accesses get a name, on the CPU, without storage in common. bfloat16 tensors are computed
        on a widened copy (see sglab.gpu.triton.promotion) and their accesses stay unnamed.
    """
    from triton.runtime import interpreter

    recording = Recording(kernel, tensors, interpreter)
    memory = _RecordingMemory(interpreter._interpreter, recording)
    with patch.object(interpreter, "_interpreter", memory), patch.dict(os.environ, {ENVIRONMENT: "interpreter"}):
        yield recording


class Recording:
    """Accesses as they come; `trace()` makes columns of them."""

    def __init__(self, kernel: Any, tensors: Mapping[str, Any], interpreter: Any) -> None:
        self._kernel = kernel
        self._file = kernel.fn.__code__.co_filename
        self._builder = interpreter.interpreter_builder
        self._thread = threading.get_ident()
        self._tensors = tuple(
            TracedTensor(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(tensor.stride()))
            for name, tensor in tensors.items()
        )
        extents = [
            (t.data_ptr(), t.data_ptr() + _extent(t), t.element_size(), n) for n, t in enumerate(tensors.values())
        ]
        extents.sort()
        self._starts = np.array([each[0] for each in extents], dtype=np.uint64)
        self._ends = np.array([each[1] for each in extents], dtype=np.uint64)
        self._sizes = np.array([each[2] for each in extents], dtype=np.uint64)
        self._numbers = np.array([each[3] for each in extents], dtype=np.int16)
        self._operations: list[tuple[tuple[int, int, int], int, int, int]] = []
        self._accesses: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []
        self._grid = (0, 0, 0)

    def add(self, kind: int, pointers: np.ndarray, mask: Any, values: np.ndarray) -> None:
        """One vector operation of the program that is running: its pointers, mask and the values read or written."""
        if threading.get_ident() != self._thread:
            return
        addresses, enabled, data = np.broadcast_arrays(pointers, mask, values)
        lanes = np.flatnonzero(enabled).astype(np.int32)
        active = addresses.reshape(-1)[lanes].astype(np.uint64)
        numbers, index = self._locate(active)
        flat = np.ascontiguousarray(data.reshape(-1)[lanes])
        bits = flat.view(f"u{flat.itemsize}").astype(np.uint64)
        self._grid = tuple(self._builder.grid_dim)
        self._operations.append((tuple(self._builder.grid_idx), kind, self._line(), enabled.size))
        self._accesses.append((lanes, numbers, index, bits))

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

    def _line(self) -> int:
        """The line of the kernel's file that is being executed."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self._file and frame.f_globals is self._kernel.fn.__globals__:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def trace(self) -> MemoryTrace:
        """What was recorded so far, as columns."""
        x, y, _ = self._grid
        counts = [len(lanes) for lanes, *_ in self._accesses]
        return MemoryTrace(
            machine=MACHINE,
            kernel=self._kernel.__name__,
            grid=self._grid,
            tensors=self._tensors,
            source=_source(self._kernel),
            program=_column([p[0] + x * (p[1] + y * p[2]) for p, *_ in self._operations], np.int32),
            kind=_column([operation[1] for operation in self._operations], np.uint8),
            line=_column([operation[2] for operation in self._operations], np.int32),
            lanes=_column([operation[3] for operation in self._operations], np.int32),
            first=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64),
            lane=_joined([access[0] for access in self._accesses], np.int32),
            tensor=_joined([access[1] for access in self._accesses], np.int16),
            index=_joined([access[2] for access in self._accesses], np.int64),
            bits=_joined([access[3] for access in self._accesses], np.uint64),
        )


class _RecordingMemory:
    """The interpreter's memory functions, observed."""

    def __init__(self, raw: Any, recording: Recording) -> None:
        self._raw = raw
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        loaded = self._raw.load(pointers, mask, other, dtype)
        self._recording.add(LOAD, pointers, mask, loaded)
        return loaded

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        self._raw.store(pointers, value, mask)
        self._recording.add(STORE, pointers, mask, value)

    def atomic_cas(self, pointers: Any, compare: Any, value: Any, semantics: Any) -> Any:
        old = self._raw.atomic_cas(pointers, compare, value, semantics)
        self._recording.add(ATOMIC, pointers, True, value)
        return old

    def atomic_rmw(self, operation: Any, pointers: Any, value: Any, mask: Any, semantics: Any) -> Any:
        old = self._raw.atomic_rmw(operation, pointers, value, mask, semantics)
        self._recording.add(ATOMIC, pointers, mask, value)
        return old


def _extent(tensor: Any) -> int:
    """Bytes from a tensor's first element to the end of its last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int((last + 1) * tensor.element_size())


def _source(kernel: Any) -> Source:
    lines, first = inspect.getsourcelines(kernel.fn)
    return Source(f"{kernel.fn.__module__.replace('.', '/')}.py", first, "".join(lines))


def _column(values: list[int], dtype: Any) -> np.ndarray:
    return np.array(values, dtype=dtype)


def _joined(parts: list[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.zeros(0, dtype)
