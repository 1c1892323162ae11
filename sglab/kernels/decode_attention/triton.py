# mypy: disable-error-code="no-untyped-def"
"""Two-stage decode attention (flash-decoding): splits of a request's keys in parallel, then a merge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from sglab.gpu.triton import LaunchRecord, triton_kernel
from sglab.kernels import machine
from sglab.kernels.decode_attention.contract import DecodeArguments
from sglab.kernels.scoring_triton import (
    LN_2,
    LOG2_E,
    base2_logits,
    dim_blocks,
    split_range,
    xai_temperature,
)
from sglab.planning.num_kv_splits import MIN_BLOCK_KV


@triton_kernel
def decode_stage1_kernel(
    Q,
    K_Buffer,
    V_Buffer,
    sm_scale,
    kv_indptr,
    kv_indices,
    Att_Out,
    Att_Lse,
    num_kv_splits,
    stride_qbs,
    stride_qh,
    stride_buf_kbs,
    stride_buf_kh,
    stride_buf_vbs,
    stride_buf_vh,
    stride_mid_ob,
    stride_mid_oh,
    stride_mid_os,
    stride_lse_b,
    stride_lse_h,
    QK_DIM: tl.constexpr,
    QK_BLOCK: tl.constexpr,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MIN_BLOCK_KV: tl.constexpr,
    LOGIT_CAP: tl.constexpr,
    TEMPERATURE_LEN: tl.constexpr,
):
    """One query head per KV head (MHA): a dot product per key, on the CUDA cores."""
    request, head, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    indices = kv_indices + tl.load(kv_indptr + request)
    length = tl.load(kv_indptr + request + 1) - tl.load(kv_indptr + request)
    first, end = split_range(length, tl.load(num_kv_splits + request), split, MIN_BLOCK_KV)
    if first >= end:
        return
    qk_column, v_column = tl.arange(0, QK_BLOCK), tl.arange(0, V_BLOCK)
    q = tl.load(Q + request * stride_qbs + head * stride_qh + qk_column, mask=qk_column < QK_DIM, other=0.0)
    q = q.to(tl.float32)
    temperature = 1.0
    if TEMPERATURE_LEN > 0:
        temperature = xai_temperature(length - 1, TEMPERATURE_LEN)

    top = float("-inf")
    total = 0.0
    accumulator = tl.zeros([V_BLOCK], tl.float32)
    for start in range(first, end, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        inside = token < end
        slot = tl.load(indices + token, mask=inside, other=0).to(tl.int64)
        k_ptr = K_Buffer + slot[:, None] * stride_buf_kbs + head * stride_buf_kh + qk_column[None, :]
        k = tl.load(k_ptr, mask=inside[:, None] & (qk_column < QK_DIM)[None, :], other=0.0)
        qk = tl.sum(q[None, :] * k.to(tl.float32), axis=1)
        qk = base2_logits(qk, sm_scale, temperature, LOGIT_CAP, TEMPERATURE_LEN > 0)
        qk = tl.where(inside, qk, float("-inf"))
        v_ptr = V_Buffer + slot[:, None] * stride_buf_vbs + head * stride_buf_vh + v_column[None, :]
        v = tl.load(v_ptr, mask=inside[:, None] & (v_column < V_DIM)[None, :], other=0.0)
        new_top = tl.maximum(top, tl.max(qk, axis=0))
        rescale = tl.exp2(top - new_top)
        weight = tl.exp2(qk - new_top)
        accumulator = accumulator * rescale + tl.sum(weight[:, None] * v.to(tl.float32), axis=0)
        total = total * rescale + tl.sum(weight, axis=0)
        top = new_top

    partial = Att_Out + request * stride_mid_ob + head * stride_mid_oh + split * stride_mid_os + v_column
    tl.store(partial, accumulator / total, mask=v_column < V_DIM)
    tl.store(Att_Lse + request * stride_lse_b + head * stride_lse_h + split, (top + tl.log2(total)) * LN_2)


@triton_kernel
def decode_grouped_stage1_kernel(
    Q,
    K_Buffer,
    V_Buffer,
    sm_scale,
    kv_indptr,
    kv_indices,
    Att_Out,
    Att_Lse,
    num_kv_splits,
    stride_qbs,
    stride_qh,
    stride_buf_kbs,
    stride_buf_kh,
    stride_buf_vbs,
    stride_buf_vh,
    stride_mid_ob,
    stride_mid_oh,
    stride_mid_os,
    stride_lse_b,
    stride_lse_h,
    GROUP: tl.constexpr,
    QK_DIM: tl.constexpr,
    QK_BLOCK: tl.constexpr,
    QK_REST: tl.constexpr,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    V_IS_K: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MIN_BLOCK_KV: tl.constexpr,
    LOGIT_CAP: tl.constexpr,
    TEMPERATURE_LEN: tl.constexpr,
):
    """Several query heads share a KV head (GQA, MQA, MLA): a block of heads is the M of two matrix products."""
    request, head_block, split = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    indices = kv_indices + tl.load(kv_indptr + request)
    length = tl.load(kv_indptr + request + 1) - tl.load(kv_indptr + request)
    first, end = split_range(length, tl.load(num_kv_splits + request), split, MIN_BLOCK_KV)
    if first >= end:
        return
    BLOCKS_PER_GROUP: tl.constexpr = (GROUP + BLOCK_H - 1) // BLOCK_H
    kv_head = head_block // BLOCKS_PER_GROUP
    in_group = head_block % BLOCKS_PER_GROUP * BLOCK_H + tl.arange(0, BLOCK_H)
    head = kv_head * GROUP + in_group
    real_head = in_group < GROUP

    column, v_column = tl.arange(0, QK_BLOCK), tl.arange(0, V_BLOCK)
    real_column = column < QK_DIM
    q_ptr = Q + request * stride_qbs + head[:, None] * stride_qh
    q = tl.load(q_ptr + column[None, :], mask=real_head[:, None] & real_column[None, :], other=0.0)
    if QK_REST > 0:
        rest = QK_BLOCK + tl.arange(0, QK_REST)
        q_rest = tl.load(q_ptr + rest[None, :], mask=real_head[:, None], other=0.0)
    temperature = 1.0
    if TEMPERATURE_LEN > 0:
        temperature = xai_temperature(length - 1, TEMPERATURE_LEN)

    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    accumulator = tl.zeros([BLOCK_H, V_BLOCK], tl.float32)
    for start in range(first, end, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        inside = token < end
        slot = tl.load(indices + token, mask=inside, other=0).to(tl.int64)
        k_ptr = K_Buffer + slot[:, None] * stride_buf_kbs + kv_head * stride_buf_kh
        k = tl.load(k_ptr + column[None, :], mask=inside[:, None] & real_column[None, :], other=0.0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        if QK_REST > 0:
            k_rest = tl.load(k_ptr + rest[None, :], mask=inside[:, None], other=0.0)
            qk = tl.dot(q_rest, tl.trans(k_rest), qk, input_precision="ieee")
        qk = base2_logits(qk, sm_scale, temperature, LOGIT_CAP, TEMPERATURE_LEN > 0)
        qk = tl.where(inside[None, :], qk, float("-inf"))
        if V_IS_K:
            v = k
        else:
            v_ptr = V_Buffer + slot[:, None] * stride_buf_vbs + kv_head * stride_buf_vh + v_column[None, :]
            v = tl.load(v_ptr, mask=inside[:, None] & (v_column < V_DIM)[None, :], other=0.0)
        new_top = tl.maximum(top, tl.max(qk, axis=1))
        rescale = tl.exp2(top - new_top)
        weight = tl.exp2(qk - new_top[:, None])
        accumulator = tl.dot(weight.to(v.dtype), v, accumulator * rescale[:, None], input_precision="ieee")
        total = total * rescale + tl.sum(weight, axis=1)
        top = new_top

    partial = Att_Out + request * stride_mid_ob + head[:, None] * stride_mid_oh + split * stride_mid_os
    stored = real_head[:, None] & (v_column < V_DIM)[None, :]
    tl.store(partial + v_column[None, :], accumulator / total[:, None], mask=stored)
    lse = Att_Lse + request * stride_lse_b + head * stride_lse_h + split
    tl.store(lse, (top + tl.log2(total)) * LN_2, mask=real_head)


@triton_kernel
def decode_stage2_kernel(
    Att_Out,
    Att_Lse,
    Out,
    Lse,
    kv_indptr,
    num_kv_splits,
    sinks,
    stride_mid_ob,
    stride_mid_oh,
    stride_mid_os,
    stride_lse_b,
    stride_lse_h,
    stride_obs,
    stride_oh,
    num_heads,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    MIN_BLOCK_KV: tl.constexpr,
):
    """Merge a head's partials: their weights are exp(lse), the sink adds to the sum alone."""
    request, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    length = tl.load(kv_indptr + request + 1) - tl.load(kv_indptr + request)
    splits = tl.load(num_kv_splits + request)
    column = tl.arange(0, V_BLOCK)
    partial = Att_Out + request * stride_mid_ob + head * stride_mid_oh + column
    partial_lse = Att_Lse + request * stride_lse_b + head * stride_lse_h

    top = float("-inf")
    total = 0.0
    accumulator = tl.zeros([V_BLOCK], tl.float32)
    _, per_split = split_range(length, splits, 0, MIN_BLOCK_KV)
    for split in range(tl.cdiv(length, tl.maximum(per_split, 1))):
        lse = tl.load(partial_lse + split) * LOG2_E
        o = tl.load(partial + split * stride_mid_os, mask=column < V_DIM, other=0.0)
        new_top = tl.maximum(top, lse)
        rescale, weight = tl.exp2(top - new_top), tl.exp2(lse - new_top)
        accumulator = accumulator * rescale + weight * o
        total = total * rescale + weight
        top = new_top

    if Lse is not None:
        tl.store(Lse + request * num_heads + head, (top + tl.log2(total)) * LN_2)
    if sinks is not None:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        new_top = tl.maximum(top, sink)
        rescale = tl.exp2(top - new_top)
        accumulator = accumulator * rescale
        total = total * rescale + tl.exp2(sink - new_top)
    # A request without keys: nothing was accumulated, so O = 0 whatever divides it.
    o = accumulator / tl.where(total == 0, 1.0, total)
    o_ptr = Out + request * stride_obs + head * stride_oh + column
    tl.store(o_ptr, o.to(Out.dtype.element_ty), mask=column < V_DIM)


