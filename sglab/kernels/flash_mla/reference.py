"""Absorbed MLA decode in float64, for one or several query tokens."""

from __future__ import annotations

import torch

from sglab.kernels.flash_mla.contract import PAGE_SIZE, FlashMLAArguments
from sglab.kernels.scoring import Scoring, dense_attention
from sglab.planning.flash_mla import HEAD_DIM_V


def run(a: FlashMLAArguments) -> tuple[()]:
    tokens = a.q.shape[1]
    for request, length in enumerate(a.cache_seqlens.tolist()):
        position = torch.arange(length, device=a.device)
        page = a.block_table[request, position // PAGE_SIZE].long()
        k = a.k_cache[page, position % PAGE_SIZE]
        query = length - tokens + torch.arange(tokens, device=a.device)
        visible = position <= query.unsqueeze(-1) if a.causal else None
        o, lse = dense_attention(a.q[request], k, k[..., :HEAD_DIM_V], query, Scoring(a.softmax_scale), visible)
        a.out[request] = o
        a.lse[request] = lse.T
    return ()
