"""ContextParallelBackend: any backend's own arrays and arithmetic over one rank's share of every request.

Decoding, a rank gathers the queries of all ranks' heads, attends to the keys that it has, and gets back its own heads'
results over all keys; of a chain of drafts each is a request of its own, as long as what it sees. In a prompt the new
tokens attend to each other on every rank, each with its own heads; to their prefix they attend as in decoding, or its
keys are gathered first (`Capabilities.gathers_prefix`). With sparse attention a prompt's tokens, too, are requests of
their own.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, merge_natural, scoring_of
from sglab.attention.arithmetic.attend import IMPLEMENTATIONS
from sglab.attention.arithmetic.chosen import IndexRows
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import Capabilities
from sglab.attention.dcp.layout import Share
from sglab.attention.dcp.merging import merge_over_ranks
from sglab.attention.dcp.prefix import GatheredPrefix
from sglab.attention.inputs import AttentionInputs
from sglab.attention.registry import Factory
from sglab.attention.rows import save_kv, scales_of, whole_query
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch, ModelRunner, ReqToTokenPool
from sglab.engine.rank_group import RankGroup


class ContextParallelBackend(AttentionBackend):
    """One rank's part of a backend. All ranks of its group must run the same passes in the same order.

    Args:
        factory: makes the backend; for it a rank's share is all that there is, and its heads are those of the group.

    Attributes:
        inner: that backend; its `forward_metadata` are those of this rank's share.
        share: what that is.
    """

    def __init__(self, name: str, factory: Factory, model_runner: ModelRunner, group: RankGroup) -> None:
        whole = getattr(factory, "capabilities", Capabilities())
        self.name, self.capabilities = name, whole  # type: ignore[misc]
        if whole.dcp is not None:
            self.capabilities = replace(whole.dcp, dcp=whole.dcp)  # type: ignore[misc]
        super().__init__(model_runner)
        self.group, self.comm_backend = group, model_runner.dcp_comm_backend
        self.device, asked = model_runner.device, model_runner.kernel_implementation
        self.implementation = asked if asked in IMPLEMENTATIONS else "auto"
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        pool = model_runner.req_to_token_pool
        run = model_runner.page_size if self.capabilities.pages_apart else 1
        self.share = Share(group.rank, group.size, run)
        self.own_pool = ReqToTokenPool(pool.size, self.share.width(pool.max_context_len), self.device)
        heads_over = model_runner.tp_size // group.size
        own = replace(model_runner, dcp=None, holds_share=True, tp_size=heads_over, check_metadata=False)
        own.req_to_token_pool = self.own_pool
        self.inner: AttentionBackend = factory(own)
        self._lens = torch.empty(0, dtype=torch.int64)
        """Of the pass: how many keys each request has here, in a prompt of its prefix."""
        self._graph_lens: torch.Tensor | None = None
        self._prefix: GatheredPrefix | None = None
        self._joined = True
        """Whether all that a pass attends to lies in the ranks' pools; else its new tokens are attended to apart."""
        self._has_prefix = False
        self._has_keys = True
        """Whether any request of an eager pass has a key here."""
        self._empty = torch.empty(0, dtype=torch.bool)
        """Of each query row whether no key of its is here; a graph finds it anew."""

    @property
    def joined(self) -> bool:
        """Whether all that the pass last prepared attends to lies in the ranks' pools."""
        return self._joined

    @property
    def gathered(self) -> GatheredPrefix | None:
        """The prefixes of the pass last prepared whose keys are brought here; None: it brings none."""
        return self._prefix

    # A pass.

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self._prefix = None
        self._joined, mode = True, forward_batch.forward_mode
        if mode.is_idle():
            return
        if mode.is_decode():
            self._prepare_own(forward_batch, forward_batch.seq_lens, forward_batch.seq_lens_cpu)
            self._empty = self._lens == 0
            return
        if mode.is_target_verify() or self.capabilities.tokens_apart:
            apart = tokens_apart(forward_batch)
            self._prepare_own(apart, apart.seq_lens, apart.seq_lens_cpu, forward_batch.req_pool_indices)
            self._empty = self._lens == 0
            return
        self._joined = False
        prefixes, new = forward_batch.extend_prefix_lens_cpu, forward_batch.extend_seq_lens_cpu
        if prefixes is None or new is None or forward_batch.extend_prefix_lens is None:
            remedy = "ForwardBatch.init_new fills them from the worker batch."
            raise BadArgumentError("forward_batch.extend_prefix_lens_cpu", "prefixes of an extend", None, remedy)
        self._has_prefix = any(prefixes)
        if not self._has_prefix:
            return
        if self.capabilities.gathers_prefix:
            self._prefix = GatheredPrefix.of(forward_batch, self.req_to_token, self.share)
            return
        self._prepare_own(forward_batch, forward_batch.extend_prefix_lens, torch.tensor(prefixes))
        counts = torch.tensor(new, device=self.device)
        self._empty = (self._lens == 0).repeat_interleave(counts, output_size=sum(new))

    def _prepare_own(
        self,
        batch: ForwardBatch,
        lens: torch.Tensor,
        lens_cpu: torch.Tensor | None,
        rows: torch.Tensor | None = None,
    ) -> None:
        """Let the backend prepare for this rank's share, of a prompt for that of the prefixes.

        Args:
            rows: of the requests, each once, where several of the batch are one.
        """
        here = self.share.lens(lens)
        lens_cpu = here.cpu() if lens_cpu is None else self.share.lens(lens_cpu)
        self._lens, self._has_keys = here, bool(lens_cpu.any())
        if self._has_keys:
            longest = self.share.width(int(lens_cpu.max()) * self.group.size)
            self._fill_table(batch.req_pool_indices if rows is None else rows, longest * self.group.size)
            self.inner.prepare(self._own_batch(batch, here, lens_cpu))

    def _fill_table(self, rows: torch.Tensor, columns: int | None = None) -> None:
        """Bring requests' slots up to date; columns: so many of all ranks' are enough."""
        table = self.share.table(self.req_to_token[:, :columns][rows])
        self.own_pool.req_to_token[rows, : table.shape[1]] = table

    def _own_batch(self, batch: ForwardBatch, lens: torch.Tensor, lens_cpu: torch.Tensor) -> ForwardBatch:
        own = replace(batch, seq_lens=lens, seq_lens_cpu=lens_cpu, req_to_token_pool=self.own_pool)
        own.seq_lens_sum = int(lens_cpu.sum())
        if not batch.forward_mode.is_decode():
            own.extend_prefix_lens, own.extend_prefix_lens_cpu = lens.to(torch.int32), lens_cpu.tolist()
        return own

    # A graph.

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        self._graph_lens = torch.zeros(max_num_tokens, dtype=torch.int64, device=self.device)
        self.inner.init_graph(max_num_tokens, max_num_tokens)  # drafts are requests of their own

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self.inner.prepare_capture(self._own_graph(graph_batch))

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self.inner.prepare_replay(self._own_graph(graph_batch))

    def _own_graph(self, batch: GraphBatch) -> GraphBatch:
        self._has_keys = True
        if self._graph_lens is None:
            raise RuntimeError("init_graph comes before a capture")
        bs = batch.bs
        drafts = batch.tokens_per_request if batch.forward_mode.is_target_verify() else 0
        self._lens, self._joined = self._graph_lens[: bs * max(drafts, 1)], True
        self._lens.copy_(self.share.lens(_frontiers(batch.seq_lens[:bs], drafts)))
        on_host = None
        if batch.seq_lens_cpu is not None:
            on_host = self.share.lens(_frontiers(batch.seq_lens_cpu[:bs], drafts))
        rows = batch.req_pool_indices[:bs]
        self._fill_table(rows)
        own = replace(batch, seq_lens=self._lens, seq_lens_cpu=on_host, bs=len(self._lens), spec_info=None)
        return replace(
            own,
            forward_mode=ForwardMode.DECODE if drafts else batch.forward_mode,
            req_pool_indices=rows.repeat_interleave(drafts) if drafts else rows,
            seq_lens_sum=None if on_host is None else int(on_host.sum()),
        )

    def index_rows(self, forward_batch: ForwardBatch) -> IndexRows:
        """Every rank has all index keys, by the slots of all ranks."""
        if self._pass is not None:
            return IndexRows.of(forward_batch)
        table = self.req_to_token[forward_batch.req_pool_indices]
        return IndexRows(forward_batch.seq_lens.int(), table, table.shape[1])

    # A layer.

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        self.inner.refuse_layer(inputs.layer)
        if self._joined:
            self._save(inputs)
            return self._over_ranks(inputs)[0].to(inputs.q.dtype)
        if inputs.k is None or inputs.v is None:
            raise BadArgumentError("k, v", "the new tokens' rows in an extend", None, "Pass them.")
        found = self._gathered(inputs, self._prefix) if self._prefix is not None else self._new_tokens(inputs)
        if self._has_prefix and self._prefix is None:
            o, lse = self._over_ranks(inputs)
            found = merge_natural((o.to(inputs.q.dtype), lse), found, self.implementation)
        self._save(inputs)
        return found[0]

    def _save(self, inputs: AttentionInputs) -> None:
        """Store the new tokens that are this rank's; the others' rows go where a graph's padded rows go."""
        if inputs.save_kv_cache:
            batch = inputs.forward_batch
            own = self.share.rows(batch.out_cache_loc)
            save_kv(replace(inputs, forward_batch=replace(batch, out_cache_loc=own)))

    def _over_ranks(self, inputs: AttentionInputs) -> Partial:
        """This rank's heads over the keys in all ranks' pools."""
        group, layer, batch = self.group, inputs.layer, inputs.forward_batch
        own = replace(batch, seq_lens=self._lens, req_to_token_pool=self.own_pool)
        if self._joined:
            own.forward_mode, own.batch_size = ForwardMode.DECODE, len(self._lens)
        empty, chosen = self._empty if self._pass is not None else self._lens == 0, inputs.topk_indices
        if chosen is not None:
            chosen = self.share.positions(chosen)
            empty = (chosen < 0).all(1)
        everyones = replace(
            inputs,
            q=group.all_gather(inputs.q.contiguous(), dim=1),
            q_rope=None if inputs.q_rope is None else group.all_gather(inputs.q_rope.contiguous(), dim=1),
            k=None,
            v=None,
            k_rope=None,
            layer=replace(layer, tp_q_head_num=layer.tp_q_head_num * group.size),
            forward_batch=own,
            topk_indices=chosen,
            save_kv_cache=False,
        )
        if not self._has_keys:
            o = inputs.q.new_zeros(*everyones.q.shape[:2], layer.v_head_dim)
            nothing = o.new_full(o.shape[:2], float("-inf"), dtype=torch.float32)
            return merge_over_ranks((o, nothing), group, self.comm_backend)
        o, lse = self.inner.attend_partial(everyones)
        o = o.masked_fill(empty[:, None, None], 0.0)
        return merge_over_ranks((o, lse.masked_fill(empty[:, None], float("-inf"))), group, self.comm_backend)

    def _new_tokens(self, inputs: AttentionInputs) -> Partial:
        """The new tokens among themselves, with the KV heads of this rank's query heads."""
        batch, layer, k, v = inputs.forward_batch, inputs.layer, inputs.k, inputs.v
        assert batch.extend_seq_lens is not None and batch.extend_seq_lens_cpu is not None
        assert k is not None and v is not None
        if inputs.k_rope is not None:
            k = torch.cat((k, inputs.k_rope), -1)
        indptr = indptr_of(batch.extend_seq_lens)
        order = torch.arange(len(k), device=self.device)
        rows = PagedRows(indptr, indptr, order, max(batch.extend_seq_lens_cpu), layer.is_causal)
        heads = self.share.heads(k.shape[1])
        q, chosen = whole_query(inputs), self.implementation
        return attend_rows(q, k[:, heads], v[:, heads], rows, scoring_of(layer), implementation=chosen)

    def _gathered(self, inputs: AttentionInputs, prefix: GatheredPrefix) -> Partial:
        """This rank's heads over the keys of all ranks, brought here; MLA's values are part of its keys."""
        pool, layer, k = inputs.forward_batch.token_to_kv_pool, inputs.layer, inputs.k
        assert pool is not None and k is not None
        new = k if inputs.k_rope is None else torch.cat((k, inputs.k_rope), -1)
        keys = prefix.buffer(pool, layer.layer_id, new, self.group)
        values, scoring = keys[..., : layer.v_head_dim], scoring_of(layer, k_scale=scales_of(inputs)[0])
        return attend_rows(whole_query(inputs), keys, values, prefix.rows, scoring, implementation=self.implementation)


