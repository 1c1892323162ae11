"""SGLang's attention operators for CPUs on the host's vector units, or AMX's tiles."""

from __future__ import annotations

import torch

from sglab.kernels import cpu_launch as launch
from sglab.kernels.cpu_attention.contract import CpuAttentionArguments


def refuses(a: CpuAttentionArguments) -> str | None:
    return launch.refuses(a.q, a.k_buffer)


def run(a: CpuAttentionArguments) -> tuple[()]:
    if a.attn_logits is not None:
        a.attn_logits[..., :-1] = 0
        a.attn_logits[..., -1] = -torch.inf
    call_of(a).run()
    return ()


def call_of(a: CpuAttentionArguments) -> launch.CpuCall:
    fresh, cached_lens = None, a.lengths
    if a.k_new is not None and a.v_new is not None:
        fresh = launch.KeySource(a.k_new, a.v_new, a.new_lens, first=a.starts)
        cached_lens = a.lengths - a.new_lens
    cached = launch.KeySource(
        *(a.k_buffer, a.v_buffer, cached_lens, a.first),
        table=a.req_to_token,
        table_rows=a.req_pool_indices,
        k_scale=launch.scale_of(a.k_scale, a.k_buffer.shape[1]),
        v_scale=launch.scale_of(a.v_scale, a.k_buffer.shape[1]),
    )
    return launch.CpuCall(
        *(a.q, a.out, None, a.starts, a.new_lens, cached, a.scoring),
        fresh=fresh,
        left=a.window - 1 if a.window else launch.UNBOUNDED,
        right=0 if a.causal else launch.UNBOUNDED,
        mask=None if a.mask is None else a.mask.contiguous(),
        mask_start=None if a.mask is None else a.mask_start[:-1],
        mask_offset=None if a.mask is None else torch.zeros(len(a.lengths), dtype=torch.int64),
        partials=_partials(a),
    )


def _partials(a: CpuAttentionArguments) -> launch.Partials | None:
    if a.attn_logits is None:
        return None
    splits = a.attn_logits.shape[2]
    return launch.Partials(a.attn_logits[..., :-1], a.attn_logits[..., -1], (a.lengths + splits - 1) // splits)
