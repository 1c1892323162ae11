"""The one validator of a pass's metadata: lengths, rows, slots and pages against what requests and pools hold.

An index kernel follows `seq_lens`, `req_pool_indices` and `req_to_token` blindly. Slots that are in the pool but belong
to another request give finite, plausible, wrong numbers: only a comparison with the owners finds them.
`Batch.check` and every backend's `prepare` and `prepare_capture` run `check_metadata`.
`ModelRunner.check_metadata` switches it.

Cost: it reads the batch's page table once and one entry per page of every running request, once per pass: 0.3 ms for 8
requests of 1,000 tokens, 10 ms for 64 of 4,096 (a two-core machine). On a GPU the device is waited for, which is why
passes there are not checked unless asked.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from sglab.engine.batch import checks
from sglab.engine.batch.forward_batch import ForwardBatch
from sglab.engine.batch.graph_batch import GraphBatch
from sglab.engine.cache.holder import RowHolder
from sglab.engine.cache.radix_node import tree_path
from sglab.engine.errors import PageTableError
from sglab.engine.model_runner import ModelRunner


class _Held(NamedTuple):
    """The pages of every request that holds a row, page by page, row after row."""

    rows: torch.Tensor
    """int64 [entries], the row of req_to_token."""
    nth: torch.Tensor
    """int64 [entries], which page of the request."""
    pages: torch.Tensor
    """int64 [entries]."""
    shared: torch.Tensor
    """bool [entries], owned by the radix tree."""


def is_checked(batch: ForwardBatch | GraphBatch, runner: ModelRunner, before_capture: bool = False) -> bool:
    """Whether a pass of this runner is checked: as the switch says; by default where reading does not wait for a GPU,
    and always before a capture, where waiting costs nothing."""
    if runner.check_metadata is not None:
        return runner.check_metadata
    return before_capture or batch.seq_lens.device.type == "cpu"


def check_metadata(batch: ForwardBatch | GraphBatch, runner: ModelRunner, padded_len: int | None = None) -> None:
    """Refuse a pass whose metadata disagree with the requests and the pools.

    Args:
        padded_len: the seq_len of a graph's padded rows, which point at a row that may be anybody's; None: no padding.

    Raises:
        BadArgumentError, PageTableError: naming the request, the token and the page, what was expected and what to do.
    """
    pool, lens, rows = runner.req_to_token_pool, batch.seq_lens, batch.req_pool_indices
    if isinstance(batch, GraphBatch):  # whose buffers may be the largest graph's
        size, lens, rows = batch.bs, lens[: batch.bs], rows[: batch.bs]
    else:
        size = batch.batch_size
    if size == 0:
        return
    checks.check_lengths(lens, size, pool.max_context_len, runner.device)
    checks.check_rows(pool, rows, size)
    real = _real(pool.holders, rows, lens, padded_len)
    if not len(real):
        return
    _check_host_copy(batch, lens)
    if batch.encoder_lens is not None:  # a row holds the encoder's tokens first, which seq_lens does not count
        lens = lens + batch.encoder_lens.to(lens.dtype)
    named = list(zip(real.tolist(), rows[real].tolist(), lens[real].tolist(), strict=True))
    _check_holders(pool.holders, batch, named)
    checks.check_slots(pool, rows[real], lens[real], runner.token_to_kv_pool_allocator, real.tolist())
    held = _held_pages(runner)
    _check_owners(runner, held, {row: i for i, row, _ in named})
    _check_free(runner, rows[real], lens[real], real)
    if isinstance(batch, ForwardBatch):
        _check_new_tokens(batch, runner)


def _real(
    holders: dict[int, RowHolder], rows: torch.Tensor, lens: torch.Tensor, padded_len: int | None
) -> torch.Tensor:
    """Indices of the requests that are no padding."""
    if padded_len is None:
        return torch.arange(len(rows), device=rows.device)
    placeholder = [row == 0 or row not in holders for row in rows.tolist()]
    return (~((lens == padded_len) & torch.tensor(placeholder, device=rows.device))).nonzero()[:, 0]


def _check_host_copy(batch: ForwardBatch | GraphBatch, lens: torch.Tensor) -> None:
    """Plans are made from `seq_lens_cpu`, kernels read `seq_lens`."""
    if batch.seq_lens_cpu is None or batch.seq_lens_cpu is batch.seq_lens:
        return
    copied, here = batch.seq_lens_cpu.tolist()[: len(lens)], lens.tolist()
    if copied != here:
        i = next((i for i, pair in enumerate(zip(copied, here, strict=False)) if pair[0] != pair[1]), len(copied))
        got = copied[i] if i < len(copied) else "no entry"
        raise PageTableError(
            f"seq_lens_cpu[{i}]: expected {here[i]}, as seq_lens has, got {got}. Plans are made from the copy on the "
            "CPU: change both, or make the batch again."
        )


def _check_holders(
    holders: dict[int, RowHolder], batch: ForwardBatch | GraphBatch, named: list[tuple[int, int, int]]
) -> None:
    """Each row is held by one request, of the length that the batch says."""
    drafts = getattr(batch.spec_info, "draft_token_num", 0) if batch.spec_info is not None else 0
    seen: dict[int, int] = {}
    for i, row, length in named:
        holder = holders.get(row)
        if holder is None:
            raise PageTableError(
                f"req_pool_indices[{i}]: expected the row of a running request, got row {row}, which is free. "
                "Allocate the request (ScheduleBatch.prepare_for_extend, batch.allocate)."
            )
        if row in seen:
            raise PageTableError(
                f"req_pool_indices[{i}]: expected a row of its own, got row {row}, which is request {seen[row]}'s. "
                "A request is in a batch once."
            )
        seen[row] = i
        have = holder.kv_committed_len
        if length != have and not (drafts and length <= have <= length + drafts):
            raise PageTableError(
                f"seq_lens[{i}]: expected {have}, the tokens that request {holder.rid} holds in the pool, got "
                f"{length}. Grow the request with the allocator (batch.extend_by_token), or make the batch again."
            )


def _held_pages(runner: ModelRunner) -> _Held:
    pool, page_size = runner.req_to_token_pool, runner.token_to_kv_pool_allocator.page_size
    order = sorted(pool.holders)
    rows = torch.tensor(order, dtype=torch.int64)
    holders = [pool.holders[row] for row in order]
    pages = torch.tensor([-(-holder.kv_committed_len // page_size) for holder in holders], dtype=torch.int64)
    shared = torch.tensor([holder.cache_protected_len // page_size for holder in holders], dtype=torch.int64)
    width = int(pages.max()) if len(order) else 0
    first = pool.req_to_token[rows.to(pool.device), : width * page_size : page_size].cpu().to(torch.int64)
    index = torch.arange(first.shape[1])
    live = index < pages[:, None]
    row_of, index_of = live.nonzero().unbind(1)
    return _Held(rows[row_of], index_of, first[live] // page_size, index_of < shared[row_of])


def _check_owners(runner: ModelRunner, held: _Held, batch_rows: dict[int, int]) -> None:
    """A page belongs to one request, or to the radix tree and to those whose prefix leads there."""
    holders = runner.req_to_token_pool.holders
    num_pages = runner.token_to_kv_pool_allocator.num_pages
    inside = (held.pages >= 0) & (held.pages <= num_pages)
    pages = held.pages.where(inside, 0)
    times = torch.bincount(pages, minlength=num_pages + 1)
    owned = torch.zeros(num_pages + 1, dtype=torch.bool)
    owned[pages[~held.shared]] = True
    wrong = inside & (times[pages] > 1) & owned[pages]
    for entry in wrong.nonzero()[:, 0].tolist():
        row, page = int(held.rows[entry]), int(pages[entry])
        if row not in batch_rows:
            continue
        others = ((pages == page) & inside).nonzero()[:, 0].tolist()
        other = next(other for other in others if other != entry)
        token, other_token = (int(held.nth[at]) * runner.token_to_kv_pool_allocator.page_size for at in (entry, other))
        raise PageTableError(
            f"req_to_token, request {batch_rows[row]}, token {token}: expected a page of request {holders[row].rid} "
            f"alone, got page {page}, which token {other_token} of request {holders[int(held.rows[other])].rid} has, "
            "too, though they share no prefix in the radix tree. Take slots from the allocator."
        )
    for row, i in batch_rows.items():
        _check_shared(runner, i, row)


def _check_shared(runner: ModelRunner, i: int, row: int) -> None:
    """The protected part of a row is the tree's path to where its request holds a lock."""
    pool = runner.req_to_token_pool
    holder = pool.holders[row]
    length = holder.cache_protected_len
    if not length or holder.last_node is None:
        return
    path = tree_path(holder.last_node).to(pool.device)
    if len(path) < length:
        return
    wrong = (pool.req_to_token[row, :length] != path[:length]).nonzero()
    if len(wrong):
        t = int(wrong[0])
        raise PageTableError(
            f"req_to_token, request {i}, token {t}: expected slot {int(path[t])}, where the radix tree keeps this "
            f"token of the shared prefix, got {int(pool.req_to_token[row, t])}. Take slots from the allocator."
        )


