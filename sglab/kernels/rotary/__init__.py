"""Rotary position embeddings, applied in place."""

from __future__ import annotations

import torch

from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.rotary.contract import check

operator = Operator(
    "apply_rope_with_cos_sin_cache_inplace",
    Implementation("triton", "sglab.kernels.rotary.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.rotary.reference:run", EVERYWHERE),
)


def apply_rope_with_cos_sin_cache_inplace(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    is_neox: bool = True,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Turn each pair (a, b) of a head's rotary dims: (a cos - b sin, b cos + a sin). After FlashInfer and SGLang.

    Raises ContractError.

    Args:
        positions: (tokens,) int64.
        query, key: (tokens, heads, head_dim), written in place; rows and heads may be strided. Dims beyond
            rotary_dim stay.
        cos_sin_cache: (context, rotary_dim) float32, the cosines and then the sines of each position.
        is_neox: pairs are (i, i + rotary_dim / 2); else (2 i, 2 i + 1).
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    operator(check(positions, query, key, cos_sin_cache, is_neox, check_values), implementation)
