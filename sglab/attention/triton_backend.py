"""triton: two-stage decode attention and extend attention over CSR index arrays; any page size, MHA and MLA.

After SGLang 0.5.9 `triton_backend.py`. The operators are those of `sglab.kernels`; unless another implementation is
asked for they run as Triton kernels, on a GPU or, for CPU tensors, on the emulator or under Triton's interpreter.
"""

from __future__ import annotations

from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.registry import register_attention_backend
from sglab.attention.rows import save_and_get_kv
from sglab.attention.triton_metadata import ForwardMetadata, TritonGraphState, TritonMetadata
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.kernels import decode_attention_fwd, extend_attention_fwd

_EXTENDS = (ForwardMode.EXTEND, ForwardMode.MIXED, ForwardMode.SPLIT_PREFILL)


@register_attention_backend("triton")
class TritonAttnBackend(AttentionBackend):
    """SGLang's default where neither Hopper nor Blackwell kernels apply: decode, extend, tree verification."""

    name = "triton"

    def __init__(self, model_runner: ModelRunner) -> None:
        asked = model_runner.kernel_implementation
        self.implementation = "triton" if asked == "auto" else asked
        self.metadata = TritonMetadata(model_runner, self.implementation)
        self.forward_metadata: ForwardMetadata | None = None
        self._graph: TritonGraphState | None = None

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        mode, spec_info = forward_batch.forward_mode, forward_batch.spec_info
        if mode.is_idle():
            self.forward_metadata = None
        elif mode.is_target_verify() and spec_info is not None:
            self.forward_metadata = self.metadata.verify(forward_batch)
        elif spec_info is not None:
            self._unsupported(f"{mode.name} with speculation")
        elif mode.is_decode():
            self.forward_metadata = self.metadata.decode(forward_batch)
        elif mode in _EXTENDS:
            self.forward_metadata = self.metadata.extend(forward_batch)
        else:
            self._unsupported(mode.name)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        self._graph = self.metadata.graph_state(max_num_tokens)

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
        graph = self._graph_state()
        if forward_mode.is_decode_or_idle() and spec_info is None:
            self.forward_metadata = self.metadata.capture_decode(graph, bs, req_pool_indices, seq_lens)
        elif forward_mode.is_target_verify() and spec_info is not None:
            self.forward_metadata = self.metadata.capture_verify(graph, bs, req_pool_indices, seq_lens, spec_info)
        else:
            self._unsupported(f"a CUDA graph of {forward_mode.name}")

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
        graph = self._graph_state()
        if forward_mode.is_decode_or_idle() and spec_info is None:
            self.metadata.capture_decode(graph, bs, req_pool_indices, seq_lens)
            self.metadata.get_num_kv_splits(graph.num_kv_splits[:bs], seq_lens[:bs])
        elif forward_mode.is_target_verify() and spec_info is not None:
            self.metadata.capture_verify(graph, bs, req_pool_indices, seq_lens, spec_info)
        else:
            self._unsupported(f"a CUDA graph of {forward_mode.name}")

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """1: a padded row attends to one token, that of row 0's first slot."""
        return 1

    def get_verify_buffers_to_fill_after_draft(self) -> list[torch.Tensor | None]:
        """The graph's tree mask, which drafting may fill in place; positions are not used here."""
        return [None if self._graph is None else self._graph.custom_mask, None]

    def update_verify_buffers_to_fill_after_draft(self, spec_info: Any, cuda_graph_bs: int | None) -> None:
        """Nothing: no other metadata depends on the mask's contents."""

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
        meta = self._checked_metadata(layer)
        keys, values = save_and_get_kv(k, v, layer, forward_batch, save_kv_cache)
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
            self.metadata.max_kv_splits,
            layer.scaling,
            logit_cap=layer.logit_cap,
            xai_temperature_len=layer.xai_temperature_len,
            implementation=self.implementation,
        )
        return o.view(len(q), -1)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """The new tokens' keys come from `k`, only the prefix from the pool."""
        meta = self._checked_metadata(layer)
        keys, values = save_and_get_kv(k, v, layer, forward_batch, save_kv_cache)
        assert meta.qo_indptr is not None
        q = q.view(-1, layer.tp_q_head_num, layer.head_dim)
        o = q.new_empty((len(q), layer.tp_q_head_num, layer.v_head_dim))
        extend_attention_fwd(
            q,
            k.view(-1, layer.tp_k_head_num, layer.head_dim),
            v.view(-1, layer.tp_v_head_num, layer.v_head_dim),
            o,
            keys,
            values,
            meta.qo_indptr,
            meta.kv_indptr,
            meta.kv_indices,
            meta.custom_mask,
            True,
            meta.mask_indptr,
            meta.max_extend_len,
            layer.scaling,
            logit_cap=layer.logit_cap,
            xai_temperature_len=layer.xai_temperature_len,
            implementation=self.implementation,
        )
        return o.view(len(q), -1)

    def _checked_metadata(self, layer: RadixAttention) -> ForwardMetadata:
        if layer.sliding_window_size >= 0:
            window = f"sliding_window_size {layer.sliding_window_size}"
            remedy = "SGLang's triton has windows, this one has none: use torch_native or flex_attention."
            raise BadArgumentError("layer", "full attention for triton", window, remedy)
        if self.forward_metadata is None:
            raise RuntimeError("init_forward_metadata comes before forward")
        return self.forward_metadata

    def _graph_state(self) -> TritonGraphState:
        if self._graph is None:
            raise RuntimeError("init_cuda_graph_state comes before a capture")
        return self._graph
