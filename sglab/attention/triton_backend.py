"""triton: two-stage decode attention and extend attention over CSR index arrays; any page size, MHA and MLA.

After SGLang 0.5.9 `triton_backend.py`. The operators are those of `sglab.kernels`; unless another implementation is
asked for they run as Triton kernels, on a GPU or, for CPU tensors, on the emulator or under Triton's interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.registry import register_attention_backend
from sglab.attention.rows import save_and_get_kv
from sglab.attention.triton_graph import TritonGraphState
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.kernels import create_flashinfer_kv_indices, decode_attention_fwd, get_num_kv_splits

SPLIT_TILE_SIZE = 256
"""Tokens per split in deterministic mode, so that a request splits alike in every batch."""


@dataclass
class ForwardMetadata:
    """What all layers of a pass share. Decode fills the first five, extend the last two and the indices."""

    kv_indptr: torch.Tensor
    """int32 [B + 1]: where each request's slots start in `kv_indices`; its whole KV in decode, its prefix in extend."""
    kv_indices: torch.Tensor
    """int64, token slots, request after request."""
    attn_logits: torch.Tensor | None = None
    """float32 [B, heads, max_kv_splits, v_head_dim]: each split's partial output."""
    attn_lse: torch.Tensor | None = None
    """float32 [B, heads, max_kv_splits], natural."""
    num_kv_splits: torch.Tensor | None = None
    """int32 [B]."""
    qo_indptr: torch.Tensor | None = None
    """int32 [B + 1]: where each request's new tokens start."""
    max_extend_len: int = 0


