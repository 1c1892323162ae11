"""Token-slot allocators: which KV slots are free, one by one or in whole pages.

Slot s lives in page s // page_size. Page 0 is a dummy: padded rows of a CUDA graph write there, so no allocator hands
it out. Under the paged allocator a request is page-aligned: its token t sits at a slot s with s % P == t % P.

Allocation returns None when there is not enough, as in SGLang; `batch.allocation`, which calls it, then refuses.
Unlike SGLang (which checks only with SGLANG_DEBUG_MEMORY_POOL), the invariants are always checked: on a CPU before
anything changes; on a GPU by the device, and a later call raises what it found, so that no call waits for a pass.
Source: SGLang 0.5.9 `mem_cache/allocator.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from sglab.engine import arguments
from sglab.engine.cache.audit import NOTHING, Audit
from sglab.engine.cache.kv_pool import KVCache
from sglab.engine.errors import BadArgumentError

State = tuple[torch.Tensor, torch.Tensor]


class BaseTokenToKVPoolAllocator(ABC):
    """What both allocators share: the free list, deferred (sorted) release and grouped frees.

    Args:
        size: slots to hand out, without the dummy page.
        page_size: slots per page.
        kvcache: the pool these slots belong to, or None.
        need_sort: keep freed pages separate and sort them in before they are handed out again.

    Attributes:
        free_pages: int64 [n], page ids (slots if page_size is 1), handed out from the front.
        release_pages: int64 [m], freed pages that wait to be sorted in.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        device: str | torch.device = "cpu",
        kvcache: KVCache | None = None,
        need_sort: bool = False,
    ) -> None:
        arguments.pool_size(size, page_size)
        self.size = size
        self.page_size = page_size
        self.num_pages = size // page_size
        self.device = torch.device(device)
        self.need_sort = need_sort
        self._kvcache = kvcache
        self._audit = Audit(self.device, self._refuse_free) if self.device.type == "cuda" else None
        self.clear()

    def clear(self) -> None:
        """Forget every allocation. Pages 1..num_pages are free; page 0 is never."""
        self.free_pages = torch.arange(1, self.num_pages + 1, dtype=torch.int64, device=self.device)
        self.release_pages = self.free_pages[:0]
        self.is_not_in_free_group = True
        self.free_group: list[torch.Tensor] = []

    def available_size(self) -> int:
        """Free slots, whole pages only."""
        return (self.free_pages.shape[0] + self.release_pages.shape[0]) * self.page_size

    def get_kvcache(self) -> KVCache | None:
        return self._kvcache

    def backup_state(self) -> State:
        return self.free_pages, self.release_pages

    def restore_state(self, state: State) -> None:
        self.free_pages, self.release_pages = state

    def free_group_begin(self) -> None:
        """Collect the frees that follow and do them as one at `free_group_end`."""
        self.is_not_in_free_group = False
        self.free_group = []

    def free_group_end(self) -> None:
        self.is_not_in_free_group = True
        if self.free_group:
            self.free(torch.cat(self.free_group))
            self.free_group = []

    def merge_and_sort_free(self) -> None:
        if len(self.release_pages):
            self.free_pages = torch.sort(torch.cat((self.free_pages, self.release_pages))).values
            self.release_pages = self.free_pages[:0]

    def _take_pages(self, count: int, estimate: int | None = None) -> torch.Tensor | None:
        """The first `count` free pages; freed ones are sorted in if fewer than `estimate` (or `count`) are at hand."""
        if self.need_sort and (count if estimate is None else estimate) > self.free_pages.shape[0]:
            self.merge_and_sort_free()
        if count > self.free_pages.shape[0]:
            return None
        pages, self.free_pages = self.free_pages[:count], self.free_pages[count:]
        return pages

    def check(self) -> None:
        """Wait for checks that a GPU has not finished.

        Raises:
            BadArgumentError: what an earlier `free` should not have been given.
        """
        if self._audit is not None:
            self._audit.raise_any()

    def _check_freeable(self, pages: torch.Tensor) -> None:
        """Every page is in the pool, not free, and named once."""
        known = pages.clamp(0, self.num_pages)
        times_free = torch.zeros(self.num_pages + 1, dtype=torch.int32, device=self.device)
        times_free[:1].fill_(1)
        times_free.index_fill_(0, self.free_pages, 1)  # a subscript would bring its 1 from the host, and wait
        times_free.index_fill_(0, self.release_pages, 1)
        times_free.index_add_(0, known, torch.ones_like(known, dtype=torch.int32))
        wrong = (pages != known) | (times_free[known] > 1)
        if self._audit is not None:
            self._audit.raise_known()
            self._audit.note(torch.where(wrong, pages.clamp(min=0), NOTHING))
        elif wrong.any():
            self._refuse_free(int(pages[wrong][0]))

    def _refuse_free(self, page: int) -> None:
        fault = ", which is free or named twice" if 1 <= page <= self.num_pages else ""
        raise BadArgumentError(
            "free_index",
            f"allocated slots, each once, of pages 1..{self.num_pages}",
            f"page {page}{fault}",
            "Free only slots that this allocator handed out, once (page 0 is the dummy page).",
        )

    @abstractmethod
    def alloc(self, need_size: int) -> torch.Tensor | None: ...

    @abstractmethod
    def free(self, free_index: torch.Tensor) -> None: ...


class TokenToKVPoolAllocator(BaseTokenToKVPoolAllocator):
    """Slots one by one: page_size 1, slot 0 is the dummy."""

    def __init__(
        self,
        size: int,
        device: str | torch.device = "cpu",
        kvcache: KVCache | None = None,
        need_sort: bool = False,
    ) -> None:
        super().__init__(size, 1, device, kvcache, need_sort)

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """`need_size` slots, int64 [need_size], or None."""
        return self._take_pages(arguments.integer("need_size", need_size, 0))

    def free(self, free_index: torch.Tensor) -> None:
        """Give slots back; the free list grows at its end.

        Raises:
            BadArgumentError: a slot is outside the pool, free already or named twice.
        """
        slots = arguments.indices("free_index", free_index, "Free slots as the allocator returned them.")
        if slots.numel() == 0:
            return
        if not self.is_not_in_free_group:
            self.free_group.append(slots)
            return
        self._check_freeable(slots)
        if self.need_sort:
            self.release_pages = torch.cat((self.release_pages, slots))
        else:
            self.free_pages = torch.cat((self.free_pages, slots))
