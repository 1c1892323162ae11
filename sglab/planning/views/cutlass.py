"""The SM100 MLA decode kernel: CUTLASS, and the copies in FlashInfer and SGLang."""

from __future__ import annotations

import numpy as np

from sglab.planning import check
from sglab.planning.cutlass_mla_splits import split_ranges
from sglab.planning.cutlass_mla_workspace import copied_workspace_size, cutlass_workspace_size
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS
from sglab.planning.mla_tile_scheduler import TileSchedule, individual_schedule, persistent_schedule
from sglab.planning.plan import LaunchShape, Merge, Plan, Units, assemble
from sglab.planning.set_split_kv import (
    CLUSTER_SIZE,
    TILE_S,
    SplitKVChoice,
    fixed_split_kv,
    set_split_kv,
    set_split_kv_cluster_aware,
    split_budget,
)
from sglab.planning.words import many, query_heads
from sglab.planning.workload import Workload

PAGE_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


def individual(w: Workload) -> Plan:
    """CUTLASS 4.7, one cluster per (request, split)."""
    split = set_split_kv(_table_width(w), w.batch_size, w.sm_count)
    schedule = individual_schedule(w.batch_size, split.split_kv)
    workspace = cutlass_workspace_size(split.split_kv, w.batch_size)
    rule = _rule(w, split)
    return _plan(
        w, "cutlass_mla_individual", "CUTLASS 4.7 examples/77_blackwell_fmha", split, schedule, workspace, rule
    )


def persistent(w: Workload) -> Plan:
    """CUTLASS 4.7, at most one CTA per SM, each striding over the tiles: splits of a request next to each other."""
    split = set_split_kv(_table_width(w), w.batch_size, w.sm_count)
    schedule = persistent_schedule(w.batch_size, split.split_kv, w.sm_count)
    workspace = cutlass_workspace_size(split.split_kv, w.batch_size)
    rule = _rule(w, split)
    return _plan(
        w, "cutlass_mla_persistent", "CUTLASS 4.7 examples/77_blackwell_fmha", split, schedule, workspace, rule
    )


def persistent_before_4_2(w: Workload) -> Plan:
    """CUTLASS 3.9 to 4.1: requests next to each other."""
    split = set_split_kv(_table_width(w), w.batch_size, w.sm_count)
    schedule = persistent_schedule(w.batch_size, split.split_kv, w.sm_count, order="m_b_split")
    workspace = cutlass_workspace_size(split.split_kv, w.batch_size)
    rule = _rule(w, split)
    return _plan(
        w, "cutlass_mla_persistent_4_1", "CUTLASS 4.1 examples/77_blackwell_fmha", split, schedule, workspace, rule
    )


def flashinfer(w: Workload) -> Plan:
    """FlashInfer's copy: cluster-aware budget, persistent, requests next to each other."""
    split = set_split_kv_cluster_aware(_table_width(w), w.batch_size, w.sm_count)
    schedule = persistent_schedule(w.batch_size, split.split_kv, w.sm_count, order="m_b_split")
    workspace = copied_workspace_size(split.split_kv, w.batch_size)
    rule = _rule(w, split, CLUSTER_SIZE)
    return _plan(w, "flashinfer_cutlass_mla", "FlashInfer 0.7.2 attention/blackwell", split, schedule, workspace, rule)


def sglang(w: Workload, *, num_kv_splits: int = 1) -> Plan:
    """SGLang's copy: the backend passes num_kv_splits=1; persistent only then."""
    width = _table_width(w)
    if num_kv_splits >= 1:
        split = fixed_split_kv(num_kv_splits, width, w.batch_size, w.sm_count)
        asked = "nothing is split" if num_kv_splits == 1 else "every request gets that grid"
        rule = f"SGLang's backend passes num_kv_splits = {num_kv_splits}: {asked}."
    else:
        split = set_split_kv(width, w.batch_size, w.sm_count)
        rule = _rule(w, split)
    if num_kv_splits <= 1:
        schedule = persistent_schedule(w.batch_size, split.split_kv, w.sm_count, order="m_b_split")
    else:
        schedule = individual_schedule(w.batch_size, split.split_kv)
    workspace = copied_workspace_size(split.split_kv, w.batch_size)
    return _plan(w, "sglang_cutlass_mla", "SGLang 0.5.9 sgl-kernel cutlass_sm100_mla", split, schedule, workspace, rule)


