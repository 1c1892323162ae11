"""Which tokens a query attends to: an indexer's logits over the pool's slots, and the best of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.arithmetic.paged_rows import PagedRows, slots_of_table
from sglab.engine import BadArgumentError, ForwardBatch
from sglab.kernels import fast_topk_v2, page_mqa_logits, slot_mqa_logits
from sglab.kernels.indexer.layout import page_bytes

MOST_LOGITS = 1 << 26
"""Logits that are held at once, 256 MiB: a long prefill's rows are taken a block at a time."""


@dataclass(frozen=True)
class IndexRows:
    """The keys that an indexer scores a pass's query tokens against."""

    lengths: torch.Tensor
    """int32 [tokens], keys that each may see."""
    page_table_1: torch.Tensor
    """int32 [requests or tokens, at least `longest`], slots."""
    longest: int
    """Known on the host: the longest request, or where only the device knows it the longest there can be."""
    request_of: torch.Tensor | None = None
    """int32 [tokens], rows of page_table_1; None: a row for every token."""

    @classmethod
    def of(cls, batch: ForwardBatch) -> IndexRows:
        """Those of an eager pass; it may wait for the device."""
        assert batch.req_to_token_pool is not None
        assert batch.positions is not None
        counts = torch.ones_like(batch.seq_lens) if batch.forward_mode.is_decode() else batch.extend_seq_lens
        assert counts is not None
        requests = torch.arange(batch.batch_size, dtype=torch.int32, device=batch.seq_lens.device)
        owner = torch.repeat_interleave(requests, counts.long())
        ends = torch.repeat_interleave(counts.long().cumsum(0), counts.long())
        back = ends - torch.arange(len(owner), device=owner.device) - 1
        seen = batch.seq_lens[owner.long()] - back
        host = batch.seq_lens if batch.seq_lens_cpu is None else batch.seq_lens_cpu
        longest = int(host.max()) if len(host) else 0
        table = batch.req_to_token_pool.req_to_token[batch.req_pool_indices, :longest]
        return cls(seen.int(), table, longest, owner)


def check_chosen(positions: torch.Tensor, tokens: int, most: int) -> None:
    """
    Args:
        positions: `topk_indices`. most: that a query may attend to.

    Raises:
        BadArgumentError: another shape.
    """
    if positions.dim() != 2 or len(positions) != tokens or positions.shape[1] > most:
        expected = f"shape ({tokens}, at most {most})"
        remedy = "Pass a row of positions per new token, −1 for none."
        raise BadArgumentError("topk_indices", expected, tuple(positions.shape), remedy)


def rows_of_chosen(slots: torch.Tensor) -> PagedRows:
    """Every query token a request over its own slots, int [tokens, topk]; those that are −1 are left out."""
    valid = slots >= 0
    order = (~valid).to(torch.int8).argsort(stable=True, dim=1)
    indptr, indices = slots_of_table(slots.gather(1, order), valid.sum(1), 1)
    ones = torch.arange(len(slots) + 1, dtype=torch.int32, device=slots.device)
    return PagedRows(ones, indptr, indices, 1)


def choose_tokens(
    q: torch.Tensor,
    keys: torch.Tensor,
    weights: torch.Tensor,
    rows: IndexRows,
    topk: int,
    implementation: str = "auto",
) -> torch.Tensor | None:
    """The positions in its request that every query token attends to.

    Args:
        q: [tokens, heads, dim], the indexer's queries; keys: [slots, dim], of the same dtype; or q in e4m3 beside pages
            of keys with their scales, uint8 [pages, page_size · 132].
        weights: float32 [tokens, heads].
        implementation: of the operators; one that they do not have: their own choice.

    Returns:
        int32 [tokens, topk], −1 where a token sees fewer keys; None where no request has more than topk.
    """
    if rows.longest <= topk:
        return None
    chosen = implementation if implementation in ("triton", "torch", "reference") else "auto"
    block = max(MOST_LOGITS // rows.longest, 1)
    packed, tables, parts = keys.dtype == torch.uint8, rows.page_table_1, []
    if packed:
        page_size = keys.shape[1] // page_bytes(1)
        tables = tables[:, ::page_size] // page_size
    for start in range(0, len(q), block):
        own = slice(start, start + block)
        table, owner = tables, None
        if rows.request_of is None:
            table = table[own]
        else:
            owner = rows.request_of[own]
        lengths = rows.lengths[own]
        score = page_mqa_logits if packed else slot_mqa_logits
        logits = score(
            q[own], keys, weights[own], lengths, table, owner, rows.longest, implementation=chosen, check_values=False
        )
        parts.append(fast_topk_v2(logits, lengths, topk, implementation=chosen, check_values=False))
    return torch.cat(parts) if parts else q.new_empty((0, topk), dtype=torch.int32)
