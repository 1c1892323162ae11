"""The three steps, each in float64 and rounded to the dtype of the heads."""

from __future__ import annotations

import torch

from sglab.kernels.qk_norm_rope.contract import FusedArguments
from sglab.kernels.rotary.contract import RopeArguments
from sglab.kernels.rotary.reference import run as turn


def run(a: FusedArguments) -> tuple[()]:
    if a.q_weight is not None and a.k_weight is not None:
        _norm(a.query, a.q_weight, a.eps)
        _norm(a.key, a.k_weight, a.eps)
    turn(RopeArguments(a.positions, a.query, a.key, a.cos_sin_cache, a.is_neox))
    slots = a.indices.long()
    a.k_cache[slots], a.v_cache[slots] = a.key, a.value
    return ()


def _norm(heads: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
    wide = heads.double()
    heads.copy_(wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.double())
