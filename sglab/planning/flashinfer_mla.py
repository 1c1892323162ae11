"""The plan of FlashInfer's MLA attention (backends fa2 and fa3).

Source: FlashInfer 0.7.2.post1 `include/flashinfer/attention/scheduler.cuh` (`MLAPlan`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.aligned_allocator import AlignedAllocator
from sglab.planning.arith import ceil_div, exclusive_cumsum, index_within_group
from sglab.planning.causal import packed_causal_kv_end
from sglab.planning.check import Int64Array
from sglab.planning.libstdcxx import charge_cheapest

Int32Array = NDArray[np.int32]
CTA_TILE_Q = 64
MAX_TOTAL_NUM_WORKS = 16384
PLAN_INFO_FIELDS = (
    "num_blks_x",
    "num_blks_y",
    "q_indptr_offset",
    "kv_indptr_offset",
    "partial_indptr_offset",
    "merge_packed_offset_start_offset",
    "merge_packed_offset_end_offset",
    "merge_partial_packed_offset_start_offset",
    "merge_partial_packed_offset_end_offset",
    "merge_partial_stride_offset",
    "q_len_offset",
    "kv_len_offset",
    "q_start_offset",
    "kv_start_offset",
    "kv_end_offset",
    "work_indptr_offset",
    "partial_o_offset",
    "partial_lse_offset",
)


@dataclass(frozen=True)
class MLAPlan:
    """Every cluster's list of work units, concatenated: cluster i has units work_indptr[i] … work_indptr[i+1] - 1.

    Per work unit (int32): the request's `q_indptr`, `kv_indptr`, `q_len`, `kv_len`; its first packed row `q_start`; its
    tokens [`kv_start`, `kv_end`); `partial_indptr`, the first row of its partial output, or -1 when it writes the
    result. Merge arrays (sm_count,): CTA i merges packed rows [merge_packed_offset_start, _end), whose partials are
    at [merge_partial_packed_offset_start, _end) in steps of merge_partial_stride.
    """

    num_blks_x: int
    num_blks_y: int
    kv_len_limit: int
    num_merge_ctas: int
    num_partial_rows: int
    work_indptr: Int32Array
    q_indptr: Int32Array
    kv_indptr: Int32Array
    partial_indptr: Int32Array
    merge_packed_offset_start: Int32Array
    merge_packed_offset_end: Int32Array
    merge_partial_packed_offset_start: Int32Array
    merge_partial_packed_offset_end: Int32Array
    merge_partial_stride: Int32Array
    q_len: Int32Array
    kv_len: Int32Array
    q_start: Int32Array
    kv_start: Int32Array
    kv_end: Int32Array
    batch_indices: Int32Array
    """The request of every work unit: not in the real plan, which says the same through q_indptr."""
    plan_info: Int64Array
    float_workspace_bytes: int
    int_workspace_bytes: int


def kv_len_limit(tokens_per_cluster: int) -> int:
    """Longest KV that one work unit may cover, given the tokens that each cluster would get in an even division."""
    for bound, limit in ((8, 32), (16, 64), (32, 128), (64, 192)):
        if tokens_per_cluster <= bound:
            return limit
    return ceil_div(tokens_per_cluster, 256) * 256


def mla_plan(
    qo_indptr: ArrayLike,
    kv_indptr: ArrayLike,
    kv_len_arr: ArrayLike,
    *,
    num_heads: int,
    sm_count: int,
    head_dim_o: int = 512,
    causal: bool = False,
) -> MLAPlan:
    """Cut every query tile's KV at `kv_len_limit` and give each work unit to the cluster with the least cost so far.

    `qo_indptr` counts query tokens, `kv_indptr` pages (passed through), `kv_len_arr` (batch,) tokens. Clusters have
    two CTAs when a request has more than 64 packed rows (query tokens · heads) on average. A request without KV
    still gets one work unit. Raises above 16,384 work units, where the real plan, which does not check, would
    overwrite its own arrays, and above one merge slice per SM.
    """
    qo_start = check.indptr("qo_indptr", qo_indptr)
    kv_page = check.indptr("kv_indptr", kv_indptr)
    kv_lens = check.lengths("kv_len_arr", kv_len_arr)
    check.same_length("kv_indptr", kv_page[1:], "qo_indptr", qo_start.size - 1)
    check.same_length("kv_len_arr", kv_lens, "qo_indptr", qo_start.size - 1)
    num_heads = check.integer("num_heads", num_heads, minimum=1)
    sm_count = check.integer("sm_count", sm_count, minimum=2)

    qo_lens = np.diff(qo_start)
    packed = qo_lens * num_heads
    cluster_size = 2 if int(packed.sum()) // packed.size > CTA_TILE_Q else 1
    num_clusters = sm_count // cluster_size
    tiles = _query_tiles(qo_lens, kv_lens, num_heads, cluster_size * CTA_TILE_Q, causal)
    limit = kv_len_limit(max(ceil_div(int(tiles.kv_end.sum()), num_clusters), 1))
    units = np.maximum(ceil_div(tiles.kv_end, limit), 1)
    split = tiles.kv_end > limit
    partial_start = exclusive_cumsum(np.where(split, units * tiles.rows, 0))

    total_works = int(units.sum())
    if total_works > MAX_TOTAL_NUM_WORKS:
        remedy = "plan fewer requests or query tokens at once"
        raise check.fail("qo_indptr", f"at most {MAX_TOTAL_NUM_WORKS} work units", f"{total_works}", remedy)
    tile = np.repeat(np.arange(units.size), units)
    unit = index_within_group(units)
    work_start = unit * limit
    work_end = np.minimum(work_start + limit, tiles.kv_end[tile])
    partial = np.where(split[tile], partial_start[tile] + unit * tiles.rows[tile], -1)
    cluster = charge_cheapest(num_clusters, (2 * tiles.tile_q + work_end - work_start).tolist())
    order = np.argsort(cluster, kind="stable")
    tile = tile[order]
    request = tiles.batch[tile]

    merges = _merge_slices(
        first_row=(qo_start[tiles.batch] * num_heads + tiles.first_row)[split],
        rows=tiles.rows[split],
        partial_start=partial_start[:-1][split],
        units=units[split],
        slices=np.maximum(tiles.kv_end[split] * cluster_size // limit, 1),
        sm_count=sm_count,
    )
    offsets, float_bytes, int_bytes = _workspace(sm_count, num_clusters * tiles.tile_q, head_dim_o)
    return MLAPlan(
        num_blks_x=cluster_size,
        num_blks_y=num_clusters,
        kv_len_limit=limit,
        num_merge_ctas=int(np.count_nonzero(merges[4])),
        num_partial_rows=int(partial_start[-1]),
        work_indptr=exclusive_cumsum(np.bincount(cluster, minlength=num_clusters)).astype(np.int32),
        q_indptr=qo_start[request].astype(np.int32),
        kv_indptr=kv_page[request].astype(np.int32),
        partial_indptr=partial[order].astype(np.int32),
        merge_packed_offset_start=merges[0],
        merge_packed_offset_end=merges[1],
        merge_partial_packed_offset_start=merges[2],
        merge_partial_packed_offset_end=merges[3],
        merge_partial_stride=merges[4],
        q_len=qo_lens[request].astype(np.int32),
        kv_len=kv_lens[request].astype(np.int32),
        q_start=tiles.first_row[tile].astype(np.int32),
        kv_start=work_start[order].astype(np.int32),
        kv_end=work_end[order].astype(np.int32),
        batch_indices=request.astype(np.int32),
        plan_info=np.array([cluster_size, num_clusters, *offsets], np.int64),
        float_workspace_bytes=float_bytes,
        int_workspace_bytes=int_bytes,
    )


@dataclass(frozen=True)
class _QueryTiles:
    """Tiles of `tile_q` packed rows, request by request, last to first within one; int64 columns of one length."""

    tile_q: int
    batch: Int64Array
    first_row: Int64Array
    """Within the request."""
    rows: Int64Array
    kv_end: Int64Array


def _query_tiles(qo_lens: Int64Array, kv_lens: Int64Array, num_heads: int, tile_q: int, causal: bool) -> _QueryTiles:
    packed = qo_lens * num_heads
    tiles = ceil_div(packed, tile_q)
    batch = np.repeat(np.arange(qo_lens.size), tiles)
    num_tiles = np.repeat(tiles, tiles)
    index = num_tiles - 1 - index_within_group(tiles)
    kv_end = kv_lens[batch]
    if causal:
        kv_end = packed_causal_kv_end(qo_lens[batch], kv_end, index, tile_q, num_tiles, num_heads)
    first_row = index * tile_q
    return _QueryTiles(tile_q, batch, first_row, np.minimum(tile_q, packed[batch] - first_row), kv_end)


def _workspace(sm_count: int, rows_at_once: int, head_dim_o: int) -> tuple[list[int], int, int]:
    """Offsets in the order of `PLAN_INFO_FIELDS`, then the bytes of the float and the int workspace."""
    ints, floats = AlignedAllocator(), AlignedAllocator()
    works, per_sm = 4 * MAX_TOTAL_NUM_WORKS, 4 * sm_count
    offsets = [ints.aligned_alloc_offset(size) for size in (*[works] * 3, *[per_sm] * 5, *[works] * 6)]
    offsets.append(floats.aligned_alloc_offset(2 * rows_at_once * 2 * head_dim_o))
    offsets.append(floats.aligned_alloc_offset(2 * rows_at_once * 4))
    return offsets, floats.num_allocated_bytes, ints.num_allocated_bytes


def _merge_slices(
    *,
    first_row: Int64Array,
    rows: Int64Array,
    partial_start: Int64Array,
    units: Int64Array,
    slices: Int64Array,
    sm_count: int,
) -> tuple[Int32Array, ...]:
    """Rows of the split tiles cut among CTAs: (start, end, partial start, partial end, stride), each (sm_count,).

    Arguments are per split tile: `slices` is how many CTAs merge it at most.
    """
    slice_rows = ceil_div(rows, slices)
    used = ceil_div(rows, slice_rows)
    if int(used.sum()) > sm_count:
        raise check.fail("sm_count", f"at least {int(used.sum())}, one SM per merge slice", sm_count, "split less")
    tile = np.repeat(np.arange(rows.size), used)
    start = index_within_group(used) * slice_rows[tile]
    end = np.minimum(start + slice_rows[tile], rows[tile])
    columns = (
        first_row[tile] + start,
        first_row[tile] + end,
        partial_start[tile] + start,
        partial_start[tile] + (units * rows)[tile],
        rows[tile],
    )
    return tuple(np.pad(column, (0, sm_count - column.size)).astype(np.int32) for column in columns)
