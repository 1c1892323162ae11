"""FlashMLA's dense decode."""

from __future__ import annotations

import numpy as np

from sglab.planning.flash_mla import (
    BLOCK_SIZE_N,
    FIELDS,
    FIXED_OVERHEAD_NUM_BLOCKS,
    HEAD_DIM_V,
    MlaMetadata,
    get_mla_metadata,
    split_table,
)
from sglab.planning.plan import LaunchShape, Merge, Plan, Units, assemble
from sglab.planning.words import query_heads
from sglab.planning.workload import Workload


def flash_mla(w: Workload) -> Plan:
    """Grid (row blocks, KV heads, SM parts); every part works its slice of the batch's blocks."""
    w.require_latent_kv("flash_mla")
    w.require_page_size("flash_mla", (BLOCK_SIZE_N,))
    metadata = get_mla_metadata(w.seq_lens, h_q=w.num_heads, h_k=w.num_kv_heads, sm_count=w.sm_count)
    table = split_table(metadata, w.seq_lens)
    blocks = metadata.num_m_blocks * w.num_kv_heads
    part, request, split, start, end = (np.repeat(column, blocks) for column in table.T)
    block = np.tile(np.arange(blocks), table.shape[0])
    splits = np.diff(metadata.num_splits)
    merged = splits > 1
    return assemble(
        "flash_mla",
        "FlashMLA 9241ae3 get_decoding_sched_meta.cu",
        LaunchShape((metadata.num_m_blocks, w.num_kv_heads, metadata.num_sm_parts), 1, 1, w.sm_count),
        Units(block + blocks * part, request, block, split, start, end),
        rule=_rule(metadata),
        head_block_is=f"{query_heads(w.group_size, 64)} of one KV head",
        arrays={
            **{name: metadata.tile_scheduler_metadata[:, column] for column, name in enumerate(FIELDS[:-1])},
            "tile_scheduler_metadata": metadata.tile_scheduler_metadata,
            "num_splits": metadata.num_splits,
        },
        scalars={
            "num_sm_parts": metadata.num_sm_parts,
            "total_num_blocks": metadata.total_num_blocks,
            "payload": metadata.payload,
        },
        workspace_bytes=metadata.workspace_bytes,
        merge=Merge.of(
            int(splits[merged].sum()) * w.num_heads, int(np.count_nonzero(merged)) * w.num_heads, HEAD_DIM_V
        ),
    )


def _rule(metadata: MlaMetadata) -> str:
    total, parts, overhead = metadata.total_num_blocks, metadata.num_sm_parts, FIXED_OVERHEAD_NUM_BLOCKS
    return (
        f"{total:,} blocks, those of {BLOCK_SIZE_N} KV tokens and {overhead} per request for its overhead, are "
        f"dealt out in order to {parts} parts: ceil({total:,} / {parts}) + {overhead} = {metadata.payload} each. "
        "A part that is full leaves the rest of a request to the next."
    )