def _table_width(w: Workload) -> int:
    """K of the kernel: the page table's width in tokens, whole 128-token tiles of the longest request."""
    w.require_latent_kv("cutlass_mla")
    w.require_page_size("cutlass_mla", PAGE_SIZES)
    if w.num_heads > NUM_HEADS:
        remedy = "shard the heads over more ranks"
        raise check.fail("num_heads", f"at most {NUM_HEADS}, to which heads are padded", w.num_heads, remedy)
    longest = int(w.seq_lens.max())
    if longest == 0:
        raise check.fail("seq_lens", "at least one request with KV", "all 0", "pass the batch's lengths in tokens")
    return -(-longest // TILE_S) * TILE_S


def _rule(w: Workload, split: SplitKVChoice, sms_per_split: int = 1) -> str:
    """`sms_per_split`: how many SMs the budget counts for a split."""
    budget = split_budget(w.batch_size, w.sm_count, sms_per_split)
    tiles, per_split = -(-_table_width(w) // TILE_S), split.tiles_per_split
    budget_is = "1"
    if sms_per_split * w.batch_size <= w.sm_count:
        requests = many(w.batch_size, "request")
        divisor = requests if sms_per_split == 1 else f"({sms_per_split} × {requests})"
        budget_is = f"{w.sm_count} SMs // {divisor} = {budget}"
        budget_is += ": a split is a CTA pair" if sms_per_split > 1 else ""
    capped = f", but no more than there are tiles: {tiles}" if budget > tiles else ""
    return (
        f"The longest request has {many(tiles, 'tile')} of {TILE_S} KV tokens. Budget of splits per request: "
        f"{budget_is}{capped}. "
        f"ceil({tiles} / {min(tiles, budget)}) = {many(per_split, 'tile')} per split, ceil({tiles} / {per_split}) = "
        f"{many(split.split_kv, 'split')}. All requests get that grid; one with fewer tiles fills fewer splits."
    )


def _plan(
    w: Workload, name: str, source: str, split: SplitKVChoice, schedule: TileSchedule, workspace: int, rule: str
) -> Plan:
    ranges = split_ranges(w.seq_lens, split.split_kv)
    leaders = schedule.m_block == 0
    batch, part = schedule.batch[leaders], schedule.split[leaders]
    units = Units(
        launch=schedule.cta[leaders] // CLUSTER_SIZE,
        request=batch,
        head_block=np.zeros_like(batch),
        split=part,
        token_start=ranges.token_start[batch, part],
        token_end=ranges.token_end[batch, part],
    )
    units = units.select(units.token_end > units.token_start)
    split_requests = ranges.local_split_kv > 1
    partials = int(ranges.local_split_kv[split_requests].sum()) * NUM_HEADS
    outputs = int(np.count_nonzero(split_requests)) * NUM_HEADS
    return assemble(
        name,
        source,
        LaunchShape(schedule.grid, CLUSTER_SIZE, 1, w.sm_count),
        units,
        rule=rule,
        head_block_is=f"{query_heads(w.num_heads, 64, blocks=2)}: one CTA of the pair",
        arrays={
            "local_split_kv": ranges.local_split_kv.astype(np.int32),
            "m_block": schedule.m_block.astype(np.int32),
            "batch": schedule.batch.astype(np.int32),
            "split": schedule.split.astype(np.int32),
            "cta": schedule.cta.astype(np.int32),
        },
        scalars={
            "K": _table_width(w),
            "split_kv": split.split_kv,
            "tiles_per_split": split.tiles_per_split,
            "padded_heads": NUM_HEADS,
        },
        workspace_bytes=workspace,
        merge=Merge.of(partials, outputs, LATENT_DIM),
    )
