"""transaction: an edit of a batch that fails leaves everything as it was; Snapshot: an edit is taken back later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch

from sglab.engine import ModelRunner, RadixCache, Req
from sglab.workbench.random_rows import kv_rows, put_kv_rows


class Editable(Protocol):
    """What a snapshot puts back: the batch's own attributes, and what these refer to."""

    runner: ModelRunner
    tree_cache: RadixCache
    reqs: list[Req]
    new_tokens: list[int]


class Snapshot:
    """A batch as it is now. Of the KV pool it keeps the rows in `slots`; others that an edit wrote stay written.

    Where edits came between, their snapshots are restored first, the last one first.
    """

    def __init__(self, batch: Editable, slots: Sequence[torch.Tensor] = ()) -> None:
        allocator, pool, tree = (
            batch.runner.token_to_kv_pool_allocator,
            batch.runner.req_to_token_pool,
            batch.tree_cache,
        )
        self._batch = batch
        self._pages, self._nodes = allocator.backup_state(), tree.backup_state()
        self._rows, self._holders, self._table = list(pool.free_slots), dict(pool.holders), pool.req_to_token.clone()
        self._reqs = [(req, {**vars(req), "output_ids": list(req.output_ids)}) for req in batch.reqs]
        self._own = {**vars(batch), "reqs": list(batch.reqs), "new_tokens": list(batch.new_tokens)}
        self._slots = torch.cat([each.long() for each in slots]) if slots else None
        self._kv = [] if self._slots is None else kv_rows(batch.runner.token_to_kv_pool, self._slots)

    def restore(self) -> None:
        """Put back all that was changed since."""
        batch = self._batch
        pool = batch.runner.req_to_token_pool
        batch.runner.token_to_kv_pool_allocator.restore_state(self._pages)
        batch.tree_cache.restore_state(self._nodes)
        pool.free_slots, pool.holders = self._rows, self._holders
        pool.req_to_token.copy_(self._table)
        for req, saved in self._reqs:
            vars(req).update(saved)
        vars(batch).update(self._own)
        if self._slots is not None:
            put_kv_rows(batch.runner.token_to_kv_pool, self._slots, self._kv)


@contextmanager
def transaction(batch: Editable) -> Iterator[None]:
    """When the edit inside fails, put back all it changed (KV rows that no request owns keep what was written)."""
    before = Snapshot(batch)
    try:
        yield
    except BaseException:
        before.restore()
        raise
