"""Attention over slots in PyTorch, request by request: any mask, any dtype of the pool, and the LSE."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.engine import ScoreMod
from sglab.kernels.scoring import Scoring

SCORES_AT_ONCE = 1 << 23
"""Logits held at a time: query rows of a long request are taken in pieces."""


def run(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    scoring: Scoring,
    accumulate: torch.dtype,
    score_mod: ScoreMod | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """o [tokens, heads, v_head_dim] in q's dtype and the natural LSE float32 [tokens, heads], without the sinks.

    Every request is computed by itself, so that a row's bits do not depend on its batch. A row that sees no key has
    o = 0 and LSE −inf.

    Args:
        accumulate: dtype of scores and sums. score_mod: of the model, over positions that begin at first_positions.
    """
    tokens, heads = q.shape[:2]
    o = q.new_zeros((tokens, heads, values.shape[-1]))
    lse = torch.full((tokens, heads), -math.inf, dtype=torch.float32, device=q.device)
    q_at, kv_at = rows.qo_indptr.tolist(), rows.kv_indptr.tolist()
    for i in range(rows.batch):
        slots = rows.kv_indices[kv_at[i] : kv_at[i + 1]].long()
        count = q_at[i + 1] - q_at[i]
        if not len(slots) or not count:
            continue
        k, v = gathered(keys, slots).to(accumulate), gathered(values, slots).to(accumulate)
        piece = max(1, SCORES_AT_ONCE // (heads * len(slots)))
        for first in range(0, count, piece):
            last = min(first + piece, count)
            part = slice(q_at[i] + first, q_at[i] + last)
            at = torch.arange(first, last, device=q.device) + len(slots) - count
            seen = _visible(rows, i, count, first, at, len(slots))
            start = 0 if rows.first_positions is None else int(rows.first_positions[i])
            given = q[part].to(accumulate), k, v, at + start, seen, scoring, q.dtype
            o[part], lse[part] = _attend(*given, _of_part(score_mod, q_at[i] + first, start, heads, keys.shape[1]))
    return o, lse


Modify = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""(logits [kv_heads, group, rows, keys], the rows' positions) -> logits."""


def _of_part(score_mod: ScoreMod | None, first_row: int, first_key: int, heads: int, kv_heads: int) -> Modify | None:
    """A score function for some rows of one request."""
    if score_mod is None:
        return None

    def modify(logits: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        count, keys = logits.shape[-2:]
        head = torch.arange(heads, device=logits.device).view(kv_heads, -1, 1, 1)
        row = torch.arange(first_row, first_row + count, device=logits.device)[:, None]
        key = torch.arange(first_key, first_key + keys, device=logits.device)
        return score_mod(logits, positions[:, None], key, row, head).to(logits.dtype)

    return modify


def gathered(buffer: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """Rows of a pool, int [n] slots; FP8 rows are gathered as bytes."""
    if buffer.element_size() > 1:
        return buffer.index_select(0, slots)
    return buffer.view(torch.uint8).index_select(0, slots).view(buffer.dtype)


def _visible(rows: PagedRows, i: int, count: int, first: int, at: torch.Tensor, keys: int) -> torch.Tensor | None:
    """bool [rows of this piece, keys]; None: everything."""
    key = torch.arange(keys, device=at.device)
    seen: torch.Tensor | None = None
    if rows.custom_mask is not None and rows.mask_indptr is not None:
        start = int(rows.mask_indptr[i]) + first * keys
        seen = rows.custom_mask[start : start + len(at) * keys].view(len(at), keys).to(torch.bool)
    elif rows.causal and not (count == 1 and len(at) == 1):
        seen = key <= at[:, None]
    if rows.window >= 0:
        near = (key >= at[:, None] - rows.window) & (key <= at[:, None] + rows.window)
        seen = near if seen is None else seen & near
    return seen


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    seen: torch.Tensor | None,
    scoring: Scoring,
    out_dtype: torch.dtype,
    modify: Modify | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """q [n, heads, dim], k and v [keys, kv_heads, dim]; the heads that share a KV head are rows of one product."""
    count, heads = q.shape[:2]
    kv_heads, group = k.shape[1], heads // k.shape[1]
    grouped = q.view(count, kv_heads, group, -1).permute(1, 2, 0, 3).reshape(kv_heads, group * count, -1)
    logits = (grouped @ k.permute(1, 2, 0) * scoring.sm_scale).view(kv_heads, group, count, -1)
    if scoring.logit_cap > 0:
        logits = scoring.logit_cap * torch.tanh(logits / scoring.logit_cap)
    if scoring.xai_temperature_len > 0:
        logits = logits * scoring.temperature(positions).to(logits.dtype)[:, None]
    if modify is not None:
        logits = modify(logits, positions)
    if seen is not None:
        logits = logits.masked_fill(~seen, -math.inf)
    lse = logits.logsumexp(-1)
    lse = torch.where(lse == math.inf, math.nan, lse)  # of infinite logits; to a merge +inf would mean no keys
    denominator = lse
    if scoring.sinks is not None:
        denominator = torch.logaddexp(lse, scoring.sinks.to(lse.dtype).view(kv_heads, group, 1).expand_as(lse))
    weights = (logits - denominator[..., None]).exp()
    weights = torch.where((lse == -math.inf)[..., None], 0.0, weights)
    out = (weights.view(kv_heads, group * count, -1) @ v.transpose(0, 1)).view(kv_heads, group, count, -1)
    return out.permute(2, 0, 1, 3).reshape(count, heads, -1).to(out_dtype), lse.permute(2, 0, 1).flatten(1).float()
