"""What the two backends made of PyTorch's attention share: gather each request's rows, attend, scatter the result."""

from __future__ import annotations

from abc import abstractmethod

import torch

from sglab.attention.arithmetic.dense import gathered
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import Span, check_encoder, save_and_get_kv, scales_of, spans
from sglab.engine import BadArgumentError, ForwardMode, ModelRunner, RadixAttention

MODES = (*CAUSAL_MODES, ForwardMode.DRAFT_EXTEND, ForwardMode.DRAFT_EXTEND_V2)
"""A draft model that catches up with the accepted tokens extends by them, as any request does."""


class PerRequestBackend(AttentionBackend):
    """One call per request on contiguous copies of its keys and values; no CUDA graph (SGLang disables it)."""

    plans_ahead = False

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        asked = model_runner.kernel_implementation
        if asked not in ("auto", "torch"):
            remedy = "Leave it out, or choose the backend triton or cutlass_mla."
            raise BadArgumentError("implementation", f"'auto' or 'torch' for {self.name}", repr(asked), remedy)

    @abstractmethod
    def attend_one(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        span: Span,
        layer: RadixAttention,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor:
        """q [1, heads, new, head_dim], k and v [1, kv_heads, seq_len, dim] -> [1, heads, new, v_head_dim].

        Causal, unless the layer attends to an encoder or is one's.

        Args:
            sinks: float [heads]; None unless the backend declares them.
        """

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        q, layer = inputs.q, inputs.layer
        if layer.is_cross_attention:
            check_encoder(inputs)
        each = list(spans(inputs.forward_batch, layer.is_cross_attention))
        pairs = tuple(zip(save_and_get_kv(inputs), scales_of(inputs), strict=True))
        out = q.new_empty((*q.shape[:2], layer.v_head_dim))
        for span in each:
            rows = _heads_first(q[span.start : span.stop])
            k_rows, v_rows = (_stored_rows(pair, span, q.dtype) for pair in pairs)
            attended = self.attend_one(rows, k_rows, v_rows, span, layer, inputs.sinks)
            out[span.start : span.stop] = attended[0].transpose(0, 1)
        return out


def _stored_rows(pair: tuple[torch.Tensor, float], span: Span, dtype: torch.dtype) -> torch.Tensor:
    """A request's keys or values, heads first; those of an FP8 pool multiplied by their scale."""
    buffer, scale = pair
    rows = gathered(buffer, span.slots).to(dtype)
    return _heads_first(rows if scale == 1.0 else rows * scale)


def _heads_first(rows: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, dim] -> [1, heads, tokens, dim]."""
    return rows.transpose(0, 1)[None]
