"""Which copies of a launch read which pages of a batch's KV pool, by the addresses that the launch recorded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sglab.events.cluster import ClusterTrace
from sglab.events.log import EventLog
from sglab.events.tables import COPY_KINDS, TensorMapInfo
from sglab.events.tile import element_bytes
from sglab.workbench.batch import Batch
from sglab.workbench.recorders.page_pool import read_pool

Array = npt.NDArray[np.int64]
LOADS = [COPY_KINDS.index(kind) for kind in ("tensor load", "bulk load")]
NONE = -1


@dataclass(frozen=True)
class PageReads:
    """One row per copy and page that it reads, in order of execution; int64 [n].

    Copies by TMA in tile mode and bulk copies, whose addresses a log knows exactly; of cp.async and of ordinary loads
    it keeps one address per warp.

    Attributes:
        event: the instruction that issued it.
        copy: row of the log's copies.
        page: of the pool.
        request: in the batch, NONE for a page that none holds.
        token: the request's first token that is read, NONE without a request.
        tokens: how many, 0 where only slots past the request's last token are read.
    """

    event: Array
    copy: Array
    page: Array
    request: Array
    token: Array
    tokens: Array

    @classmethod
    def of(cls, log: EventLog, batch: Batch) -> PageReads:
        parts = [_copies(log, pool) for pool in _buffers(batch)]
        event, copy, first, last = np.concatenate(parts, axis=1)
        order = np.argsort(event, kind="stable")
        rows = np.array(list(_by_page(event[order], copy[order], first[order], last[order], batch.page_size)), np.int64)
        event, copy, page, slot, slots = rows.reshape(-1, 5).T
        return cls(event, copy, page, *_tokens(log.cta[event], page, slot, slots, batch))

    def __len__(self) -> int:
        return len(self.event)

    def of_cluster(self, trace: ClusterTrace) -> npt.NDArray[np.int32]:
        """int32 (5, n): event, page, request, first token, tokens, of what a cluster reads."""
        at = np.flatnonzero(trace.here(self.event))
        columns = (self.event, self.page, self.request, self.token, self.tokens)
        return np.stack([column[at] for column in columns]).astype(np.int32)

    def ctas(self, log: EventLog) -> npt.NDArray[np.int32]:
        """int32 (4, n): page, request, the first token of it that is read, CTA: who of the whole launch reads what."""
        rows = np.stack([self.page, self.request, log.cta[self.event].astype(np.int64), self.token])
        rows = rows[:, np.lexsort(rows[::-1])]
        first = np.ones(rows.shape[1], bool)
        first[1:] = (rows[:3, 1:] != rows[:3, :-1]).any(axis=0)
        return rows[:, first][[0, 1, 3, 2]].astype(np.int32)


def _buffers(batch: Batch) -> Iterator[tuple[int, int, int]]:
    """Address, bytes per slot and slots of the layer's keys and, where they are stored apart, of its values."""
    pool, layer = batch.runner.token_to_kv_pool, batch.layer.layer_id
    known: set[int] = set()
    for tensor in (pool.get_key_buffer(layer), pool.get_value_buffer(layer)):
        if tensor.data_ptr() not in known:
            known.add(tensor.data_ptr())
            yield _extent(tensor)


def _extent(tensor: torch.Tensor) -> tuple[int, int, int]:
    return tensor.data_ptr(), tensor.stride(0) * tensor.element_size(), len(tensor)


def _copies(log: EventLog, pool: tuple[int, int, int]) -> Array:
    """(4, n): event, row of the copies, first and last slot."""
    copies = log.copies
    base, slot_bytes, slots = pool
    low = copies.address.astype(np.int64)
    size = copies.nbytes.astype(np.int64)
    for number, info in enumerate(log.maps):
        if not base <= info.address < base + slot_bytes * slots:
            continue
        rows = (copies.map == number) & (copies.mode == 0)
        low[rows] = info.address + copies.coordinates[rows][:, : len(info.dims)].astype(np.int64) @ _strides(info)
        size[rows] = (np.array(info.box) - 1) @ _strides(info) + _strides(info)[0]
    tiled = (copies.map < 0) | (copies.mode == 0)
    inside = np.isin(copies.kind, LOADS) & tiled & (low >= base) & (low < base + slot_bytes * slots)
    at = np.flatnonzero(inside)
    first, last = (low[at] - base) // slot_bytes, (low[at] + size[at] - 1 - base) // slot_bytes
    return np.stack([copies.event[at].astype(np.int64), at, first, np.minimum(last, slots - 1)])


def _strides(info: TensorMapInfo) -> Array:
    """Bytes between neighbours along each dimension."""
    return np.array([element_bytes(info.element), *info.strides], np.int64)


def _by_page(event: Array, copy: Array, first: Array, last: Array, page_size: int) -> Iterator[tuple[int, ...]]:
    """event, copy, page, first slot in it, slots: what spans several pages has a row for each."""
    for one, row, low, high in zip(event.tolist(), copy.tolist(), first.tolist(), last.tolist(), strict=True):
        for page in range(low // page_size, high // page_size + 1):
            begin, end = max(low, page * page_size), min(high, (page + 1) * page_size - 1)
            yield one, row, page, begin, end - begin + 1


def _tokens(cta: Array, page: Array, slot: Array, slots: Array, batch: Batch) -> tuple[Array, Array, Array]:
    """Request, first token and tokens of each read. A shared page counts as that of the request whose own pages the
    same CTA reads."""
    pool = read_pool(batch)
    holders: dict[int, list[tuple[int, int]]] = {}
    for request, (start, stop) in enumerate(zip(pool.request_indptr[:-1], pool.request_indptr[1:], strict=True)):
        for number, held in enumerate(pool.request_pages[start:stop].tolist()):
            holders.setdefault(held, []).append((request, number))
    certain: dict[int, set[int]] = {}
    for one, which in zip(cta.tolist(), page.tolist(), strict=True):
        if len(holders.get(which, ())) == 1:
            certain.setdefault(one, set()).add(holders[which][0][0])
    rows = np.full((3, len(page)), NONE, np.int64)
    rows[2] = 0
    for i, (one, which) in enumerate(zip(cta.tolist(), page.tolist(), strict=True)):
        found = holders.get(which, [])
        if not found:
            continue
        request, number = next((each for each in found if each[0] in certain.get(one, ())), found[0])
        token = number * pool.page_size + int(slot[i]) % pool.page_size
        rows[:, i] = request, token, min(int(slots[i]), max(0, int(pool.requests[request, 1]) - token))
    return rows[0], rows[1], rows[2]
