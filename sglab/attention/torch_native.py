"""torch_native: PyTorch's scaled_dot_product_attention, request by request.

After SGLang 0.5.9 `torch_native_backend.py`. SGLang pads the queries of an extend to the full length and lets
`is_causal` mask them; this passes the mask of the new rows instead.
"""

from __future__ import annotations

import torch

from sglab.attention.capabilities import Capabilities
from sglab.attention.info import ran
from sglab.attention.rows import Span
from sglab.attention.torch_backend import MODES, PerRequestBackend
from sglab.engine import RadixAttention


class TorchNativeAttnBackend(PerRequestBackend):
    """SDPA has neither a logit cap nor a temperature: layers with either are refused (SGLang ignores both here)."""

    name = "torch_native"
    capabilities = Capabilities(modes=MODES, sliding_window=True, triton_helpers=False)

    def attend_one(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, span: Span, layer: RadixAttention
    ) -> torch.Tensor:
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
