"""FlashAttention's semantics in float64, one request at a time."""

from __future__ import annotations

import torch

from sglab.kernels.flash_attn.contract import FlashAttnArguments
from sglab.kernels.scoring import dense_attention


def run(a: FlashAttnArguments) -> tuple[()]:
    kv_heads = a.k.shape[2]
    for request in range(a.batch):
        rows = a.queries_of(request)
        q, (page, row) = a.q[rows].double(), a.rows_of(request)
        k, v = a.k[page, row].double(), a.v[page, row].double()
        scoring = a.scoring
        if a.qv is not None:
            q, k = torch.cat([q, a.qv[rows].double()], -1), torch.cat([k, v], -1)
        for factor in (a.q_descale, a.k_descale):
            if factor is not None:
                k = k * factor[request].double().view(1, kv_heads, 1)
        if a.v_descale is not None:
            v = v * a.v_descale[request].double().view(1, kv_heads, 1)
        queries, keys = len(q), len(k)
        visible = a.masking.matrix(request, queries, keys, a.device)(0, queries)
        position = torch.arange(queries, device=a.device) + keys - queries
        o, lse = dense_attention(q, k, v, position, scoring, visible)
        if scoring.sinks is not None:
            lse = torch.logaddexp(lse, scoring.sinks.double().expand_as(lse))
        a.out[rows] = o.to(a.out.dtype)
        a.lse[:, rows] = lse.T.float()
    a.natural_to_base()
    return ()