@dataclass(frozen=True)
class Tile:
    """How a program of stage 1 cuts its work: query heads × keys per step, warps, stages of the load pipeline."""

    heads: int
    keys: int
    num_warps: int
    num_stages: int


def grouped_tile(group: int, qk_dim: int, element_size: int, major: int) -> Tile:
    """Tile of the grouped stage 1, for `group` query heads per KV head on compute capability `major`.x.

    A block of heads reads the keys once, so many heads per block save L2 traffic; their accumulator (heads × v_dim
    float32) must fit the registers, their queries and the keys in flight the shared memory. One load stage goes to the
    slot numbers, so double-buffered keys need more stages than usual. Chosen so that ptxas reports next to no spills.
    """
    wide = qk_dim > 256
    if element_size == 4:
        return Tile(heads=16, keys=16, num_warps=8, num_stages=1) if wide else Tile(16, 32, 4, 1)
    if group <= 16:
        return Tile(heads=16, keys=64, num_warps=8 if wide else 4, num_stages=4)
    if wide and group >= 64 and major == 9:
        return Tile(heads=64, keys=64, num_warps=8, num_stages=3)  # wgmma, which needs 64 rows
    return Tile(heads=32, keys=64, num_warps=8 if wide else 4, num_stages=3)


def _scoring(arguments: DecodeArguments) -> dict[str, Any]:
    return {
        "MIN_BLOCK_KV": MIN_BLOCK_KV,
        "LOGIT_CAP": arguments.scoring.logit_cap,
        "TEMPERATURE_LEN": max(arguments.scoring.xai_temperature_len, 0),
    }


