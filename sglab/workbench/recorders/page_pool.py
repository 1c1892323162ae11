"""A batch's KV pool at one moment: who owns which page, what is free and in which order it will be handed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sglab.workbench.batch import Batch

FREE, CACHED, DUMMY = -1, -2, -3
"""`owner` of a page that no request holds: free, kept by the radix tree alone, or the dummy page 0."""


@dataclass(frozen=True)
class PagePool:
    """Columns about requests [B] and pages [N + 1], page 0 included.

    requests int32 [B, 5]: row of req_to_token · seq_len in tokens · pages · leading tokens that the radix tree owns ·
    tokens that this pass computes
    request_pages int32 [Σ pages] and request_indptr int32 [B + 1]: the pages of every request in token order
    pages int32 [N + 1, 5]: owner (the first request that holds it, or FREE, CACHED, DUMMY) · requests that hold it ·
    its number within the owner · slots in use · place in the free list, −1 where it is not free
    """

    page_size: int
    slot_bytes: int
    requests: np.ndarray
    request_pages: np.ndarray
    request_indptr: np.ndarray
    pages: np.ndarray

    @property
    def num_pages(self) -> int:
        """Pages that requests can own, without the dummy page."""
        return len(self.pages) - 1

    def summary(self) -> dict[str, Any]:
        """Counts and measures of fragmentation, for people."""
        owner, holders, used = self.pages[1:, 0], self.pages[1:, 1], self.pages[1:, 3]
        held = holders > 0
        return {
            "page_size": self.page_size,
            "slot_bytes": self.slot_bytes,
            "pages": self.num_pages,
            "free": int((owner == FREE).sum()),
            "cached": int((owner == CACHED).sum()),
            "held": int(held.sum()),
            "shared": int((holders > 1).sum()),
            "unused_slots": int(held.sum()) * self.page_size - int(used[held].sum()),
            "adjacent": self._adjacent(),
            "largest_free_run": _longest_run(owner == FREE),
        }

    def _adjacent(self) -> float:
        """Share of a request's steps from page to page that go to the next page of the pool; 1 if there is no step."""
        steps = np.diff(self.request_pages)
        within = np.ones(len(steps), dtype=bool)
        starts = self.request_indptr[1:-1]
        within[starts[(starts > 0) & (starts <= len(steps))] - 1] = False
        return float((steps[within] == 1).mean()) if within.any() else 1.0


def read_pool(batch: Batch) -> PagePool:
    """The pool of `batch` as it is now; nothing is changed."""
    page_size, allocator = batch.page_size, batch.runner.token_to_kv_pool_allocator
    kv_pool = batch.runner.token_to_kv_pool
    pages = np.full((allocator.num_pages + 1, 5), -1, dtype=np.int32)
    pages[:, 0], pages[:, 1], pages[:, 3] = FREE, 0, 0
    free = batch.free_pages()
    pages[free, 4] = np.arange(len(free))
    pages[batch.cached_pages(), 0] = CACHED
    pages[0, 0] = DUMMY

    requests = np.zeros((batch.batch_size, 5), dtype=np.int32)
    lists = []
    for i, req in enumerate(batch.reqs):
        mine = np.asarray(batch.pages(i), dtype=np.int32)
        lists.append(mine)
        assert req.req_pool_idx is not None  # a request in the batch has a row
        requests[i] = (req.req_pool_idx, req.kv_committed_len, len(mine), req.cache_protected_len, batch.new_tokens[i])
        _claim(pages, mine, i, req.kv_committed_len, page_size)
    return PagePool(
        page_size=page_size,
        slot_bytes=kv_pool.get_kv_size_bytes() // (kv_pool.size + kv_pool.page_size),
        requests=requests,
        request_pages=np.concatenate([np.zeros(0, np.int32), *lists]),
        request_indptr=np.cumsum([0, *map(len, lists)]).astype(np.int32),
        pages=pages,
    )


def _claim(pages: np.ndarray, mine: np.ndarray, request: int, seq_len: int, page_size: int) -> None:
    number = np.arange(len(mine))
    first = pages[mine, 1] == 0
    pages[mine[first], 0] = request
    pages[mine[first], 2] = number[first]
    pages[mine, 1] += 1
    pages[mine, 3] = np.maximum(pages[mine, 3], np.minimum(page_size, seq_len - number * page_size))


def _longest_run(flags: np.ndarray) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0
