"""The gated activations of an MLP or an expert, as formulas."""

from __future__ import annotations

import torch
from torch.nn import functional

KINDS = ("silu", "gelu", "swiglu_oai")
OAI_ALPHA, OAI_LIMIT = 1.702, 7.0
"""gpt-oss: the sigmoid's slope, and where gate and up are cut."""


def activate(gate_up: torch.Tensor, activation: str) -> torch.Tensor:
    """[rows, 2 · n] -> [rows, n].

    Args:
        activation: "silu", "gelu" (tanh): activation(first half) · second half. "swiglu_oai": gate and up alternate,
            are cut at ±7 (gate above only), and give gate · sigmoid(1.702 · gate) · (up + 1).
    """
    if activation == "swiglu_oai":
        gate = gate_up[..., 0::2].clamp(max=OAI_LIMIT)
        up = gate_up[..., 1::2].clamp(-OAI_LIMIT, OAI_LIMIT)
        return gate * torch.sigmoid(OAI_ALPHA * gate) * (up + 1)
    gate, up = gate_up.chunk(2, -1)
    return (functional.silu(gate) if activation == "silu" else functional.gelu(gate, approximate="tanh")) * up
