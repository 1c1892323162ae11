"""Quantised experts: one grouped product where the format has one, else expert by expert."""

from __future__ import annotations

import torch

from sglab.kernels import fused_experts
from sglab.kernels.formats.microscaling import MX_BLOCK
from sglab.kernels.fused_moe import ExpertQuantization
from sglab.kernels.gated_activation.formulas import activate
from sglab.layers.moe.topk import Routing
from sglab.layers.quantization.fp8 import Fp8
from sglab.layers.quantization.microscaling import Mxfp4
from sglab.layers.quantization.w4a8 import W4A8
from sglab.layers.quantization.weight import QuantizedMatrix


def quantized_experts(x: torch.Tensor, w13: QuantizedMatrix, w2: QuantizedMatrix, routing: Routing) -> torch.Tensor:
    """Σ over a token's choices of weight · w2[e] (silu(gate) · up).

    Args:
        x: [tokens, hidden].
        w13: gate and up, one part if they could be joined.
        routing: ids count the experts of these matrices; -1: none of them.
    """
    stored = grouped(w13, w2)
    if stored is None:
        return _by_expert(x, w13, w2, routing)
    first, second, quantization = stored
    return fused_experts(x, first, second, routing.weights, routing.ids, quantization=quantization, check_values=False)


def grouped(w13: QuantizedMatrix, w2: QuantizedMatrix) -> tuple[torch.Tensor, torch.Tensor, ExpertQuantization] | None:
    """The stored weights and how fused_experts reads them; None: it does not."""
    if len(w13.parts) != 1 or w13.part(0).scheme != w2.part(0).scheme:
        return None
    scheme, first, second = w13.part(0).scheme, w13.part(0).tensors(), w2.part(0).tensors()
    if isinstance(scheme, Fp8) and scheme.weights == "block" and scheme.activations == "group":
        scales = (first[scheme.scale_name], second[scheme.scale_name])
        return first["weight"], second["weight"], ExpertQuantization("fp8_block", *scales, scheme.block)
    if isinstance(scheme, W4A8):
        scales = (first["weight_scale_inv"], second["weight_scale_inv"])
        static = (first["input_scale"].max().reshape(1), second["input_scale"].max().reshape(1))
        block = (1, scheme.group_size)
        return first["weight"], second["weight"], ExpertQuantization("w4a8", *scales, block, *static)
    if isinstance(scheme, Mxfp4):
        weights = (first[scheme.weight_name], second[scheme.weight_name])
        scales = (first["weight_scale"], second["weight_scale"])
        return *weights, ExpertQuantization("mxfp4", *scales, (1, MX_BLOCK))
    return None


def _by_expert(x: torch.Tensor, w13: QuantizedMatrix, w2: QuantizedMatrix, routing: Routing) -> torch.Tensor:
    total = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for expert in routing.ids.unique().tolist():
        if expert < 0:
            continue
        tokens, choices = (routing.ids == expert).nonzero(as_tuple=True)
        y = w2(activate(w13(x[tokens], expert), "silu"), expert)
        total.index_add_(0, tokens, y.float() * routing.weights[tokens, choices, None])
    return total.to(x.dtype)
