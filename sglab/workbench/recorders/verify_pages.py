"""The page table of a verification, as it was: for PageTable, on pools of its own that a reader may edit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.engine import (
    ForwardMode,
    MHATokenToKVPool,
    MLATokenToKVPool,
    ModelRunner,
    PagedTokenToKVPoolAllocator,
    RadixAttention,
    RadixCache,
    Req,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
)
from sglab.engine.cache import BaseTokenToKVPoolAllocator
from sglab.engine.cache.radix_node import RadixKey, TreeNode, tree_path
from sglab.serving.speculative_worker import Verification
from sglab.workbench.batch import Batch


@dataclass(frozen=True)
class HeldRow:
    """A request's row of req_to_token: its tokens so far with its drafts, and their slots."""

    rid: str
    row: int
    tokens: list[int]
    slots: torch.Tensor
    new_tokens: int
    protected: int
    extra_key: str | None


@dataclass(frozen=True)
class PoolState:
    """Who owned which slot while a pass ran.

    Attributes:
        rows: the pass's requests; the slots that drafts were given count as theirs, and as computed.
        cached: paths of the radix tree from the root to each leaf: tokens, slots, namespace.
        free: pages in the order in which they would be handed out.
    """

    runner: ModelRunner
    rows: list[HeldRow]
    cached: list[tuple[list[int], torch.Tensor, str | None]]
    free: torch.Tensor

    def batch(self) -> Batch:
        """The pass as a batch of the workbench: the recorded slots and pages; queries and KV rows are random."""
        engine = self.runner
        shape, page = engine.model_config, engine.page_size
        size = engine.token_to_kv_pool.size
        config = replace(shape, num_hidden_layers=1)
        kv: MLATokenToKVPool | MHATokenToKVPool
        if shape.kind == "mla":
            rank, rope = shape.kv_lora_rank, shape.qk_rope_head_dim
            kv = MLATokenToKVPool(size, page, engine.dtype, rank, rope, 1, "cpu")
        else:
            heads = shape.get_num_kv_heads(engine.tp_size)
            kv = MHATokenToKVPool(size, page, engine.dtype, heads, shape.head_dim, 1, "cpu", shape.v_head_dim)
        source = engine.req_to_token_pool
        rows = ReqToTokenPool(source.size, source.max_context_len, "cpu")
        allocator: BaseTokenToKVPoolAllocator = (
            TokenToKVPoolAllocator(size, "cpu", kv) if page == 1 else PagedTokenToKVPoolAllocator(size, page, "cpu", kv)
        )
        allocator.free_pages = self.free.clone()
        tree = RadixCache(rows, allocator, page)
        for tokens, slots, extra_key in self.cached:
            tree.insert(RadixKey(tokens, extra_key), slots)
        runner = replace(
            engine,
            model_config=config,
            req_to_token_pool=rows,
            token_to_kv_pool=kv,
            token_to_kv_pool_allocator=allocator,
            device=torch.device("cpu"),
            check_metadata=None,
            state_pool=None,
        )
        layer = RadixAttention(
            tp_q_head_num=shape.num_attention_heads // engine.tp_size,
            tp_k_head_num=shape.get_num_kv_heads(engine.tp_size),
            head_dim=shape.head_dim,
            v_head_dim=shape.v_head_dim,
            scaling=shape.scaling,
            logit_cap=shape.logit_cap,
        )
        batch = Batch(runner, tree, layer, ForwardMode.EXTEND, 0)
        batch.adopt([self._request(held, rows, tree) for held in self.rows], [held.new_tokens for held in self.rows])
        return batch

    @staticmethod
    def _request(held: HeldRow, rows: ReqToTokenPool, tree: RadixCache) -> Req:
        req = Req(held.rid, held.tokens, extra_key=held.extra_key)
        req.fill_ids, req.kv_committed_len = list(held.tokens), len(held.tokens)
        req.cache_protected_len = held.protected
        req.prefix_indices = held.slots[: held.protected].clone()
        found = tree.match_prefix(RadixKey(held.tokens[: held.protected], held.extra_key))
        req.last_node, req.holds_lock = found.last_device_node, True
        tree.inc_lock_ref(found.last_device_node)
        rows.free_slots.remove(held.row)
        req.req_pool_idx = held.row
        rows.holders[held.row] = req
        rows.write((held.row, slice(0, len(held.slots))), held.slots)
        return req


def pool_state(runner: ModelRunner, tree: RadixCache, seen: Verification) -> PoolState:
    """The books while a verification runs; copies, nothing is changed."""
    allocator, table = runner.token_to_kv_pool_allocator, runner.req_to_token_pool.req_to_token
    lengths, rows = seen.batch.seq_lens.tolist(), seen.batch.req_pool_indices.tolist()
    width = seen.slots.shape[1]
    held = []
    for req, (nodes, _), length, row in zip(seen.reqs, seen.drafts, lengths, rows, strict=True):
        drafts = [*nodes, *[nodes[-1]] * (width - len(nodes))]
        tokens = [*req.token_ids()[:length], *drafts]
        slots = table[row, : length + width].to("cpu", torch.int64, copy=True)
        held.append(HeldRow(req.rid, row, tokens, slots, width, req.cache_protected_len, req.extra_key))
    free = torch.cat((allocator.free_pages, allocator.release_pages)).cpu().clone()
    leaves = [node for node in tree.nodes() if not node.children]
    return PoolState(runner, held, [_path(leaf) for leaf in leaves], free)


def _path(leaf: TreeNode) -> tuple[list[int], torch.Tensor, str | None]:
    runs, node = [], leaf
    while node.parent is not None:
        runs.append(node.key.token_ids)
        node = node.parent
    return [token for run in reversed(runs) for token in run], tree_path(leaf).cpu(), leaf.key.extra_key
