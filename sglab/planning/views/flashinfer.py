"""FlashInfer's planners for MHA and GQA on one decode step: CUDA-core decode, FA2 and SM90 prefill kernels."""

from __future__ import annotations

import numpy as np

from sglab.planning import check
from sglab.planning.check import Int64Array
from sglab.planning.csr import page_indptr
from sglab.planning.flashinfer_decode import MIN_CHUNK_TOKENS, DecodePlan, decode_plan
from sglab.planning.flashinfer_prefill import BLOCKS_PER_SM, PrefillPlan, prefill_plan
from sglab.planning.flashinfer_prefill_sm90 import prefill_sm90_plan
from sglab.planning.plan import Array, LaunchShape, Merge, Plan, Units, assemble
from sglab.planning.words import many, query_heads
from sglab.planning.workload import Workload

SOURCE = "FlashInfer 0.7.2.post1 attention/scheduler.cuh"
DECODE_GROUP_SIZES = (1, 2, 3, 4, 6, 8, 16)
DECODE_HEAD_DIMS = (64, 128, 256, 512)
SM90_HEAD_DIMS = ((64, 64), (128, 128), (256, 256), (192, 128))


def decode(w: Workload) -> Plan:
    """CUDA-core decode: grid (chunks, KV heads)."""
    if w.group_size not in DECODE_GROUP_SIZES or w.head_dim_vo not in DECODE_HEAD_DIMS:
        expected = f"a group of {DECODE_GROUP_SIZES} query heads and head_dim_vo in {DECODE_HEAD_DIMS}"
        found = f"{w.num_heads} on {w.num_kv_heads} KV heads with head_dim_vo={w.head_dim_vo}"
        raise check.fail("num_heads", expected, found, "use flashinfer_prefill, its tensor-core decode")
    plan = decode_plan(
        page_indptr(w.seq_lens, w.page_size),
        num_qo_heads=w.num_heads,
        num_kv_heads=w.num_kv_heads,
        page_size=w.page_size,
        sm_count=w.sm_count,
        num_blocks_per_sm=w.ctas_per_sm,
        head_dim=w.head_dim_vo,
        enable_cuda_graph=w.enable_cuda_graph,
    )
    used = plan.new_batch_size
    chunk = int(plan.kv_chunk_size_ptr[0])
    units = _chunk_units(w, plan.request_indices[:used], plan.kv_tile_indices[:used], chunk, plan.padded_batch_size)
    arrays: dict[str, Array] = {
        "request_indices": plan.request_indices,
        "kv_tile_indices": plan.kv_tile_indices,
        "o_indptr": plan.o_indptr,
        "kv_chunk_size_ptr": plan.kv_chunk_size_ptr,
        "plan_info": plan.plan_info,
    }
    if plan.block_valid_mask is not None:
        arrays["block_valid_mask"] = plan.block_valid_mask
    partials = used * w.num_heads if plan.split_kv else 0
    return assemble(
        "flashinfer_decode",
        SOURCE,
        LaunchShape((plan.padded_batch_size, w.num_kv_heads, 1), 1, w.ctas_per_sm, w.sm_count),
        units,
        rule=_decode_rule(plan),
        head_block_is=f"{many(w.group_size, 'query head')} of one KV head",
        arrays=arrays,
        scalars={
            "split_kv": plan.split_kv,
            "max_grid_size": plan.max_grid_size,
            "kv_chunk_size_in_pages": plan.kv_chunk_size_in_pages,
            "new_batch_size": used,
            "padded_batch_size": plan.padded_batch_size,
        },
        workspace_bytes=plan.float_workspace_bytes + plan.int_workspace_bytes,
        merge=Merge.of(partials, w.batch_size * w.num_heads if plan.split_kv else 0, w.head_dim_vo),
    )


def _decode_rule(plan: DecodePlan) -> str:
    grid = plan.max_grid_size
    if not plan.split_kv:
        return f"Nothing is split: requests × KV heads fill the {grid} CTAs, or every request fits in one chunk."
    return (
        f"The smallest chunk (at least {MIN_CHUNK_TOKENS} KV tokens) with which the chunks of all requests and KV "
        f"heads fit in {grid} CTAs, found by bisection: {many(plan.kv_chunk_size_in_pages, 'page')}."
    )


