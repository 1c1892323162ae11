"""Two-stage decode attention (flash-decoding): splits of a request's keys in parallel, then a merge."""

from __future__ import annotations

from typing import Any

import torch

from sglab.kernels import devices
from sglab.kernels.decode_attention.contract import DecodeArguments
from sglab.kernels.decode_attention.stage1_grouped import decode_grouped_stage1_kernel
from sglab.kernels.decode_attention.stage1_mha import decode_stage1_kernel
from sglab.kernels.decode_attention.stage2 import decode_stage2_kernel
from sglab.kernels.decode_attention.tiles import grouped_tile
from sglab.kernels.fp8 import number_and_tensor
from sglab.kernels.scoring_triton import dim_blocks
from sglab.planning.arith import ceil_div, next_power_of_two
from sglab.planning.num_kv_splits import MIN_BLOCK_KV
from sglab.triton import LaunchRecord


def _scoring(arguments: DecodeArguments) -> dict[str, Any]:
    return {
        "MIN_BLOCK_KV": MIN_BLOCK_KV,
        "LOGIT_CAP": arguments.scoring.logit_cap,
        "TEMPERATURE_LEN": max(arguments.scoring.xai_temperature_len, 0),
    }


def _stage1_tensors(arguments: DecodeArguments) -> tuple[Any, ...]:
    q, k, v = arguments.q, arguments.k_buffer, arguments.v_buffer
    logits, lse = arguments.attn_logits, arguments.attn_lse
    k_scale, k_scales = number_and_tensor(arguments.k_scale)
    return (
        *(q, k, v, arguments.scoring.sm_scale * k_scale, arguments.kv_indptr, arguments.kv_indices),
        *(logits, lse, arguments.num_kv_splits, k_scales),
        *(q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1)),
        *(logits.stride(0), logits.stride(1), logits.stride(2), lse.stride(0), lse.stride(1)),
    )


def _stage1_mha(arguments: DecodeArguments) -> LaunchRecord:
    batch, heads, qk_dim = arguments.q.shape
    v_dim = arguments.v_buffer.shape[-1]
    widest = next_power_of_two(max(qk_dim, v_dim))
    return decode_stage1_kernel[(batch, heads, arguments.max_kv_splits)](
        *_stage1_tensors(arguments),
        QK_DIM=qk_dim,
        QK_BLOCK=next_power_of_two(qk_dim),
        V_DIM=v_dim,
        V_BLOCK=next_power_of_two(v_dim),
        BLOCK_N=max(1, min(64, 8192 // widest)),
        **_scoring(arguments),
        num_warps=4,
    )


def _stage1_grouped(arguments: DecodeArguments) -> LaunchRecord:
    batch, _, qk_dim = arguments.q.shape
    kv_heads, v_dim, group = arguments.k_buffer.shape[1], arguments.v_buffer.shape[-1], arguments.group
    block, rest = dim_blocks(qk_dim)
    tile = grouped_tile(group, qk_dim, arguments.q.element_size(), devices.capability(arguments.device)[0])
    return decode_grouped_stage1_kernel[(batch, kv_heads * ceil_div(group, tile.heads), arguments.max_kv_splits)](
        *_stage1_tensors(arguments),
        GROUP=group,
        QK_DIM=qk_dim,
        QK_BLOCK=block,
        QK_REST=rest,
        V_DIM=v_dim,
        V_BLOCK=max(16, next_power_of_two(v_dim)),
        V_IS_K=arguments.v_is_k and v_dim == block,
        BLOCK_H=tile.heads,
        BLOCK_N=tile.keys,
        **_scoring(arguments),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )


def _stage2(arguments: DecodeArguments) -> LaunchRecord:
    batch, heads, v_dim = arguments.o.shape
    logits, lse, o = arguments.attn_logits, arguments.attn_lse, arguments.o
    v_scale, v_scales = number_and_tensor(arguments.v_scale)
    return decode_stage2_kernel[(batch, heads)](
        *(logits, lse, o, arguments.lse, arguments.kv_indptr, arguments.num_kv_splits, arguments.scoring.sinks),
        *(v_scales, v_scale),
        *(logits.stride(0), logits.stride(1), logits.stride(2), lse.stride(0), lse.stride(1)),
        *(o.stride(0), o.stride(1), heads),
        GROUP=arguments.group,
        V_DIM=v_dim,
        V_BLOCK=next_power_of_two(v_dim),
        MIN_BLOCK_KV=MIN_BLOCK_KV,
        num_warps=1 if v_dim <= 128 else 4,
    )


def run(arguments: DecodeArguments) -> tuple[LaunchRecord, ...]:
    """Stage 1 on the tensor cores, but on the CUDA cores for MHA in float32; then stage 2.

    MHA leaves 15 of a tile's 16 rows empty, and yet its loads, which run ahead of the products, make it up to twice as
    fast (H100, bfloat16: 32 requests of 4,096 tokens, 32 heads of 128 dims 726 for 1,232 µs; heads of 64: 222 for 233).
    """
    exact = arguments.q.dtype == torch.float32
    stage1 = _stage1_mha(arguments) if arguments.group == 1 and exact else _stage1_grouped(arguments)
    return stage1, _stage2(arguments)
