"""The merges in float64."""

from __future__ import annotations

import math
from functools import reduce

import torch

from sglab.kernels.merge.contract import PairArguments, Rule, StatesArguments


def pair(arguments: PairArguments) -> tuple[()]:
    v = torch.stack([arguments.v_a, arguments.v_b]).double()
    s = torch.stack([arguments.s_a, arguments.s_b]).double()
    v_merged, s_merged = merged(v, s, arguments.rule)
    if arguments.mask is None:
        arguments.v_merged.copy_(v_merged)
        arguments.s_merged.copy_(s_merged)
    else:
        arguments.v_merged[arguments.mask] = v_merged[arguments.mask].to(arguments.v_merged.dtype)
        arguments.s_merged[arguments.mask] = s_merged[arguments.mask].float()
    return ()


def states(arguments: StatesArguments) -> tuple[()]:
    # An empty state first, as FlashInfer's running state starts: it changes nothing and makes n = 0 a case of n = 1.
    v, s = arguments.v.double(), arguments.s.double()
    v = torch.cat([torch.zeros_like(arguments.v_merged).double().unsqueeze(1), v], 1).movedim(1, 0)
    s = torch.cat([torch.full_like(arguments.s_merged, -math.inf).double().unsqueeze(1), s], 1).movedim(1, 0)
    v_merged, s_merged = merged(v, s, arguments.rule)
    arguments.v_merged.copy_(v_merged)
    arguments.s_merged.copy_(s_merged)
    return ()


def merged(v: torch.Tensor, s: torch.Tensor, rule: Rule) -> tuple[torch.Tensor, torch.Tensor]:
    """Merge along the first dimension: v (n, …, head_dim) and s (n, …), float64."""
    if rule in {Rule.BASE2, Rule.BASE2_NATURAL}:
        return _flashinfer(v, s, 2.0 if rule is Rule.BASE2 else math.e)
    return _v2(v, s, guarded=rule is Rule.V2_GUARDED)


def _flashinfer(v: torch.Tensor, s: torch.Tensor, base: float) -> tuple[torch.Tensor, torch.Tensor]:
    lowest = torch.tensor(-math.inf, dtype=s.dtype, device=s.device)
    top = reduce(torch.fmax, s)
    weights = torch.fmax(s - top, lowest).mul(math.log(base)).exp()
    total = weights.sum(0)
    shares = torch.where(total > 0, weights / total, 0.0)
    return (shares.unsqueeze(-1) * v).sum(0), top + total.log() / math.log(base)


def _v2(v: torch.Tensor, s: torch.Tensor, guarded: bool) -> tuple[torch.Tensor, torch.Tensor]:
    s = torch.where(s == math.inf, -math.inf, s)
    top = s.amax(0)
    if guarded:
        empty = (s == -math.inf).all(0)
        top = torch.where(empty, 0.0, top)
        v = torch.where((s == -math.inf).unsqueeze(-1), 0.0, v)
    weights = (s - top).exp()
    total = weights.sum(0)
    shares = weights / (torch.where(empty, 1.0, total) if guarded else total)
    return (shares.unsqueeze(-1) * v).sum(0), top + total.log()