def tokens_apart(batch: ForwardBatch) -> ForwardBatch:
    """The new tokens of an extend or the drafts of a chain as a decode's requests: each is as long as what it sees."""
    if batch.forward_mode.is_target_verify():
        before, before_cpu = batch.seq_lens, batch.seq_lens_cpu
        counts = [batch.spec_info.draft_token_num] * batch.batch_size
    else:
        assert batch.extend_prefix_lens is not None and batch.extend_seq_lens_cpu is not None
        before, before_cpu = batch.extend_prefix_lens, torch.tensor(batch.extend_prefix_lens_cpu)
        counts = batch.extend_seq_lens_cpu
    lens_cpu = (before.cpu() if before_cpu is None else before_cpu).tolist()
    seen = torch.tensor([n + 1 + i for n, count in zip(lens_cpu, counts, strict=True) for i in range(count)])
    repeats = torch.tensor(counts, device=batch.seq_lens.device)
    return replace(
        batch,
        forward_mode=ForwardMode.DECODE,
        batch_size=len(seen),
        req_pool_indices=batch.req_pool_indices.repeat_interleave(repeats, output_size=len(seen)),
        seq_lens=seen.to(batch.seq_lens.device, batch.seq_lens.dtype),
        seq_lens_cpu=seen,
        seq_lens_sum=int(seen.sum()),
        extend_seq_lens=None,
        extend_prefix_lens=None,
        extend_seq_lens_cpu=None,
        extend_prefix_lens_cpu=None,
        spec_info=None,
    )


def _frontiers(lens: torch.Tensor, drafts: int) -> torch.Tensor:
    """What each draft of a chain sees; without drafts the lengths."""
    return (lens[:, None] + torch.arange(1, drafts + 1, device=lens.device)).flatten() if drafts else lens
