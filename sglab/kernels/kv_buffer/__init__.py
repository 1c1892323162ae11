"""Writing new keys into the MLA cache."""

from __future__ import annotations

import torch

from sglab.kernels.kv_buffer.contract import check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

operator = Operator(
    "set_mla_kv_buffer",
    Implementation("triton", "sglab.kernels.kv_buffer.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.kv_buffer.reference:run", EVERYWHERE),
)


def set_mla_kv_buffer(
    kv_buffer: torch.Tensor,
    loc: torch.Tensor,
    cache_k_nope: torch.Tensor,
    cache_k_rope: torch.Tensor,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Scatter new tokens into the MLA KV pool: kv_buffer[loc[t]] = [cache_k_nope[t], cache_k_rope[t]].

    Raises ContractError. After SGLang's set_mla_kv_buffer_triton.

    Args:
        kv_buffer: (slots, 1, 576) or (slots, 576), the pool of one layer, written in place; any dtype, rows may be
            strided.
        loc: (tokens,) int32 or int64 slots. Slot 0 is the dummy that padding rows share; no other slot may repeat.
        cache_k_nope: (tokens, 1, 512) or (tokens, 512), the latent; same dtype as kv_buffer.
        cache_k_rope: (tokens, 1, 64) or (tokens, 64), the rotary key; same dtype (other splits of the pool's width
            work).
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    operator(check(kv_buffer, loc, cache_k_nope, cache_k_rope, check_values), implementation)
