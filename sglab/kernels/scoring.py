"""From dot products to attention weights: what the decode and extend operators share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract


@dataclass(frozen=True)
class Scoring:
    """logit = temperature · cap(sm_scale · q·k), then softmax, with a sink in its denominator.

    Attributes:
        logit_cap: cap(x) = logit_cap · tanh(x / logit_cap); 0 for none.
        xai_temperature_len: a query at position p > this has temperature log2(p) / log2(this), others 1; ≤ 0 for none.
        sinks: (heads,) a learned logit per head that takes part in the denominator alone; None for none.
    """

    sm_scale: float
    logit_cap: float = 0.0
    xai_temperature_len: int = -1
    sinks: torch.Tensor | None = None

    def check(self, contract: Contract) -> None:
        """The contract must know the size of "heads"."""
        contract.require(
            math.isfinite(self.sm_scale) and self.sm_scale > 0,
            "sm_scale",
            "positive and finite",
            self.sm_scale,
            "It is head_dim ** -0.5; for absorbed MLA (qk_nope_head_dim + qk_rope_head_dim) ** -0.5.",
        )
        contract.require(
            math.isfinite(self.logit_cap) and self.logit_cap >= 0,
            "logit_cap",
            "0 (no cap) or positive",
            self.logit_cap,
            "Pass the model's attn_logit_softcapping.",
        )
        contract.require(
            self.xai_temperature_len <= 0 or self.xai_temperature_len > 1,
            "xai_temperature_len",
            "above 1, or −1 for no temperature",
            self.xai_temperature_len,
            "log2 of it divides.",
        )
        if self.sinks is not None:
            contract.tensor("sinks", self.sinks, "heads", FLOATS)

    def temperature(self, positions: torch.Tensor) -> torch.Tensor:
        """Float64 factor per query position."""
        if self.xai_temperature_len <= 0:
            return torch.ones_like(positions, dtype=torch.float64)
        factor = positions.double().log2() / math.log2(self.xai_temperature_len)
        return torch.where(positions > self.xai_temperature_len, factor, 1.0)


def dense_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    scoring: Scoring,
    visible: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain attention of one request in float64: the reference of every attention operator.

    Returns O (queries, heads, v_dim) and the natural LSE (queries, heads) over keys alone, without the sink. A query
    that sees no key has O = 0 and LSE = −inf.

    Args:
        q: (queries, heads, qk_dim).
        k: (keys, kv_heads, qk_dim).
        v: (keys, kv_heads, v_dim); head h uses KV head h // group.
        positions: (queries,) position of each query in its request.
        visible: (queries, keys) bool, what each query may see; None for everything.
    """
    group = q.shape[1] // k.shape[1]
    k, v = (x.double().repeat_interleave(group, dim=1) for x in (k, v))
    logits = torch.einsum("qhd,khd->qhk", q.double(), k) * scoring.sm_scale
    if scoring.logit_cap > 0:
        logits = scoring.logit_cap * torch.tanh(logits / scoring.logit_cap)
    logits = logits * scoring.temperature(positions)[:, None, None]
    if visible is not None:
        logits = logits.masked_fill(~visible[:, None, :], -math.inf)
    lse = logits.logsumexp(-1)
    denominator = lse
    if scoring.sinks is not None:
        denominator = torch.logaddexp(lse, scoring.sinks.double().expand_as(lse))
    weights = torch.where(lse[..., None] == -math.inf, 0.0, (logits - denominator[..., None]).exp())
    return torch.einsum("qhk,khd->qhd", weights, v), lse
