# mypy: disable-error-code="no-untyped-def"
"""Stage 1 for several query heads per KV head (GQA, MQA, MLA)."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.scoring_triton import LN_2, base2_logits, split_range, xai_temperature
from sglab.triton import triton_kernel


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
    k_scales,
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
    if k_scales is not None:
        sm_scale *= tl.load(k_scales + kv_head)
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
        k = tl.load(k_ptr + column[None, :], mask=inside[:, None] & real_column[None, :], other=0.0).to(q.dtype)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        if QK_REST > 0:
            k_rest = tl.load(k_ptr + rest[None, :], mask=inside[:, None], other=0.0).to(q.dtype)
            qk = tl.dot(q_rest, tl.trans(k_rest), qk, input_precision="ieee")
        qk = base2_logits(qk, sm_scale, temperature, LOGIT_CAP, TEMPERATURE_LEN > 0)
        qk = tl.where(inside[None, :], qk, float("-inf"))
        if V_IS_K:
            v = k
        else:
            v_ptr = V_Buffer + slot[:, None] * stride_buf_vbs + kv_head * stride_buf_vh + v_column[None, :]
            v = tl.load(v_ptr, mask=inside[:, None] & (v_column < V_DIM)[None, :], other=0.0).to(q.dtype)
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
