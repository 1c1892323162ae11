"""step_batch: what one layer of a model attended to in a step of a recorded engine."""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.engine import (
    BadArgumentError,
    ForwardMode,
    ModelRunner,
    RadixAttention,
    RadixCache,
    Req,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
    arguments,
)
from sglab.engine.cache import PagedTokenToKVPoolAllocator, RadixKey
from sglab.engine.recording import NodeState, Recording
from sglab.engine.recording.recording import StepPools
from sglab.engine.scheduler import StepRecord
from sglab.models import CausalLM
from sglab.serving.pools import kv_pool
from sglab.workbench.batch import Batch
from sglab.workbench.layer_rows import attention_shape, run_tokens


def step_batch(recording: Recording, step: int, layer: int = 0, *, dtype: str | torch.dtype | None = None) -> Batch:
    """The batch of one step, as one attention layer saw it: the same requests in the same rows, slots and pages.

    The pool's pages are as the step found them: those of requests that did not run in it and of the radix tree are
    taken. Keys, values and queries come from running the model again over the tokens that the requests had, into the
    slots that they had; they differ from the step's own by rounding alone.

    Args:
        recording: `engine.record()`.
        step: its number.
        layer: which attention layer; its number among those that have a KV cache.
        dtype: of queries and pool; None: the model's. Most kernels take "float16" and "bfloat16" alone.

    Raises:
        BadArgumentError: no such step or layer, a step from before the recording or of drafts, a model that also keeps
            a state.
    """
    record, pools = _step(recording, step)
    model = recording.model
    if not isinstance(model, CausalLM):
        raise BadArgumentError("recording", "one with a model, of engine.record()", type(model).__name__, "Make one.")
    attention_shape(model, layer)
    batch = _batch(recording, record, pools, model)
    rows = []
    for req, new in zip(batch.reqs, batch.new_tokens, strict=True):  # one by one: they may share slots
        seen = run_tokens(batch.runner, [req], model, [layer])[layer]
        batch.layer, batch.sinks = seen.layer, seen.sinks
        rows.append(seen.q[-new:])
    batch.q = torch.cat(rows)
    return batch if dtype is None else _converted(batch, model, arguments.dtype("dtype", dtype))


def _step(recording: Recording, step: int) -> tuple[StepRecord, StepPools]:
    last = len(recording.steps) - 1
    if last < 0:
        raise BadArgumentError("step", "a step that has run", step, "Step the engine first.")
    record = recording.steps[arguments.integer("step", step, 0, last, "They are numbered from 0 on.")]
    pools = recording.pools.get(step)
    if pools is None:
        remedy = f"The first that was recorded is {min(recording.pools, default='still to come')}."
        raise BadArgumentError("step", "a step that ran while the engine was recorded", step, remedy)
    if record.mode == ForwardMode.TARGET_VERIFY.name:
        remedy = "Choose a step of mode EXTEND, or record an engine without speculation."
        raise BadArgumentError("step", "a step without drafts", f"step {step}, of mode {record.mode}", remedy)
    return record, pools


def _batch(recording: Recording, record: StepRecord, pools: StepPools, model: CausalLM) -> Batch:
    """Pools with the step's requests and tree in them; no row is filled yet."""
    shares = {entry.rid: entry for entry in record.batch}
    running = [held for held in pools.held if held.in_batch]
    source, page, size = recording.scheduler.req_to_token_pool, recording.page_size, recording.pool_size
    rows = ReqToTokenPool(source.size, source.max_context_len, model.device)
    kv = kv_pool(model, model.attention_config(), size, page)
    paged = PagedTokenToKVPoolAllocator(size, page, model.device, kv)
    allocator = TokenToKVPoolAllocator(size, model.device, kv) if page == 1 else paged
    shape = replace(model.attention_config(), context_len=source.max_context_len)
    runner = ModelRunner(shape, rows, kv, allocator, model.dtype, model.device, page)
    tree = RadixCache(rows, allocator, page)
    own = RadixAttention(
        shape.num_attention_heads, shape.num_key_value_heads, shape.head_dim, shape.scaling, v_head_dim=shape.v_head_dim
    )
    batch = Batch(runner, tree, own, ForwardMode[record.mode], 0)
    taken = {0}
    for held in pools.held:
        pages = held.slots[::page] // page
        taken.update(pages.tolist())
        rows.free_slots.remove(held.row)
        rows.write((held.row, slice(0, len(held.slots))), torch.from_numpy(held.slots).to(model.device))
    nodes = recording.tree.nodes_at(pools.tree_ops)
    for node in nodes.values():
        taken.update(node.pages)
    every = torch.arange(1, allocator.num_pages + 1, device=model.device)
    allocator.free_pages = every[[int(each) not in taken for each in every]]
    _plant(tree, nodes, page)
    for held in running:
        tokens = recording.tokens(held.rid)[: len(held.slots)]
        req = Req(held.rid, tokens, extra_key=recording.req(held.rid).extra_key)
        req.req_pool_idx, req.kv_committed_len = held.row, len(tokens)
        rows.holders[held.row] = req
        _lock(tree, req, rows)
        batch.reqs.append(req)
        batch.new_tokens.append(shares[held.rid].new_tokens)
    batch.q = batch.q.new_zeros((sum(batch.new_tokens), *batch.q.shape[1:]))
    batch._refresh()
    return batch


def _plant(tree: RadixCache, nodes: dict[int, NodeState], page: int) -> None:
    """The same prefixes with the same slots: those that are on the device."""
    parents = {node.parent for node in nodes.values() if node.on_device}
    for leaf in nodes.values():
        if leaf.id in parents or leaf.parent < 0 or not leaf.on_device:
            continue
        path = [leaf]
        while path[-1].parent in nodes and nodes[path[-1].parent].parent >= 0:
            path.append(nodes[path[-1].parent])
        tokens = [token for node in reversed(path) for token in node.tokens]
        pages = torch.tensor([each for node in reversed(path) for each in node.pages])
        slots = (pages[:, None] * page + torch.arange(page)).flatten()
        tree.insert(RadixKey(tokens, leaf.extra_key), slots.to(tree.root_node.value.device))


def _lock(tree: RadixCache, req: Req, rows: ReqToTokenPool) -> None:
    """A request holds the part of its prefix that the tree has in the request's own slots."""
    found = tree.match_prefix(RadixKey(req.origin_input_ids, req.extra_key)).device_indices
    mine = rows.req_to_token[req.req_pool_idx, : len(found)].to(torch.int64)
    shared = int((mine == found).to(torch.int64).cumprod(0).sum())
    match = tree.match_prefix(RadixKey(req.origin_input_ids[:shared], req.extra_key))
    tree.inc_lock_ref(match.last_device_node)
    req.last_node, req.holds_lock = match.last_device_node, True
    req.prefix_indices, req.cache_protected_len = match.device_indices, len(match.device_indices)


def _converted(batch: Batch, model: CausalLM, dtype: torch.dtype) -> Batch:
    """The batch with its queries and pool in another dtype."""
    runner, before = batch.runner, batch.runner.token_to_kv_pool
    after = kv_pool(model, model.attention_config(), before.size, before.page_size, dtype)
    for layer in range(before.layer_num):
        for name, buffer in after.named_buffers(layer).items():
            buffer.copy_(before.named_buffers(layer)[name])
    runner.token_to_kv_pool, runner.dtype = after, dtype
    runner.token_to_kv_pool_allocator._kvcache = after
    batch.q = batch.q.to(dtype)
    batch._refresh()
    return batch
