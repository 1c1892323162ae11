"""Our own MLA decode kernels, for Blackwell and for Hopper."""

from __future__ import annotations

import numpy as np

from sglab.planning import check
from sglab.planning import mla_sm90 as hopper
from sglab.planning.arith import index_within_group
from sglab.planning.cutlass_mla_splits import split_ranges
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS
from sglab.planning.mla_sm100 import PAGE_SIZES, MlaSm100Plan, launch_grid, mla_sm100_plan
from sglab.planning.plan import LaunchShape, Merge, Plan, Units, assemble
from sglab.planning.set_split_kv import CLUSTER_SIZE, TILE_S
from sglab.planning.words import many, query_heads
from sglab.planning.workload import Workload


def mla_sm100(w: Workload) -> Plan:
    """Splits per request, of as many tiles as lets all of them run at once; a CTA pair per split, or persistent."""
    w.require_latent_kv("sglab_mla_sm100")
    w.require_page_size("sglab_mla_sm100", PAGE_SIZES)
    if w.num_heads > NUM_HEADS:
        remedy = "shard the heads over more ranks"
        raise check.fail("num_heads", f"at most {NUM_HEADS}, to which heads are padded", w.num_heads, remedy)
    plan = mla_sm100_plan(w.seq_lens, sm_count=w.sm_count)
    grid = launch_grid(w.batch_size, plan.max_splits, sm_count=w.sm_count)
    ranges = split_ranges(w.seq_lens, plan.max_splits, plan.num_splits)
    used = np.maximum(ranges.local_split_kv, 1)
    request, split = np.repeat(np.arange(w.batch_size), used), index_within_group(used)
    individual = grid[1:] == (w.batch_size, plan.max_splits)
    units = Units(
        launch=request + w.batch_size * split if individual else np.arange(request.size) % grid[1],
        request=request,
        head_block=np.zeros_like(request),
        split=split,
        token_start=ranges.token_start[request, split],
        token_end=ranges.token_end[request, split],
    )
    units = units.select(units.token_end > units.token_start)
    partials = int(used[used > 1].sum()) * w.num_heads
    return assemble(
        "sglab_mla_sm100",
        "csrc/kernels/sm100/mla_decode.cu",
        LaunchShape(grid, CLUSTER_SIZE, 1, w.sm_count),
        units,
        rule=_sm100_rule(plan, max(w.sm_count // CLUSTER_SIZE, 1)),
        head_block_is=f"{query_heads(w.num_heads, 64, blocks=2)}: one CTA of the pair",
        arrays={"num_splits": plan.num_splits},
        scalars={
            "max_splits": plan.max_splits,
            "tiles_per_split": plan.tiles_per_split,
            "padded_heads": NUM_HEADS,
        },
        workspace_bytes=(w.batch_size * plan.max_splits * w.num_heads * (LATENT_DIM + 1) * 4) * (plan.max_splits > 1),
        merge=Merge.of(partials, int(np.count_nonzero(used > 1)) * w.num_heads, LATENT_DIM),
    )


def _sm100_rule(plan: MlaSm100Plan, pairs: int) -> str:
    tiles, splits = many(plan.tiles_per_split, "tile"), many(plan.units, "split")
    if plan.units > pairs:
        return f"{splits} for {pairs} CTA pairs, at most {tiles} of {TILE_S} KV tokens each."
    return (
        f"The fewest tiles of {TILE_S} KV tokens per split with which all splits run at once on {pairs} CTA pairs: "
        f"{tiles}, {splits} in all."
    )


def mla_sm90(w: Workload) -> Plan:
    """Work units of at most so many tiles as models fastest, dealt out longest first; a CTA per part and 64 heads."""
    w.require_latent_kv("sglab_mla_sm90")
    w.require_page_size("sglab_mla_sm90", PAGE_SIZES)
    if w.num_heads > NUM_HEADS:
        remedy = "shard the heads over more ranks"
        raise check.fail("num_heads", f"at most {NUM_HEADS}, the rows of two CTAs", w.num_heads, remedy)
    plan = hopper.mla_sm90_plan(w.seq_lens, num_heads=w.num_heads, sm_count=w.sm_count)
    blocks = -(-w.num_heads // hopper.HEADS_PER_CTA)
    # Unit by unit, part after part; a request's splits are numbered by where they begin.
    columns = plan.works.transpose(1, 0, 2).reshape(-1, 4).astype(np.int64)
    part = np.repeat(np.arange(plan.parts), len(plan.works))
    kept = (columns[:, 0] != hopper.NO_WORK) & (columns[:, 2] > columns[:, 1])
    request, start, end, slot = columns[kept].T
    first_slot = np.zeros(w.batch_size, np.int64)
    first_slot[plan.split_requests] = plan.slot_indptr[:-1]
    split = np.where(slot == hopper.NO_SLOT, 0, slot - first_slot[request])
    request, split, start, end, part = (np.repeat(x, blocks) for x in (request, split, start, end, part[kept]))
    block = np.tile(np.arange(blocks), int(kept.sum()))
    units = Units(block + blocks * part, request, block, split, start, end)
    return assemble(
        "sglab_mla_sm90",
        "csrc/kernels/sm90/mla_decode.cu",
        LaunchShape((blocks, plan.parts, 1), 1, 1, w.sm_count),
        units,
        rule=_rule_of(plan),
        head_block_is=query_heads(w.num_heads, 64),
        arrays={"works": plan.works, "split_requests": plan.split_requests, "slot_indptr": plan.slot_indptr},
        scalars={"limit": plan.limit, "parts": plan.parts, "slots": plan.slots},
        workspace_bytes=plan.slots * w.num_heads * (LATENT_DIM + 1) * 4,
        merge=Merge.of(plan.slots * w.num_heads, plan.split_requests.size * w.num_heads, LATENT_DIM),
    )


def _rule_of(plan: hopper.MlaSm90Plan) -> str:
    if plan.in_a_row:
        return (
            f"In a row: each of {many(plan.parts, 'part')} is filled to the same load, and a request is cut where a "
            "part is full. The modelled time is less than that of any equal pieces."
        )
    return (
        f"Work units of at most {many(plan.limit, 'tile')} of {hopper.TILE} KV tokens, the limit with the least "
        f"modelled time, dealt out longest first to {many(plan.parts, 'part')}."
    )
