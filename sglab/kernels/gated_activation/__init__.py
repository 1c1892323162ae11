"""Gated activations over a merged projection: activation(first half) · second half."""

from __future__ import annotations

import torch

from sglab.kernels.gated_activation.contract import check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

operator = Operator(
    "gated_activation",
    Implementation("triton", "sglab.kernels.gated_activation.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.gated_activation.reference:run", EVERYWHERE),
)


def silu_and_mul(x: torch.Tensor, *, implementation: str = "auto") -> torch.Tensor:
    """silu(first half) · second half: (rows, 2 n) -> (rows, n). After SGLang's silu_and_mul. Raises ContractError."""
    arguments = check("silu_and_mul", x, "silu")
    operator(arguments, implementation)
    return arguments.out


def gelu_tanh_and_mul(x: torch.Tensor, *, implementation: str = "auto") -> torch.Tensor:
    """gelu(first half), by tanh, · second half: (rows, 2 n) -> (rows, n). Raises ContractError."""
    arguments = check("gelu_tanh_and_mul", x, "gelu")
    operator(arguments, implementation)
    return arguments.out
