"""RMSNorms: plain, Gemma's, and fused with the sum that precedes them.

The norm is in float32 and rounded once; that of a sum is of the residual as its dtype stores it.
"""

from __future__ import annotations

import torch

from sglab.kernels.layernorm.contract import check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = ["fused_add_rmsnorm", "gemma_fused_add_rmsnorm", "gemma_rmsnorm", "operator", "rmsnorm"]

operator = Operator(
    "rmsnorm",
    Implementation("triton", "sglab.kernels.layernorm.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.layernorm.reference:run", EVERYWHERE),
)


def rmsnorm(
    input: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
) -> torch.Tensor:
    """x / √(mean x² + eps) · weight. After FlashInfer and SGLang.

    Args:
        input: (rows, hidden) float32, float16 or bfloat16; rows may be strided.
        weight: (hidden,).
        out: output, may be the input; allocated if None.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    arguments = check("rmsnorm", input, None, weight, eps, out=out)
    operator(arguments, implementation)
    return arguments.out


def gemma_rmsnorm(
    input: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
) -> torch.Tensor:
    """rmsnorm with 1 + weight.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    arguments = check("gemma_rmsnorm", input, None, weight, eps, 1.0, out)
    operator(arguments, implementation)
    return arguments.out


def fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, implementation: str = "auto"
) -> None:
    """residual += x, and x = residual / rms(residual) · weight, both in place. After SGLang's fused_add_rmsnorm.

    Raises ContractError.

    Args:
        x, residual: (rows, hidden) float32, float16 or bfloat16.
        weight: (hidden,).
    """
    operator(check("fused_add_rmsnorm", x, residual, weight, eps), implementation)


def gemma_fused_add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, *, implementation: str = "auto"
) -> None:
    """fused_add_rmsnorm with 1 + weight.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    operator(check("gemma_fused_add_rmsnorm", x, residual, weight, eps, 1.0), implementation)
