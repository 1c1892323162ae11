"""PageTableBackend: what backends over FlashAttentionMetadata have in common, graphs included."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, merge_natural, scoring_of, slots_of_table, with_sinks
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import UnsupportedError
from sglab.attention.image_masks import mask_of_ranges, token_ranges
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.library import library_call
from sglab.attention.page_table.local import LocalBuffers, local_metadata, local_rows
from sglab.attention.page_table.metadata import (
    FlashAttentionMetadata,
    LocalAttentionMetadata,
    StepBuffers,
    add_encoder,
    chain_metadata,
    decode_metadata,
    extend_metadata,
    page_table_of,
    table_behind,
)
from sglab.attention.page_table.tree import expand_metadata, path_windows, prefix_metadata
from sglab.attention.rows import check_encoder, kv_for, save_kv, scales_of, whole_query
from sglab.engine import ForwardBatch, GraphBatch, ModelRunner


@dataclass
class GraphBuffers:
    """What graphs read, allocated once for the largest: shapes as in FlashAttentionMetadata."""

    cache_seqlens: torch.Tensor
    cu_seqlens_k: torch.Tensor
    page_table: torch.Tensor
    expand_seqlens: torch.Tensor
    """int32 [max tokens], the drafts' call of a tree, as the two below."""
    expand_cu_seqlens_k: torch.Tensor
    expand_table: torch.Tensor
    """int32, flat: [drafts of all requests, drafts of one]."""
    cu_seqlens_q: StepBuffers
    local: LocalBuffers | None = None
    """Of a model whose layers see chunks."""
    encoder: EncoderBuffers | None = None
    """Made by the first capture beside an encoder; other models never have it."""


@dataclass
class EncoderBuffers:
    """What captured cross-attention layers read, for the largest graph."""

    lens: torch.Tensor
    cu_seqlens_k: torch.Tensor
    page_table: torch.Tensor


