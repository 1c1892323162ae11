"""All that lies between a layer's QKV projection and its attention, in one launch."""

from __future__ import annotations

import torch

from sglab.kernels.qk_norm_rope.contract import check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = ["operator", "qk_norm_rope_store"]

operator = Operator(
    "qk_norm_rope_store",
    Implementation("triton", "sglab.kernels.qk_norm_rope.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.qk_norm_rope.reference:run", EVERYWHERE),
)


def qk_norm_rope_store(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    q_weight: torch.Tensor | None = None,
    k_weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    is_neox: bool = True,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """RMSNorm over each head of q and k, their rotation, and k and v into the cache: `rmsnorm`,
    `apply_rope_with_cos_sin_cache_inplace` and `store_cache` as one kernel. After vLLM's fused_qk_norm_rope.

    Raises ContractError.

    Args:
        positions: (tokens,) int64.
        query, key: (tokens, heads, head_dim) float32, float16 or bfloat16, normed and turned in place; rows and heads
            may be strided. Each step is rounded to their dtype.
        value: (tokens, kv_heads, v_head_dim), of the same dtype.
        cos_sin_cache: (context, rotary_dim) float32, the cosines and then the sines of each position.
        k_cache, v_cache: (slots, kv_heads, head_dim) and (slots, kv_heads, v_head_dim), of the same dtype.
        indices: (tokens,) int32 or int64 slots. Slot 0 is the dummy that padding rows share; no other slot may repeat.
        q_weight, k_weight: (head_dim,), of the norms; None: they are turned as they are.
        is_neox: pairs are (i, i + rotary_dim / 2); else (2 i, 2 i + 1).
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    rows = (positions, query, key, value, cos_sin_cache, k_cache, v_cache, indices)
    operator(check(*rows, q_weight, k_weight, eps, is_neox, check_values), implementation)
