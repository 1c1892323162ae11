"""The FP8 product with block scales: activations per token and group, weights per block."""

from __future__ import annotations

import torch

from sglab.kernels.formats.fp8 import has_e4m3
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.w8a8_block_fp8.contract import BlockFp8Arguments, check


def _refuses(a: BlockFp8Arguments) -> str | None:
    if a.device.type == "cuda" and not has_e4m3(a.device):
        return "needs a GPU that multiplies e4m3, sm_89 or newer"
    return needs_triton(a)


operator = Operator(
    "w8a8_block_fp8_matmul",
    Implementation("triton", "sglab.kernels.fused_moe.quantized_triton:run_block_fp8", GPU, _refuses),
    Implementation("torch", "sglab.kernels.w8a8_block_fp8.reference:run_float32", EVERYWHERE),
    Implementation("reference", "sglab.kernels.w8a8_block_fp8.reference:run", EVERYWHERE),
)


def w8a8_block_fp8_matmul(
    A: torch.Tensor,
    B: torch.Tensor,
    As: torch.Tensor,
    Bs: torch.Tensor,
    block_size: tuple[int, int] = (128, 128),
    output_dtype: torch.dtype = torch.bfloat16,
    *,
    implementation: str = "auto",
) -> torch.Tensor:
    """A Bᵀ of FP8 matrices, each value times its scale. After SGLang's function of this name.

    Returns (tokens, out) in `output_dtype`. Raises ContractError.

    Args:
        A: (tokens, in) e4m3.
        B: (out, in) e4m3.
        As: (tokens, ceil(in / block_size[1])) float32.
        Bs: (ceil(out / block_size[0]), ceil(in / block_size[1])) float32.
        block_size: of B; A's groups have its second size.
        output_dtype: float32, float16 or bfloat16.
    """
    arguments = check(A, B, As, Bs, block_size, output_dtype)
    operator(arguments, implementation)
    return arguments.out
