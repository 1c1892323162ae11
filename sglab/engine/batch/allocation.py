"""Allocation for a batch: rows and slots for its requests, after evicting from the radix tree where needed.

A refused call leaves pools, allocator and tree as they were.

Source: SGLang 0.5.9 `mem_cache/common.py`. As there, an eviction is for an over-estimate of the need, and for all of it
rather than for what is missing; unlike there, the true need is counted first, and refused before anything is evicted.
"""

from __future__ import annotations

from typing import Protocol

import torch

from sglab.engine.batch.req import Req
from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator
from sglab.engine.cache.paged_allocator import PagedTokenToKVPoolAllocator, ceil_div, get_num_new_pages
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.errors import BadArgumentError, PoolExhaustedError


class SeqLens:
    """int64 [B] lengths on the device. Tokens are added when they are read, which most decodes never do."""

    __slots__ = ("_behind", "_lens")

    def __init__(self, lens: torch.Tensor, behind: int = 0) -> None:
        self._lens, self._behind = lens, behind

    def read(self) -> torch.Tensor:
        if self._behind:
            self._lens, self._behind = self._lens + self._behind, 0
        return self._lens

    def longer(self) -> SeqLens:
        """With a token more each."""
        return SeqLens(self._lens, self._behind + 1)


class Allocating(Protocol):
    """What allocation reads of a ScheduleBatch; its fields are described there."""

    reqs: list[Req]
    req_to_token_pool: ReqToTokenPool
    tree_cache: RadixCache
    device: torch.device
    req_pool_indices: torch.Tensor

    @property
    def seq_lens(self) -> torch.Tensor: ...

    @property
    def seq_lens_cpu(self) -> torch.Tensor: ...

    prefix_lens: list[int]
    extend_lens: list[int]
    extend_num_tokens: int


def make_room(tree_cache: RadixCache, num_tokens: int, estimate: int) -> None:
    """Evict `estimate` tokens from the tree where the allocator has fewer than that free.

    Args:
        num_tokens: the need, in whole pages.
        estimate: SGLang's over-estimate of it: with paging, a new page for every request besides its tokens.

    Raises:
        PoolExhaustedError: free and evictable tokens together are fewer; nothing was evicted.
    """
    allocator = tree_cache.token_to_kv_pool_allocator
    missing = num_tokens - allocator.available_size()
    if missing > tree_cache.evictable_size():
        raise PoolExhaustedError(
            "The KV pool",
            num_tokens,
            allocator.available_size() + tree_cache.evictable_size(),
            f"slots (in pages of {allocator.page_size})",
            "Free a request, shorten one, or make the pool larger (pool_tokens).",
        )
    if allocator.available_size() < estimate:
        tree_cache.evict(estimate)


def _page_each(tree_cache: RadixCache, requests: int) -> int:
    """Tokens of one page per request; none where slots are handed out one by one."""
    return requests * tree_cache.page_size if tree_cache.page_size > 1 else 0


def check_rows(req_to_token_pool: ReqToTokenPool, reqs: list[Req], seq_lens: list[int]) -> None:
    """Refuse before anything is taken: too few rows, or a request longer than a row.

    Raises:
        PoolExhaustedError, BadArgumentError: as described.
    """
    need = sum(req.req_pool_idx is None for req in reqs)
    if need > req_to_token_pool.available_size():
        raise PoolExhaustedError(
            "ReqToTokenPool",
            need,
            req_to_token_pool.available_size(),
            "request rows",
            "Free a request or make the pool larger (max_running_requests).",
        )
    if max(seq_lens, default=0) <= req_to_token_pool.max_context_len:
        return
    for req, seq_len in zip(reqs, seq_lens, strict=True):
        if seq_len > req_to_token_pool.max_context_len:
            raise BadArgumentError(
                "seq_lens",
                f"at most max_context_len {req_to_token_pool.max_context_len}",
                f"{seq_len} (request {req.rid})",
                "Its row of req_to_token is too short: raise max_context_len.",
            )


def get_last_loc(
    req_to_token: torch.Tensor, req_pool_indices: torch.Tensor, prefix_lens: torch.Tensor, empty: bool = True
) -> torch.Tensor:
    """Slot of the last token of each prefix, int64 [B]; -1 where the prefix is empty.

    Args:
        empty: whether any may be.
    """
    if not empty:
        return req_to_token[req_pool_indices, prefix_lens - 1].to(torch.int64)
    last = req_to_token[req_pool_indices, (prefix_lens - 1).clamp(min=0)].to(torch.int64)
    return torch.where(prefix_lens > 0, last, torch.full_like(last, -1))


