"""The plan of FlashInfer's CUDA-core batch decode.

Source: FlashInfer 0.7.2.post1 `include/flashinfer/attention/scheduler.cuh`
(`BatchDecodeWithPagedKVCacheWorkEstimationDispatched`, `PartitionPagedKVCacheBinarySearchMinNumPagePerBatch`,
`DecodeSplitKVIndptr`, `DecodePlan`). Tensor-core decode is planned by `flashinfer_prefill` instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.aligned_allocator import AlignedAllocator
from sglab.planning.arith import ceil_div, exclusive_cumsum, index_within_group
from sglab.planning.check import Int64Array
from sglab.planning.num_kv_splits import check_heads

Int32Array = NDArray[np.int32]
MIN_CHUNK_TOKENS = 128
"""No chunk is shorter, unless a page is longer."""


@dataclass(frozen=True)
class DecodePlan:
    """Arrays as the kernel reads them.

    `request_indices`, `kv_tile_indices` (padded_batch_size,): the request and chunk of every block; under a CUDA graph
    `block_valid_mask` marks the blocks that have work (the real plan leaves the other entries as they were; here 0).
    `o_indptr` (batch + 1,): each request's rows of partial output. `kv_chunk_size_ptr` (1,): tokens per chunk.
    `plan_info` is the int64 vector handed to run(): sizes, then byte offsets into the two workspaces.
    """

    split_kv: bool
    max_grid_size: int
    kv_chunk_size_in_pages: int
    new_batch_size: int
    padded_batch_size: int
    request_indices: Int32Array
    kv_tile_indices: Int32Array
    o_indptr: Int32Array
    kv_chunk_size_ptr: Int32Array
    block_valid_mask: NDArray[np.bool_] | None
    plan_info: Int64Array
    float_workspace_bytes: int
    int_workspace_bytes: int


PLAN_INFO_FIELDS = (
    "padded_batch_size",
    "v_offset",
    "s_offset",
    "request_indices_offset",
    "kv_tile_indices_offset",
    "o_indptr_offset",
    "block_valid_mask_offset",
    "kv_chunk_size_ptr_offset",
    "enable_cuda_graph",
    "split_kv",
)


def partition_paged_kv_cache(
    max_grid_size: int, gdy: int, num_pages: ArrayLike, min_num_pages_per_batch: int = 1
) -> tuple[int, int]:
    """(pages per chunk, chunks): the least chunk for which chunks · gdy fits `max_grid_size`, by binary search."""
    pages = check.lengths("num_pages", num_pages)
    low, high = min_num_pages_per_batch, int(pages.max())
    while low < high:
        mid = (low + high) // 2
        if int(ceil_div(pages, mid).sum()) * gdy > max_grid_size:
            low = mid + 1
        else:
            high = mid
    return low, int(ceil_div(np.maximum(pages, 1), low).sum())


def decode_plan(
    kv_indptr: ArrayLike,
    *,
    num_qo_heads: int,
    num_kv_heads: int,
    page_size: int,
    sm_count: int,
    num_blocks_per_sm: int = 2,
    head_dim: int = 128,
    enable_cuda_graph: bool = False,
) -> DecodePlan:
    """Plan a decode batch whose `kv_indptr` (batch + 1,) counts pages.

    `num_blocks_per_sm` is what cudaOccupancyMaxActiveBlocksPerMultiprocessor answers for the kernel; it depends on
    head_dim, dtype and GPU. A batch of at least max_grid blocks is not split, nor one whose chunks come out one
    per request, except under a CUDA graph, where the grid has to be the same for every replay.
    """
    pages = np.diff(check.indptr("kv_indptr", kv_indptr))
    num_qo_heads, gdy = check_heads(num_qo_heads, num_kv_heads)
    page_size = check.integer("page_size", page_size, minimum=1)
    sm_count = check.integer("sm_count", sm_count, minimum=1)
    max_grid_size = check.integer("num_blocks_per_sm", num_blocks_per_sm, minimum=1) * sm_count
    head_dim = check.integer("head_dim", head_dim, minimum=1)

    batch_size = pages.size
    if batch_size * gdy >= max_grid_size:
        split_kv, chunk_pages, new_batch_size = False, max(1, int(pages.max())), batch_size
    else:
        least = max(MIN_CHUNK_TOKENS // page_size, 1)
        chunk_pages, new_batch_size = partition_paged_kv_cache(max_grid_size, gdy, pages, least)
        split_kv = enable_cuda_graph or new_batch_size != batch_size
    padded = new_batch_size
    if enable_cuda_graph:
        padded = max_grid_size // gdy if split_kv else batch_size
        if new_batch_size > padded:
            expected = f"at most {padded} chunks under a CUDA graph"
            remedy = "give every request a page: empty ones get a chunk that the search did not count"
            raise check.fail("kv_indptr", expected, new_batch_size, remedy)

    chunks = ceil_div(np.maximum(pages, 1), chunk_pages)
    ints, floats = AlignedAllocator(), AlignedAllocator()
    request_offset = ints.aligned_alloc_offset(padded * 4)
    tile_offset = ints.aligned_alloc_offset(padded * 4)
    o_indptr_offset = ints.aligned_alloc_offset((padded + 1) * 4)
    chunk_offset = ints.aligned_alloc_offset(4, alignment=1)
    v_offset = s_offset = mask_offset = 0
    if split_kv:
        v_offset = floats.aligned_alloc_offset(num_qo_heads * padded * head_dim * 4)
        s_offset = floats.aligned_alloc_offset(num_qo_heads * padded * 4)
        mask_offset = ints.aligned_alloc_offset(padded)
    plan_info = (padded, v_offset, s_offset, request_offset, tile_offset, o_indptr_offset, mask_offset, chunk_offset)
    return DecodePlan(
        split_kv=split_kv,
        max_grid_size=max_grid_size,
        kv_chunk_size_in_pages=chunk_pages,
        new_batch_size=new_batch_size,
        padded_batch_size=padded,
        request_indices=pad_int32(np.repeat(np.arange(batch_size), chunks), padded),
        kv_tile_indices=pad_int32(index_within_group(chunks), padded),
        o_indptr=exclusive_cumsum(chunks).astype(np.int32),
        kv_chunk_size_ptr=np.array([chunk_pages * page_size], np.int32),
        block_valid_mask=np.arange(padded) < new_batch_size if split_kv else None,
        plan_info=np.array([*plan_info, enable_cuda_graph, split_kv], np.int64),
        float_workspace_bytes=floats.num_allocated_bytes,
        int_workspace_bytes=ints.num_allocated_bytes,
    )


def pad_int32(values: Int64Array, size: int) -> Int32Array:
    """`values` as int32, zero-filled up to `size`."""
    return np.pad(values, (0, size - values.size)).astype(np.int32)
