"""How many KV splits FlashAttention-3 uses, for the launch and for each request.

Source: flash-attention 2026-08 (0251105a) `hopper/heuristics.h` (`num_splits_heuristic`, `should_pack_gqa`),
`hopper/flash_prepare_scheduler.cu` (`prepare_varlen_num_blocks_kernel`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.check import Int64Array

Int32Array = NDArray[np.int32]
L2_BYTES = 50 * 1024 * 1024
MAX_BATCH_ONE_CTA = 992
"""Above this the preparing kernel gives up splitting."""


def should_pack_gqa(varlen_q: bool, seqlen_q: int, qhead_per_khead: int, block_m: int) -> bool:
    """Whether the heads of a GQA group share a tile: always for ragged queries, else where it wastes fewer rows."""
    if varlen_q:
        return True
    packed = seqlen_q * qhead_per_khead
    no_pack = np.float32(seqlen_q) / np.float32(ceil_div(seqlen_q, block_m) * block_m)
    pack = np.float32(packed) / np.float32(ceil_div(packed, block_m) * block_m)
    return bool(float(no_pack) < 0.9 * float(pack))


def num_splits_heuristic(
    total_mblocks: int,
    num_SMs: int,
    num_n_blocks: int,
    num_m_blocks: int,
    size_one_kv_head: int,
    is_causal_or_local: bool,
    max_splits: int = 128,
) -> int:
    """The fewest splits that reach 85 % of the best wave efficiency.

    One split when tiles nearly fill the SMs (unless a KV head, in bytes, exceeds 50 MiB of L2 and queries pass over
    it at least twice), or when there are at most 4 KV blocks.
    """
    total_mblocks = check.integer("total_mblocks", total_mblocks, minimum=0)
    num_SMs = check.integer("num_SMs", num_SMs, minimum=1)
    num_n_blocks = check.integer("num_n_blocks", num_n_blocks, minimum=0)
    max_splits = check.integer("max_splits", max_splits, minimum=1)
    if np.float32(total_mblocks) >= np.float32(0.8) * np.float32(num_SMs):
        if size_one_kv_head > L2_BYTES and num_m_blocks >= num_SMs * 2 and not is_causal_or_local:
            return min(ceil_div(size_one_kv_head, L2_BYTES), max_splits)
        return 1
    if num_n_blocks <= 4 or total_mblocks == 0:
        return 1
    splits = np.arange(1, min(max_splits, num_SMs, num_n_blocks) + 1)
    n_waves = (total_mblocks * splits).astype(np.float32) / np.float32(num_SMs)
    efficiency = n_waves / np.ceil(n_waves)
    return int(splits[np.argmax(efficiency.astype(np.float64) >= 0.85 * float(efficiency.max()))])


@dataclass(frozen=True)
class VarlenSplits:
    """Per request in the scheduler's order (longest share of KV first): int32 (batch,) each.

    `varlen_batch_idx` maps the sorted place to the request; the other arrays are sorted.
    """

    num_splits_dynamic: Int32Array
    num_m_blocks: Int32Array
    varlen_batch_idx: Int32Array


def prepare_varlen_num_blocks(
    num_m_blocks: Int64Array,
    num_n_blocks: Int64Array,
    *,
    num_head: int,
    num_sm: int,
    num_splits_static: int,
    is_causal: bool = False,
    block_m: int = 128,
    block_n: int = 128,
) -> VarlenSplits:
    """Splits per request, so that each tile gets about an SM's share of all KV blocks plus 10 %.

    `num_splits_static` is the upper bound from `num_splits_heuristic`; `num_head` counts KV heads where GQA is packed.
    """
    per_tile = num_n_blocks
    if num_m_blocks.size > MAX_BATCH_ONE_CTA or num_splits_static == 1:
        splits = np.ones_like(num_n_blocks)
    else:
        total = np.float32(int((num_m_blocks * num_n_blocks).sum()))
        share = total * np.float32(1.1) * np.float32(num_head) / np.float32(num_sm)
        blocks_per_sm = max(int(np.ceil(share)), 1)
        splits = np.clip(ceil_div(num_n_blocks, blocks_per_sm), 1, num_splits_static)
        per_tile = ceil_div(num_n_blocks, splits)
    key = per_tile * block_n - num_m_blocks * block_m if is_causal else per_tile
    order = np.concatenate(
        [
            first + np.argsort(-key[first : first + MAX_BATCH_ONE_CTA], kind="stable")
            for first in range(0, key.size, MAX_BATCH_ONE_CTA)
        ]
    )
    return VarlenSplits(splits[order].astype(np.int32), num_m_blocks[order].astype(np.int32), order.astype(np.int32))