def prefill(w: Workload) -> Plan:
    """Tensor-core decode through the FA2 prefill kernel: grid (tiles and chunks, 1, KV heads)."""
    plan = prefill_plan(
        w.qo_indptr,
        page_indptr(w.seq_lens, w.page_size),
        num_qo_heads=w.num_heads,
        num_kv_heads=w.num_kv_heads,
        page_size=w.page_size,
        sm_count=w.sm_count,
        head_dim_qk=w.head_dim_qk,
        head_dim_vo=w.head_dim_vo,
        enable_cuda_graph=w.enable_cuda_graph,
    )
    used = plan.new_batch_size
    tiles = -(-w.group_size // plan.cta_tile_q)
    chunk = int(plan.kv_chunk_size_ptr[0])
    units = _chunk_units(
        w,
        plan.request_indices[:used],
        plan.kv_tile_indices[:used],
        chunk,
        plan.padded_batch_size,
        tile=plan.qo_tile_indices[:used].astype(np.int64),
        tiles=tiles,
    )
    arrays: dict[str, Array] = {
        "request_indices": plan.request_indices,
        "qo_tile_indices": plan.qo_tile_indices,
        "kv_tile_indices": plan.kv_tile_indices,
        "o_indptr": plan.o_indptr,
        "kv_chunk_size_ptr": plan.kv_chunk_size_ptr,
        "plan_info": plan.plan_info,
    }
    optional = {"merge_indptr": plan.merge_indptr, "total_num_rows": plan.total_num_rows}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    if plan.block_valid_mask is not None:
        arrays["block_valid_mask"] = plan.block_valid_mask
    partials = int(plan.o_indptr[-1]) * w.num_heads if plan.split_kv else 0
    return assemble(
        "flashinfer_prefill",
        SOURCE,
        LaunchShape((plan.padded_batch_size, 1, w.num_kv_heads), 1, BLOCKS_PER_SM, w.sm_count),
        units,
        rule=_prefill_rule(plan),
        head_block_is=f"{query_heads(w.group_size, plan.cta_tile_q)} of one KV head",
        arrays=arrays,
        scalars={
            "split_kv": plan.split_kv,
            "cta_tile_q": plan.cta_tile_q,
            "max_batch_size_if_split": plan.max_batch_size_if_split,
            "new_batch_size": used,
            "padded_batch_size": plan.padded_batch_size,
        },
        workspace_bytes=plan.float_workspace_bytes + plan.int_workspace_bytes,
        merge=Merge.of(partials, w.batch_size * w.num_heads if plan.split_kv else 0, w.head_dim_vo),
    )


def _prefill_rule(plan: PrefillPlan) -> str:
    if not plan.split_kv:
        return "All tiles of queries fit without a split."
    return (
        f"The smallest chunk with which tiles of queries times chunks fit in {plan.max_batch_size_if_split}, found by "
        f"bisection: {int(plan.kv_chunk_size_ptr[0]):,} KV tokens."
    )


def prefill_sm90(w: Workload) -> Plan:
    """The SM90 prefill kernel: one list of work units per CTA, no split of the KV."""
    if (w.head_dim_qk, w.head_dim_vo) not in SM90_HEAD_DIMS:
        found = f"({w.head_dim_qk}, {w.head_dim_vo})"
        raise check.fail("head_dim_qk, head_dim_vo", f"one of {SM90_HEAD_DIMS}", found, "use flashinfer_mla for MLA")
    plan = prefill_sm90_plan(
        w.qo_indptr,
        page_indptr(w.seq_lens, w.page_size),
        w.seq_lens,
        num_qo_heads=w.num_heads,
        num_kv_heads=w.num_kv_heads,
        sm_count=w.sm_count,
        head_dim_vo=w.head_dim_vo,
        enable_cuda_graph=w.enable_cuda_graph,
    )
    cta = np.repeat(np.arange(w.sm_count), np.diff(plan.work_indptr))
    schedules = w.num_heads if plan.same_schedule_for_all_heads else 1
    head = np.repeat(np.arange(schedules), cta.size) if schedules > 1 else plan.head_indices.astype(np.int64)
    request = np.tile(plan.batch_indices.astype(np.int64), schedules)
    units = Units(
        launch=(np.tile(cta, schedules) + w.sm_count * np.repeat(np.arange(schedules), cta.size)),
        request=request,
        head_block=head,
        split=np.zeros_like(request),
        token_start=np.zeros_like(request),
        token_end=w.seq_lens[request],
    )
    names = ("work_indptr", "qo_tile_indices", "qo_indptr", "kv_indptr", "qo_len", "kv_len")
    return assemble(
        "flashinfer_prefill_sm90",
        SOURCE,
        LaunchShape((w.sm_count, schedules, 1), 1, 1, w.sm_count),
        units,
        rule="It never splits KV: head by head, the longest request of each first, a request goes whole to the CTA "
        "with the least cost so far.",
        head_block_is="1 query head",
        arrays={name: getattr(plan, name) for name in (*names, "head_indices", "batch_indices", "plan_info")},
        scalars={
            "cta_tile_q": plan.cta_tile_q,
            "same_schedule_for_all_heads": plan.same_schedule_for_all_heads,
        },
        workspace_bytes=plan.int_workspace_bytes,
    )


def _chunk_units(
    w: Workload,
    request_indices: Array,
    kv_tile_indices: Array,
    chunk: int,
    padded: int,
    *,
    tile: Int64Array | None = None,
    tiles: int = 1,
) -> Units:
    """Blocks times KV heads; x (blocks, padded) fastest."""
    heads = w.num_kv_heads
    used = request_indices.size
    request = np.tile(request_indices.astype(np.int64), heads)
    split = np.tile(kv_tile_indices.astype(np.int64), heads)
    head = np.repeat(np.arange(heads), used)
    row = np.zeros(used, np.int64) if tile is None else tile
    return Units(
        launch=np.tile(np.arange(used), heads) + padded * head,
        request=request,
        head_block=head * tiles + np.tile(row, heads),
        split=split,
        token_start=np.minimum(split * chunk, w.seq_lens[request]),
        token_end=np.minimum((split + 1) * chunk, w.seq_lens[request]),
    )
