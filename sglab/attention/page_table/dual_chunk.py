"""dual_chunk_flash_attn: Qwen's dual chunk attention: a query has three rotations, by how far away a key's chunk is.

A chunk is chunk_size − local_size tokens. Keys of the query's own chunk are seen by `query` (intra), those of the chunk
before by `query_succ`, all earlier ones by `query_inter`; the three results are merged by their LSE. With the same
query for all three it is plain causal attention. After SGLang 0.5.9 `dual_chunk_flashattention_backend.py` (gone in
0.5.23), without its sparse prefill. Source: arXiv 2402.17463.
"""

from __future__ import annotations

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
    ) -> None:
        """
        Args:
            chunk_size, local_size: of the model's dual_chunk_attention_config.
            original_max_position_embeddings: the context it was trained with; 0: queries are not scaled.

        Raises:
            UnsupportedError: a chunk that does not consist of whole pages.
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
        self._chunk_rows: tuple[PagedRows, PagedRows, PagedRows] | None = None
        self._parts: tuple[torch.Tensor, ...] | None = None
        self._graph: GraphBuffers | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.forward_metadata = self._chunk_rows = None
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

    def _segments(self, batch: ForwardBatch, tokens: torch.Tensor) -> tuple[PagedRows, PagedRows, PagedRows]:
        """A prefill's three parts: the new tokens of one request in one chunk are a segment."""
        assert batch.extend_prefix_lens_cpu is not None
        assert batch.extend_seq_lens_cpu is not None
        queries: list[int] = []
        slots: tuple[list[torch.Tensor], ...] = ([], [], [])
        length = self.chunk_len
        for row, prefix, new in zip(tokens, batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True):
            at, end = prefix, prefix + new
            while at < end:
                chunk = at // length
                stop, before = min(end, (chunk + 1) * length), max(chunk - 1, 0) * length
                queries.append(stop - at)
                for part, (first, last) in enumerate(((chunk * length, stop), (before, chunk * length), (0, before))):
                    slots[part].append(row[first:last])
                at = stop
        qo_indptr, most = indptr_of(torch.tensor(queries, device=self.device)), max(queries)
        made = []
        for part, each in enumerate(slots):
            lens = torch.tensor([len(one) for one in each], device=self.device)
            made.append(PagedRows(qo_indptr, indptr_of(lens), torch.cat(each), most, causal=part == 0))
        return made[0], made[1], made[2]

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
            self._parts = tuple(each.unflatten(1, shape) for each in others[:2])
        return super().forward(q, k, v, layer, forward_batch, **options)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        made = self.forward_metadata
        if made is None:
            raise RuntimeError("prepare comes before forward")
        keys, values = save_and_get_kv(inputs)
        queries = (inputs.q, *(self._parts or (inputs.q, inputs.q)))
        scaling = made.scaling_factor if made.scaling_factor is not None else self._scaling(made.seq_lens_tensor)
        if scaling is not None:
            factor = self._per_token(scaling, inputs.forward_batch)
            queries = tuple((each * factor).to(each.dtype) for each in queries)
        merged: Partial | None = None
        for query, rows in zip(queries, self._rows(made), strict=True):
            scoring, chosen = scoring_of(inputs.layer), self.implementation
            part = attend_rows(query, keys, values, rows, scoring, implementation=chosen)
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
