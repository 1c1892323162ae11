"""Block-sparse attention as dense attention under the union mask: in float64, and in float32 for the CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sglab.kernels.block_sparse.contract import BlockSparseArguments
from sglab.kernels.blocked import blocked_attention
from sglab.kernels.scoring import Scoring, dense_attention

Attend = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def run(a: BlockSparseArguments) -> tuple[()]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring, seen: torch.Tensor) -> tuple:
        return dense_attention(q, k, v, torch.arange(len(q), device=q.device), scoring, seen)

    return _each_head(a, attend)


def run_float32(a: BlockSparseArguments) -> tuple[()]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scoring: Scoring, seen: torch.Tensor) -> tuple:
        return blocked_attention(q, k, v, scoring, None, lambda first, end: seen[first:end])

    return _each_head(a, attend)


def _each_head(a: BlockSparseArguments, attend: Attend) -> tuple[()]:
    group = a.q.shape[1] // a.k.shape[1]
    q_starts, k_starts = a.cu_q.tolist(), a.cu_k.tolist()
    for request in range(len(q_starts) - 1):
        rows, keys = slice(*q_starts[request : request + 2]), slice(*k_starts[request : request + 2])
        for head in range(a.q.shape[1]):
            own, kv = slice(head, head + 1), slice(head // group, head // group + 1)
            q, k, v = a.q[rows, own], a.k[keys, kv], a.v[keys, kv]
            o, lse = attend(q, k, v, a.scoring, a.visible(request, head, len(q), len(k)))
            a.out[rows, own] = o.to(a.out.dtype)
            a.lse[head, rows] = lse[:, 0].float()
    return ()
