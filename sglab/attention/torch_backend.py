"""What the two backends made of PyTorch's attention share: gather each request's rows, attend, scatter the result."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.rows import Span, save_and_get_kv, spans
from sglab.engine import BadArgumentError, ForwardBatch, ModelRunner, RadixAttention


class PerRequestBackend(AttentionBackend):
    """One call per request on contiguous copies of its keys and values; no CUDA graph (SGLang disables it)."""

    def __init__(self, model_runner: ModelRunner) -> None:
        asked = model_runner.kernel_implementation
        if asked not in ("auto", "torch"):
            remedy = "Leave it out, or choose the backend triton or cutlass_mla."
            raise BadArgumentError("implementation", f"'auto' or 'torch' for {self.name}", repr(asked), remedy)
        self.device = model_runner.device

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        """Nothing: each request is gathered when its layer runs."""

    def support_triton(self) -> bool:
        return False

    @abstractmethod
    def attend_one(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, span: Span, layer: RadixAttention
    ) -> torch.Tensor:
        """q [1, heads, new, head_dim], k and v [1, kv_heads, seq_len, dim] -> [1, heads, new, v_head_dim], causal."""

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
        return self.forward_extend(q, k, v, layer, forward_batch, save_kv_cache)

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
        keys, values = save_and_get_kv(k, v, layer, forward_batch, save_kv_cache)
        q = q.view(-1, layer.tp_q_head_num, layer.head_dim)
        out = q.new_empty((len(q), layer.tp_q_head_num, layer.v_head_dim))
        for span in spans(forward_batch):
            rows = _heads_first(q[span.start : span.stop])
            k_rows, v_rows = _heads_first(keys[span.slots].to(q.dtype)), _heads_first(values[span.slots].to(q.dtype))
            out[span.start : span.stop] = self.attend_one(rows, k_rows, v_rows, span, layer)[0].transpose(0, 1)
        return out.view(len(q), -1)


def _heads_first(rows: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, dim] -> [1, heads, tokens, dim]."""
    return rows.transpose(0, 1)[None]
