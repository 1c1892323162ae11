"""Gate: the router's matrix, one row per expert."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Gate(nn.Module):
    """Router logits [tokens, experts].

    Args:
        correction_bias: hold DeepSeek-V3's e_score_correction_bias, float32 [experts].
        in_float32: multiply in float32 whatever the model's dtype (DeepSeek).
    """

    def __init__(
        self, hidden_size: int, num_experts: int, correction_bias: bool = False, in_float32: bool = False
    ) -> None:
        super().__init__()
        self.in_float32 = in_float32
        self.weight = nn.Parameter(torch.empty(num_experts, hidden_size), requires_grad=False)
        bias = nn.Parameter(torch.zeros(num_experts, dtype=torch.float32), requires_grad=False)
        self.e_score_correction_bias = bias if correction_bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.in_float32:
            return functional.linear(x.float(), self.weight.float())
        return functional.linear(x, self.weight)
