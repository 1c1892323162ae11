"""Absorbed MLA decode in float64: attention of all heads to one KV head whose value is the key's latent part."""

from __future__ import annotations

import torch

from sglab.kernels.cutlass_mla.contract import CutlassMLAArguments
from sglab.kernels.scoring import Scoring, dense_attention
from sglab.planning.mla_dims import LATENT_DIM


def run(arguments: CutlassMLAArguments) -> tuple[()]:
    page_size = arguments.page_size
    scoring = Scoring(arguments.sm_scale)
    for request, length in enumerate(arguments.seq_lens.tolist()):
        position = torch.arange(length, device=arguments.device)
        page = arguments.page_table[request, position // page_size].long()
        k = arguments.kv_c_and_k_pe_cache[page, position % page_size].unsqueeze(1)
        q = torch.cat([arguments.q_nope[request], arguments.q_pe[request]], dim=-1).unsqueeze(0)
        last = torch.tensor([length - 1], device=arguments.device)
        o, lse = dense_attention(q, k, k[..., :LATENT_DIM], last, scoring)
        arguments.out[request] = o[0]
        if arguments.lse is not None:
            arguments.lse[request] = lse[0]
    return ()
