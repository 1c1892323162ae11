"""Bounds checks for Triton's interpreter, which would otherwise follow any pointer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.gpu.fault import KernelError
from sglab.triton.routing import storages

OnWrite = Callable[[npt.NDArray[np.uint64], int], None]


class CheckedMemory:
    """Stands in for the interpreter's raw memory functions; every active pointer must fall into a launch's tensor.

    A tensor represents its whole storage, so a kernel may index from a view into the pool around it.

    Args:
        raw: the interpreter's functions.
        arguments: of the launch, by name.
        on_write: called before each store or atomic operation with the addresses of its elements and their size.
    """

    def __init__(self, raw: Any, arguments: Mapping[str, Any], on_write: OnWrite | None = None) -> None:
        self._raw, self._on_write = raw, on_write
        regions: dict[int, tuple[int, str]] = {}
        for name, storage in storages(arguments):
            regions.setdefault(storage.data_ptr(), (storage.data_ptr() + storage.nbytes(), name))
        ordered = sorted(regions.items())
        self._starts = np.array([start for start, _ in ordered], dtype=np.uint64)
        self._ends = np.array([end for _, (end, _) in ordered], dtype=np.uint64)
        self._names = [name for _, (_, name) in ordered]

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        self._check("load", pointers, mask, np.dtype(dtype).itemsize)
        return self._raw.load(pointers, mask, other, dtype)

    def store(self, pointers: Any, value: Any, mask: Any) -> Any:
        self._check("store", pointers, mask, value.itemsize)
        return self._raw.store(pointers, value, mask)

    def atomic_cas(self, pointers: Any, compare: Any, value: Any, semantics: Any) -> Any:
        self._check("atomic", pointers, True, value.itemsize)
        return self._raw.atomic_cas(pointers, compare, value, semantics)

    def atomic_rmw(self, operation: Any, pointers: Any, value: Any, mask: Any, semantics: Any) -> Any:
        self._check("atomic", pointers, mask, value.itemsize)
        return self._raw.atomic_rmw(operation, pointers, value, mask, semantics)

    def _check(self, what: str, pointers: Any, mask: Any, size: int) -> None:
        addresses, enabled = np.broadcast_arrays(pointers, mask)
        active = addresses[enabled].astype(np.uint64)
        if active.size == 0:
            return
        index = np.searchsorted(self._starts, active, side="right").astype(np.int64) - 1
        inside = index >= 0
        if self._ends.size:
            inside &= active + np.uint64(size) <= self._ends[np.maximum(index, 0)]
        if not inside.all():
            self._refuse(what, int(active[~inside][0]), size, int((~inside).sum()))
        if self._on_write is not None and what != "load":
            self._on_write(active, size)

    def _refuse(self, what: str, address: int, size: int, count: int) -> None:
        message = f"{what} of {size} bytes at {address:#x} is outside every tensor of the launch"
        distances = [
            (address - int(end), f"{address - int(end)} bytes past the end of {name}")
            if address >= int(start)
            else (int(start) - address, f"{int(start) - address} bytes before {name}")
            for start, end, name in zip(self._starts, self._ends, self._names, strict=True)
        ]
        if distances:
            message += f", {min(distances)[1]}"
        raise KernelError(f"{message} ({count} such accesses in this operation)")
