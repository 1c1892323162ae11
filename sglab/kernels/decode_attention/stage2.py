# mypy: disable-error-code="no-untyped-def"
"""Stage 2: merging a request's partials."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.scoring_triton import LN_2, LOG2_E, split_range
from sglab.triton import triton_kernel


@triton_kernel
def decode_stage2_kernel(
    Att_Out,
    Att_Lse,
    Out,
    Lse,
    kv_indptr,
    num_kv_splits,
    sinks,
    v_scales,
    v_scale,
    stride_mid_ob,
    stride_mid_oh,
    stride_mid_os,
    stride_lse_b,
    stride_lse_h,
    stride_obs,
    stride_oh,
    num_heads,
    GROUP: tl.constexpr,
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
    # A request without keys: nothing was accumulated, so O = 0 for any divisor.
    if v_scales is not None:
        v_scale = tl.load(v_scales + head // GROUP)
    o = accumulator / tl.where(total == 0, 1.0, total) * v_scale
    o_ptr = Out + request * stride_obs + head * stride_oh + column
    tl.store(o_ptr, o.to(Out.dtype.element_ty), mask=column < V_DIM)
