"""The plan of FlashInfer's FA2 batch prefill, which also serves tensor-core decode.

Source: FlashInfer 0.7.2.post1 `include/flashinfer/attention/scheduler.cuh` (`PrefillSplitQOKVIndptr`,
`PrefillBinarySearchKVChunkSize`, `PrefillPlan`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.aligned_allocator import AlignedAllocator
from sglab.planning.arith import ceil_div, exclusive_cumsum, index_within_group
from sglab.planning.check import Int64Array
from sglab.planning.cta_tile_q import fa2_determine_cta_tile_q
from sglab.planning.flashinfer_decode import pad_int32
from sglab.planning.num_kv_splits import check_heads

Int32Array = NDArray[np.int32]
BLOCKS_PER_SM = 2
PLAN_INFO_FIELDS = (
    "padded_batch_size",
    "total_num_rows",
    "total_num_rows_offset",
    "cta_tile_q",
    "request_indices_offset",
    "qo_tile_indices_offset",
    "kv_tile_indices_offset",
    "merge_indptr_offset",
    "o_indptr_offset",
    "kv_chunk_size_ptr_offset",
    "v_offset",
    "s_offset",
    "block_valid_mask_offset",
    "enable_cuda_graph",
    "split_kv",
)


@dataclass(frozen=True)
class PrefillPlan:
    """Arrays as the kernel reads them.

    `request_indices`, `qo_tile_indices`, `kv_tile_indices` (padded_batch_size,): what every block does; entries past
    `new_batch_size` are padding (0 here, stale in the real workspace, masked by `block_valid_mask`).
    `merge_indptr` (rows + 1,): partials of every query row; None when nothing is split. `o_indptr` (batch + 1,).
    `kv_chunk_size_ptr` (1,): tokens per chunk, in int32 even where disable_split_kv made the int64 overflow.
    """

    split_kv: bool
    cta_tile_q: int
    total_num_tiles_q: int
    max_batch_size_if_split: int
    new_batch_size: int
    padded_batch_size: int
    request_indices: Int32Array
    qo_tile_indices: Int32Array
    kv_tile_indices: Int32Array
    merge_indptr: Int32Array | None
    o_indptr: Int32Array
    kv_chunk_size_ptr: Int32Array
    total_num_rows: NDArray[np.uint32] | None
    block_valid_mask: NDArray[np.bool_] | None
    plan_info: Int64Array
    float_workspace_bytes: int
    int_workspace_bytes: int


def prefill_binary_search_kv_chunk_size(
    enable_cuda_graph: bool,
    max_batch_size_if_split: int,
    packed_qo_len_arr: Int64Array,
    kv_len_arr: Int64Array,
    qo_chunk_size: int,
    min_kv_chunk_size: int = 1,
) -> tuple[bool, int]:
    """(split_kv, chunk): the least chunk, in units of `kv_len_arr`, that fits the blocks. A graph always splits."""
    kv_len = np.maximum(kv_len_arr, 1)
    tiles_q = ceil_div(packed_qo_len_arr, qo_chunk_size)
    max_kv_len = int(kv_len.max())
    low, high = min_kv_chunk_size, max_kv_len
    while low < high:
        mid = (low + high) // 2
        if int((tiles_q * ceil_div(kv_len, mid)).sum()) > max_batch_size_if_split:
            low = mid + 1
        else:
            high = mid
    return enable_cuda_graph or low < max_kv_len, low


def prefill_plan(
    qo_indptr: ArrayLike,
    kv_indptr: ArrayLike,
    *,
    num_qo_heads: int,
    num_kv_heads: int,
    page_size: int,
    sm_count: int,
    head_dim_qk: int = 128,
    head_dim_vo: int = 128,
    total_num_rows: int | None = None,
    enable_cuda_graph: bool = False,
    window_left: int = -1,
    fixed_split_size: int = -1,
    disable_split_kv: bool = False,
    num_colocated_ctas: int = 0,
    uniform_q_len: int = 0,
    kv_dtype_bytes: int = 2,
) -> PrefillPlan:
    """Plan a batch whose `qo_indptr` counts query tokens and `kv_indptr` pages, both (batch + 1,).

    `total_num_rows` is the query tokens for which the graph was captured (default: this batch's). `window_left` >=
    0 clamps each request's pages to ceil((window_left + cta_tile_q) / page_size). `fixed_split_size` is in pages
    and, like `disable_split_kv`, replaces the binary search. `num_colocated_ctas` leaves room for decode CTAs
    (POD).
    """
    rows = np.diff(check.indptr("qo_indptr", qo_indptr))
    pages = np.diff(check.indptr("kv_indptr", kv_indptr))
    check.same_length("kv_indptr", pages, "qo_indptr", rows.size)
    num_qo_heads, num_kv_heads = check_heads(num_qo_heads, num_kv_heads)
    page_size = check.integer("page_size", page_size, minimum=1)
    sm_count = check.integer("sm_count", sm_count, minimum=1)
    group = num_qo_heads // num_kv_heads
    total_rows = int(rows.sum()) if total_num_rows is None else total_num_rows
    total_rows = check.integer("total_num_rows", total_rows, minimum=int(rows.sum()))
    max_if_split = max(0, BLOCKS_PER_SM * sm_count - num_colocated_ctas) // num_kv_heads

    shape = _Shape(rows, group, (head_dim_vo, head_dim_qk), kv_dtype_bytes)
    if enable_cuda_graph:
        cta_tile_q, total_tiles_q = _graph_tiles(shape, total_rows, uniform_q_len)
    else:
        cta_tile_q = shape.tile_for(int(shape.packed.sum()) // rows.size)
        total_tiles_q = int(ceil_div(shape.packed, cta_tile_q).sum())

    effective = np.minimum(pages, ceil_div(window_left + cta_tile_q, page_size)) if window_left >= 0 else pages
    if disable_split_kv:
        split_kv, chunk, chunks = False, 2**63 - 1, np.ones_like(pages)
    elif fixed_split_size > 0:
        chunk = fixed_split_size
        chunks = ceil_div(np.maximum(effective, 1), chunk)
        split_kv = bool(np.any(chunks > 1))
    else:
        split_kv, chunk = prefill_binary_search_kv_chunk_size(
            enable_cuda_graph, max_if_split, shape.packed, effective, cta_tile_q, max(128 // page_size, 1)
        )
        chunks = ceil_div(np.maximum(effective, 1), chunk)

    blocks = ceil_div(shape.packed, cta_tile_q) * chunks
    new_batch_size = int(blocks.sum())
    padded = max(max_if_split, total_tiles_q) if enable_cuda_graph else new_batch_size
    if new_batch_size > padded:
        expected = f"at most {padded} blocks under a CUDA graph"
        remedy = "turn enable_cuda_graph off, or do not fix the split size"
        raise check.fail("fixed_split_size", expected, f"{new_batch_size} blocks", remedy)

    within = index_within_group(blocks)
    chunks_of_block = np.repeat(chunks, blocks)
    partial_rows = ceil_div(padded * cta_tile_q, group) * num_qo_heads if split_kv else None
    offsets, float_bytes, int_bytes = _workspace(
        padded, rows.size, total_rows, partial_rows, head_dim_vo, enable_cuda_graph
    )
    info = {**offsets, "padded_batch_size": padded, "total_num_rows": total_rows, "cta_tile_q": cta_tile_q}
    info |= {"enable_cuda_graph": enable_cuda_graph, "split_kv": split_kv}
    return PrefillPlan(
        split_kv=split_kv,
        cta_tile_q=cta_tile_q,
        total_num_tiles_q=total_tiles_q,
        max_batch_size_if_split=max_if_split,
        new_batch_size=new_batch_size,
        padded_batch_size=padded,
        request_indices=pad_int32(np.repeat(np.arange(rows.size), blocks), padded),
        qo_tile_indices=pad_int32(within // chunks_of_block, padded),
        kv_tile_indices=pad_int32(within % chunks_of_block, padded),
        merge_indptr=exclusive_cumsum(np.repeat(chunks, rows)).astype(np.int32) if split_kv else None,
        o_indptr=exclusive_cumsum(rows * chunks).astype(np.int32),
        kv_chunk_size_ptr=_int32_bits(chunk * page_size),
        total_num_rows=np.array([rows.sum()], np.uint32) if enable_cuda_graph else None,
        block_valid_mask=np.arange(padded) < new_batch_size if enable_cuda_graph else None,
        plan_info=np.array([info[field] for field in PLAN_INFO_FIELDS], np.int64),
        float_workspace_bytes=float_bytes,
        int_workspace_bytes=int_bytes,
    )


@dataclass(frozen=True)
class _Shape:
    """Query rows per request, the GQA group, head dims (VO, QK) and the KV dtype: what the tile depends on."""

    rows: Int64Array
    group: int
    head_dims: tuple[int, int]
    kv_dtype_bytes: int

    @property
    def packed(self) -> Int64Array:
        return self.rows * self.group

    def tile_for(self, packed_len: int) -> int:
        return fa2_determine_cta_tile_q(packed_len, *self.head_dims, kv_dtype_bytes=self.kv_dtype_bytes)


def _graph_tiles(shape: _Shape, total_rows: int, uniform_q_len: int) -> tuple[int, int]:
    """(cta_tile_q, an upper bound of the query tiles) for every batch that a graph of `total_rows` may replay."""
    rows, batch = shape.rows, shape.rows.size
    if uniform_q_len > 0:
        if np.any(rows != uniform_q_len):
            request = int(np.flatnonzero(rows != uniform_q_len)[0])
            expected = f"{uniform_q_len} rows in every request, as uniform_q_len promises"
            raise check.fail("qo_indptr", expected, f"{rows[request]} in request {request}", "pass uniform_q_len=0")
        packed_len = uniform_q_len * shape.group
        tile = shape.tile_for(packed_len)
        return tile, batch * ceil_div(packed_len, tile)
    longest = total_rows - batch + 1
    if longest < 0:
        expected = f"at least batch size - 1 = {batch - 1} rows under a CUDA graph"
        raise check.fail("total_num_rows", expected, total_rows, "give every request a query token")
    tile = shape.tile_for(longest * shape.group)
    return tile, ceil_div(total_rows * shape.group, tile) + batch - 1


def _workspace(
    padded: int, batch: int, total_rows: int, partial_rows: int | None, head_dim_vo: int, enable_cuda_graph: bool
) -> tuple[dict[str, int], int, int]:
    """Offsets by field name, then the bytes of the float and the int workspace; no split, no `partial_rows`."""
    ints, floats = AlignedAllocator(), AlignedAllocator()
    offsets = dict.fromkeys((field for field in PLAN_INFO_FIELDS if field.endswith("_offset")), 0)
    for field in ("request_indices_offset", "qo_tile_indices_offset", "kv_tile_indices_offset"):
        offsets[field] = ints.aligned_alloc_offset(4 * padded)
    offsets["o_indptr_offset"] = ints.aligned_alloc_offset(4 * (batch + 1))
    offsets["kv_chunk_size_ptr_offset"] = ints.aligned_alloc_offset(4, alignment=1)
    if enable_cuda_graph:
        offsets["total_num_rows_offset"] = ints.aligned_alloc_offset(4)
    if partial_rows is not None:
        offsets["v_offset"] = floats.aligned_alloc_offset(partial_rows * head_dim_vo * 4)
        offsets["s_offset"] = floats.aligned_alloc_offset(partial_rows * 4)
        offsets["merge_indptr_offset"] = ints.aligned_alloc_offset(4 * (total_rows + 1))
    if enable_cuda_graph:
        offsets["block_valid_mask_offset"] = ints.aligned_alloc_offset(padded)
    return offsets, floats.num_allocated_bytes, ints.num_allocated_bytes


def _int32_bits(value: int) -> Int32Array:
    """The low 32 bits, as C++ narrows int64 to int32."""
    return np.array([value & 0xFFFFFFFF], np.uint32).view(np.int32)
