"""Attention over slots through the decode and extend operators; nothing here waits for the device."""

from __future__ import annotations

import torch

from sglab.attention.arithmetic.dense import gathered
from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.kernels import decode_attention_fwd, extend_attention_fwd
from sglab.kernels.scoring import Scoring

NUM_KV_SPLITS = 8
"""Splits of a request's KV in decode; the same for every request, so that a row's bits do not depend on its batch."""


def run(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    scoring: Scoring,
    implementation: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `dense.run`. The operators read an FP8 pool's rows as they are; its scales are the caller's."""
    q = q.contiguous()
    o = q.new_zeros((*q.shape[:2], values.shape[-1]))
    lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device)
    if rows.max_q == 1 and rows.custom_mask is None:
        _decode(q, keys, values, rows.windowed(), scoring, o, lse, implementation)
    elif rows.causal or rows.custom_mask is not None:
        _causal(q, keys, values, rows, scoring, o, lse, implementation)
    else:
        _prefix(q, keys, values, rows, scoring, o, lse, implementation)
    return o, lse


def _decode(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    scoring: Scoring,
    o: torch.Tensor,
    lse: torch.Tensor,
    implementation: str,
) -> None:
    batch, heads = q.shape[:2]
    partial = torch.empty((batch, heads, NUM_KV_SPLITS, o.shape[-1]), dtype=torch.float32, device=q.device)
    partial_lse = torch.empty((batch, heads, NUM_KV_SPLITS), dtype=torch.float32, device=q.device)
    splits = torch.full((batch,), NUM_KV_SPLITS, dtype=torch.int32, device=q.device)
    decode_attention_fwd(
        q,
        keys,
        values,
        o,
        rows.kv_indptr,
        rows.kv_indices,
        partial,
        partial_lse,
        splits,
        NUM_KV_SPLITS,
        scoring.sm_scale,
        logit_cap=scoring.logit_cap,
        sinks=scoring.sinks,
        xai_temperature_len=scoring.xai_temperature_len,
        lse=lse,
        implementation=implementation,
    )


def _causal(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    scoring: Scoring,
    o: torch.Tensor,
    lse: torch.Tensor,
    implementation: str,
) -> None:
    """The extend operator takes the last query rows' keys apart from the prefix: they are gathered from the pool."""
    new_lens, kv_lens = rows.qo_indptr.diff(), rows.kv_indptr.diff()
    prefixes = (kv_lens - new_lens).clamp(min=0)  # a graph's padded row has fewer keys than queries
    request = _request_of_row(rows.qo_indptr, len(q))
    within = torch.arange(len(q), device=q.device) - rows.qo_indptr[request]
    at = (rows.kv_indptr[request] + prefixes[request] + within).clamp(0, max(len(rows.kv_indices) - 1, 0))
    new_slots = rows.kv_indices[at].long()
    indptr, indices = _first_slots(rows.kv_indptr, rows.kv_indices, prefixes)
    extend_attention_fwd(
        q,
        gathered(keys, new_slots).to(q.dtype),
        gathered(values, new_slots).to(q.dtype),
        o,
        keys,
        values,
        rows.qo_indptr,
        indptr,
        indices,
        rows.custom_mask,
        True,
        rows.mask_indptr,
        rows.max_q,
        scoring.sm_scale,
        logit_cap=scoring.logit_cap,
        skip_prefix_custom_mask=False,
        sliding_window_size=rows.window,
        sinks=scoring.sinks,
        xai_temperature_len=scoring.xai_temperature_len,
        lse=lse,
        implementation=implementation,
    )


def _prefix(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    scoring: Scoring,
    o: torch.Tensor,
    lse: torch.Tensor,
    implementation: str,
) -> None:
    """Every row sees every key: the keys are the prefix, and a mask of zeros hides the new tokens that the operator
    wants beside it."""
    new_lens, kv_lens = rows.qo_indptr.diff(), rows.kv_indptr.diff()
    nothing = q.new_zeros((len(q), keys.shape[1], keys.shape[2]))
    nothing_v = q.new_zeros((len(q), values.shape[1], values.shape[2]))
    starts = torch.nn.functional.pad(torch.cumsum(new_lens.long() * (kv_lens + new_lens), 0), (1, 0))
    size = rows.max_q * (len(rows.kv_indices) + len(q))
    extend_attention_fwd(
        q,
        nothing,
        nothing_v,
        o,
        keys,
        values,
        rows.qo_indptr,
        rows.kv_indptr,
        rows.kv_indices,
        torch.zeros(size, dtype=torch.uint8, device=q.device),
        True,
        starts,
        rows.max_q,
        scoring.sm_scale,
        logit_cap=scoring.logit_cap,
        skip_prefix_custom_mask=True,
        sinks=scoring.sinks,
        lse=lse,
        implementation=implementation,
    )


def _request_of_row(qo_indptr: torch.Tensor, count: int) -> torch.Tensor:
    at = torch.arange(count, device=qo_indptr.device)
    return torch.searchsorted(qo_indptr[1:].long(), at, right=True).clamp(max=len(qo_indptr) - 2)


def _first_slots(indptr: torch.Tensor, indices: torch.Tensor, lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The CSR of each request's first `lens` slots."""
    made = torch.nn.functional.pad(torch.cumsum(lens, 0, dtype=torch.int32), (1, 0))
    at = torch.arange(len(indices), device=indices.device)
    request = torch.searchsorted(made[1:].long(), at, right=True).clamp(max=max(len(lens) - 1, 0))
    offset = at - made[request] + indptr[request]
    return made, indices[offset.clamp(0, max(len(indices) - 1, 0))]
