"""Sparse MLA in float64, and the same in float32 for the CPU, some queries at a time."""

from __future__ import annotations

import math

import torch

from sglab.kernels.k_records.layout import NOPE, TILE, TILES, taken_apart
from sglab.kernels.sparse_mla.contract import SparseArguments

_VALUES = 1 << 23
"""Of gathered keys, held at once."""


def run(a: SparseArguments) -> tuple[()]:
    return _run(a, torch.float64)


def run_float32(a: SparseArguments) -> tuple[()]:
    return _run(a, torch.float32)


def _run(a: SparseArguments, dtype: torch.dtype) -> tuple[()]:
    counted = a.counted()
    step = max(1, _VALUES // max(a.indices.shape[1] * 576, 1))
    for start in range(0, len(a.q), step):
        now = slice(start, start + step)
        _block(a, now, counted[now], dtype)
    return ()


def _block(a: SparseArguments, now: slice, counted: torch.Tensor, dtype: torch.dtype) -> None:
    if len(a.kv):
        k = _keys(a, torch.where(counted, a.indices[now], 0).long(), dtype)
    else:
        k = torch.zeros(*counted.shape, 576, dtype=dtype, device=a.device)
    scores = torch.einsum("thd,tkd->thk", a.q[now].to(dtype), k) * a.sm_scale
    scores = scores.masked_fill(~counted[:, None], -math.inf)
    lse = scores.logsumexp(-1) if scores.shape[-1] else torch.full(scores.shape[:2], -math.inf, dtype=dtype)
    denominator = lse if a.sink is None else torch.logaddexp(lse, a.sink.to(dtype).expand_as(lse))
    weights = torch.where(lse[..., None] == -math.inf, 0.0, (scores - denominator[..., None]).exp())
    a.out[now] = torch.einsum("thk,tkd->thd", weights, k[..., :NOPE]).to(a.out.dtype)
    a.lse[now] = torch.where(lse == -math.inf, math.inf, lse).float()
    if a.top is not None:
        a.top[now] = scores.amax(-1).float() if scores.shape[-1] else -math.inf


def _keys(a: SparseArguments, slots: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """(tokens, topk, 576)"""
    if not a.records:
        return a.kv[slots].to(dtype)
    views = taken_apart(a.kv[slots])
    nope = views.nope.to(dtype).unflatten(-1, (TILES, TILE)) * views.scales.to(dtype)[..., None]
    return torch.cat([nope.flatten(-2), views.rope.to(dtype)], -1)
