"""transaction: an edit of a batch that fails leaves everything as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from sglab.engine import ModelRunner, RadixCache, Req


class Editable(Protocol):
    """What a transaction puts back: the batch's own attributes, and what these refer to."""

    runner: ModelRunner
    tree_cache: RadixCache
    reqs: list[Req]
    new_tokens: list[int]


@contextmanager
def transaction(batch: Editable) -> Iterator[None]:
    """When the edit inside fails, put back all it changed (KV rows that no request owns keep what was written)."""
    allocator, pool, tree = batch.runner.token_to_kv_pool_allocator, batch.runner.req_to_token_pool, batch.tree_cache
    pages, nodes = allocator.backup_state(), tree.backup_state()
    rows, holders, table = list(pool.free_slots), dict(pool.holders), pool.req_to_token.clone()
    reqs = [(req, {**vars(req), "output_ids": list(req.output_ids)}) for req in batch.reqs]
    own = {**vars(batch), "reqs": list(batch.reqs), "new_tokens": list(batch.new_tokens)}
    try:
        yield
    except BaseException:
        allocator.restore_state(pages)
        tree.restore_state(nodes)
        pool.free_slots, pool.holders = rows, holders
        pool.req_to_token.copy_(table)
        for req, saved in reqs:
            vars(req).update(saved)
        vars(batch).update(own)
        raise
