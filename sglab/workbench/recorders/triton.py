"""Records what a Triton kernel does to global memory while Triton's interpreter runs it.

The interpreter sends every load, store and atomic, vector by vector, through a handful of functions that get the
pointers and the mask. A recorder wraps them and passes each call on unchanged.
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

from sglab.triton.routing import ENVIRONMENT
from sglab.workbench.recorders.accesses import AccessTable
from sglab.workbench.recorders.memory import ATOMIC, LOAD, STORE, MemoryTrace, Source

MACHINE = "Triton interpreter"


@contextmanager
def record_triton(kernel: Any, tensors: Mapping[str, Any]) -> Iterator[Recording]:
    """Within it, launches of `kernel` from this thread are recorded; then `trace()` of what it yields is complete.

    Args:
        kernel: a kernel of `sglab.triton.triton_kernel`. Triton's interpreter runs it, even where a GPU could.
        tensors: the tensors whose accesses get a name, on the CPU, without storage in common. bfloat16 tensors are
            computed on a widened copy (see sglab.triton.promotion) and their accesses stay unnamed.
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
        self._table = AccessTable(tensors)
        self._grid = (0, 0, 0)

    def add(self, kind: int, pointers: np.ndarray, mask: Any, values: np.ndarray) -> None:
        """One vector operation of the program that is running: its pointers, mask and the values read or written."""
        if threading.get_ident() != self._thread:
            return
        addresses, enabled, data = np.broadcast_arrays(pointers, mask, values)
        lanes = np.flatnonzero(enabled).astype(np.int32)
        flat = np.ascontiguousarray(data.reshape(-1)[lanes])
        self._grid = tuple(self._builder.grid_dim)
        (x, y, z), (across, down, _) = self._builder.grid_idx, self._grid
        program = x + across * (y + down * z)
        bits = flat.view(f"u{flat.itemsize}")
        self._table.add(program, kind, self._line(), enabled.size, lanes, addresses.reshape(-1)[lanes], bits)

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
        return self._table.trace(MACHINE, self._kernel.__name__, self._grid, source_of(self._kernel))


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


def source_of(kernel: Any) -> Source:
    """The text of a Triton kernel."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return Source(f"{kernel.fn.__module__.replace('.', '/')}.py", first, "".join(lines))
