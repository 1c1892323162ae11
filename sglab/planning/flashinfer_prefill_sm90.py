"""The plan of FlashInfer's FA3-style batch prefill on Hopper.

Source: FlashInfer 0.7.2.post1 `include/flashinfer/attention/scheduler.cuh` (`PrefillSM90Plan`).
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
from sglab.planning.libstdcxx import charge_cheapest, sort_descending
from sglab.planning.num_kv_splits import check_heads

Int32Array = NDArray[np.int32]
MAX_WORKS_PER_HEAD = 4096
"""Above this, one schedule serves all heads."""
PLAN_INFO_FIELDS = (
    "qo_tile_indices_offset",
    "qo_indptr_offset",
    "kv_indptr_offset",
    "qo_len_offset",
    "kv_len_offset",
    "head_indices_offset",
    "work_indptr_offset",
    "batch_indices_offset",
    "same_schedule_for_all_heads",
)


@dataclass(frozen=True)
class PrefillSM90Plan:
    """Every CTA's list of work units, concatenated: CTA i has units work_indptr[i] … work_indptr[i+1] - 1.

    A work unit is one tile of query tokens of one head over the request's whole KV; nothing is split, nothing merged.
    """

    cta_tile_q: int
    same_schedule_for_all_heads: bool
    work_indptr: Int32Array
    qo_tile_indices: Int32Array
    qo_indptr: Int32Array
    kv_indptr: Int32Array
    qo_len: Int32Array
    kv_len: Int32Array
    head_indices: Int32Array
    batch_indices: Int32Array
    plan_info: Int64Array
    int_workspace_bytes: int


def prefill_sm90_plan(
    qo_indptr: ArrayLike,
    kv_indptr: ArrayLike,
    kv_len_arr: ArrayLike,
    *,
    num_qo_heads: int,
    num_kv_heads: int,
    sm_count: int,
    head_dim_vo: int = 128,
    causal: bool = False,
    enable_cuda_graph: bool = False,
    total_num_rows: int | None = None,
) -> PrefillSM90Plan:
    """Give every (head, request, query tile) to the CTA with the least cost so far, 2 · tile + KV tokens per work unit.

    `qo_indptr` counts query tokens, `kv_indptr` is passed through, `kv_len_arr` (batch,) is in tokens. Requests go
    by KV length, longest first; query tiles of a request from the last to the first.
    """
    qo_start = check.indptr("qo_indptr", qo_indptr)
    kv_start = check.indptr("kv_indptr", kv_indptr)
    kv_lens = check.lengths("kv_len_arr", kv_len_arr)
    check.same_length("kv_indptr", kv_start[1:], "qo_indptr", qo_start.size - 1)
    check.same_length("kv_len_arr", kv_lens, "qo_indptr", qo_start.size - 1)
    num_qo_heads, _ = check_heads(num_qo_heads, num_kv_heads)
    sm_count = check.integer("sm_count", sm_count, minimum=1)
    qo_lens = np.diff(qo_start)
    rows = int(qo_lens.sum()) if total_num_rows is None else total_num_rows
    rows = check.integer("total_num_rows", rows, minimum=int(qo_lens.sum()))

    cta_tile_q = 192 if head_dim_vo == 64 else 128
    max_works_per_head = ceil_div(rows, cta_tile_q) + kv_lens.size - 1
    same_schedule = max_works_per_head > MAX_WORKS_PER_HEAD
    heads = 1 if same_schedule else num_qo_heads

    requests = sort_descending(kv_lens.tolist())
    tiles = ceil_div(qo_lens[requests], cta_tile_q)
    batch = np.repeat(requests, tiles)
    num_tiles = np.repeat(tiles, tiles)
    tile = num_tiles - 1 - index_within_group(tiles)
    kv_end = kv_lens[batch]
    if causal:
        kv_end = packed_causal_kv_end(qo_lens[batch], kv_end, tile, cta_tile_q, num_tiles, 1)
    cta = charge_cheapest(sm_count, np.tile(2 * cta_tile_q + kv_end, heads).tolist())

    order = np.argsort(cta, kind="stable")
    batch_of_work = np.tile(batch, heads)[order]
    max_works = order.size
    if enable_cuda_graph:
        max_works = max_works_per_head * heads
    ints = AlignedAllocator()
    offsets = [ints.aligned_alloc_offset(4 * max_works) for _ in range(6)]
    offsets.append(ints.aligned_alloc_offset(4 * (sm_count + 1)))
    offsets.append(ints.aligned_alloc_offset(4 * max_works))
    return PrefillSM90Plan(
        cta_tile_q=cta_tile_q,
        same_schedule_for_all_heads=same_schedule,
        work_indptr=exclusive_cumsum(np.bincount(cta, minlength=sm_count)).astype(np.int32),
        qo_tile_indices=np.tile(tile, heads)[order].astype(np.int32),
        qo_indptr=qo_start[batch_of_work].astype(np.int32),
        kv_indptr=kv_start[batch_of_work].astype(np.int32),
        qo_len=qo_lens[batch_of_work].astype(np.int32),
        kv_len=kv_lens[batch_of_work].astype(np.int32),
        head_indices=np.repeat(np.arange(heads), batch.size)[order].astype(np.int32),
        batch_indices=batch_of_work.astype(np.int32),
        plan_info=np.array([*offsets, same_schedule], np.int64),
        int_workspace_bytes=ints.num_allocated_bytes,
    )
