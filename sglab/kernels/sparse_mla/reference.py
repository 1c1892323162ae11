"""Sparse MLA in float64, and the same in float32 for the CPU, some queries at a time."""

from __future__ import annotations

import math

import torch

from sglab.kernels.k_records.layout import NOPE, TILE, TILES, taken_apart
from sglab.kernels.sparse_mla.contract import Keys, SparseArguments

_VALUES = 1 << 23
"""Of gathered keys, held at once."""


def run(a: SparseArguments) -> tuple[()]:
    return _run(a, torch.float64)


def run_float32(a: SparseArguments) -> tuple[()]:
    return _run(a, torch.float32)


def _run(a: SparseArguments, dtype: torch.dtype) -> tuple[()]:
    counted = torch.cat([keys.counted() for keys in a.caches], 1)
    step = max(1, _VALUES // max(counted.shape[1] * 576, 1))
    for start in range(0, len(a.q), step):
        now = slice(start, start + step)
        _block(a, now, counted[now], dtype)
    return ()


def _block(a: SparseArguments, now: slice, counted: torch.Tensor, dtype: torch.dtype) -> None:
    k = torch.cat([_gathered(keys, now, dtype) for keys in a.caches], 1)
    scores = torch.einsum("thd,tkd->thk", a.q[now].to(dtype), k) * a.sm_scale
    scores = scores.masked_fill(~counted[:, None], -math.inf)
    lse = scores.logsumexp(-1) if scores.shape[-1] else torch.full(scores.shape[:2], -math.inf, dtype=dtype)
    denominator = lse if a.sink is None else torch.logaddexp(lse, a.sink.to(dtype).expand_as(lse))
    weights = torch.where(lse[..., None] == -math.inf, 0.0, (scores - denominator[..., None]).exp())
    a.out[now] = torch.einsum("thk,tkd->thd", weights, k[..., :NOPE]).to(a.out.dtype)
    a.lse[now] = torch.where(lse == -math.inf, math.inf, lse).float()
    if a.top is not None:
        a.top[now] = scores.amax(-1).float() if scores.shape[-1] else -math.inf


def _gathered(keys: Keys, now: slice, dtype: torch.dtype) -> torch.Tensor:
    """(tokens, topk, 576): zeros where an index names no key."""
    counted = keys.counted()[now]
    if not len(keys.kv):
        return torch.zeros(*counted.shape, 576, dtype=dtype, device=keys.kv.device)
    rows = keys.kv[torch.where(counted, keys.indices[now], 0).long()]
    if keys.records:
        views = taken_apart(rows)
        nope = views.nope.to(dtype).unflatten(-1, (TILES, TILE)) * views.scales.to(dtype)[..., None]
        rows = torch.cat([nope.flatten(-2), views.rope.to(dtype)], -1)
    return torch.where(counted[..., None], rows.to(dtype), 0.0)