def alloc_for_extend(batch: Allocating) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and slots for `batch.extend_lens` new tokens per request, written to req_to_token with the shared prefixes.

    Returns:
        out_cache_loc int64 [extend_num_tokens], req_pool_indices int64 [B].
    """
    tree, pool = batch.tree_cache, batch.req_to_token_pool
    seqs = batch.seq_lens_cpu.tolist()
    check_rows(pool, batch.reqs, seqs)
    unlocked = [req for req in batch.reqs if not req.holds_lock]
    for req in unlocked:
        tree.inc_lock_ref(req.last_node or tree.root_node)
    try:
        pages = get_num_new_pages(batch.prefix_lens, seqs, tree.page_size)
        make_room(tree, pages * tree.page_size, batch.extend_num_tokens + _page_each(tree, len(seqs)))
    except PoolExhaustedError:
        for req in unlocked:
            tree.dec_lock_ref(req.last_node or tree.root_node)
        raise
    out_cache_loc = _extend_slots(tree.token_to_kv_pool_allocator, batch)
    rows = pool.alloc(batch.reqs)
    assert rows is not None  # check_rows counted them
    for req in unlocked:
        req.holds_lock = True
    start = 0
    for req, row, prefix_len, extend_len in zip(batch.reqs, rows, batch.prefix_lens, batch.extend_lens, strict=True):
        pool.write((row, slice(0, prefix_len)), req.prefix_indices)
        pool.write((row, slice(prefix_len, prefix_len + extend_len)), out_cache_loc[start : start + extend_len])
        start += extend_len
    return out_cache_loc, torch.tensor(rows, dtype=torch.int64, device=batch.device)


def alloc_for_decode(
    batch: Allocating, ends: list[int], longer: SeqLens, longer_cpu: SeqLens, write: bool = True
) -> torch.Tensor:
    """One slot per request for its next token. Returns out_cache_loc int64 [B].

    Args:
        ends, longer, longer_cpu: the batch's lengths, seq_lens and seq_lens_cpu with that token.
        write: to req_to_token.
    """
    tree, pool = batch.tree_cache, batch.req_to_token_pool
    if max(ends, default=0) > pool.max_context_len:
        check_rows(pool, batch.reqs, ends)
    allocator = tree.token_to_kv_pool_allocator
    out: torch.Tensor | None
    if not isinstance(allocator, PagedTokenToKVPoolAllocator):
        make_room(tree, len(ends), len(ends))
        out = allocator.alloc(len(ends))
    else:
        seqs = [end - 1 for end in ends]
        pages = get_num_new_pages(seqs, ends, tree.page_size)
        make_room(tree, pages * tree.page_size, _page_each(tree, len(seqs)) or len(seqs))
        last_loc = get_last_loc(pool.req_to_token, batch.req_pool_indices, batch.seq_lens, empty=not all(seqs))
        out = allocator.alloc_decode(longer.read(), longer_cpu.read(), last_loc)
    assert out is not None  # make_room counted the pages
    if write:
        pool.write((batch.req_pool_indices, batch.seq_lens), out)
    return out


def alloc_for_verify(batch: Allocating, num_draft_tokens: int) -> torch.Tensor:
    """Slots for each request's draft tokens after its own, written to req_to_token. Returns int64 [B, drafts]."""
    tree, pool = batch.tree_cache, batch.req_to_token_pool
    seqs = batch.seq_lens_cpu.tolist()
    ends = [seq + num_draft_tokens for seq in seqs]
    check_rows(pool, batch.reqs, ends)
    pages = get_num_new_pages(seqs, ends, tree.page_size)
    make_room(tree, pages * tree.page_size, len(seqs) * num_draft_tokens + _page_each(tree, len(seqs)))
    allocator = tree.token_to_kv_pool_allocator
    out: torch.Tensor | None
    total = len(seqs) * num_draft_tokens
    if isinstance(allocator, PagedTokenToKVPoolAllocator):
        last_loc = get_last_loc(pool.req_to_token, batch.req_pool_indices, batch.seq_lens)
        drafts = num_draft_tokens
        out = allocator.alloc_extend(
            batch.seq_lens, batch.seq_lens_cpu, batch.seq_lens + drafts, batch.seq_lens_cpu + drafts, last_loc, total
        )
    else:
        out = allocator.alloc(total)
    assert out is not None  # make_room counted the pages
    slots = out.view(len(seqs), num_draft_tokens)
    columns = batch.seq_lens[:, None] + torch.arange(num_draft_tokens, device=batch.seq_lens.device)
    pool.write((batch.req_pool_indices[:, None], columns), slots)
    for req, end in zip(batch.reqs, ends, strict=True):
        req.kv_allocated_len = end
    return slots


def release_drafts(req: Req, tree_cache: RadixCache) -> None:
    """Give back the slots that a request has beyond the tokens whose KV it keeps."""
    page = tree_cache.page_size
    kept = ceil_div(req.kv_committed_len, page) * page
    if req.kv_allocated_len > kept:
        row = tree_cache.req_to_token_pool.req_to_token[req.req_pool_idx, kept : req.kv_allocated_len]
        tree_cache.token_to_kv_pool_allocator.free(row.to(torch.int64))
    req.kv_allocated_len = 0


def release_kv_cache(req: Req, tree_cache: RadixCache, is_insert: bool = True) -> None:
    """Give back all a request holds; with `is_insert` its whole pages stay in the tree, evictable."""
    release_drafts(req, tree_cache)
    tree_cache.cache_finished_req(req, is_insert)
    tree_cache.req_to_token_pool.free(req)
    req.kv_committed_len = 0


def _extend_slots(allocator: BaseTokenToKVPoolAllocator, batch: Allocating) -> torch.Tensor:
    out: torch.Tensor | None
    if isinstance(allocator, PagedTokenToKVPoolAllocator):
        prefix_lens_cpu = torch.tensor(batch.prefix_lens, dtype=torch.int64)
        last = [int(req.prefix_indices[-1]) if len(req.prefix_indices) else -1 for req in batch.reqs]
        out = allocator.alloc_extend(
            prefix_lens_cpu.to(batch.device),
            prefix_lens_cpu,
            batch.seq_lens,
            batch.seq_lens_cpu,
            torch.tensor(last, dtype=torch.int64, device=batch.device),
            batch.extend_num_tokens,
        )
    else:
        out = allocator.alloc(batch.extend_num_tokens)
    assert out is not None  # make_room counted the pages
    return out
