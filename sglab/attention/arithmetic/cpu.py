"""Attention over slots on the host's vector units, for queries and pools of the dtypes that those read."""

from __future__ import annotations

import torch

from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.kernels import cpu_launch as launch
from sglab.kernels.scoring import Scoring


def serves(q: torch.Tensor, keys: torch.Tensor) -> bool:
    return launch.refuses(q, keys) is None


def run(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
) -> tuple[torch.Tensor, torch.Tensor]:
    """o [tokens, heads, v_head_dim] in q's dtype and the natural LSE float32 [tokens, heads], without the sinks.

    A row's bits depend on its request alone. A row that sees no key has o = 0 and LSE −inf.
    """
    o = q.new_zeros((*q.shape[:2], values.shape[-1]))
    lse = torch.full(q.shape[:2], -torch.inf, dtype=torch.float32)
    masked, window = rows.custom_mask is not None, rows.window if rows.window >= 0 else launch.UNBOUNDED
    source = launch.KeySource(*(keys, values, rows.kv_indptr.diff()), table=rows.kv_indices, start=rows.kv_indptr)
    launch.CpuCall(
        *(q, o, lse, rows.qo_indptr, rows.qo_indptr.diff(), source, scoring),
        left=window,
        right=0 if rows.causal and not masked else window,
        mask=rows.custom_mask,
        mask_start=rows.mask_indptr,
        first_position=rows.first_positions,
    ).run()
    return o, lse
