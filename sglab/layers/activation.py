"""Gated activations over a merged projection: activation(first half) · second half. One kernel on a GPU."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from sglab.kernels import gelu_tanh_and_mul, silu_and_mul


class SiluAndMul(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, 2 · n] -> [tokens, n]."""
        if x.is_cuda:
            return silu_and_mul(x)
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up


class GeluAndMul(nn.Module):
    """`approximate`: "tanh" (Gemma's) or "none"."""

    def __init__(self, approximate: str = "tanh") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, 2 · n] -> [tokens, n]."""
        if x.is_cuda and self.approximate == "tanh":
            return gelu_tanh_and_mul(x)
        gate, up = x.chunk(2, -1)
        return functional.gelu(gate, approximate=self.approximate) * up
