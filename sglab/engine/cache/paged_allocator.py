"""The paged allocator: a request grows by its last page first, then by whole pages. Terms and source: `allocator`."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch

from sglab.engine import arguments
from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator
from sglab.engine.cache.audit import NOTHING, Audit
from sglab.engine.errors import BadArgumentError


class ExtendParts(NamedTuple):
    """How many tokens of an extend go to the old partial page, to whole new pages and to a new partial page."""

    old_partial: int
    whole_pages: int
    new_partial: int


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def extend_parts(prefix_len: int, seq_len: int, page_size: int) -> ExtendParts:
    """Split the tokens [prefix_len, seq_len) at page boundaries, in the order in which alloc_extend serves them."""
    first_boundary = min(seq_len, ceil_div(prefix_len, page_size) * page_size)
    last_boundary = max(first_boundary, seq_len // page_size * page_size)
    return ExtendParts(first_boundary - prefix_len, last_boundary - first_boundary, seq_len - last_boundary)


def get_num_new_pages(prefix_lens: list[int], seq_lens: list[int], page_size: int) -> int:
    """Pages that growing from `prefix_lens` to `seq_lens` takes."""
    if page_size == 1:
        return sum(seq_lens) - sum(prefix_lens)
    return sum(
        ceil_div(seq, page_size) - ceil_div(prefix, page_size)
        for prefix, seq in zip(prefix_lens, seq_lens, strict=True)
    )


class PagedTokenToKVPoolAllocator(BaseTokenToKVPoolAllocator):
    """Whole pages: what a request gets is always page-aligned."""

    @cached_property
    def _decodes(self) -> Audit | None:
        return Audit(self.device, self._refuse_decode) if self.device.type == "cuda" else None

    def check(self) -> None:
        """As of any allocator; also what an earlier `alloc_decode` should not have been given."""
        super().check()
        if self._decodes is not None:
            self._decodes.raise_any()

    def alloc(self, need_size: int) -> torch.Tensor | None:
        """`need_size` slots (a multiple of page_size) in whole pages, int64 [need_size], or None."""
        if arguments.integer("need_size", need_size, 0) % self.page_size:
            raise BadArgumentError(
                "need_size",
                f"a multiple of page_size {self.page_size}",
                need_size,
                "Use alloc_extend for ragged lengths.",
            )
        pages = self._take_pages(need_size // self.page_size)
        return None if pages is None else self._slots(pages)

    def alloc_extend(
        self,
        prefix_lens: torch.Tensor,
        prefix_lens_cpu: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_cpu: torch.Tensor,
        last_loc: torch.Tensor,
        extend_num_tokens: int,
    ) -> torch.Tensor | None:
        """Slots for each request's tokens [prefix_len, seq_len): old partial page, whole pages, new partial page.

        Args:
            prefix_lens, seq_lens: int64 [B] on the device, and their copies on the CPU.
            last_loc: int64 [B], the slot of each prefix's last token, -1 where the prefix is empty.
            extend_num_tokens: sum of seq_lens - prefix_lens.

        Returns:
            int64 [extend_num_tokens], request after request, or None (nothing taken).
        """
        prefixes, seqs = prefix_lens_cpu.tolist(), seq_lens_cpu.tolist()
        self._check_extend(prefixes, seqs, last_loc, extend_num_tokens)
        estimate = extend_num_tokens // self.page_size + len(seqs) + 1
        pages = self._take_pages(get_num_new_pages(prefixes, seqs, self.page_size), estimate)
        if pages is None:
            return None
        out, taken = [], 0
        for prefix, seq, last in zip(prefixes, seqs, last_loc.tolist(), strict=True):
            old_partial, whole, new_partial = extend_parts(prefix, seq, self.page_size)
            count = ceil_div(whole + new_partial, self.page_size)
            out.append(torch.arange(last + 1, last + 1 + old_partial, dtype=torch.int64, device=self.device))
            out.append(self._slots(pages[taken : taken + count])[: whole + new_partial])
            taken += count
        return torch.cat(out) if out else pages

    def alloc_decode(
        self, seq_lens: torch.Tensor, seq_lens_cpu: torch.Tensor, last_loc: torch.Tensor
    ) -> torch.Tensor | None:
        """One slot per request for its token seq_len - 1: the next of its page, or a new page on a boundary.

        Args:
            seq_lens: int64 [B], lengths with the new token; `seq_lens_cpu` the same on the CPU.
            last_loc: int64 [B], the slot of token seq_len - 2, -1 where there is none.

        Returns:
            int64 [B], or None (nothing taken).
        """
        seqs = seq_lens_cpu.tolist()
        last = last_loc.to(torch.int64)
        wrong = (last + 2) % self.page_size != seq_lens.to(self.device) % self.page_size
        if self._decodes is not None:
            self._decodes.raise_known()
            self._decodes.note(torch.where(wrong, torch.arange(len(seqs), device=self.device), NOTHING))
        elif wrong.any():
            self._refuse_decode(int(wrong.nonzero()[0]))
        starting = [i for i, seq in enumerate(seqs) if (seq - 1) % self.page_size == 0]
        pages = self._take_pages(len(starting), estimate=len(seqs))
        if pages is None:
            return None
        out = last + 1
        out[torch.tensor(starting, dtype=torch.int64).to(self.device, non_blocking=True)] = pages * self.page_size
        return out

    def free(self, free_index: torch.Tensor) -> None:
        """Give back every page that holds one of these slots; the free list grows at its front.

        Raises:
            BadArgumentError: a page is outside the pool or free already.
        """
        free_index = arguments.indices("free_index", free_index, "Free slots as the allocator returned them.")
        if free_index.numel() == 0:
            return
        if not self.is_not_in_free_group:
            self.free_group.append(free_index)
            return
        pages = torch.unique(free_index.to(torch.int64) // self.page_size)
        self._check_freeable(pages)
        if self.need_sort:
            self.release_pages = torch.cat((pages, self.release_pages))
        else:
            self.free_pages = torch.cat((pages, self.free_pages))

    def _slots(self, pages: torch.Tensor) -> torch.Tensor:
        in_page = torch.arange(self.page_size, dtype=torch.int64, device=self.device)
        return (pages[:, None] * self.page_size + in_page).reshape(-1)

    def _check_extend(self, prefixes: list[int], seqs: list[int], last_loc: torch.Tensor, num_tokens: int) -> None:
        if any(prefix > seq for prefix, seq in zip(prefixes, seqs, strict=True)) or num_tokens != sum(seqs) - sum(
            prefixes
        ):
            raise BadArgumentError(
                "extend_num_tokens",
                f"the sum of seq_lens - prefix_lens = {sum(seqs) - sum(prefixes)}, none negative",
                num_tokens,
                "Count the new tokens of every request.",
            )
        for i, (prefix, last) in enumerate(zip(prefixes, last_loc.tolist(), strict=True)):
            if (last + 1) % self.page_size != prefix % self.page_size:
                self._refuse_last_loc(i, "(last_loc + 1) % page_size == prefix_len % page_size")

    def _refuse_decode(self, index: int) -> None:
        self._refuse_last_loc(index, "(last_loc + 2) % page_size == seq_len % page_size")

    def _refuse_last_loc(self, index: int, invariant: str) -> None:
        raise BadArgumentError(
            "last_loc", invariant, f"a violation at request {index}", "Pass the slot of the request's last token."
        )
