# mypy: disable-error-code="no-untyped-def"
"""Vertical lines and slashes as blocks and columns: one program per row of query blocks, scalar by scalar.

The steps are `reference.one_row`'s; a Triton loop has one exit, so a range that is complete is stored at a turn's end.
"""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.vertical_slash.contract import VerticalSlashArguments
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def convert_vertical_slash_indexes_triton(
    q_seqlens,
    kv_seqlens,
    vertical_indexes,
    slash_indexes,
    vertical_counts,
    slash_counts,
    block_count,
    block_offset,
    column_count,
    column_index,
    heads,
    nnz_v,
    nnz_s,
    rows,
    M: tl.constexpr,
    N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    row = tl.program_id(0)
    request = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    queries = tl.load(q_seqlens + request)
    keys = tl.load(kv_seqlens + request)
    verticals = vertical_indexes + tl.program_id(1).to(tl.int64) * nnz_v
    slashes = slash_indexes + tl.program_id(1).to(tl.int64) * nnz_s
    at = tl.program_id(1).to(tl.int64) * rows + row
    num_v = nnz_v
    num_s = nnz_s
    if vertical_counts is not None:
        num_v = tl.load(vertical_counts + head)
        num_s = tl.load(slash_counts + head)

    end = (row + 1) * M
    past = end + keys
    beyond = keys
    if CAUSAL:
        past = past - queries
        beyond = past
    running = row * M < queries
    s = 0
    distance = tl.load(slashes)
    while (distance >= past) & (s < num_s - 1):
        s += 1
        distance = tl.load(slashes + s)
    s += 1
    range_end = tl.maximum(past - distance, M)
    range_start = range_end - M
    if distance > past:
        range_start = beyond
        range_end = beyond + N
    v = 1
    vertical = tl.load(verticals)
    finished = False
    blocks = 0
    columns = 0
    while running:
        first = 0
        last = 0  # of a range that is complete; nothing as long as they are equal
        if vertical < range_end:
            if vertical < range_start:
                tl.store(column_index + at * nnz_v + columns, vertical)
                columns += 1
            vertical = past + N
            if v < num_v:
                vertical = tl.load(verticals + v)
                v += 1
        else:
            more = s < num_s
            reach = 0
            if more:
                slash = tl.load(slashes + s)
                more = CAUSAL | (slash >= row * M)
                reach = tl.maximum(past - slash, M)
            if more:
                s += 1
                if finished == 0:
                    if reach > range_end + M:
                        first = range_start
                        last = range_end
                        range_start = reach - M
                        range_end = reach
                    elif reach > range_end:
                        range_end += M
            elif (v == num_v) | finished | ((vertical > range_start) & CAUSAL):
                if (v == num_v) & (CAUSAL == 0) & (vertical < keys):
                    tl.store(column_index + at * nnz_v + columns, vertical)
                    columns += 1
                first = range_start
                last = range_end
                running = False
            else:
                if CAUSAL == 0:
                    first = range_start
                    last = range_end
                range_start = beyond
                range_end = beyond + N
                finished = True
        last = tl.minimum(last, keys)
        while first < last:
            tl.store(block_offset + at * nnz_s + blocks, first)
            blocks += 1
            first += N
    tl.store(block_count + at, blocks)
    tl.store(column_count + at, columns)


def run(a: VerticalSlashArguments) -> tuple[LaunchRecord, ...]:
    batch, heads, rows = a.block_count.shape
    if not a.block_count.numel():
        return ()
    vertical_counts, slash_counts = a.vertical_counts, a.slash_counts
    record = convert_vertical_slash_indexes_triton[(rows, batch * heads)](
        a.q_seqlens.contiguous(),
        a.kv_seqlens.contiguous(),
        a.vertical_indexes.contiguous(),
        a.slash_indexes.contiguous(),
        None if vertical_counts is None else vertical_counts.contiguous(),
        None if slash_counts is None else slash_counts.contiguous(),
        a.block_count,
        a.block_offset,
        a.column_count,
        a.column_index,
        heads,
        a.vertical_indexes.shape[2],
        a.slash_indexes.shape[2],
        rows,
        M=a.rows_of,
        N=a.keys_of,
        CAUSAL=a.causal,
        num_warps=1,
    )
    return (record,)
