# mypy: disable-error-code="no-untyped-def"
"""gptq_marlin_gemm: a program takes a block of tokens and columns, and finds each integer in Marlin's words.

Integers less their zero points are exact in 16 bits; a block of input features lies in one group, whose scales
multiply the partial sums in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.marlin.contract import LEAST_GROUP, MarlinArguments
from sglab.triton import LaunchRecord, triton_kernel

_COLUMNS = 64


@triton_kernel
def _place(own, BITS: tl.constexpr):
    """Bit at which value `own` of a word lies: even ones first, odd ones half a word later."""
    return (own // 2 + (own % 2) * (16 // BITS)) * BITS


@triton_kernel
def marlin_gemm_kernel(
    a_ptr,
    words_ptr,
    scales_ptr,
    zeros_ptr,
    out_ptr,
    tokens,
    size_k,
    size_n,
    group,
    groups,
    stride_a,
    stride_words,
    BITS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    PER_WORD: tl.constexpr = 32 // BITS
    MASK: tl.constexpr = (1 << BITS) - 1
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    real = row < tokens
    inside = column % 16
    thread_of_column = inside % 8 * 4
    half = inside // 8
    tile = column % 64 // 16
    grouped = column // 64 * 64 + column % 8 * 8 + column % 64 // 8
    alone = column // 32 * 32 + column % 8 // 2 * 8 + column % 32 // 8 * 2 + column % 2
    scale_at = tl.where(groups > 1, grouped, alone)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, size_k, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        known = k < size_k
        x = tl.load(
            a_ptr + row[:, None].to(tl.int64) * stride_a + k[None, :], mask=real[:, None] & known[None, :], other=0.0
        )
        thread = thread_of_column[None, :] + (k % 8 // 2)[:, None]
        own = half[None, :] * 4 + (k % 2 + k % 16 // 8 * 2)[:, None]
        word = (column // 64)[None, :] * (1024 // PER_WORD) + (thread * 32 + tile[None, :] * 8 + own) // PER_WORD
        packed = tl.load(
            words_ptr + (k // 16)[:, None].to(tl.int64) * stride_words + word, mask=known[:, None], other=0
        )
        value = (packed >> _place(own % PER_WORD, BITS)) & MASK
        at = start // group
        if zeros_ptr is None:
            value = value - (1 << (BITS - 1))
        else:
            zero = tl.load(zeros_ptr + (at * size_n + grouped) // PER_WORD)
            value = value - ((zero >> _place(grouped % PER_WORD, BITS)) & MASK)[None, :]
        part = tl.dot(x, value.to(x.dtype), input_precision="ieee")
        scale = tl.load(scales_ptr + at * size_n + scale_at).to(tl.float32)
        total += part * scale[None, :]
    to = out_ptr + row[:, None].to(tl.int64) * size_n + column[None, :]
    tl.store(to, total.to(out_ptr.dtype.element_ty), mask=real[:, None])


def run(a: MarlinArguments) -> tuple[LaunchRecord, ...]:
    tokens, features = a.a.shape
    columns = a.out.shape[1]
    if not tokens:
        return ()
    block = 16 if tokens <= 16 else 64
    record = marlin_gemm_kernel[(triton.cdiv(tokens, block), columns // _COLUMNS)](
        *(a.a, a.words, a.scales, a.zeros, a.out, tokens, features, columns, a.group, len(a.scales)),
        *(a.a.stride(0), a.words.stride(0)),
        BITS=a.bits,
        BLOCK_M=block,
        BLOCK_N=_COLUMNS,
        BLOCK_K=LEAST_GROUP,
        num_warps=4,
    )
    return (record,)