def _stage1_tensors(arguments: DecodeArguments) -> tuple[Any, ...]:
    q, k, v = arguments.q, arguments.k_buffer, arguments.v_buffer
    logits, lse = arguments.attn_logits, arguments.attn_lse
    return (
        *(q, k, v, arguments.scoring.sm_scale, arguments.kv_indptr, arguments.kv_indices),
        *(logits, lse, arguments.num_kv_splits),
        *(q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1)),
        *(logits.stride(0), logits.stride(1), logits.stride(2), lse.stride(0), lse.stride(1)),
    )


def _stage1_mha(arguments: DecodeArguments) -> LaunchRecord:
    batch, heads, qk_dim = arguments.q.shape
    v_dim = arguments.v_buffer.shape[-1]
    widest = triton.next_power_of_2(max(qk_dim, v_dim))
    return decode_stage1_kernel[(batch, heads, arguments.max_kv_splits)](
        *_stage1_tensors(arguments),
        QK_DIM=qk_dim,
        QK_BLOCK=triton.next_power_of_2(qk_dim),
        V_DIM=v_dim,
        V_BLOCK=triton.next_power_of_2(v_dim),
        BLOCK_N=max(1, min(64, 8192 // widest)),
        **_scoring(arguments),
        num_warps=4,
    )


def _stage1_grouped(arguments: DecodeArguments) -> LaunchRecord:
    batch, _, qk_dim = arguments.q.shape
    kv_heads, v_dim, group = arguments.k_buffer.shape[1], arguments.v_buffer.shape[-1], arguments.group
    block, rest = dim_blocks(qk_dim)
    tile = grouped_tile(group, qk_dim, arguments.q.element_size(), machine.capability(arguments.device)[0])
    return decode_grouped_stage1_kernel[(batch, kv_heads * triton.cdiv(group, tile.heads), arguments.max_kv_splits)](
        *_stage1_tensors(arguments),
        GROUP=group,
        QK_DIM=qk_dim,
        QK_BLOCK=block,
        QK_REST=rest,
        V_DIM=v_dim,
        V_BLOCK=max(16, triton.next_power_of_2(v_dim)),
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
    return decode_stage2_kernel[(batch, heads)](
        *(logits, lse, o, arguments.lse, arguments.kv_indptr, arguments.num_kv_splits, arguments.scoring.sinks),
        *(logits.stride(0), logits.stride(1), logits.stride(2), lse.stride(0), lse.stride(1)),
        *(o.stride(0), o.stride(1), heads),
        V_DIM=v_dim,
        V_BLOCK=triton.next_power_of_2(v_dim),
        MIN_BLOCK_KV=MIN_BLOCK_KV,
        num_warps=1 if v_dim <= 128 else 4,
    )


def run(arguments: DecodeArguments) -> tuple[LaunchRecord, ...]:
    """Stage 1, on the CUDA cores for MHA and on the tensor cores for grouped heads, then stage 2."""
    stage1 = _stage1_mha(arguments) if arguments.group == 1 else _stage1_grouped(arguments)
    return stage1, _stage2(arguments)
