"""cutlass_mla: MLA decode through the SM100 kernel's operator; every other mode through a fallback backend.

After SGLang 0.5.9 `cutlass_mla_backend.py`, whose fallback (and base class) is FlashInfer's MLA backend; here it is
triton. The operator decides what runs: our own kernel on a Blackwell or Hopper GPU and, for CPU tensors, on the
emulator; other GPUs have Triton's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.info import note
from sglab.attention.registry import create_attention_backend, register_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, MLATokenToKVPool, ModelRunner, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.kernels import create_flashmla_kv_indices, cutlass_mla_decode, cutlass_mla_get_workspace_size
from sglab.kernels.registry import triton_is_installed

TILE = 128
"""Tokens of one K tile: the kernel reads the page table tile by tile, so a row holds whole tiles."""
FALLBACK = "triton"


@dataclass
class CutlassMLADecodeMetadata:
    """`workspace`: uint8, for partial outputs. `block_kv_indices`: int32 [B, pages], the page table."""

    workspace: torch.Tensor
    block_kv_indices: torch.Tensor


@register_attention_backend("cutlass_mla")
class CutlassMLABackend(AttentionBackend):
    """SGLang runs this backend with page size 128 only (the kernel's TMA path) and always with one KV split."""

    name = "cutlass_mla"

    def __init__(self, model_runner: ModelRunner) -> None:
        if not model_runner.use_mla_backend:
            raise BadArgumentError("batch", "an MLA batch for cutlass_mla", "an MHA batch", 'Build it with kind="mla".')
        self.page_size = model_runner.page_size
        if self.page_size > TILE:
            raise BadArgumentError(
                "page_size", f"at most {TILE} for cutlass_mla", self.page_size, "SGLang sets 128 for this backend."
            )
        if self.page_size != TILE:
            note(
                f"page size {self.page_size}: SGLang runs this backend with 128 only, where CUTLASS's kernel loads by "
                "TMA; smaller pages take its cp.async path"
            )
        self.fallback = create_attention_backend(FALLBACK, model_runner)
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.kv_cache_dim = model_runner.model_config.head_dim
        self.q_data_type = model_runner.dtype
        self.device = model_runner.device
        self.implementation = model_runner.kernel_implementation
        self.index_implementation = self._index_implementation()
        self.forward_metadata: CutlassMLADecodeMetadata | None = None
        self._graph: CutlassMLADecodeMetadata | None = None

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
        table = self._new_table(forward_batch.batch_size, int(lens.max()), self._padding_page())
        self._fill(table, forward_batch.req_pool_indices, forward_batch.seq_lens)
        self.forward_metadata = CutlassMLADecodeMetadata(self._new_workspace(table), table)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """One table, wide enough for any request, and one workspace serve all captured sizes; page 1 until filled."""
        table = self._new_table(max_bs, self.max_context_len + self.page_size, 1)
        self._graph = CutlassMLADecodeMetadata(self._new_workspace(table), table)
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
        graph = self._graph_state()
        self._fill(graph.block_kv_indices[:bs], req_pool_indices[:bs], seq_lens[:bs])
        self.forward_metadata = CutlassMLADecodeMetadata(graph.workspace, graph.block_kv_indices[:bs])

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
        self._fill(self._graph_state().block_kv_indices[:bs], req_pool_indices[:bs], seq_lens[:bs])

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """1: a padded row reads one page (the kernel has no path for length 0)."""
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
        if forward_batch.spec_info is not None:
            return self._fall_back(q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope)
        pool, meta = forward_batch.token_to_kv_pool, self.forward_metadata
        assert isinstance(pool, MLATokenToKVPool)
        if meta is None:
            raise RuntimeError("init_forward_metadata comes before forward")
        if save_kv_cache and k_rope is not None:
            pool.set_mla_kv_buffer(layer, forward_batch.out_cache_loc, k, k_rope)
        elif save_kv_cache:
            pool.set_kv_buffer(layer, forward_batch.out_cache_loc, k, v)
        if q_rope is None:
            q, q_rope = q.view(-1, layer.tp_q_head_num, layer.head_dim).split(
                [layer.v_head_dim, layer.head_dim - layer.v_head_dim], dim=-1
            )
        cache = pool.get_key_buffer(layer.layer_id)
        out = cutlass_mla_decode(
            q.view(-1, layer.tp_q_head_num, layer.v_head_dim).to(self.q_data_type),
            q_rope.view(-1, layer.tp_q_head_num, layer.head_dim - layer.v_head_dim).to(self.q_data_type),
            cache.view(-1, self.page_size, self.kv_cache_dim),
            forward_batch.seq_lens.to(torch.int32),
            meta.block_kv_indices,
            meta.workspace,
            layer.scaling,
            num_kv_splits=1,
            implementation=self.implementation,
        )
        return out.view(len(out), -1)

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
        return self._fall_back(q, k, v, layer, forward_batch, save_kv_cache, q_rope, k_rope)

    def _fall_back(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool,
        q_rope: torch.Tensor | None,
        k_rope: torch.Tensor | None,
    ) -> torch.Tensor:
        if q_rope is not None and k_rope is not None:
            q, k = torch.cat((q, q_rope), -1), torch.cat((k, k_rope), -1)
        return self.fallback.forward(q, k, v, layer, forward_batch, save_kv_cache)

    def _decodes(self, forward_mode: ForwardMode, spec_info: Any) -> bool:
        return forward_mode.is_decode_or_idle() and spec_info is None

    def _say_fallback(self, mode: ForwardMode) -> None:
        note(
            f"{mode.name} is served by {FALLBACK}: cutlass_mla decodes only (SGLang falls back to FlashInfer's MLA, "
            "which is not here)"
        )

    def _padding_page(self) -> int:
        """−1 as in SGLang with page 128, where only real tiles are read. Smaller pages share a tile with entries behind
        the last page, which are read: the dummy page is a valid one."""
        return -1 if self.page_size == TILE else 0

    def _new_table(self, rows: int, longest: int, fill: int) -> torch.Tensor:
        tiles = max(1, -(-longest // TILE))
        shape = (rows, tiles * TILE // self.page_size)
        return torch.full(shape, fill, dtype=torch.int32, device=self.device)

    def _new_workspace(self, table: torch.Tensor) -> torch.Tensor:
        rows, width = table.shape
        size = cutlass_mla_get_workspace_size(width * self.page_size, rows, num_kv_splits=1)
        return torch.empty(size, dtype=torch.uint8, device=self.device)

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

    def _graph_state(self) -> CutlassMLADecodeMetadata:
        if self._graph is None:
            raise RuntimeError("init_cuda_graph_state comes before a capture")
        return self._graph
