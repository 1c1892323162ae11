"""FlashAttention-3 decode over pages (`flash_attn_with_kvcache`)."""

from __future__ import annotations

import numpy as np

from sglab.planning.arith import ceil_div, index_within_group
from sglab.planning.fa3_num_splits import num_splits_heuristic, prepare_varlen_num_blocks
from sglab.planning.fa3_tile_size import round_up_headdim, tile_size_fwd_sm90, uses_paged_kv_tma
from sglab.planning.plan import LaunchShape, Merge, Plan, Units, assemble
from sglab.planning.words import query_heads
from sglab.planning.workload import Workload

QV_HEAD_DIM = 512


def fa3(w: Workload) -> Plan:
    """Tiles sorted by their share of KV, fetched one by one by a CTA per SM. 2-byte elements.

    With one KV head and head_dim_vo 512 this is absorbed MLA: the 64 rope dims are FA3's head dim, the latent its qv.
    """
    headdim = round_up_headdim(w.head_dim_qk - QV_HEAD_DIM if w.head_dim_vo == QV_HEAD_DIM else w.head_dim_qk)
    causal = 64 < headdim <= 128  # FA3 drops the mask of a single query token elsewhere
    block_m, block_n = tile_size_fwd_sm90(headdim, w.head_dim_vo, is_causal=causal)
    non_tma = not uses_paged_kv_tma(w.page_size, block_m, block_n, 1, w.group_size)
    block_m, block_n = tile_size_fwd_sm90(headdim, w.head_dim_vo, is_causal=causal, paged_kv_non_TMA=non_tma)

    m_blocks = ceil_div(w.group_size, block_m)
    width = int(ceil_div(w.seq_lens, w.page_size).max()) * w.page_size
    size_one_kv_head = width * (headdim + w.head_dim_vo) * 2
    total_mblocks = w.num_kv_heads * m_blocks  # as if the batch had one long request
    num_splits = num_splits_heuristic(
        total_mblocks, w.sm_count, ceil_div(width, block_n), m_blocks, size_one_kv_head, causal
    )
    n_blocks = ceil_div(w.seq_lens, block_n)
    varlen = prepare_varlen_num_blocks(
        np.full(w.batch_size, m_blocks),
        n_blocks,
        num_head=w.num_kv_heads,
        num_sm=w.sm_count,
        num_splits_static=num_splits,
        is_causal=causal,
        block_m=block_m,
        block_n=block_n,
    )
    splits = varlen.num_splits_dynamic.astype(np.int64)
    units = _tiles(w, varlen.varlen_batch_idx.astype(np.int64), splits, m_blocks, n_blocks, block_n)
    launched = int((splits * m_blocks).sum()) * w.num_kv_heads
    merged = splits > 1
    partial_rows = num_splits * w.num_heads * w.batch_size if num_splits > 1 else 0
    rounded = -(-w.batch_size // 4) * 4
    return assemble(
        "flash_attention_3",
        "flash-attention 0251105a hopper/",
        LaunchShape((w.sm_count, 1, 1), 1, 1, w.sm_count),
        units.select(units.token_end > units.token_start),
        rule=_rule(w, num_splits, block_n),
        head_block_is=f"{query_heads(w.group_size, block_m)} of one KV head",
        arrays={
            "num_splits_dynamic": varlen.num_splits_dynamic,
            "num_m_blocks": varlen.num_m_blocks,
            "varlen_batch_idx": varlen.varlen_batch_idx,
        },
        scalars={"kBlockM": block_m, "kBlockN": block_n, "num_splits": num_splits, "tiles": launched},
        workspace_bytes=partial_rows * (w.head_dim_vo + 1) * 4 + ((4 if causal else 3) * rounded + 1) * 4,
        merge=Merge.of(
            int(splits[merged].sum()) * w.num_heads, int(np.count_nonzero(merged)) * w.num_heads, w.head_dim_vo
        ),
        persistent_tiles=launched,
    )


def _rule(w: Workload, num_splits: int, block_n: int) -> str:
    if num_splits == 1:
        return (
            f"num_splits_heuristic answers 1: the tiles nearly fill {w.sm_count} SMs, or there is little KV. "
            "Nothing is split."
        )
    return (
        f"Each tile of queries gets about an SM's share of all blocks of {block_n} KV tokens plus 10 %, so a "
        f"longer request gets more splits; at most {num_splits} (num_splits_heuristic)."
    )


def _tiles(
    w: Workload,
    request_of: np.ndarray,
    splits: np.ndarray,
    m_blocks: int,
    n_blocks: np.ndarray,
    block_n: int,
) -> Units:
    """Tiles in the scheduler's order: sorted requests, then KV heads, then splits, then row blocks."""
    per_request = splits * w.num_kv_heads * m_blocks
    place = np.repeat(np.arange(request_of.size), per_request)
    within = index_within_group(per_request)
    request = request_of[place]
    head_and_split, block = within // m_blocks, within % m_blocks
    head, split = head_and_split // splits[place], head_and_split % splits[place]
    per_split = ceil_div(n_blocks[request], splits[place]) * block_n
    start = np.minimum(split * per_split, w.seq_lens[request])
    return Units(
        launch=np.arange(request.size),
        request=request,
        head_block=head * m_blocks + block,
        split=split,
        token_start=start,
        token_end=np.minimum((split + 1) * per_split, w.seq_lens[request]),
    )
