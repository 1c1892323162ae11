"""What MLA decode backends over a page table have in common: the table, CUDA graphs, and a fallback for other modes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.info import note
from sglab.attention.registry import create_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, MLATokenToKVPool, ModelRunner, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.kernels import create_flashmla_kv_indices
from sglab.kernels.registry import triton_is_installed

FALLBACK = "triton"
Metadata = TypeVar("Metadata")


class PagedMLABackend(AttentionBackend, Generic[Metadata]):
    """tile: tokens that the kernel reads page numbers for at once; a row of the table holds whole tiles."""

    tile: int

    def __init__(self, model_runner: ModelRunner) -> None:
        if not model_runner.use_mla_backend:
            raise BadArgumentError(
                "batch", f"an MLA batch for {self.name}", "an MHA batch", 'Build it with kind="mla".'
            )
        self.page_size = model_runner.page_size
        self.check_page_size()
        self.fallback = create_attention_backend(FALLBACK, model_runner)
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.kv_cache_dim = model_runner.model_config.head_dim
        self.q_data_type = model_runner.dtype
        self.num_q_heads = model_runner.model_config.num_attention_heads
        self.device = model_runner.device
        self.implementation = model_runner.kernel_implementation
        self.index_implementation = self._index_implementation()
        self.forward_metadata: Metadata | None = None
        self._graph: Metadata | None = None

    # What differs.

    @abstractmethod
    def check_page_size(self) -> None:
        """Refuse a page size that the kernel cannot work with."""

    @abstractmethod
    def padding_page(self) -> int:
        """What stands behind a request's last page in the table."""

    @abstractmethod
    def new_metadata(self, table: torch.Tensor, seq_lens: torch.Tensor) -> Metadata:
        """Metadata for these requests."""

    @abstractmethod
    def graph_metadata(self, graph: Metadata, bs: int, seq_lens: torch.Tensor) -> Metadata:
        """The part of the graph's buffers that a batch of this size uses, filled for it."""

    @abstractmethod
    def table_of(self, metadata: Metadata) -> torch.Tensor:
        """The page table, int32 [requests, pages]."""

    @abstractmethod
    def decode(
        self,
        metadata: Metadata,
        q: torch.Tensor,
        q_rope: torch.Tensor,
        cache: torch.Tensor,
        forward_batch: ForwardBatch,
        layer: RadixAttention,
    ) -> torch.Tensor:
        """Attend: q [requests, heads, 512], q_rope [requests, heads, 64], cache [pages, page_size, 576]."""

    def extend_metadata(self, forward_batch: ForwardBatch) -> Metadata | None:
        """For an extend that the kernel itself serves; None: the fallback does."""
        return None

    # What is the same.

    def _index_implementation(self) -> str:
        """The index kernel is Triton's, on the CPU too, where "auto" would take the reference."""
        if self.implementation in {"triton", "reference"}:
            return self.implementation
        return "triton" if self.device.type == "cpu" and triton_is_installed() else "auto"

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        if not self._decodes(forward_batch.forward_mode, forward_batch.spec_info):
            self._say_fallback(forward_batch.forward_mode)
            self.fallback.init_forward_metadata(forward_batch)
            return
        if forward_batch.forward_mode.is_idle():
            return
        lens = forward_batch.seq_lens if forward_batch.seq_lens_cpu is None else forward_batch.seq_lens_cpu
        table = self.new_table(forward_batch.batch_size, int(lens.max()), self.padding_page())
        self._fill(table, forward_batch.req_pool_indices, forward_batch.seq_lens)
        self.forward_metadata = self.new_metadata(table, forward_batch.seq_lens)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """One table, wide enough for any request, serves all captured sizes; page 1 until filled."""
        table = self.new_table(max_bs, self.max_context_len + self.page_size, 1)
        self._graph = self.new_metadata(table, torch.ones(max_bs, dtype=torch.int32, device=self.device))
        self.fallback.init_cuda_graph_state(max_bs, max_num_tokens)

    def init_forward_metadata_capture_cuda_graph(
        self,
        bs: int,
        num_tokens: int,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        encoder_lens: torch.Tensor | None,
        forward_mode: ForwardMode,
        spec_info: Any,
    ) -> None:
        if not self._decodes(forward_mode, spec_info):
            self.fallback.init_forward_metadata_capture_cuda_graph(
                bs, num_tokens, req_pool_indices, seq_lens, encoder_lens, forward_mode, spec_info
            )
            return
        self.forward_metadata = self._fill_graph(bs, req_pool_indices, seq_lens)

    def init_forward_metadata_replay_cuda_graph(
        self,
        bs: int,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_sum: int,
        encoder_lens: torch.Tensor | None,
        forward_mode: ForwardMode,
        spec_info: Any,
        seq_lens_cpu: torch.Tensor | None,
    ) -> None:
        if not self._decodes(forward_mode, spec_info):
            self.fallback.init_forward_metadata_replay_cuda_graph(
                bs, req_pool_indices, seq_lens, seq_lens_sum, encoder_lens, forward_mode, spec_info, seq_lens_cpu
            )
            return
        self._fill_graph(bs, req_pool_indices, seq_lens)

    def _fill_graph(self, bs: int, req_pool_indices: torch.Tensor, seq_lens: torch.Tensor) -> Metadata:
        if self._graph is None:
            raise RuntimeError("init_cuda_graph_state comes before a capture")
        self._fill(self.table_of(self._graph)[:bs], req_pool_indices[:bs], seq_lens[:bs])
        return self.graph_metadata(self._graph, bs, seq_lens[:bs])

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """1: a padded row reads one page (SGLang's kernels have no path for length 0)."""
        return 1

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """q, k: [tokens, heads, 576] whole, or their latent 512 with q_rope and k_rope (64) apart."""
        metadata = None if forward_batch.spec_info is not None else self._prepared()
        return self._serve(metadata, q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        metadata = self.extend_metadata(forward_batch)
        return self._serve(metadata, q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope)

    def _prepared(self) -> Metadata:
        if self.forward_metadata is None:
            raise RuntimeError("init_forward_metadata comes before forward")
        return self.forward_metadata

    def _serve(
        self,
        metadata: Metadata | None,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool,
        q_rope: torch.Tensor | None,
        k_rope: torch.Tensor | None,
    ) -> torch.Tensor:
        """Write the new tokens to the cache and attend; without metadata the fallback does both."""
        if metadata is None:
            if q_rope is not None and k_rope is not None:
                q, k = torch.cat((q, q_rope), -1), torch.cat((k, k_rope), -1)
            return self.fallback.forward(q, k, v, layer, forward_batch, save_kv_cache)
        self._check_layer(layer)
        pool = forward_batch.token_to_kv_pool
        assert isinstance(pool, MLATokenToKVPool)
        if save_kv_cache and k_rope is not None:
            pool.set_mla_kv_buffer(layer, forward_batch.out_cache_loc, k, k_rope)
        elif save_kv_cache:
            pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v)
        rope = layer.head_dim - layer.v_head_dim
        if q_rope is None:
            q, q_rope = q.view(-1, layer.tp_q_head_num, layer.head_dim).split([layer.v_head_dim, rope], dim=-1)
        out = self.decode(
            metadata,
            q.view(-1, layer.tp_q_head_num, layer.v_head_dim).to(self.q_data_type),
            q_rope.view(-1, layer.tp_q_head_num, rope).to(self.q_data_type),
            pool.get_key_buffer(layer.layer_id).view(-1, self.page_size, self.kv_cache_dim),
            forward_batch,
            layer,
        )
        return out.view(len(out), -1)

    def _check_layer(self, layer: RadixAttention) -> None:
        """The kernels have the plain softmax over all of a request's tokens (SGLang ignores these options here)."""
        if layer.logit_cap or layer.sliding_window_size >= 0 or layer.xai_temperature_len > 0:
            raise BadArgumentError(
                "layer",
                f"no logit_cap, no sliding window and no xai_temperature_len for {self.name}",
                f"logit_cap {layer.logit_cap}, sliding_window_size {layer.sliding_window_size}, "
                f"xai_temperature_len {layer.xai_temperature_len}",
                "Use triton, or flex_attention for a sliding window.",
            )

    def _decodes(self, forward_mode: ForwardMode, spec_info: Any) -> bool:
        return forward_mode.is_decode_or_idle() and spec_info is None

    def _say_fallback(self, mode: ForwardMode) -> None:
        note(
            f"{mode.name} is served by {FALLBACK}: {self.name} decodes only (SGLang falls back to FlashInfer's MLA, "
            "which is not here)"
        )

    def new_table(self, rows: int, longest: int, fill: int) -> torch.Tensor:
        tiles = max(1, -(-longest // self.tile))
        shape = (rows, tiles * self.tile // self.page_size)
        return torch.full(shape, fill, dtype=torch.int32, device=self.device)

    def _fill(self, table: torch.Tensor, rows: torch.Tensor, seq_lens: torch.Tensor) -> None:
        create_flashmla_kv_indices(
            self.req_to_token,
            rows,
            seq_lens,
            None,
            table,
            page_size=self.page_size,
            implementation=self.index_implementation,
        )
