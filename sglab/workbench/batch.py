"""Batch: one live batch to look at, attend over and edit. `build` makes it; every edit runs the real allocator.

An edit is all or nothing: when one is refused, the pools, the allocator, the radix tree and the batch are as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.engine import (
    BadArgumentError,
    ForwardBatch,
    ForwardMode,
    ModelRunner,
    RadixAttention,
    RadixCache,
    Req,
    ScheduleBatch,
    arguments,
)
from sglab.engine.batch.allocation import release_kv_cache
from sglab.engine.batch.checks import check_tensor
from sglab.engine.model_runner import Kind
from sglab.workbench.batch_checks import check_attention_inputs, check_table
from sglab.workbench.forward_pass import token_slots, worker_batch
from sglab.workbench.random_rows import RandomRows, copy_kv
from sglab.workbench.transaction import Snapshot, transaction


class Batch:
    """Requests with their pools and live tensors, ready for one attention pass of one layer.

    Not a stage of serving, as the engine's batches are (`sglab.engine.batch` says which is which): the batch of the
    workbench, which keeps all that an attention pass reads in one place.

    Attributes:
        runner: pools, allocator and model shape; `layer`: heads, dims and scale of the attention layer.
        tree_cache: the radix tree; empty until a prefix is shared.
        reqs: the requests, in batch order.
        new_tokens: tokens each request computes in this pass: 1 in decode, its extend length in extend.
        q: [tokens, num_heads, head_dim], the new tokens' queries, request after request. Yours to change.
        sinks: [num_heads], a logit per head that the softmax's denominator alone counts; None: the layer has none.
        forward_batch: the ForwardBatch of this pass; every edit makes a new one.
    """

    def __init__(
        self, runner: ModelRunner, tree_cache: RadixCache, layer: RadixAttention, mode: ForwardMode, seed: int
    ) -> None:
        self.runner = runner
        self.tree_cache = tree_cache
        self.layer = layer
        self.forward_mode = mode
        self.reqs: list[Req] = []
        self.new_tokens: list[int] = []
        self.sinks: torch.Tensor | None = None
        self.q = torch.empty((0, layer.tp_q_head_num, layer.head_dim), dtype=runner.dtype, device=runner.device)
        self._random = RandomRows(seed, runner)
        self._names = 0
        self._tokens = 0
        self._refresh()

    # What it shows.

    @property
    def kind(self) -> Kind:
        return self.runner.model_config.kind

    @property
    def page_size(self) -> int:
        return self.runner.page_size

    @property
    def dtype(self) -> torch.dtype:
        return self.runner.dtype

    @property
    def device(self) -> torch.device:
        return self.runner.device

    @property
    def batch_size(self) -> int:
        return len(self.reqs)

    @property
    def num_heads(self) -> int:
        return self.layer.tp_q_head_num

    @property
    def num_kv_heads(self) -> int:
        return self.layer.tp_k_head_num

    @property
    def sm_scale(self) -> float:
        return self.layer.scaling

    @property
    def req_to_token(self) -> torch.Tensor:
        """int32 [rows, max_context_len], live."""
        return self.runner.req_to_token_pool.req_to_token

    @property
    def req_pool_indices(self) -> torch.Tensor:
        """int64 [B], live."""
        return self.forward_batch.req_pool_indices

    @property
    def seq_lens(self) -> torch.Tensor:
        """int64 [B], live."""
        return self.forward_batch.seq_lens

    @property
    def k(self) -> torch.Tensor:
        """[tokens, num_kv_heads, head_dim]: a copy of the new tokens' key rows."""
        return self.runner.token_to_kv_pool.get_key_buffer(self.layer.layer_id)[self.forward_batch.out_cache_loc]

    @property
    def v(self) -> torch.Tensor:
        """[tokens, num_kv_heads, v_head_dim]: a copy of the new tokens' value rows."""
        return self.runner.token_to_kv_pool.get_value_buffer(self.layer.layer_id)[self.forward_batch.out_cache_loc]

    def slots(self, i: int) -> torch.Tensor:
        """int64 [seq_len], the KV slots of request i's tokens."""
        return token_slots(self.runner.req_to_token_pool, self._req(i))

    def pages(self, i: int) -> list[int]:
        """The pages of request i, in token order."""
        return (self.slots(i)[:: self.page_size] // self.page_size).tolist()

    def free_pages(self) -> list[int]:
        """Pages that no request owns, in the order in which the allocator will hand them out."""
        allocator = self.runner.token_to_kv_pool_allocator
        return torch.cat((allocator.free_pages, allocator.release_pages)).tolist()

    def cached_pages(self) -> list[int]:
        """Pages that the radix tree owns, locked or evictable."""
        slots = [node.value[:: self.page_size] // self.page_size for node in self.tree_cache.nodes()]
        return sorted(torch.cat(slots).tolist()) if slots else []

    def __repr__(self) -> str:
        lengths = [req.kv_committed_len for req in self.reqs]
        return (
            f"Batch({self.forward_mode.name.lower()}, {self.kind}, seq_lens={lengths}, num_heads={self.num_heads}, "
            f"num_kv_heads={self.num_kv_heads}, page_size={self.page_size}, {self.dtype}, {self.device}, "
            f"{len(self.free_pages())} of {self.runner.token_to_kv_pool.num_pages} pages free)"
        )

    def check(self) -> None:
        """Refuse what no kernel could serve; attention calls this first.

        Raises:
            BadArgumentError, PageTableError, NonFiniteKVError: naming what is wrong, where, and what to do.
        """
        self._check_q()
        check_attention_inputs(self.runner, self.layer, self.forward_batch, self.q, self.reqs, self.new_tokens)

    def check_page_table(self) -> None:
        """The part of `check` that an index kernel depends on: lengths, rows, slots and who owns them.

        Raises:
            BadArgumentError, PageTableError: as `check`.
        """
        check_table(self.runner, self.forward_batch)

    # What changes it.

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
        self._check_room(seq_len)
        with transaction(self):
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
        with transaction(self):
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
        with transaction(self):
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
        self._check_room(tokens + extra_tokens)
        with transaction(self):
            self.tree_cache.cache_unfinished_req(donor)
            req = Req(self._name(), donor.token_ids()[:tokens] + self._fresh_tokens(extra_tokens))
            self._admit([req], [new_tokens])
            self._repeat_prefix(i, self.batch_size - 1, tokens)
        return self.batch_size - 1

    def evict(self, num_tokens: int) -> int:
        """Evict unlocked prefixes from the radix tree, least recently used first. Returns the tokens freed."""
        return self.tree_cache.evict(arguments.integer("num_tokens", num_tokens, 0))

    def snapshot(self, leaving: int | None = None) -> Snapshot:
        """The batch as it is, for a later `restore`, with the KV rows that edits may give away.

        Args:
            leaving: a request that is about to leave; beside its rows, those that the radix tree could evict are kept.
        """
        slots = [node.value for node in self.tree_cache.nodes() if node.lock_ref == 0]
        if leaving is not None:
            slots.append(self.slots(leaving))
        return Snapshot(self, slots)

    def admit(self, seq_lens: list[int], new_tokens: Sequence[int | None], shared_prefix: int = 0) -> None:
        """Admit many requests at once, all beginning with the same `shared_prefix` tokens. See `allocate`."""
        shared = self._fresh_tokens(shared_prefix)
        reqs = [Req(self._name(), shared + self._fresh_tokens(n - shared_prefix)) for n in seq_lens]
        with transaction(self):
            donor, alone = self.batch_size, 1 if shared_prefix else len(reqs)
            self._admit(reqs[:alone], new_tokens[:alone])
            if reqs[alone:]:
                self.tree_cache.cache_unfinished_req(reqs[0])
                self._admit(reqs[alone:], new_tokens[alone:])
                for i in range(donor + 1, self.batch_size):
                    self._repeat_prefix(donor, i, shared_prefix)

    def adopt(self, reqs: list[Req], new_tokens: Sequence[int]) -> None:
        """Take requests that hold their rows and slots already, as a recorded pass left them; random queries and KV."""
        for req in reqs:
            self._random.fill_kv(token_slots(self.runner.req_to_token_pool, req))
        rows = self._query_rows() + [self._random.queries(self.layer, count) for count in new_tokens]
        self.reqs += reqs
        self.new_tokens += list(new_tokens)
        self._refresh(rows)

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

    def _refresh(self, query_rows: list[torch.Tensor] | None = None) -> None:
        """Make new `q` and `forward_batch` from the requests."""
        if query_rows is not None:
            self.q = torch.cat([self.q[:0], *query_rows])
        made = worker_batch(self.runner.req_to_token_pool, self.reqs, self.new_tokens, self.forward_mode)
        self.forward_batch = ForwardBatch.init_new(made, self.runner)

    def _query_rows(self) -> list[torch.Tensor]:
        self._check_q()
        return list(self.q.split(self.new_tokens)) if self.new_tokens else []

    def _check_q(self) -> None:
        shape = (sum(self.new_tokens), self.num_heads, self.layer.head_dim)
        check_tensor("q", self.q, shape, (self.dtype,), self.device)

    def _req(self, i: int) -> Req:
        if not self.reqs:
            raise BadArgumentError("i", "a request", f"{i!r} for an empty batch", "Allocate a request first.")
        return self.reqs[arguments.integer("i", i, 0, self.batch_size - 1, "Requests are numbered in batch order.")]

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

    def _check_room(self, seq_len: int) -> None:
        """Before a list of its tokens is made: for a wrong length that needs more memory than there is."""
        most = self.runner.req_to_token_pool.max_context_len
        if seq_len > most:
            remedy = "A row of req_to_token is too short for it: make the batch with a larger max_context_len."
            raise BadArgumentError("seq_len", f"at most max_context_len {most}", seq_len, remedy)

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
