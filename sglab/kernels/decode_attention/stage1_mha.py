# mypy: disable-error-code="no-untyped-def"
"""Stage 1 for one query head per KV head (MHA)."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.scoring_triton import LN_2, base2_logits, split_range, xai_temperature
from sglab.triton import triton_kernel


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
    if k_scales is not None:
        sm_scale *= tl.load(k_scales + head)
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
