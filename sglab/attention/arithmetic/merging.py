"""Merges of partial results as backends call them, each with the base of its logarithm."""

from __future__ import annotations

import math

import torch

from sglab.kernels import merge_state, merge_state_v2

LOG2_E = math.log2(math.e)

Partial = tuple[torch.Tensor, torch.Tensor]
"""o [tokens, heads, v_head_dim] and its natural LSE float32 [tokens, heads]."""


def merge_base2(a: Partial, b: Partial, implementation: str = "auto") -> Partial:
    """FlashInfer's merge_state: the LSE goes in and comes out in base 2, so it is converted on both sides."""
    (o_a, s_a), (o_b, s_b) = a, b
    o, lse = merge_state(
        o_a.contiguous(), s_a * LOG2_E, o_b.contiguous(), s_b * LOG2_E, implementation=_merging(implementation)
    )
    return o, lse / LOG2_E


def merge_natural(a: Partial, b: Partial, implementation: str = "auto") -> Partial:
    """SGLang's merge_state_v2, natural; guarded, so that two empty sides give 0 and not NaN."""
    (o_a, s_a), (o_b, s_b) = a, b
    return merge_state_v2(
        o_a.contiguous(),
        s_a.contiguous(),
        o_b.contiguous(),
        s_b.contiguous(),
        guarded=True,
        implementation=_merging(implementation),
    )


def with_sinks(partial: Partial, sinks: torch.Tensor | None) -> torch.Tensor:
    """The result with a logit per head added to the denominator, after all merges: it counts once."""
    o, lse = partial
    if sinks is None:
        return o
    share = (lse - torch.logaddexp(lse, sinks.float())).exp()
    return (o * share[..., None]).to(o.dtype)


def _merging(implementation: str) -> str:
    """The merge operators have neither "torch" nor "cpu": on a host their reference runs; nor the library's."""
    if implementation == "flashinfer":
        return "auto"
    return "reference" if implementation in ("torch", "cpu") else implementation
