"""FlashAttention's semantics in float32 matrix products, one request at a time: what runs on a CPU."""

from __future__ import annotations

import torch

from sglab.kernels.blocked import blocked_attention
from sglab.kernels.flash_attn.contract import FlashAttnArguments


def run(a: FlashAttnArguments) -> tuple[()]:
    for request in range(a.batch):
        rows = a.queries_of(request)
        q, (page, row) = a.q[rows], a.rows_of(request)
        k, v = a.k[page, row], a.v[page, row]
        if a.qv is not None:
            q, k = torch.cat([q, a.qv[rows]], -1), torch.cat([k, v], -1)
        factors = [factor[request] for factor in (a.q_descale, a.k_descale) if factor is not None]
        scale = torch.stack(factors).prod(0) if factors else None
        position = torch.arange(len(q), device=a.device) + len(k) - len(q)
        visible = a.masking.matrix(request, len(q), len(k), a.device)
        o, lse = blocked_attention(q, k, v, a.scoring, position, visible, scale)
        if a.v_descale is not None:
            o = o * a.v_descale[request].repeat_interleave(a.group)[:, None]
        if a.scoring.sinks is not None:
            lse = torch.logaddexp(lse, a.scoring.sinks.float().expand_as(lse))
        a.out[rows] = o.to(a.out.dtype)
        a.lse[:, rows] = lse.T
    a.natural_to_base()
    return ()
