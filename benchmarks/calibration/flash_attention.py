"""Flash attention in Triton: fp16, no mask."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def flash_attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """q, k, v, o (heads, length, D) contiguous; length a multiple of BM and BN. Grid (length / BM, heads)."""
    base = tl.program_id(1).to(tl.int64) * length * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    column, key = tl.arange(0, D), tl.arange(0, BN)
    q = tl.load(q_ptr + base + rows[:, None] * D + column[None, :])
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    accumulator = tl.zeros([BM, D], tl.float32)
    for start in range(0, length, BN):
        k = tl.load(k_ptr + base + (start + key)[None, :] * D + column[:, None])
        logits = tl.dot(q, k) * (scale * 1.4426950408889634)
        new_top = tl.maximum(top, tl.max(logits, 1))
        weights = tl.exp2(logits - new_top[:, None])
        rescale = tl.exp2(top - new_top)
        total = total * rescale + tl.sum(weights, 1)
        v = tl.load(v_ptr + base + (start + key)[:, None] * D + column[None, :])
        accumulator = tl.dot(weights.to(v.dtype), v, accumulator * rescale[:, None])
        top = new_top
    out = accumulator / total[:, None]
    tl.store(o_ptr + base + rows[:, None] * D + column[None, :], out.to(o_ptr.dtype.element_ty))