@register_attention_backend("triton")
class TritonAttnBackend(AttentionBackend):
    """SGLang's default where neither Hopper nor Blackwell kernels apply."""

    name = "triton"

    def __init__(self, model_runner: ModelRunner) -> None:
        config = model_runner.model_config
        self.device = model_runner.device
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.num_head = config.num_attention_heads // model_runner.tp_size
        self.num_kv_head = config.get_num_kv_heads(model_runner.tp_size)
        self.v_head_dim = config.v_head_dim
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.device_core_count = model_runner.device_core_count
        self.deterministic = model_runner.enable_deterministic_inference
        self.max_kv_splits = model_runner.triton_attention_num_kv_splits
        if self.deterministic:
            self.max_kv_splits = -(-self.max_context_len // SPLIT_TILE_SIZE)
        asked = model_runner.kernel_implementation
        self.implementation = "triton" if asked == "auto" else asked
        self.kv_indptr = torch.zeros(model_runner.req_to_token_pool.size + 1, dtype=torch.int32, device=self.device)
        self.forward_metadata: ForwardMetadata | None = None
        self._graph: TritonGraphState | None = None

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        mode = forward_batch.forward_mode
        if mode.is_idle():
            self.forward_metadata = None
        elif forward_batch.spec_info is not None or not (mode.is_decode() or mode in _EXTENDS):
            self._unsupported(f"{mode.name} with speculation" if forward_batch.spec_info is not None else mode.name)
        elif mode.is_decode():
            self.forward_metadata = self._decode_metadata(forward_batch)
        else:
            self.forward_metadata = self._extend_metadata(forward_batch)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        self._graph = TritonGraphState(
            max_num_tokens, self.num_head, self.max_kv_splits, self.v_head_dim, self.max_context_len, self.device
        )

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
        graph = self._graph_state(forward_mode, spec_info)
        self._fill_indices(bs, req_pool_indices, seq_lens, graph.kv_indices)
        self.forward_metadata = ForwardMetadata(
            self.kv_indptr[: bs + 1], graph.kv_indices, graph.attn_logits, graph.attn_lse, graph.num_kv_splits
        )

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
        graph = self._graph_state(forward_mode, spec_info)
        self._fill_indices(bs, req_pool_indices, seq_lens, graph.kv_indices)
        self.get_num_kv_splits(graph.num_kv_splits[:bs], seq_lens[:bs])

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """1: a padded row attends to one token, slot 0 of the dummy page."""
        return 1

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        keys, values = self._cache(k, v, layer, forward_batch, save_kv_cache)
        meta = self._metadata()
        assert meta.attn_logits is not None
        assert meta.attn_lse is not None
        assert meta.num_kv_splits is not None
        q = q.view(-1, layer.tp_q_head_num, layer.head_dim)
        o = q.new_empty((len(q), layer.tp_q_head_num, layer.v_head_dim))
        decode_attention_fwd(
            q,
            keys,
            values,
            o,
            meta.kv_indptr,
            meta.kv_indices,
            meta.attn_logits,
            meta.attn_lse,
            meta.num_kv_splits,
            self.max_kv_splits,
            layer.scaling,
            logit_cap=layer.logit_cap,
            xai_temperature_len=layer.xai_temperature_len,
            implementation=self.implementation,
        )
        return o.view(len(q), -1)

    def _decode_metadata(self, batch: ForwardBatch) -> ForwardMetadata:
        kv_indices = torch.empty(batch.seq_lens_sum, dtype=torch.int64, device=self.device)
        bs = batch.batch_size
        self._fill_indices(bs, batch.req_pool_indices, batch.seq_lens, kv_indices)
        num_kv_splits = torch.empty(bs, dtype=torch.int32, device=self.device)
        self.get_num_kv_splits(num_kv_splits, batch.seq_lens)
        shape = (bs, self.num_head, self.max_kv_splits)
        return ForwardMetadata(
            self.kv_indptr[: bs + 1],
            kv_indices,
            torch.empty((*shape, self.v_head_dim), dtype=torch.float32, device=self.device),
            torch.empty(shape, dtype=torch.float32, device=self.device),
            num_kv_splits,
        )

    def _extend_metadata(self, batch: ForwardBatch) -> ForwardMetadata:
        assert batch.extend_prefix_lens is not None
        assert batch.extend_prefix_lens_cpu is not None
        assert batch.extend_seq_lens is not None
        assert batch.extend_seq_lens_cpu is not None
        kv_indices = torch.empty(sum(batch.extend_prefix_lens_cpu), dtype=torch.int64, device=self.device)
        self._fill_indices(batch.batch_size, batch.req_pool_indices, batch.extend_prefix_lens, kv_indices)
        qo_indptr = torch.zeros(batch.batch_size + 1, dtype=torch.int32, device=self.device)
        qo_indptr[1:] = torch.cumsum(batch.extend_seq_lens, 0)
        return ForwardMetadata(
            self.kv_indptr[: batch.batch_size + 1],
            kv_indices,
            qo_indptr=qo_indptr,
            max_extend_len=max(batch.extend_seq_lens_cpu),
        )

    def _fill_indices(self, bs: int, rows: torch.Tensor, lens: torch.Tensor, kv_indices: torch.Tensor) -> None:
        """Write `kv_indptr` and `kv_indices` in place; a graph has their addresses."""
        self.kv_indptr[1 : bs + 1] = torch.cumsum(lens[:bs], 0)
        create_flashinfer_kv_indices(
            self.req_to_token,
            rows[:bs],
            lens[:bs],
            self.kv_indptr[: bs + 1],
            None,
            kv_indices,
            implementation=self.implementation,
        )

    def get_num_kv_splits(self, num_kv_splits: torch.Tensor, seq_lens: torch.Tensor) -> None:
        """Fill `num_kv_splits`: by length alone in deterministic mode, else by SGLang's rule for this device."""
        if self.deterministic:
            num_kv_splits[:] = (seq_lens + SPLIT_TILE_SIZE - 1) // SPLIT_TILE_SIZE
            return
        get_num_kv_splits(
            num_kv_splits,
            seq_lens,
            self.num_head,
            self.num_kv_head,
            self.max_kv_splits,
            self.device_core_count,
            implementation=self.implementation,
        )

    def _cache(
        self, k: torch.Tensor, v: torch.Tensor, layer: RadixAttention, batch: ForwardBatch, save: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if layer.sliding_window_size >= 0:
            raise BadArgumentError(
                "layer", "full attention for triton", "a sliding window", "Use torch_native or flex_attention."
            )
        return save_and_get_kv(k, v, layer, batch, save)

    def _metadata(self) -> ForwardMetadata:
        if self.forward_metadata is None:
            raise RuntimeError("init_forward_metadata comes before forward")
        return self.forward_metadata

    def _graph_state(self, forward_mode: ForwardMode, spec_info: Any) -> TritonGraphState:
        if not forward_mode.is_decode_or_idle() or spec_info is not None:
            self._unsupported(f"a CUDA graph of {forward_mode.name}")
        if self._graph is None:
            raise RuntimeError("init_cuda_graph_state comes before a capture")
        return self._graph


_EXTENDS = (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.SPLIT_PREFILL)
