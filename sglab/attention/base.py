"""AttentionBackend: the interface between a model's attention layers and the kernels that serve them.

Life of a backend: made once from the model runner; `init_forward_metadata` once per forward pass (index arrays and
plans that all layers share); `forward` once per layer. Under a CUDA graph the metadata lives in buffers allocated once
(`init_cuda_graph_state`), filled outside the graph before each capture and each replay.

The method set and every signature are SGLang 0.5.9's (`layers/attention/base_attn_backend.py`), so backends spell them
out, long as they are; only `init_forward_metadata` is abstract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NoReturn

import torch

from sglab.engine import AttentionType, BadArgumentError, ForwardBatch, ForwardMode, RadixAttention


class AttentionBackend(ABC):
    """Base class of attention backends. `name` is what the registry knows it by."""

    name = ""

    @abstractmethod
    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Prepare what every layer of this pass shares: indices, split plans, scratch."""

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        """Allocate metadata buffers for graphs of up to `max_bs` requests; captures and replays reuse them."""
        self._unsupported("CUDA graphs")

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
        """Fill the buffers before a graph of batch size `bs` is captured; the graph keeps their addresses."""
        self._unsupported("CUDA graphs")

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
        """Fill the same buffers for a real batch, padded to the captured size `bs`, before its graph is replayed."""
        self._unsupported("CUDA graphs")

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """seq_len of padded rows."""
        self._unsupported("CUDA graphs")

    def get_verify_buffers_to_fill_after_draft(self) -> list[torch.Tensor | None]:
        """Tree mask and positions buffers that speculative decoding fills after drafting; None for those not used."""
        return [None, None]

    def update_verify_buffers_to_fill_after_draft(self, spec_info: Any, cuda_graph_bs: int | None) -> None:
        """Redo the metadata that depends on those buffers."""
        self._unsupported("speculative verification")

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Attend: decode batches to `forward_decode`, all others to `forward_extend` (MIXED too), nothing when idle.

        Args:
            q, k, v: [tokens, heads · head_dim] or [tokens, heads, head_dim], of the new tokens.
            save_kv_cache: store k and v in the pool at out_cache_loc first.
            kwargs: what a backend takes beyond, such as q_rope and k_rope.

        Returns:
            [tokens, heads · v_head_dim].

        Raises:
            BadArgumentError: the layer is not causal self-attention.
        """
        _check_causal(layer)
        mode = forward_batch.forward_mode
        if mode.is_idle():
            return q.new_empty(q.shape[0], layer.tp_q_head_num * layer.v_head_dim)
        run = self.forward_decode if mode.is_decode() else self.forward_extend
        return run(q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **kwargs)

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
        """One new token per request. Arguments as `forward`."""
        self._unsupported("decode")

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
        """New tokens after a cached prefix, causal among themselves. Arguments as `forward`."""
        self._unsupported("extend")

    def forward_mixed(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """A kernel of its own for MIXED; SGLang dispatches to it on Ascend NPUs only."""
        self._unsupported("a mixed kernel")

    def support_triton(self) -> bool:
        """Whether SGLang's Triton helper kernels (index building, positions) may be used beside this backend."""
        return True

    def get_indexer_metadata(self, layer_id: int, forward_batch: ForwardBatch) -> Any:
        """Sparse attention's indexer metadata; None: no indexer."""
        return None

    def _unsupported(self, what: str) -> NoReturn:
        raise NotImplementedError(f"attention backend {self.name or type(self).__name__!r} does not support {what}")


def _check_causal(layer: RadixAttention) -> None:
    """No backend here masks otherwise; SGLang's encoders would get causal attention without a word."""
    remedy = "The backends here serve the causal self-attention of decoders alone."
    if layer.attn_type is not AttentionType.DECODER:
        raise BadArgumentError("layer.attn_type", "AttentionType.DECODER", layer.attn_type, remedy)
    if layer.is_cross_attention:
        raise BadArgumentError("layer.is_cross_attention", "False", layer.is_cross_attention, remedy)
