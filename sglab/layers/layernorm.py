"""RMSNorm, fused with the residual sum that precedes it."""

from __future__ import annotations

from typing import overload

import torch
from torch import nn
from torch.nn import functional

from sglab.kernels import fused_add_rmsnorm


class RMSNorm(nn.Module):
    """x / rms(x) · weight, in float32 and rounded once. Source: SGLang `layers/layernorm.py`.

    Attributes:
        offset: added to the weight: 1 in Gemma's and Qwen3-Next's checkpoints, which store weight - 1.
    """

    offset = 0.0

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size), requires_grad=False)
        self.variance_epsilon = eps

    @overload
    def forward(self, x: torch.Tensor) -> torch.Tensor: ...

    @overload
    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None = None
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """norm(x), or with a residual: residual += x, in place, and (norm(residual), residual).

        On a GPU the norm then takes x's place, too.
        """
        if residual is None:
            return self._norm(x)
        if x.is_cuda and not self.offset:
            fused_add_rmsnorm(x, residual, self.weight, self.variance_epsilon)
            return x, residual
        residual += x
        return self._norm(residual), residual

    def _norm(self, x: torch.Tensor) -> torch.Tensor:
        if not self.offset:  # PyTorch's own computes in float32 too, in one kernel on a GPU
            return functional.rms_norm(x, self.weight.shape, self.weight, self.variance_epsilon)
        weight = self.weight.float() + self.offset
        return functional.rms_norm(x.float(), weight.shape, weight, self.variance_epsilon).to(x.dtype)


class GemmaRMSNorm(RMSNorm):
    """RMSNorm whose weight is stored around 0."""

    offset = 1.0


class RMSNormGated(RMSNorm):
    """Mamba's and DeltaNet's output norm with a gate: norm(x) · silu(gate), or norm(x · silu(gate)).

    Args:
        group_size: features that are normalised together; None: all.
        norm_before_gate: which of the two.
    """

    def __init__(
        self, hidden_size: int, eps: float = 1e-6, group_size: int | None = None, norm_before_gate: bool = True
    ) -> None:
        super().__init__(hidden_size, eps)
        self.group_size, self.norm_before_gate = group_size or hidden_size, norm_before_gate

    def gated(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """x and gate [..., hidden] -> [..., hidden], in float32 and rounded once."""
        wide, gates = x.float(), functional.silu(gate.float())
        if not self.norm_before_gate:
            wide = wide * gates
        groups = wide.unflatten(-1, (-1, self.group_size))
        groups = groups * torch.rsqrt(groups.square().mean(-1, keepdim=True) + self.variance_epsilon)
        wide = groups.flatten(-2) * self.weight.float()
        return (wide * gates if self.norm_before_gate else wide).to(x.dtype)
