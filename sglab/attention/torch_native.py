"""torch_native: PyTorch's scaled_dot_product_attention, request by request.

After SGLang 0.5.9 `torch_native_backend.py`. SGLang pads the queries of an extend to the full length and lets
`is_causal` mask them; this passes the mask of the new rows instead.
"""

from __future__ import annotations

import torch

from sglab.attention.info import ran
from sglab.attention.registry import register_attention_backend
from sglab.attention.rows import Span
from sglab.attention.torch_backend import PerRequestBackend
from sglab.engine import RadixAttention
from sglab.engine.errors import BadArgumentError


@register_attention_backend("torch_native")
class TorchNativeAttnBackend(PerRequestBackend):
    """SDPA has neither a logit cap nor a temperature: layers with either are refused (SGLang ignores both here)."""

    name = "torch_native"

    def attend_one(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, span: Span, layer: RadixAttention
    ) -> torch.Tensor:
        if layer.logit_cap or layer.xai_temperature_len > 0:
            raise BadArgumentError(
                "layer",
                "no logit_cap and no xai_temperature_len for torch_native",
                f"logit_cap {layer.logit_cap}, xai_temperature_len {layer.xai_temperature_len}",
                "Use triton or flex_attention.",
            )
        ran("scaled_dot_product_attention", "torch", q.device, "PyTorch runs where the tensors are")
        positions = torch.arange(span.first_position, len(span.slots), device=q.device)
        keys = torch.arange(len(span.slots), device=q.device)
        visible = keys <= positions[:, None]
        if layer.sliding_window_size >= 0:
            visible &= keys >= positions[:, None] - layer.sliding_window_size
        grouped = layer.tp_q_head_num != layer.tp_k_head_num
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, scale=layer.scaling, enable_gqa=grouped
        )
