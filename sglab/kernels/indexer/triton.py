# mypy: disable-error-code="no-untyped-def"
"""The indexer: a program per block of 128 quantises; one per row and 64 keys scores."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.indexer.contract import LogitArguments, QuantArguments
from sglab.triton import LaunchRecord, triton_kernel

_KEYS = 64


@triton_kernel
def act_quant_kernel(
    x_ptr,
    out_ptr,
    scale_ptr,
    blocks,
    stride_row,
    stride_block,
    SIZE: tl.constexpr,
    POWER_OF_TWO: tl.constexpr,
):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, SIZE)
    x = tl.load(x_ptr + row * stride_row + block * stride_block + column).to(tl.float32)
    scale = tl.div_rn(tl.maximum(tl.max(tl.abs(x), axis=0), 1e-4), 448.0)
    if POWER_OF_TWO:
        # The exponent, plus one unless the mantissa is 0: the next power of two.
        bits = scale.to(tl.int32, bitcast=True)
        scale = (((bits + 0x7FFFFF) >> 23) << 23).to(tl.float32, bitcast=True)
    stored = tl.minimum(tl.maximum(tl.div_rn(x, tl.broadcast_to(scale, x.shape)), -448.0), 448.0)
    tl.store(out_ptr + (row * blocks + block) * SIZE + column, stored.to(tl.float8e4nv))
    tl.store(scale_ptr + row * blocks + block, scale)


@triton_kernel
def mqa_logits_kernel(
    q_ptr,
    k_ptr,
    scale_ptr,
    weight_ptr,
    first_ptr,
    end_ptr,
    table_ptr,
    request_ptr,
    logit_ptr,
    heads,
    dim,
    page_size,
    per_request,
    stride_qr,
    stride_qh,
    stride_kp,
    stride_kr,
    stride_sp,
    stride_sr,
    stride_w,
    stride_table,
    stride_logit,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    KEYS: tl.constexpr,
    EXACT: tl.constexpr,
):
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first, end = tl.load(first_ptr + row), tl.load(end_ptr + row)
    if (block * KEYS >= end) | ((block + 1) * KEYS <= first):
        return
    head, column, key = tl.arange(0, HEADS), tl.arange(0, DIM), block * KEYS + tl.arange(0, KEYS)
    inside = (key >= first) & (key < end)
    if table_ptr is not None:
        request = row // per_request
        if request_ptr is not None:
            request = tl.load(request_ptr + row).to(tl.int64)
        page = tl.load(table_ptr + request * stride_table + key // page_size, mask=inside, other=0)
        page, entry = page.to(tl.int64), key % page_size
    else:
        page, entry = tl.zeros([KEYS], tl.int64), key
    real, stored = head < heads, column < dim
    q_at = row * stride_qr + head[:, None] * stride_qh + column[None, :]
    q = tl.load(q_ptr + q_at, mask=real[:, None] & stored[None, :], other=0.0)
    at = page * stride_kp + entry * stride_kr
    k = tl.load(k_ptr + at[:, None] + column[None, :], mask=inside[:, None] & stored[None, :], other=0.0)
    if EXACT:
        score = tl.dot(q, tl.trans(k), input_precision="ieee")
    else:
        # e4m3 values are exact in float16, and so are their products in the float32 sums.
        score = tl.dot(q.to(tl.float16), tl.trans(k.to(tl.float16)))
    weight = tl.load(weight_ptr + row * stride_w + head, mask=real, other=0.0)
    logit = tl.sum(tl.maximum(score, 0.0) * weight[:, None], axis=0)
    if scale_ptr is not None:
        logit *= tl.load(scale_ptr + page * stride_sp + entry * stride_sr, mask=inside, other=0.0)
    tl.store(logit_ptr + row * stride_logit + key, logit, mask=inside)


def quant(a: QuantArguments) -> tuple[LaunchRecord, ...]:
    rows, blocks, size = a.x.shape
    if not rows * blocks:
        return ()
    record = act_quant_kernel[(rows, blocks)](
        *(a.x, a.out, a.scales, blocks, *a.x.stride()[:2]), SIZE=size, POWER_OF_TWO=a.power_of_two, num_warps=1
    )
    return (record,)


def logits(a: LogitArguments) -> tuple[LaunchRecord, ...]:
    rows, heads, dim = a.q.shape
    width = a.logits.shape[1]
    if not rows * width:
        return ()
    table = a.block_table
    record = mqa_logits_kernel[(rows, triton.cdiv(width, _KEYS))](
        *(a.q, a.k, a.scales, a.weights, a.first, a.end, table, a.request_of, a.logits),
        *(heads, dim, a.k.shape[1], a.per_request, *a.q.stride()[:2], *a.k.stride()[:2]),
        *(*((0, 0) if a.scales is None else a.scales.stride()), a.weights.stride(0)),
        *(0 if table is None else table.stride(0), a.logits.stride(0)),
        HEADS=max(16, triton.next_power_of_2(heads)),
        DIM=max(16, triton.next_power_of_2(dim)),
        KEYS=_KEYS,
        EXACT=a.scales is None,
        num_warps=4,
    )
    return (record,)
