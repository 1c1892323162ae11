"""FlashAttention's functions on the host's vector units."""

from __future__ import annotations

import torch

from sglab.kernels import cpu_launch as launch
from sglab.kernels.flash_attn.contract import FlashAttnArguments


def refuses(a: FlashAttnArguments) -> str | None:
    if a.qv is not None:
        return "it has no second query; join q with qv, and k with v"
    if a.masking.prefix_lens is not None:
        return "it has no multi-item scoring"
    return launch.refuses(a.q, a.k)


def run(a: FlashAttnArguments) -> tuple[()]:
    call_of(a).run()
    if a.scoring.sinks is not None:
        _add_sinks(a)
    a.natural_to_base()
    return ()


def call_of(a: FlashAttnArguments) -> launch.CpuCall:
    source = launch.KeySource(
        a.k,
        a.v,
        a.seqlens_k,
        a.first_key,
        a.page_table,
        k_scale=_whole(a, a.k_descale),
        v_scale=_whole(a, a.v_descale),
    )
    count = a.cu_seqlens_q.diff() if a.seqlens_q is None else a.seqlens_q
    return launch.CpuCall(
        *(a.q, a.out, a.lse.T, a.cu_seqlens_q, count, source, a.scoring),
        left=a.masking.left,
        right=a.masking.right,
        chunk=a.masking.chunk,
        q_scale=_whole(a, a.q_descale),
    )


def _whole(a: FlashAttnArguments, scale: torch.Tensor | None) -> torch.Tensor | None:
    return None if scale is None else scale.expand(a.batch, a.k.shape[2])


def _add_sinks(a: FlashAttnArguments) -> None:
    """FlashAttention counts a sink in the LSE, too; rows that are padding keep theirs."""
    assert a.scoring.sinks is not None
    sinks, counts = a.scoring.sinks.float()[:, None], a.seqlens_q
    if counts is None:
        torch.logaddexp(a.lse, sinks, out=a.lse)
        return
    for request in range(a.batch):
        part = a.lse[:, a.queries_of(request)]
        part.copy_(torch.logaddexp(part, sinks))