def _check_free(runner: ModelRunner, rows: torch.Tensor, lens: torch.Tensor, real: torch.Tensor) -> None:
    """No page that is read is free: it may be handed out, and written, at any time."""
    allocator = runner.token_to_kv_pool_allocator
    page_size = allocator.page_size
    free = torch.zeros(allocator.num_pages + 1, dtype=torch.bool, device=allocator.device)
    free[allocator.free_pages] = True
    free[allocator.release_pages] = True
    width = -(-int(lens.max()) // page_size) * page_size
    pages = runner.req_to_token_pool.req_to_token[rows][:, :width:page_size].to(torch.int64) // page_size
    index = torch.arange(pages.shape[1], device=pages.device)
    wrong = (index * page_size < lens[:, None]) & free[pages.clamp(0, allocator.num_pages)]
    if wrong.any():
        at, p = (int(n) for n in wrong.nonzero()[0])
        raise PageTableError(
            f"req_to_token, request {int(real[at])}, token {p * page_size}: expected an allocated page, got page "
            f"{int(pages[at, p])}, which is free. Take slots from the allocator (batch.allocate, extend_by_token)."
        )


def _check_new_tokens(batch: ForwardBatch, runner: ModelRunner) -> None:
    """New tokens are counted alike everywhere, and written where the page table has them."""
    mode = batch.forward_mode
    if mode.is_decode():
        counts = [1] * batch.batch_size
    elif batch.extend_seq_lens_cpu is not None and not mode.is_target_verify():
        counts = list(batch.extend_seq_lens_cpu)
    else:
        return
    prefixes = batch.extend_prefix_lens_cpu if not mode.is_decode() else None
    lens = batch.seq_lens.tolist()
    for i, (length, count) in enumerate(zip(lens, counts, strict=True)):
        prefix = length - count if prefixes is None else prefixes[i]
        if prefix + count != length or count < 1:
            raise PageTableError(
                f"extend_seq_lens[{i}]: expected {length - prefix}, seq_lens[{i}] {length} less its prefix of "
                f"{prefix}, got {count}. Make the batch again (ForwardBatch.init_new)."
            )
    if sum(counts) != len(batch.out_cache_loc):
        raise PageTableError(
            f"out_cache_loc: expected {sum(counts)} slots, one per new token, got {len(batch.out_cache_loc)}. "
            "Make the batch again (ForwardBatch.init_new)."
        )
    table, rows = runner.req_to_token_pool.req_to_token, batch.req_pool_indices.tolist()
    encoded = [0] * len(lens) if batch.encoder_lens is None else batch.encoder_lens.tolist()
    ends = [length + before for length, before in zip(lens, encoded, strict=True)]
    slots = [table[row, end - count : end] for row, end, count in zip(rows, ends, counts, strict=True)]
    checks.check_out_cache_loc(batch.out_cache_loc, torch.cat(slots).to(torch.int64))
