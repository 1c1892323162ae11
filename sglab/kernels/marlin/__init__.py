"""Marlin's product: 16-bit activations by integers of 4 or 8 bits, read in Marlin's own layout."""

from __future__ import annotations

import torch

from sglab.kernels.marlin.contract import check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = ["gptq_marlin_gemm", "operator"]

operator = Operator(
    "gptq_marlin_gemm",
    Implementation("triton", "sglab.kernels.marlin.triton:run", GPU, needs_triton),
    Implementation("torch", "sglab.kernels.marlin.reference:run_float32", EVERYWHERE),
    Implementation("reference", "sglab.kernels.marlin.reference:run", EVERYWHERE),
)


def gptq_marlin_gemm(
    a: torch.Tensor,
    b_q_weight: torch.Tensor,
    b_scales: torch.Tensor,
    b_zeros: torch.Tensor | None = None,
    perm: torch.Tensor | None = None,
    bits: int = 4,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """a times (b − zero) · scale, (tokens, in) by (in, out) -> (tokens, out) in a's dtype. After SGLang's function of
    this name, without its workspace and its scratch.

    Groups are K / len(b_scales) neighbouring input features. A desc_act checkpoint is repacked by
    perm = argsort(g_idx), which makes its groups neighbours; a's columns are then taken in the same order.

    Args:
        a: (tokens, in) float16, bfloat16 or float32.
        b_q_weight: (in / 16, out · bits / 2) int32, see `marlin_pack`.
        b_scales: (groups, out), the dtype of a, see `marlin_permute_scales`.
        b_zeros: (groups, out · bits / 32) int32, see `marlin_zero_points`; None: 2^(bits − 1) for all.
        perm: (in,) int32 or int64.
        bits: 4 or 8.

    Raises:
        ContractError: an argument does not fit, or groups are no multiples of 32 input features.
    """
    arguments = check(a, b_q_weight, b_scales, b_zeros, perm, bits, check_values)
    operator(arguments, implementation)
    return arguments.out
