"""Which CTA of the SM100 MLA decode kernel works on which (m_block, batch, split).

Sources: CUTLASS `examples/77_blackwell_fmha/kernel/sm100_mla_tile_scheduler.hpp`: `Sm100MlaIndividualTileScheduler`
and `Sm100MlaPersistentTileScheduler`. Until 4.1 (and still in FlashInfer 0.7.2) the persistent scheduler walks
m_block, batch, split; from 4.2 on m_block, split, batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglab.planning import check
from sglab.planning.check import Int64Array
from sglab.planning.set_split_kv import CLUSTER_SIZE

ORDERS = ("m_split_b", "m_b_split")
"""Fastest coordinate first: CUTLASS 4.2 and later, and before it."""


@dataclass(frozen=True)
class TileSchedule:
    """Work tiles in the order of their linear block index.

    Tile i is worked by CTA `cta[i]` as the CTA's `iteration[i]`-th tile. Arrays are int64 of one length; `grid` is the
    launch grid.
    """

    grid: tuple[int, int, int]
    cta: Int64Array
    iteration: Int64Array
    m_block: Int64Array
    batch: Int64Array
    split: Int64Array


def individual_schedule(B: int, split_kv: int) -> TileSchedule:
    """One tile per CTA: grid (2, B, split_kv), block index (m_block, batch, split)."""
    B, split_kv = _checked(B, split_kv)
    index = np.arange(CLUSTER_SIZE * B * split_kv)
    m_block, rest = index % CLUSTER_SIZE, index // CLUSTER_SIZE
    grid = (CLUSTER_SIZE, B, split_kv)
    return TileSchedule(grid, index, np.zeros_like(index), m_block, rest % B, rest // B)


def persistent_schedule(B: int, split_kv: int, sm_count: int, *, order: str = "m_split_b") -> TileSchedule:
    """min(2·B·split_kv, SMs) CTAs, each striding over the tiles by the grid's size.

    `sm_count` has to be even: CTAs come in pairs (the real code asks the driver for the SM count when it is not).
    """
    B, split_kv = _checked(B, split_kv)
    sm_count = check.integer("sm_count", sm_count, minimum=CLUSTER_SIZE)
    check.choice("order", order, ORDERS)
    if sm_count % CLUSTER_SIZE:
        raise check.fail("sm_count", "an even number: CTAs come in pairs", sm_count, f"use {sm_count - 1}")
    index = np.arange(CLUSTER_SIZE * B * split_kv)
    m_block, rest = index % CLUSTER_SIZE, index // CLUSTER_SIZE
    if order == "m_split_b":
        split, batch = rest % split_kv, rest // split_kv
    else:
        batch, split = rest % B, rest // B
    ctas = min(index.size, sm_count)
    return TileSchedule((ctas, 1, 1), index % ctas, index // ctas, m_block, batch, split)


def _checked(B: int, split_kv: int) -> tuple[int, int]:
    return check.integer("B", B, minimum=1), check.integer("split_kv", split_kv, minimum=1)
