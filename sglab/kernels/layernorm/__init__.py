"""RMSNorm fused with the sum that precedes it."""

from __future__ import annotations

import torch

from sglab.kernels.layernorm.contract import check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

operator = Operator(
    "fused_add_rmsnorm",
    Implementation("triton", "sglab.kernels.layernorm.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.layernorm.reference:run", EVERYWHERE),
)


def fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, implementation: str = "auto"
) -> None:
    """residual += x, and x = residual / rms(residual) · weight, both in place. After SGLang's fused_add_rmsnorm.

    The norm is of the residual as its dtype stores it, in float32 and rounded once. Raises ContractError.

    Args:
        x, residual: (rows, hidden) float32, float16 or bfloat16.
        weight: (hidden,).
    """
    operator(check(x, residual, weight, eps), implementation)
