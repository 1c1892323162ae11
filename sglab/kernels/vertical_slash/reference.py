"""Vertical lines and slashes as blocks and columns, one row of query blocks at a time, in plain Python.

A slash is a distance between key and query: for queries [start, start + M) distance s means keys
[end − s − M, end − s), shifted by what precedes the queries. Ranges that touch grow into one; vertical lines that no
range covers become columns. Source: MInference's kernel as vLLM and sgl-kernel have it (`vertical_slash_index.cu`).
Without a causal mask that kernel never ends where a vertical line lies a block or more past the keys; here it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.kernels.vertical_slash.contract import VerticalSlashArguments


def run(a: VerticalSlashArguments) -> tuple[()]:
    batch, heads, rows = a.block_count.shape
    for request in range(batch):
        queries, keys = int(a.q_seqlens[request]), int(a.kv_seqlens[request])
        for head in range(heads):
            verticals = a.vertical_indexes[request, head].tolist()
            slashes = a.slash_indexes[request, head].tolist()
            if a.vertical_counts is not None and a.slash_counts is not None:
                verticals = verticals[: int(a.vertical_counts[head])]
                slashes = slashes[: int(a.slash_counts[head])]
            for row in range(min(rows, -(-queries // a.rows_of))):
                sizes = (a.rows_of, a.keys_of, a.causal)
                blocks, columns = one_row(row, queries, keys, verticals, slashes, *sizes)
                at = (request, head, row)
                a.block_count[at], a.column_count[at] = len(blocks), len(columns)
                a.block_offset[at][: len(blocks)] = torch.tensor(blocks, dtype=torch.int32)
                a.column_index[at][: len(columns)] = torch.tensor(columns, dtype=torch.int32)
    return ()


def one_row(
    row: int, queries: int, keys: int, verticals: Sequence[int], slashes: Sequence[int], M: int, N: int, causal: bool
) -> tuple[list[int], list[int]]:
    """First keys of the blocks, and the columns, of one row of M queries; blocks of N keys."""
    end = (row + 1) * M
    past = end + keys - queries if causal else end + keys  # where distance 0 ends
    beyond = past if causal else keys  # a range that holds nothing
    blocks: list[int] = []
    columns: list[int] = []

    def save(first: int, last: int) -> None:
        blocks.extend(range(first, min(last, keys), N))

    s = next((i for i, distance in enumerate(slashes) if distance < past), len(slashes) - 1)
    distance, s = slashes[s], s + 1
    range_end = max(past - distance, M)
    range_start = range_end - M
    if distance > past:
        range_start, range_end = beyond, beyond + N
    v, vertical, finished = 1, verticals[0], False
    while True:
        if vertical < range_end:
            if vertical < range_start:
                columns.append(vertical)
            vertical = verticals[v] if v < len(verticals) else past + N
            v += v < len(verticals)
            continue
        if s < len(slashes) and (causal or slashes[s] >= row * M):
            reach = max(past - slashes[s], M)
            s += 1
        elif v == len(verticals) or finished or (vertical > range_start and causal):
            if v == len(verticals) and not causal and vertical < keys:
                columns.append(vertical)
            save(range_start, range_end)
            return blocks, columns
        else:
            if not causal:
                save(range_start, range_end)
            range_start, range_end, finished = beyond, beyond + N, True
        if finished:
            continue
        if reach > range_end + M:
            save(range_start, range_end)
            range_start, range_end = reach - M, reach
        elif reach > range_end:
            range_end += M
