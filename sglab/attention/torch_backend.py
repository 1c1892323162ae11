"""What the two backends made of PyTorch's attention share: gather each request's rows, attend, scatter the result."""

from __future__ import annotations

from abc import abstractmethod

import torch

from sglab.attention.arithmetic.dense import gathered
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import Span, check_encoder, save_kv, scales_of, spans
from sglab.engine import BadArgumentError, ForwardMode, MLATokenToKVPool, ModelRunner, RadixAttention

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
        if inputs.save_kv_cache:
            save_kv(inputs)
        out = q.new_empty((*q.shape[:2], layer.v_head_dim))
        for span in each:
            rows = _heads_first(q[span.start : span.stop])
            k_rows, v_rows = _stored_rows(inputs, span.slots)
            attended = self.attend_one(rows, k_rows, v_rows, span, layer, inputs.sinks)
            out[span.start : span.stop] = attended[0].transpose(0, 1)
        return out


def _stored_rows(inputs: AttentionInputs, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A request's keys and values, heads first; those of a pool of 8 or 4 bits multiplied by their scales."""
    pool, layer_id, dtype = inputs.forward_batch.token_to_kv_pool, inputs.layer.layer_id, inputs.q.dtype
    assert pool is not None
    if pool.kv_format:
        k, v = pool.read(layer_id, slots, dtype)
    elif isinstance(pool, MLATokenToKVPool):
        k = gathered(pool.get_key_buffer(layer_id), slots).to(dtype)
        v = k[..., : pool.kv_lora_rank]
    else:
        k, v = (
            rows if scale == 1.0 else rows * scale
            for rows, scale in zip(
                (gathered(buffer, slots).to(dtype) for buffer in pool.get_kv_buffer(layer_id)),
                scales_of(inputs),
                strict=True,
            )
        )
    return _heads_first(k), _heads_first(v)


def _heads_first(rows: torch.Tensor) -> torch.Tensor:
    """[tokens, heads, dim] -> [1, heads, tokens, dim]."""
    return rows.transpose(0, 1)[None]
