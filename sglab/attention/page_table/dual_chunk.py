"""dual_chunk_flash_attn: Qwen's dual chunk attention: a query has three rotations, by how far away a key's chunk is.

A chunk is chunk_size − local_size tokens. Keys of the query's own chunk are seen by `query` (intra), those of the chunk
before by `query_succ`, all earlier ones by `query_inter`; the three results are merged by their LSE. With the same
query for all three it is plain causal attention. Prompts longer than a threshold are sparse where the model says which
(see vertical_slash). After SGLang 0.5.9 `dual_chunk_flashattention_backend.py` (gone in 0.5.23). Source: arXiv
2402.17463.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, merge_natural, scoring_of, slots_of_table
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, Capabilities, UnsupportedError
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import longest, page_table_of, steps
from sglab.attention.page_table.vertical_slash import Choice, Span, SparsePrompts, attend_span
from sglab.attention.rows import save_and_get_kv
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, ModelRunner, RadixAttention

QUERIES = 5
"""What the model passes side by side: query, succ, inter, and two for choosing sparse blocks."""


@dataclass
class DualChunkMetadata:
    """SGLang's DualChunkFlashAttentionMetadata; the arrays of the three parts are of a decode.

    Attributes:
        seq_lens_tensor: int32 [B]; block_tables: int32 [B, pages].
        query_start_loc, seq_start_loc: int32 [B + 1].
        scaling_factor: float32 [B], 0.1 · ln(length / original length) + 1, at least 1; None without one.
        seq_lens_intra, seq_lens_succ, seq_lens_inter: int32 [B], keys of each part; the inter part reads
            `block_tables` from its start.
        block_tables_intra, block_tables_succ: int32 [B, pages of a chunk].
    """

    seq_lens_tensor: torch.Tensor
    block_tables: torch.Tensor
    query_start_loc: torch.Tensor
    seq_start_loc: torch.Tensor
    scaling_factor: torch.Tensor | None = None
    seq_lens_intra: torch.Tensor | None = None
    block_tables_intra: torch.Tensor | None = None
    seq_lens_succ: torch.Tensor | None = None
    block_tables_succ: torch.Tensor | None = None
    seq_lens_inter: torch.Tensor | None = None


@dataclass
class GraphBuffers:
    """What graphs read: int32, for as many requests as the largest has."""

    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    seq_start_loc: torch.Tensor
    query_start_loc: torch.Tensor


class DualChunkFlashAttentionBackend(AttentionBackend):
    """For Qwen2.5-1M and its kind."""

    name = "dual_chunk_flash_attn"
    capabilities = Capabilities(
        kinds=("mha",),
        modes=CAUSAL_MODES,
        graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE),
        dtypes=("float16", "bfloat16"),
    )

    def __init__(
        self,
        model_runner: ModelRunner,
        chunk_size: int = 8192,
        local_size: int = 1024,
        original_max_position_embeddings: int = 0,
        sparse_attention_config: Sequence[Mapping[Any, Sequence[Any]]] | None = None,
        sparse_attention_threshold: int = 32768,
        sparse_attention_last_q: int = 64,
        first_head: int = 0,
    ) -> None:
        """
        Args:
            chunk_size, local_size: of the model's dual_chunk_attention_config, as the three below.
            original_max_position_embeddings: the context it was trained with; 0: queries are not scaled.
            sparse_attention_config: how many keys and distances each head of each layer sees of a long prompt; None:
                all of them.
            sparse_attention_threshold: a long prompt has more tokens.
            sparse_attention_last_q: queries of a chunk that choose for all of it.
            first_head: this rank's among the model's query heads.

        Raises:
            UnsupportedError: a chunk that does not consist of whole pages.
            BadArgumentError: a sparse configuration that cannot be.
        """
        super().__init__(model_runner)
        self.chunk_len = chunk_size - local_size
        if self.chunk_len <= 0 or self.chunk_len % model_runner.page_size:
            expected = f"chunk_size - local_size in whole pages of {model_runner.page_size} for {self.name}"
            raise UnsupportedError("chunk_size", expected, f"{self.chunk_len}", "Choose a page size that divides it.")
        self.original_max_position_embeddings = original_max_position_embeddings
        self.page_size, self.device = model_runner.page_size, model_runner.device
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.implementation = model_runner.kernel_implementation
        self.forward_metadata: DualChunkMetadata | None = None
        threshold, last_q, config = sparse_attention_threshold, sparse_attention_last_q, sparse_attention_config
        self.sparse = None if config is None else SparsePrompts.of(config, threshold, last_q)
        self.first_head = first_head
        self._chunk_rows: tuple[PagedRows, PagedRows, PagedRows] | None = None
        self._sparse_spans: list[Span] = []
        self._dense_tokens: torch.Tensor | None = None  # of the batch, beside sparse prompts; None: all
        self._parts: tuple[torch.Tensor, ...] | None = None
        self._graph: GraphBuffers | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.forward_metadata = self._chunk_rows = self._dense_tokens = None
        self._sparse_spans = []
        if forward_batch.forward_mode.is_idle():
            return
        width = longest(forward_batch, self.max_context_len)
        tokens = self.req_to_token[forward_batch.req_pool_indices, :width]
        table = page_table_of(tokens, self.page_size)
        if forward_batch.forward_mode.is_decode():
            self.forward_metadata = self._decode(forward_batch.seq_lens, table)
        else:
            assert forward_batch.extend_seq_lens is not None
            starts = indptr_of(forward_batch.extend_seq_lens)
            lens = forward_batch.seq_lens.to(torch.int32)
            scaled = self._scaling(forward_batch.seq_lens)
            self.forward_metadata = DualChunkMetadata(lens, table, starts, indptr_of(lens), scaled)
            self._chunk_rows = self._segments(forward_batch, tokens)

    def _scaling(self, lens: torch.Tensor) -> torch.Tensor | None:
        if self.original_max_position_embeddings <= 0:
            return None
        return (0.1 * torch.log(lens / self.original_max_position_embeddings) + 1.0).clip(min=1)

    def _decode(self, lens: torch.Tensor, table: torch.Tensor) -> DualChunkMetadata:
        """By device work alone. The last chunk is the query's own; the chunk before it and the rest come apart."""
        lens = lens.to(torch.int32)
        chunk, pages = (lens - 1) // self.chunk_len, self.chunk_len // self.page_size
        before = (chunk - 1).clip(min=0)
        count = len(lens)
        return DualChunkMetadata(
            seq_lens_tensor=lens,
            block_tables=table,
            query_start_loc=steps(count, 1, self.device),
            seq_start_loc=indptr_of(lens),
            scaling_factor=self._scaling(lens),
            seq_lens_intra=lens - chunk * self.chunk_len,
            block_tables_intra=self._chunk_table(table, chunk * pages, pages),
            seq_lens_succ=(chunk - before) * self.chunk_len,
            block_tables_succ=self._chunk_table(table, before * pages, pages),
            seq_lens_inter=before * self.chunk_len,
        )

    @staticmethod
    def _chunk_table(table: torch.Tensor, first: torch.Tensor, pages: int) -> torch.Tensor:
        """`pages` entries of each row from `first` on; 0 after the row's end."""
        width = min(pages, table.shape[1])
        at = first[:, None] + torch.arange(width, device=table.device)
        return torch.where(at < table.shape[1], table.gather(1, at.clamp(max=table.shape[1] - 1).long()), 0)

    def _segments(self, batch: ForwardBatch, tokens: torch.Tensor) -> tuple[PagedRows, PagedRows, PagedRows] | None:
        """A prefill's three parts: the new tokens of one request in one chunk are a segment. Those of sparse prompts
        are kept apart; None: all are."""
        spans, sparse = self._spans(batch, tokens), self._are_sparse(batch)
        dense = [span for request, span in spans if not sparse[request]]
        self._sparse_spans = [span for request, span in spans if sparse[request]]
        if self._sparse_spans:
            rows = [torch.arange(each.rows.start, each.rows.stop, device=self.device) for each in dense]
            self._dense_tokens = torch.cat(rows) if rows else torch.zeros(0, dtype=torch.int64, device=self.device)
        if not dense:
            return None
        queries = [span.end - span.begin for span in dense]
        qo_indptr, most = indptr_of(torch.tensor(queries, device=self.device)), max(queries)
        made = []
        for part in range(3):
            slots = [
                span.slots[first:last]
                for span in dense
                for first, last in [((span.chunk, span.end), (span.near, span.chunk), (0, span.near))[part]]
            ]
            lens = torch.tensor([len(one) for one in slots], device=self.device)
            made.append(PagedRows(qo_indptr, indptr_of(lens), torch.cat(slots), most, causal=part == 0))
        return made[0], made[1], made[2]

    def _spans(self, batch: ForwardBatch, tokens: torch.Tensor) -> list[tuple[int, Span]]:
        """(request, its new tokens in one chunk)"""
        assert batch.extend_prefix_lens_cpu is not None
        assert batch.extend_seq_lens_cpu is not None
        spans: list[tuple[int, Span]] = []
        row, length = 0, self.chunk_len
        for request, (slots, prefix, new) in enumerate(
            zip(tokens, batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True)
        ):
            at, end = prefix, prefix + new
            while at < end:
                chunk = at // length * length
                stop = min(end, chunk + length)
                spans.append((request, Span(row, at, stop, chunk, max(chunk - length, 0), slots[:stop])))
                row, at = row + stop - at, stop
        return spans

    def _are_sparse(self, batch: ForwardBatch) -> list[bool]:
        """Whether each request's prompt is: its whole length decides, chunks to come included."""
        if self.sparse is None:
            return [False] * batch.batch_size
        lens = batch.orig_seq_lens if batch.orig_seq_lens is not None else batch.seq_lens
        return [length > self.sparse.threshold for length in lens.tolist()]

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        pages = -(-self.max_context_len // self.page_size)

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=self.device)

        queries = steps(max_bs, 1, self.device)
        self._graph = GraphBuffers(zeros(max_bs, pages), zeros(max_bs), zeros(max_bs + 1), queries)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self._chunk_rows, self.forward_metadata = None, self._fill(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self._chunk_rows, self.forward_metadata = None, self._fill(graph_batch)

    def _fill(self, batch: GraphBatch) -> DualChunkMetadata:
        """Fill the buffers; the three parts are cut out of them inside the graph."""
        graph, bs = self._graph, batch.bs
        if graph is None:
            raise RuntimeError("init_graph comes before a capture")
        graph.block_tables[:bs] = self.req_to_token[batch.req_pool_indices[:bs], :: self.page_size] // self.page_size
        graph.seq_lens[:bs] = batch.seq_lens[:bs]
        graph.seq_start_loc[: bs + 1] = indptr_of(batch.seq_lens[:bs])
        tables, lens = graph.block_tables[:bs], graph.seq_lens[:bs]
        return DualChunkMetadata(lens, tables, graph.query_start_loc[: bs + 1], graph.seq_start_loc[: bs + 1])

    # One layer.

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        **options: Any,
    ) -> torch.Tensor:
        """As every backend's; q may hold five queries side by side, [tokens, 5 · heads · dim]."""
        width = layer.tp_q_head_num * layer.head_dim
        self._parts = None
        if q.dim() == 2 and q.shape[1] == QUERIES * width:
            q, *others = q.split(width, -1)
            shape = (layer.tp_q_head_num, layer.head_dim)
            self._parts = tuple(each.unflatten(1, shape) for each in others)
        return super().forward(q, k, v, layer, forward_batch, **options)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        made = self.forward_metadata
        if made is None:
            raise RuntimeError("prepare comes before forward")
        keys, values = save_and_get_kv(inputs)
        parts = self._parts or (inputs.q,) * (QUERIES - 1)
        queries, critical = (inputs.q, *parts[:2]), (inputs.q, *parts[2:])
        scaling = made.scaling_factor if made.scaling_factor is not None else self._scaling(made.seq_lens_tensor)
        if scaling is not None:
            factor = self._per_token(scaling, inputs.forward_batch)
            queries = tuple((each * factor).to(each.dtype) for each in queries)
            if self._sparse_spans:
                critical = tuple((each * factor).to(each.dtype) for each in critical)
        if not self._sparse_spans:
            return self._dense(queries, keys, values, inputs, self._rows(made))
        assert self._dense_tokens is not None
        out = inputs.q.new_empty(*inputs.q.shape[:2], values.shape[-1])
        if self._chunk_rows is not None:
            some = tuple(each[self._dense_tokens] for each in queries)
            out[self._dense_tokens] = self._dense(some, keys, values, inputs, self._chunk_rows)
        layer, sparse = inputs.layer, self.sparse
        assert sparse is not None
        sizes = sparse.layer(layer.layer_id, layer.tp_q_head_num, self.first_head)
        choice = Choice(sizes, layer.scaling, sparse.last_q, self.implementation)
        for span in self._sparse_spans:
            asked, choosing = ([each[span.rows] for each in some] for some in (queries, critical))
            slots = span.slots.long()
            out[span.rows] = attend_span(asked, choosing, keys[slots], values[slots], span, choice)
        return out

    def _dense(
        self,
        queries: tuple[torch.Tensor, ...],
        keys: torch.Tensor,
        values: torch.Tensor,
        inputs: AttentionInputs,
        rows: tuple[PagedRows, PagedRows, PagedRows],
    ) -> torch.Tensor:
        merged: Partial | None = None
        scoring, chosen = scoring_of(inputs.layer), self.implementation
        for query, each in zip(queries, rows, strict=True):
            part = attend_rows(query, keys, values, each, scoring, implementation=chosen)
            merged = part if merged is None else merge_natural(merged, part, chosen)
        assert merged is not None
        return merged[0]

    def _per_token(self, factor: torch.Tensor, batch: ForwardBatch) -> torch.Tensor:
        if not batch.forward_mode.is_decode():
            assert batch.extend_seq_lens is not None
            factor = factor.repeat_interleave(batch.extend_seq_lens.long())
        return factor[:, None, None]

    def _rows(self, made: DualChunkMetadata) -> tuple[PagedRows, PagedRows, PagedRows]:
        if self._chunk_rows is not None:
            return self._chunk_rows
        if made.seq_lens_intra is None:
            made = self._decode(made.seq_lens_tensor, made.block_tables)

        def part(table: torch.Tensor | None, lens: torch.Tensor | None) -> PagedRows:
            assert table is not None
            assert lens is not None
            indptr, indices = slots_of_table(table, lens, self.page_size)
            return PagedRows(made.query_start_loc, indptr, indices, 1, causal=False)

        return (
            part(made.block_tables_intra, made.seq_lens_intra),
            part(made.block_tables_succ, made.seq_lens_succ),
            part(made.block_tables, made.seq_lens_inter),
        )
