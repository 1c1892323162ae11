"""Batch: one live batch to look at, attend over and edit. `build` makes it; every edit runs the real allocator.

An edit is all or nothing: when one is refused, the pools, the allocator, the radix tree and the batch are as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from sglab.engine import arguments
from sglab.engine.batch.allocation import release_kv_cache
from sglab.engine.batch.forward_mode import ForwardMode
from sglab.engine.batch.req import Req
from sglab.engine.batch.schedule_batch import ScheduleBatch
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.errors import BadArgumentError
from sglab.engine.layer import RadixAttention
from sglab.engine.model_runner import ModelRunner
from sglab.workbench.batch_state import BatchState
from sglab.workbench.random_rows import RandomRows, copy_kv


class Batch(BatchState):
    """Requests with their pools and live tensors, ready for one attention pass of one layer.

    Attributes:
        runner: pools, allocator and model shape; `layer`: heads, dims and scale of the attention layer.
        tree_cache: the radix tree; empty until a prefix is shared.
        reqs: the requests, in batch order.
        new_tokens: tokens each request computes in this pass: 1 in decode, its extend length in extend.
        q: [tokens, num_heads, head_dim], the new tokens' queries, request after request. Yours to change.
        forward_batch: the ForwardBatch of this pass, made anew by every edit.
    """

    def __init__(
        self, runner: ModelRunner, tree_cache: RadixCache, layer: RadixAttention, mode: ForwardMode, seed: int
    ) -> None:
        self._random = RandomRows(seed, runner)
        self._names = 0
        self._tokens = 0
        super().__init__(runner, tree_cache, layer, mode)

    def allocate(self, seq_len: int, new_tokens: int | None = None, token_ids: list[int] | None = None) -> int:
        """Admit a request of `seq_len` tokens.

        Args:
            new_tokens: how many of its last tokens this pass computes; None: 1 in decode, all uncached ones in extend.
            token_ids: its tokens, for a prefix that the radix tree knows; fresh ones if None.

        Returns:
            Its index in the batch.

        Raises:
            PoolExhaustedError: too few free pages (after eviction) or rows. BadArgumentError: a length no row can hold.
        """
        arguments.integer("seq_len", seq_len, 1, remedy="A request has tokens.")
        if token_ids is not None and len(token_ids) != seq_len:
            raise BadArgumentError("token_ids", f"{seq_len} tokens", len(token_ids), "Pass one per position.")
        with self._transaction():
            self._admit([Req(self._name(), token_ids or self._fresh_tokens(seq_len))], [new_tokens])
        return self.batch_size - 1

    def extend_by_token(self, i: int) -> int:
        """Request i grows by one token: the next slot of its last page, or a new page on a page boundary.

        Returns:
            The new token's slot.

        Raises:
            PoolExhaustedError: a new page is needed and none is left. BadArgumentError: the row is full.
        """
        req = self._req(i)
        with self._transaction():
            step = ScheduleBatch.init_new([req], self.tree_cache)
            step.seq_lens_cpu = torch.tensor([req.kv_committed_len])
            step.seq_lens = step.seq_lens_cpu.to(self.device)
            step.req_pool_indices = torch.tensor([req.req_pool_idx], device=self.device)
            tokens = self._fresh_tokens(1)
            step.output_ids = torch.tensor(tokens, device=self.device)
            step.prepare_for_decode()
            req.output_ids += tokens
            self._random.fill_kv(step.out_cache_loc)
            rows, new_row = self._query_rows(), self._random.queries(self.layer, 1)
            rows[i] = new_row if self.forward_mode.is_decode() else torch.cat((rows[i], new_row))
            self.new_tokens[i] = len(rows[i])
            self._refresh(rows)
        return int(step.out_cache_loc[0])

    def free(self, i: int, keep_cached: bool = False) -> None:
        """Request i leaves. The pages it owns alone are free again; pages it shares stay in the radix tree.

        Args:
            keep_cached: leave its whole pages in the radix tree too, evictable, as SGLang does with finished requests.
        """
        req = self._req(i)
        with self._transaction():
            release_kv_cache(req, self.tree_cache, is_insert=keep_cached)
            rows = self._query_rows()
            del self.reqs[i], self.new_tokens[i], rows[i]
            self._refresh(rows)

    def share_prefix(self, i: int, tokens: int, extra_tokens: int = 1, new_tokens: int | None = None) -> int:
        """Admit a request of request i's first `tokens` tokens and `extra_tokens` of its own.

        The radix tree takes over request i's whole pages; the new request shares those that its prefix fills, and
        computes the rest of the prefix again, into pages of its own.

        Returns:
            The new request's index.

        Raises:
            PoolExhaustedError, BadArgumentError: as `allocate`.
        """
        donor = self._req(i)
        most = donor.kv_committed_len
        arguments.integer("tokens", tokens, 1, most, f"Request {i} has {most} tokens to share.")
        arguments.integer("extra_tokens", extra_tokens, 0, remedy="Ask for fewer shared tokens instead.")
        with self._transaction():
            self.tree_cache.cache_unfinished_req(donor)
            req = Req(self._name(), donor.token_ids()[:tokens] + self._fresh_tokens(extra_tokens))
            self._admit([req], [new_tokens])
            self._repeat_prefix(i, self.batch_size - 1, tokens)
        return self.batch_size - 1

    def evict(self, num_tokens: int) -> int:
        """Evict unlocked prefixes from the radix tree, least recently used first. Returns the tokens freed."""
        return self.tree_cache.evict(arguments.integer("num_tokens", num_tokens, 0))

    def admit(self, seq_lens: list[int], new_tokens: Sequence[int | None], shared_prefix: int = 0) -> None:
        """Admit many requests at once, all beginning with the same `shared_prefix` tokens. See `allocate`."""
        shared = self._fresh_tokens(shared_prefix)
        reqs = [Req(self._name(), shared + self._fresh_tokens(n - shared_prefix)) for n in seq_lens]
        with self._transaction():
            donor, alone = self.batch_size, 1 if shared_prefix else len(reqs)
            self._admit(reqs[:alone], new_tokens[:alone])
            if reqs[alone:]:
                self.tree_cache.cache_unfinished_req(reqs[0])
                self._admit(reqs[alone:], new_tokens[alone:])
                for i in range(donor + 1, self.batch_size):
                    self._repeat_prefix(donor, i, shared_prefix)

    # How it is done.

    def _admit(self, reqs: list[Req], new_tokens: Sequence[int | None]) -> None:
        """Prefill requests: one alloc_extend for all of them, random KV rows for what they do not share."""
        for req in reqs:
            req.init_next_round_input(self.tree_cache)
        counts = [self._new_tokens(req, count) for req, count in zip(reqs, new_tokens, strict=True)]
        prefill = ScheduleBatch.init_new(reqs, self.tree_cache)
        prefill.prepare_for_extend()
        self._random.fill_kv(prefill.out_cache_loc)
        rows = self._query_rows() + [self._random.queries(self.layer, count) for count in counts]
        self.reqs += reqs
        self.new_tokens += counts
        self._refresh(rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """When an edit fails, put back all it changed (KV rows that nobody owns keep what was written)."""
        allocator, pool = self.runner.token_to_kv_pool_allocator, self.runner.req_to_token_pool
        pages, tree = allocator.backup_state(), self.tree_cache.backup_state()
        rows, table = list(pool.free_slots), pool.req_to_token.clone()
        reqs = [(req, {**vars(req), "output_ids": list(req.output_ids)}) for req in self.reqs]
        mine = {**vars(self), "reqs": list(self.reqs), "new_tokens": list(self.new_tokens)}
        try:
            yield
        except BaseException:
            allocator.restore_state(pages)
            self.tree_cache.restore_state(tree)
            pool.free_slots = rows
            pool.req_to_token.copy_(table)
            for req, saved in reqs:
                vars(req).update(saved)
            vars(self).update(mine)
            raise

    def _new_tokens(self, req: Req, asked: int | None) -> int:
        most = 1 if self.forward_mode.is_decode() else req.extend_input_len
        if asked is None:
            return most
        if not 1 <= asked <= most:
            raise BadArgumentError(
                f"new_tokens of request {req.rid}",
                f"1..{most} in {self.forward_mode.name} mode",
                asked,
                "Decode computes one token, extend at most those whose KV no other request shares.",
            )
        return asked

    def _name(self) -> str:
        self._names += 1
        return f"r{self._names - 1}"

    def _fresh_tokens(self, count: int) -> list[int]:
        """Running numbers: tokens only need to be equal or different here, and fresh ones never match by chance."""
        self._tokens += count
        return list(range(self._tokens - count, self._tokens))

    def _repeat_prefix(self, donor: int, i: int, tokens: int) -> None:
        """Give request i the donor's KV for the prefix tokens it computes again: equal tokens give equal rows."""
        start = self.reqs[i].cache_protected_len
        copy_kv(self.runner.token_to_kv_pool, self.slots(donor)[start:tokens], self.slots(i)[start:tokens])
