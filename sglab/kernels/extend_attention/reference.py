"""Extend attention in float64, one request at a time."""

from __future__ import annotations

import torch

from sglab.kernels.extend_attention.contract import ExtendArguments
from sglab.kernels.fp8 import per_head
from sglab.kernels.scoring import dense_attention


def run(arguments: ExtendArguments) -> tuple[()]:
    rows, prefixes = arguments.qo_indptr.tolist(), arguments.kv_indptr.tolist()
    k_scale, v_scale = per_head(arguments.k_scale), per_head(arguments.v_scale)
    for request in range(arguments.batch):
        new = slice(rows[request], rows[request + 1])
        slots = arguments.kv_indices[prefixes[request] : prefixes[request + 1]].long()
        prefix, count = len(slots), rows[request + 1] - rows[request]
        o, lse = dense_attention(
            arguments.q_extend[new],
            torch.cat([arguments.k_buffer[slots].double() * k_scale, arguments.k_extend[new].double()]),
            torch.cat([arguments.v_buffer[slots].double() * v_scale, arguments.v_extend[new].double()]),
            torch.arange(prefix, prefix + count, device=arguments.device),
            arguments.scoring,
            arguments.visibility.matrix(request, prefix, count, arguments.device),
        )
        arguments.o_extend[new] = o.to(arguments.o_extend.dtype)
        if arguments.lse is not None:
            arguments.lse[new] = lse.float()
    return ()
