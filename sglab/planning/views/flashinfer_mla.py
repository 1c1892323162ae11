"""FlashInfer's MLA planner on one decode step."""

from __future__ import annotations

import numpy as np

from sglab.planning.csr import page_indptr
from sglab.planning.flashinfer_mla import CTA_TILE_Q, mla_plan
from sglab.planning.plan import LaunchShape, Merge, Plan, Units, assemble
from sglab.planning.words import many, query_heads
from sglab.planning.workload import Workload


def mla(w: Workload) -> Plan:
    """MLA, fa2 and fa3: one list of work units per cluster, then a grid-wide barrier, then the merge."""
    w.require_latent_kv("flashinfer_mla")
    plan = mla_plan(
        w.qo_indptr,
        page_indptr(w.seq_lens, w.page_size),
        w.seq_lens,
        num_heads=w.num_heads,
        sm_count=w.sm_count,
        head_dim_o=w.head_dim_vo,
    )
    request = plan.batch_indices.astype(np.int64)
    start = plan.kv_start.astype(np.int64)
    units = Units(
        launch=np.repeat(np.arange(plan.num_blks_y), np.diff(plan.work_indptr)),
        request=request,
        head_block=plan.q_start.astype(np.int64) // (CTA_TILE_Q * plan.num_blks_x),
        split=start // plan.kv_len_limit,
        token_start=start,
        token_end=plan.kv_end.astype(np.int64),
    )
    works = ("work_indptr", "q_indptr", "kv_indptr", "partial_indptr", "q_len", "kv_len", "q_start", "kv_start")
    merges = (
        "merge_packed_offset_start",
        "merge_packed_offset_end",
        "merge_partial_packed_offset_start",
        "merge_partial_packed_offset_end",
        "merge_partial_stride",
    )
    outputs = int((plan.merge_packed_offset_end - plan.merge_packed_offset_start).sum())
    return assemble(
        "flashinfer_mla",
        "FlashInfer 0.7.2.post1 attention/scheduler.cuh",
        LaunchShape((plan.num_blks_x, plan.num_blks_y, 1), plan.num_blks_x, 1, w.sm_count),
        units,
        rule=(
            f"Even shares of all KV tokens on {many(plan.num_blks_y, 'cluster')}, rounded up to {plan.kv_len_limit:,} "
            "tokens (kv_len_limit): no work unit is longer, and each goes to the cluster with the least cost so far."
        ),
        head_block_is=query_heads(w.num_heads, 64),
        arrays={name: getattr(plan, name) for name in (*works, "kv_end", *merges, "plan_info")},
        scalars={
            "num_blks_x": plan.num_blks_x,
            "num_blks_y": plan.num_blks_y,
            "kv_len_limit": plan.kv_len_limit,
            "num_merge_ctas": plan.num_merge_ctas,
        },
        workspace_bytes=plan.float_workspace_bytes + plan.int_workspace_bytes,
        merge=Merge.of(plan.num_partial_rows, outputs, w.head_dim_vo, partial_bytes=2),
    )