class PageTableBackend(AttentionBackend):
    """Keys are stored first and then read back through the page table, in every mode."""

    has_package: ClassVar[bool] = False
    """Whether FlashAttention's own package may attend: implementation="flash_attn"."""

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self.page_size = model_runner.page_size
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.device = model_runner.device
        self.implementation = model_runner.kernel_implementation
        self.chunk = model_runner.model_config.attention_chunk_size if self.capabilities.chunked else 0
        """Llama 4's; 0: no layer sees chunks, or none of them is served."""
        if self.chunk % self.page_size:
            expected = f"a divisor of the model's attention_chunk_size {self.chunk} for {self.name}"
            raise UnsupportedError("page_size", expected, str(self.page_size), "Build the batch with page_size=1.")
        self.num_splits = 1 if model_runner.enable_deterministic_inference else 0
        """What the kernels get: 0 lets them choose, 1 makes a row independent of its batch."""
        self.forward_metadata: FlashAttentionMetadata | None = None
        self.forward_metadata_spec_decode_expand: FlashAttentionMetadata | None = None
        self._total: int | None = None
        """Keys of the pass if the host knows them; a graph's are not known when it is captured."""
        self._encoded: int | None = None
        """The same of the encoders' keys."""
        self._graph: GraphBuffers | None = None
        self._image_masks: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """Of the pass, by window: layers share them."""

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.forward_metadata = self.forward_metadata_spec_decode_expand = None
        if forward_batch.forward_mode.is_idle():
            return
        self.forward_metadata = made = self.new_metadata(forward_batch)
        self._total = None
        if forward_batch.seq_lens_cpu is not None:
            new = made.max_seq_len_q if self._is_chain(forward_batch) else 0
            self._total = forward_batch.seq_lens_sum + new * forward_batch.batch_size
        if forward_batch.encoder_lens is not None:
            self._add_encoder(made, forward_batch)
        if self.chunk:
            made.local_attn_metadata = self._local(made, forward_batch)
        self._image_masks = {}
        if forward_batch.image_spans is not None:
            self.add_images(made, forward_batch)

    def add_images(self, made: FlashAttentionMetadata, batch: ForwardBatch) -> None:
        """What the backend's kernel reads of a prompt's images."""
        made.image_token_ranges = token_ranges(batch).to(self.device, non_blocking=True)

    def image_mask(
        self, made: FlashAttentionMetadata, batch: ForwardBatch, window: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same as a mask, and where each request's begins."""
        assert made.image_token_ranges is not None
        return mask_of_ranges(made.image_token_ranges, batch, window)

    def _local(self, made: FlashAttentionMetadata, batch: ForwardBatch) -> LocalAttentionMetadata | None:
        """The chunks' virtual requests; of a tree each layer's are its drafts' paths."""
        mode, new = batch.forward_mode, batch.extend_seq_lens_cpu
        if mode.is_target_verify() and not self._is_chain(batch):
            return None
        if mode.is_decode() or mode.is_target_verify():
            if batch.seq_lens_cpu is None:
                lens, table = made.cache_seqlens_int32, made.page_table
                return local_rows(self.chunk, made.max_seq_len_q, lens, table, self.page_size)
            drafts = batch.spec_info.draft_token_num if mode.is_target_verify() else 0
            lengths = [length + drafts for length in batch.seq_lens_cpu.tolist()]
            new = [drafts or 1] * len(lengths)
        else:
            assert new is not None
            assert batch.extend_prefix_lens_cpu is not None
            lengths = [prefix + count for prefix, count in zip(batch.extend_prefix_lens_cpu, new, strict=True)]
        return local_metadata(self.chunk, new, lengths, made.page_table, self.page_size)

    def new_metadata(self, batch: ForwardBatch) -> FlashAttentionMetadata:
        """The arrays of an eager pass."""
        mode, table, page = batch.forward_mode, self.req_to_token, self.page_size
        if mode.is_decode():
            return decode_metadata(batch, table, page)
        if not mode.is_target_verify():
            return extend_metadata(batch, table, page)
        drafts = batch.spec_info.draft_token_num
        if self._is_chain(batch):
            return chain_metadata(batch, drafts, table, page)
        self.forward_metadata_spec_decode_expand = expand_metadata(
            batch.spec_info.custom_mask, batch.seq_lens, batch.req_pool_indices, drafts, table
        )
        return prefix_metadata(batch, drafts, table, page)

    @staticmethod
    def _is_chain(batch: ForwardBatch | GraphBatch) -> bool:
        return batch.forward_mode.is_target_verify() and getattr(batch.spec_info, "topk", None) == 1

    def _add_encoder(self, metadata: FlashAttentionMetadata, batch: ForwardBatch) -> None:
        assert batch.encoder_lens is not None
        encoded = batch.encoder_lens.tolist() if batch.encoder_lens_cpu is None else batch.encoder_lens_cpu
        self._check_encoders(encoded)
        self._encoded = sum(encoded)
        add_encoder(metadata, batch, max(encoded, default=0), self.req_to_token, self.page_size)

    def _check_encoders(self, lens: list[int]) -> None:
        """The decoder's tokens begin where its encoder's end, and a page table reads from a page's first slot on."""
        if any(length % self.page_size for length in lens):
            expected = f"multiples of the page size {self.page_size} for {self.name}"
            remedy = "Build the batch with page_size=1, or use flashinfer."
            raise UnsupportedError("forward_batch.encoder_lens", expected, str(lens), remedy)

    # CUDA graphs.

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        pages = -(-self.max_context_len // self.page_size)

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=self.device)

        per_request = -(-max_num_tokens // max(max_bs, 1))
        self._graph = GraphBuffers(
            cache_seqlens=zeros(max_bs),
            cu_seqlens_k=zeros(max_bs + 1),
            page_table=zeros(max_bs, pages),
            expand_seqlens=zeros(max_num_tokens),
            expand_cu_seqlens_k=zeros(max_num_tokens + 1),
            expand_table=zeros(max_num_tokens * per_request),
            cu_seqlens_q=StepBuffers(max_num_tokens, self.device),
            local=LocalBuffers(max_num_tokens, self.chunk, self.page_size, self.device) if self.chunk else None,
        )

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self._total = None
        self.forward_metadata = self._fill(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self._total = None
        self.forward_metadata = self._fill(graph_batch)

    def _fill(self, batch: GraphBatch) -> FlashAttentionMetadata:
        """Fill the buffers in place; the metadata are views of them."""
        self._encoded = None
        graph, bs = self._graph, batch.bs
        if graph is None:
            raise RuntimeError("init_graph comes before a capture")
        drafts = batch.spec_info.draft_token_num if batch.forward_mode.is_target_verify() else 0
        chain = self._is_chain(batch)
        lens, rows = batch.seq_lens[:bs] + (drafts if chain else 0), batch.req_pool_indices[:bs]
        graph.cache_seqlens[:bs] = lens
        graph.cu_seqlens_k[: bs + 1] = indptr_of(lens)
        if batch.encoder_lens is None:
            graph.page_table[:bs] = self.req_to_token[rows, :: self.page_size] // self.page_size
        else:
            own = table_behind(self.req_to_token, rows, batch.encoder_lens[:bs], self.max_context_len)
            graph.page_table[:bs] = page_table_of(own, self.page_size)
        if drafts and not chain:
            self.forward_metadata_spec_decode_expand = self._fill_expand(graph, batch, drafts)
        per_request = drafts or (1 if batch.forward_mode.is_decode_or_idle() else batch.tokens_per_request)
        made = FlashAttentionMetadata(
            cache_seqlens_int32=graph.cache_seqlens[:bs],
            cu_seqlens_q=graph.cu_seqlens_q.of(bs, per_request),
            cu_seqlens_k=graph.cu_seqlens_k[: bs + 1],
            page_table=graph.page_table[:bs],
            max_seq_len_q=per_request,
            max_seq_len_k=self.max_context_len,
        )
        if batch.encoder_lens is not None:
            self._fill_encoder(graph, made, batch)
        if graph.local is not None and (chain or not drafts):
            made.local_attn_metadata = graph.local.fill(made, graph.cu_seqlens_q)
        return made

    def _fill_encoder(self, graph: GraphBuffers, made: FlashAttentionMetadata, batch: GraphBatch) -> None:
        bs = batch.bs
        assert batch.encoder_lens is not None
        if batch.encoder_lens_cpu is not None:
            self._check_encoders(batch.encoder_lens_cpu)
        if graph.encoder is None:
            graph.encoder = EncoderBuffers(
                *(torch.zeros_like(each) for each in (graph.cache_seqlens, graph.cu_seqlens_k, graph.page_table))
            )
        lens, rows = batch.encoder_lens[:bs].to(torch.int32), batch.req_pool_indices[:bs]
        graph.encoder.lens[:bs] = lens
        graph.encoder.cu_seqlens_k[: bs + 1] = indptr_of(lens)
        graph.encoder.page_table[:bs] = self.req_to_token[rows, :: self.page_size] // self.page_size
        made.encoder_lens_int32 = graph.encoder.lens[:bs]
        made.encoder_cu_seqlens_k = graph.encoder.cu_seqlens_k[: bs + 1]
        made.encoder_page_table = graph.encoder.page_table[:bs]
        made.encoder_max_seq_len_k = self.max_context_len

    def _fill_expand(self, graph: GraphBuffers, batch: GraphBatch, drafts: int) -> FlashAttentionMetadata:
        bs, tokens = batch.bs, batch.bs * drafts
        made = expand_metadata(
            batch.spec_info.custom_mask, batch.seq_lens[:bs], batch.req_pool_indices[:bs], drafts, self.req_to_token
        )
        table = graph.expand_table[: tokens * drafts].view(tokens, drafts)
        table.copy_(made.page_table)
        graph.expand_seqlens[:tokens] = made.cache_seqlens_int32
        graph.expand_cu_seqlens_k[: tokens + 1] = made.cu_seqlens_k
        return replace(
            made,
            cache_seqlens_int32=graph.expand_seqlens[:tokens],
            cu_seqlens_q=graph.cu_seqlens_q.of(tokens, 1),
            cu_seqlens_k=graph.expand_cu_seqlens_k[: tokens + 1],
            page_table=table,
        )

    # One layer.

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        metadata, layer, batch = self.forward_metadata, inputs.layer, inputs.forward_batch
        if layer.is_cross_attention:
            check_encoder(inputs)
        if metadata is None:
            raise RuntimeError("prepare comes before forward")
        if inputs.save_kv_cache:
            save_kv(inputs)
        q = whole_query(inputs)
        tree = batch.forward_mode.is_target_verify() and not self._is_chain(batch)
        window, page_size, total = layer.sliding_window_size, self.page_size, self._total
        chunked = self.chunk > 0 and layer.use_irope
        if tree and (window >= 0 or chunked):
            expand = self.forward_metadata_spec_decode_expand
            assert expand is not None
            metadata = path_windows(metadata, expand, page_size, window, self.chunk if chunked else 0)
            tree, window, page_size, total = False, -1, 1, None
        elif chunked and not layer.is_cross_attention:
            local = metadata.local_attn_metadata
            assert local is not None
            metadata, total = local.as_requests(), local.total
        if self.implementation == "flash_attn" and self.has_package:
            return self._by_library(inputs, metadata, tree, page_size)
        if layer.is_cross_attention:
            rows = self._encoder_rows(metadata)
        else:
            rows = self._rows(metadata, page_size, layer.is_causal and not tree, window, total)
        if batch.image_spans is not None and layer.is_causal:
            if window not in self._image_masks:
                self._image_masks[window] = self.image_mask(metadata, batch, window)
            mask, starts = self._image_masks[window]
            rows = replace(rows, window=-1, custom_mask=mask, mask_indptr=starts)
        k_scale, v_scale = scales_of(inputs)
        scoring = scoring_of(layer, None if tree else inputs.sinks, k_scale)
        chosen = self.implementation
        added = inputs.score_mod
        o, lse = attend_rows(q, *_held(inputs, rows), scoring, v_scale=v_scale, implementation=chosen, score_mod=added)
        if not tree:
            return o
        expand = self.forward_metadata_spec_decode_expand
        assert expand is not None
        own = self._rows(expand, 1, False, -1, total=None)
        drafts = attend_rows(q, *_held(inputs, own), scoring, v_scale=v_scale, implementation=chosen)
        return with_sinks(merge_natural((o, lse), drafts, chosen), inputs.sinks)

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        metadata = self.forward_metadata
        assert metadata is not None
        rows = self._rows(metadata, self.page_size, False, -1, self._total)
        k_scale, v_scale = scales_of(inputs)
        scoring, chosen = scoring_of(inputs.layer, k_scale=k_scale), self.implementation
        return attend_rows(whole_query(inputs), *_held(inputs, rows), scoring, v_scale=v_scale, implementation=chosen)

    def _by_library(
        self, inputs: AttentionInputs, metadata: FlashAttentionMetadata, tree: bool, page_size: int
    ) -> torch.Tensor:
        """By FlashAttention's own package, which follows the page table itself; a tree by two calls and their merge."""
        layer = inputs.layer
        if layer.is_cross_attention:
            assert metadata.encoder_page_table is not None
            assert metadata.encoder_lens_int32 is not None
            table, lens = metadata.encoder_page_table, metadata.encoder_lens_int32
            return library_call(inputs, metadata, table, lens, page_size, self.num_splits, causal=False)[0]
        table, lens = metadata.page_table, metadata.cache_seqlens_int32
        causal = layer.is_causal and not tree
        own = partial(library_call, inputs, num_splits=self.num_splits)
        if not tree:
            return own(metadata, table, lens, page_size, causal=causal, sinks=inputs.sinks)[0]
        expand = self.forward_metadata_spec_decode_expand
        assert expand is not None
        o, lse = own(metadata, table, lens, page_size, causal=False)
        drafts = own(expand, expand.page_table, expand.cache_seqlens_int32, 1, causal=False, window=False)
        return with_sinks(merge_natural((o, lse), drafts, "auto"), inputs.sinks)

    def _rows(
        self, metadata: FlashAttentionMetadata, page_size: int, causal: bool, window: int, total: int | None
    ) -> PagedRows:
        indptr, indices = slots_of_table(metadata.page_table, metadata.cache_seqlens_int32, page_size, total)
        return PagedRows(metadata.cu_seqlens_q, indptr, indices, metadata.max_seq_len_q, causal, window)

    def _encoder_rows(self, metadata: FlashAttentionMetadata) -> PagedRows:
        table, lens = metadata.encoder_page_table, metadata.encoder_lens_int32
        assert table is not None
        assert lens is not None
        indptr, indices = slots_of_table(table, lens, self.page_size, self._encoded)
        return PagedRows(metadata.cu_seqlens_q, indptr, indices, metadata.max_seq_len_q, causal=False)


def _held(inputs: AttentionInputs, rows: PagedRows) -> tuple[torch.Tensor, torch.Tensor, PagedRows]:
    """Keys and values, and the rows that point into them."""
    keys, values, indices = kv_for(inputs, rows.kv_indptr, rows.kv_indices)
    return keys, values, rows if indices is rows.kv_indices else replace(rows, kv_indices=indices)
