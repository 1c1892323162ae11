"""What fused_add_rmsnorm asks of its arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract


@dataclass(frozen=True)
class NormArguments:
    """Checked arguments: x and residual (rows, hidden) of one dtype, both written in place; weight (hidden,)."""

    x: torch.Tensor
    residual: torch.Tensor
    weight: torch.Tensor
    eps: float

    @property
    def device(self) -> torch.device:
        return self.x.device


def check(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> NormArguments:
    contract = Contract("fused_add_rmsnorm")
    contract.tensor("x", x, "rows hidden", FLOATS)
    contract.tensor("residual", residual, "rows hidden", FLOATS)
    contract.tensor("weight", weight, "hidden", FLOATS)
    contract.same_dtype(x=x, residual=residual)
    contract.require(math.isfinite(eps) and eps >= 0, "eps", "finite and at least 0", eps, "Pass rms_norm_eps.")
    contract.apart("x", x, residual=residual, weight=weight)
    return NormArguments(x, residual, weight, eps)
