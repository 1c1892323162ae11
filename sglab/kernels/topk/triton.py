# mypy: disable-error-code="no-untyped-def"
"""Top-k by radix select: a program per row finds the k-th best score in four passes of 8 bits, then gathers."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.topk.contract import LookupArguments, TopkArguments
from sglab.triton import LaunchRecord, triton_kernel

_STEP = 1024


@triton_kernel
def _ordered(score_ptr, column, length):
    """Scores as unsigned numbers that order as they do; 0 outside, which no score maps to but a NaN."""
    score = tl.load(score_ptr + column, mask=column < length, other=0.0)
    bits = tl.where(score == 0, 0.0, score).to(tl.int32, bitcast=True)  # −0 equals 0
    flipped = tl.where(bits < 0, ~bits, bits ^ -2147483648)
    return tl.where(column < length, flipped, 0).to(tl.uint32, bitcast=True)


@triton_kernel
def topk_kernel(
    score_ptr,
    lengths_ptr,
    starts_ptr,
    table_ptr,
    request_ptr,
    offsets_ptr,
    out_ptr,
    stride_score,
    stride_table,
    stride_out,
    K: tl.constexpr,
    STEP: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths_ptr + row)
    score = score_ptr + row * stride_score
    if starts_ptr is not None:
        score += tl.load(starts_ptr + row)
    out = out_ptr + row * stride_out
    lane = tl.arange(0, STEP)

    # The k-th best as a number, 8 bits at a time: `wanted` of those that begin with `prefix` are still to be found.
    prefix = tl.zeros([1], tl.uint32)
    wanted = tl.zeros([1], tl.int32) + K
    if length > K:
        digit = tl.arange(0, 256)
        for shift in tl.static_range(24, -1, -8):
            counts = tl.zeros([256], tl.int32)
            for start in range(0, length, STEP):
                column = start + lane
                key = _ordered(score, column, length)
                matches = column < length
                if shift < 24:
                    matches = matches & ((key >> (shift + 8)) == (prefix >> (shift + 8)))
                counts += tl.histogram(((key >> shift) & 255).to(tl.int32), 256, mask=matches)
            at_least = tl.sum(counts, axis=0) - tl.cumsum(counts, axis=0) + counts
            chosen = tl.max(tl.where(at_least >= wanted, digit, 0), axis=0)
            wanted -= tl.sum(tl.where(digit > chosen, counts, 0), axis=0)
            prefix |= chosen.to(tl.uint32) << shift
    taken = tl.zeros([1], tl.int32)
    ties = tl.zeros([1], tl.int32)
    for start in range(0, length, STEP):
        column = start + lane
        key = _ordered(score, column, length)
        same = (key == prefix) & (column < length)
        tie = ties + tl.cumsum(same.to(tl.int32), axis=0)
        take = ((key > prefix) | (same & (tie <= wanted))) & (column < length)
        place = taken + tl.cumsum(take.to(tl.int32), axis=0) - 1
        result = column
        if table_ptr is not None:
            request = row
            if request_ptr is not None:
                request = tl.load(request_ptr + row).to(tl.int64)
            result = tl.load(table_ptr + request * stride_table + column, mask=take, other=0)
        if offsets_ptr is not None:
            result += tl.load(offsets_ptr + row)
        tl.store(out + place, result, mask=take)
        taken += tl.sum(take.to(tl.int32), axis=0)
        ties += tl.sum(same.to(tl.int32), axis=0)
    for start in range(0, K, STEP):
        column = start + lane
        tl.store(out + column, -1, mask=(column >= length) & (column < K))


@triton_kernel
def lookup_kernel(
    table_ptr, index_ptr, request_ptr, out_ptr, stride_table, stride_index, stride_out, topk, STEP: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * STEP + tl.arange(0, STEP)
    request = row
    if request_ptr is not None:
        request = tl.load(request_ptr + row).to(tl.int64)
    index = tl.load(index_ptr + row * stride_index + column, mask=column < topk, other=-1)
    found = tl.load(table_ptr + request * stride_table + index, mask=index >= 0, other=-1)
    tl.store(out_ptr + row * stride_out + column, found, mask=column < topk)


def topk(a: TopkArguments) -> tuple[LaunchRecord, ...]:
    rows, k = a.out.shape
    if not rows:
        return ()
    record = topk_kernel[(rows,)](
        *(a.score, a.lengths, a.starts, a.table, a.request_of, a.offsets, a.out),
        *(a.score.stride(0), 0 if a.table is None else a.table.stride(0), a.out.stride(0)),
        K=k,
        STEP=_STEP,
        num_warps=4,
    )
    return (record,)


def lookup(a: LookupArguments) -> tuple[LaunchRecord, ...]:
    rows, k = a.indices.shape
    if not rows * k:
        return ()
    record = lookup_kernel[(rows, triton.cdiv(k, _STEP))](
        *(a.table, a.indices, a.request_of, a.out, a.table.stride(0), a.indices.stride(0), a.out.stride(0), k),
        STEP=_STEP,
        num_warps=4,
    )
    return (record,)
