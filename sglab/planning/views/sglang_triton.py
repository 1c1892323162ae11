"""SGLang's Triton decode attention under its three ways to choose splits."""

from __future__ import annotations

import numpy as np

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.num_kv_splits import (
    BLOCK_H,
    DETERMINISTIC_TILE,
    MAX_KV_SPLITS,
    MIN_BLOCK_KV,
    Int32Array,
    deterministic_num_kv_splits,
    get_num_kv_splits,
    head_blocks,
    kv_len_per_split,
    static_num_kv_splits,
)
from sglab.planning.plan import Launch, Merge, Plan, Units, assemble
from sglab.planning.workload import Workload

SOURCE = "SGLang 0.5.9 layers/attention/triton_backend.py"


def dynamic(w: Workload, *, max_kv_splits: int = MAX_KV_SPLITS) -> Plan:
    """get_num_kv_splits_triton."""
    splits = get_num_kv_splits(
        w.seq_lens,
        num_head=w.num_heads,
        num_kv_head=w.num_kv_heads,
        device_core_count=w.sm_count,
        max_kv_splits=max_kv_splits,
    )
    rule = (
        "Two chunk lengths compete and a request takes the larger number of splits: one evens out the "
        f"batch's lengths, the other fills {w.sm_count} SMs; at most {max_kv_splits}. "
        f"A split's length is rounded up to {MIN_BLOCK_KV} tokens."
    )
    return _plan(w, "sglang_triton", splits, max_kv_splits, rule)


def static(w: Workload, *, max_kv_splits: int = MAX_KV_SPLITS) -> Plan:
    """The maximum for every request."""
    splits = static_num_kv_splits(w.seq_lens, max_kv_splits=max_kv_splits)
    rule = f"{max_kv_splits} splits for every request, whatever its length."
    return _plan(w, "sglang_triton_static", splits, max_kv_splits, rule)


def deterministic(w: Workload, *, split_tile_size: int = DETERMINISTIC_TILE) -> Plan:
    """One split per 256 tokens; the grid's depth is the context length's, here taken as the longest request's."""
    splits = deterministic_num_kv_splits(w.seq_lens, split_tile_size=split_tile_size)
    rule = f"ceil(length / {split_tile_size}) splits: a request splits the same way in every batch."
    return _plan(w, "sglang_triton_deterministic", splits, max(1, int(splits.max())), rule)


def _plan(w: Workload, name: str, num_kv_splits: Int32Array, max_kv_splits: int, rule: str) -> Plan:
    blocks = head_blocks(w.num_heads, w.num_kv_heads)
    per_split = kv_len_per_split(w.seq_lens, num_kv_splits)
    used = ceil_div(w.seq_lens, per_split)
    depth = int(used.max())
    if depth > max_kv_splits:
        raise check.fail("max_kv_splits", f"at least {depth}", max_kv_splits, "raise it")
    # grid (batch, head blocks, splits), x fastest
    split = np.repeat(np.arange(depth), blocks * w.batch_size)
    block = np.tile(np.repeat(np.arange(blocks), w.batch_size), depth)
    request = np.tile(np.arange(w.batch_size), depth * blocks)
    start = split * per_split[request]
    units = Units(
        launch=request + w.batch_size * (block + blocks * split),
        request=request,
        head_block=block,
        split=split,
        token_start=start,
        token_end=np.minimum(start + per_split[request], w.seq_lens[request]),
    )
    units = units.select(split < used[request])
    heads = 1 if w.group_size == 1 else min(BLOCK_H, w.group_size)
    partials = int(used.sum()) * w.num_heads
    return assemble(
        name,
        SOURCE,
        Launch((w.batch_size, blocks, max_kv_splits), 1, w.ctas_per_sm, w.sm_count),
        units,
        rule=rule,
        head_block_is=f"{heads} query head{'s' * (heads > 1)} of one KV head",
        arrays={"num_kv_splits": num_kv_splits, "kv_len_per_split": per_split.astype(np.int32)},
        scalars={"max_kv_splits": max_kv_splits, "head_blocks": blocks},
        workspace_bytes=w.batch_size * w.num_heads * max_kv_splits * (w.head_dim_vo + 1) * 4,
        merge=Merge.of(partials, w.batch_size * w.num_heads, w.head_dim_vo),
    )
