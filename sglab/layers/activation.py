"""Gated activations over a merged projection: activation(first half) · second half."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class SiluAndMul(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, 2 · n] -> [tokens, n]."""
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up


class GeluAndMul(nn.Module):
    """`approximate`: "tanh" (Gemma's) or "none"."""

    def __init__(self, approximate: str = "tanh") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, 2 · n] -> [tokens, n]."""
        gate, up = x.chunk(2, -1)
        return functional.gelu(gate, approximate=self.approximate) * up
