"""Decode attention on the host's vector units: splits in parallel, then their merge, as the operator has it."""

from __future__ import annotations

import torch

from sglab.kernels import cpu_launch as launch
from sglab.kernels.decode_attention.contract import DecodeArguments
from sglab.planning.num_kv_splits import MIN_BLOCK_KV


def refuses(a: DecodeArguments) -> str | None:
    return launch.refuses(a.q, a.k_buffer)


def run(a: DecodeArguments) -> tuple[()]:
    call_of(a).run()
    return ()


def call_of(a: DecodeArguments) -> launch.CpuCall:
    batch, kv_heads = len(a.q), a.k_buffer.shape[1]
    lengths = a.kv_indptr[: batch + 1].diff()
    per_split = (lengths + a.num_kv_splits[:batch] - 1) // a.num_kv_splits[:batch].clamp(min=1)
    per_split = (per_split + MIN_BLOCK_KV - 1) // MIN_BLOCK_KV * MIN_BLOCK_KV
    source = launch.KeySource(
        *(a.k_buffer, a.v_buffer, lengths),
        table=a.kv_indices,
        start=a.kv_indptr,
        k_scale=launch.scale_of(a.k_scale, kv_heads),
    )
    return launch.CpuCall(
        *(a.q, a.o, a.lse, torch.arange(batch, dtype=torch.int32), torch.ones(batch, dtype=torch.int32)),
        *(source, a.scoring),
        out_scale=_only(launch.scale_of(a.v_scale, kv_heads)),
        partials=launch.Partials(a.attn_logits, a.attn_lse, per_split),
    )


def _only(scale: torch.Tensor | None) -> torch.Tensor | None:
    return None if scale is None else scale[0]
