"""A Triton flash attention forward: the kernel that the emulator and Triton's interpreter are compared on."""

from __future__ import annotations

from typing import Any

import torch
import triton.language as tl

from sglab.triton import triton_kernel

BLOCK_M, BLOCK_N = 128, 64


@triton_kernel
def _flash_attention(q_ptr, k_ptr, v_ptr, o_ptr, scale, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    head = tl.program_id(1).to(tl.int64) * S * D
    keys, dims = tl.arange(0, BN), tl.arange(0, D)
    q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :], mask=rows[:, None] < S, other=0.0)
    largest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for start in range(0, S, BN):
        there = start + keys < S
        k = tl.load(k_ptr + head + (start + keys)[None, :] * D + dims[:, None], mask=there[None, :], other=0.0)
        scores = tl.where(there[None, :], tl.dot(q, k) * (scale * 1.4426950408889634), -float("inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - larger[:, None])
        rescale = tl.exp2(largest - larger)
        total = total * rescale + tl.sum(p, 1)
        v = tl.load(v_ptr + head + (start + keys)[:, None] * D + dims[None, :], mask=there[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * rescale[:, None])
        largest = larger
    out = (acc / total[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + head + rows[:, None] * D + dims[None, :], out, mask=rows[:, None] < S)


def flash_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **where: Any) -> torch.Tensor:
    """softmax(q kᵀ / sqrt(D)) v for q, k, v of [heads, S, D], contiguous, f16 or bf16.

    where: route= and device= of `triton_kernel`
    """
    heads, S, D = q.shape
    o = torch.empty_like(q)
    grid = (-(-S // BLOCK_M), heads)
    _flash_attention[grid](q, k, v, o, D**-0.5, S, BM=BLOCK_M, BN=BLOCK_N, D=D, num_warps=4, num_stages=3, **where)
    return o
