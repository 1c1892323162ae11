"""FlashMLA's tile scheduler metadata for dense decode.

Source: FlashMLA 2026-04 (9241ae3) `csrc/smxx/decode/get_decoding_sched_meta/get_decoding_sched_meta.cu`
(`get_mla_metadata_kernel`), `csrc/api/dense_decode.h`, `csrc/params.h` (`DecodingSchedMeta`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.check import Int64Array
from sglab.planning.mla_dims import LATENT_DIM
from sglab.planning.num_kv_splits import check_heads

Int32Array = NDArray[np.int32]
BLOCK_SIZE_N = 64
"""KV tokens per block, and the page size."""
BLOCK_SIZE_M = 64
"""Query rows per CTA."""
FIXED_OVERHEAD_NUM_BLOCKS = 5
"""What starting a request costs, in blocks."""
MAX_SPLITS = 160
HEAD_DIM_V = LATENT_DIM
FIELDS = (
    "begin_req_idx",
    "end_req_idx",
    "begin_block_idx",
    "end_block_idx",
    "begin_split_idx",
    "is_first_req_splitted",
    "is_last_req_splitted",
    "_pad",
)
"""Columns of `tile_scheduler_metadata`; requests inclusive, blocks [begin, end)."""


@dataclass(frozen=True)
class MlaMetadata:
    """`tile_scheduler_metadata` int32 (num_sm_parts, 8) and `num_splits` int32 (batch + 1,), a prefix sum.

    An SM part works blocks [begin_block_idx, …) of request begin_req_idx, all of the requests between, and [0,
    end_block_idx) of request end_req_idx. The `_pad` column is uninitialised in the real tensor and 0 here. Parts
    left over have begin_req_idx == batch.
    """

    num_sm_parts: int
    num_m_blocks: int
    total_num_blocks: int
    payload: int
    tile_scheduler_metadata: Int32Array
    num_splits: Int32Array
    workspace_bytes: int


def num_sm_parts(*, h_q: int, sm_count: int, h_k: int = 1, s_q: int = 1) -> int:
    """Into how many parts the work is dealt: one per SM, KV head and 64 query rows."""
    return max(sm_count // h_k // ceil_div(s_q * h_q // h_k, BLOCK_SIZE_M), 1)


def get_mla_metadata(
    seqlens_k: ArrayLike,
    *,
    h_q: int,
    sm_count: int,
    h_k: int = 1,
    s_q: int = 1,
) -> MlaMetadata:
    """Deal blocks out to `SMs / h_k / ceil(s_q · h_q / h_k / 64)` parts, each up to the same payload.

    A request costs its blocks plus 5. A part takes whole requests while they fit, then as many blocks of the next
    one as its payload still covers. A zero-length request counts as one block and ends at block 0.
    """
    seqlens = check.lengths("seqlens_k", seqlens_k)
    h_q, h_k = check_heads(h_q, h_k)
    s_q = check.integer("s_q", s_q, minimum=1)
    sm_count = check.integer("sm_count", sm_count, minimum=1)
    num_m_blocks = ceil_div(s_q * h_q // h_k, BLOCK_SIZE_M)
    parts = num_sm_parts(h_q=h_q, h_k=h_k, s_q=s_q, sm_count=sm_count)

    last_block = np.maximum(seqlens - 1, 0) // BLOCK_SIZE_N
    total = int((last_block + 1 + FIXED_OVERHEAD_NUM_BLOCKS).sum())
    payload = ceil_div(total, parts) + FIXED_OVERHEAD_NUM_BLOCKS
    metadata, num_splits = _deal(seqlens.tolist(), last_block.tolist(), parts, payload)
    partials = seqlens.size + parts
    return MlaMetadata(
        num_sm_parts=parts,
        num_m_blocks=num_m_blocks,
        total_num_blocks=total,
        payload=payload,
        tile_scheduler_metadata=np.array(metadata, np.int32),
        num_splits=np.array(num_splits, np.int32),
        workspace_bytes=partials * s_q * h_q * (HEAD_DIM_V + 1) * 4,
    )


def _deal(
    seqlens: list[int], last_block: list[int], parts: int, payload: int
) -> tuple[list[tuple[int, ...]], list[int]]:
    batch = len(seqlens)
    request = block = split = 0
    num_splits = [0]
    metadata: list[tuple[int, ...]] = []
    for _ in range(parts):
        # past the last request the kernel reads one word beyond its array of first blocks (all 0),
        # which is the first request's last block; no CTA uses it
        begin_block = block if request < batch else last_block[0]
        begin, begin_split, first_splitted = request, split, block != 0
        remain = payload
        while request < batch:
            left = last_block[request] + 1 - block
            if remain >= left + FIXED_OVERHEAD_NUM_BLOCKS:
                num_splits.append(num_splits[-1] + split + 1)
                remain -= left + FIXED_OVERHEAD_NUM_BLOCKS
                request, block, split = request + 1, 0, 0
                continue
            if remain > FIXED_OVERHEAD_NUM_BLOCKS:
                block += remain - FIXED_OVERHEAD_NUM_BLOCKS
                split += 1
            break
        end = request if block > 0 else request - 1
        whole = 0 if seqlens[end] == 0 else last_block[end] + 1
        end_block = block if block > 0 else whole
        last_splitted = end_block != last_block[end] + 1 and seqlens[end] != 0
        if begin == end:
            first_splitted = last_splitted = first_splitted or last_splitted
        metadata.append((begin, end, begin_block, end_block, begin_split, int(first_splitted), int(last_splitted), 0))
    return metadata, num_splits


def split_table(metadata: MlaMetadata, seqlens_k: ArrayLike) -> Int64Array:
    """The work units of the metadata, int64 (units, 5): part, request, split, token_start, token_end."""
    seqlens = check.lengths("seqlens_k", seqlens_k)
    rows = []
    for part, fields in enumerate(metadata.tile_scheduler_metadata.tolist()):
        begin, end, begin_block, end_block, begin_split = fields[:5]
        for request in range(begin, min(end, seqlens.size - 1) + 1):
            length = int(seqlens[request])
            first = begin_block if request == begin else 0
            last = end_block if request == end else ceil_div(length, BLOCK_SIZE_N)
            split = begin_split if request == begin else 0
            rows.append((part, request, split, first * BLOCK_SIZE_N, min(last * BLOCK_SIZE_N, length)))
    return np.array(rows, np.int64).reshape(-1, 5)
