"""Attention of one request in plain torch, at the speed of its matrix products: what runs on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from sglab.kernels.scoring import Scoring

LOGITS = 1 << 24
"""Scores held at once, by which the queries of a step are limited."""

Visible = Callable[[int, int], torch.Tensor | None]
"""(first query, end) -> (queries, keys) bool: what they see; None for everything."""


def blocked_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scoring: Scoring,
    positions: torch.Tensor | None = None,
    visible: Visible | None = None,
    scale: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """O and natural LSE in float32, in blocks of queries.

    Args:
        q: (queries, heads, qk_dim), any float dtype.
        k: (keys, kv_heads, qk_dim), v: (keys, kv_heads, v_dim); head h uses KV head h // group.
        positions: (queries,) of each query in its request, for a temperature; None without one.
        visible: what queries see; None for everything.
        scale: (kv_heads,) float32, a factor of each KV head's scores beside sm_scale.

    Returns:
        O (queries, heads, v_dim), with the sinks' share of the denominator, and the LSE (queries, heads) over keys
        alone. A query that sees no key has O = 0 and LSE = −inf.
    """
    (queries, heads, _), (keys, kv_heads, v_dim) = q.shape, v.shape
    group = heads // kv_heads
    keys_t = k.float().permute(1, 2, 0)
    if scale is not None:
        keys_t = keys_t * scale[:, None, None]
    values = v.float().transpose(0, 1)
    out = torch.zeros(queries, heads, v_dim, device=q.device)
    lse = torch.full((queries, heads), -math.inf, device=q.device)
    if not keys:
        return out, lse
    step = max(1, LOGITS // (keys * heads))
    temperature = None
    if scoring.xai_temperature_len > 0 and positions is not None:
        temperature = scoring.temperature(positions).float()
    for start in range(0, queries, step):
        end = min(start + step, queries)
        n = end - start
        block = q[start:end].float().view(n, kv_heads, group, -1).transpose(0, 1).flatten(1, 2)
        logits = (block @ keys_t).mul_(scoring.sm_scale).view(kv_heads, n, group, keys)
        if scoring.logit_cap > 0:
            logits.div_(scoring.logit_cap).tanh_().mul_(scoring.logit_cap)
        if temperature is not None:
            logits.mul_(temperature[start:end, None, None])
        seen = None if visible is None else visible(start, end)
        if seen is not None:
            logits.masked_fill_(~seen[:, None, :], -math.inf)
        sinks = None if scoring.sinks is None else scoring.sinks.float().view(kv_heads, 1, group)
        o, block_lse = _softmax_product(logits, values, sinks)
        out[start:end] = o.view(kv_heads, n, group, v_dim).transpose(0, 1).flatten(1, 2)
        lse[start:end] = block_lse.transpose(0, 1).flatten(1)
    return out, lse


def _softmax_product(
    logits: torch.Tensor, values: torch.Tensor, sinks: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(kv_heads, queries · group, v_dim) and (kv_heads, queries, group); the logits are overwritten."""
    top = logits.amax(-1)
    shift = torch.where(top == -math.inf, 0.0, top)
    weights = logits.sub_(shift[..., None]).exp_()
    total = weights.sum(-1)
    denominator = total if sinks is None else total + (sinks - shift).exp()
    # A row that sees nothing accumulates nothing; a sink far above every logit is infinite here, and O is 0.
    share = torch.where(total == 0, 0.0, 1 / denominator)
    o = (weights.flatten(1, 2) @ values) * share.flatten(1)[..., None]
    return o, top + total.log()
