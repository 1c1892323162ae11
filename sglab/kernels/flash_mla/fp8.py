"""FlashMLA's dense decode over an 8-bit cache of 576 values a token, a scale for all: attention over pages of 64."""

from __future__ import annotations

import torch

from sglab.kernels.contract import Contract
from sglab.kernels.flash_attn import flash_attn_with_kvcache
from sglab.kernels.flash_mla.contract import PAGE_SIZE
from sglab.planning.flash_mla import HEAD_DIM_V


def dense_fp8(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    block_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    head_dim_v: int,
    softmax_scale: float | None,
    causal: bool,
    descale_q: torch.Tensor | None,
    descale_k: torch.Tensor | None,
    implementation: str,
    check_values: bool | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    contract = Contract("flash_mla_with_kvcache")
    contract.tensor("k_cache", k_cache, f"pages {PAGE_SIZE} 1 576", (torch.float8_e4m3fn,))
    contract.tensor("q", q, "batch query_tokens heads 576")
    contract.require(head_dim_v == HEAD_DIM_V, "head_dim_v", str(HEAD_DIM_V), head_dim_v, "It is MLA's latent rank.")
    for name, scale in (("descale_q", descale_q), ("descale_k", descale_k)):
        if scale is not None:
            contract.tensor(name, scale, "1", (torch.float32,))
    of_q, of_k = (None if scale is None else scale.expand(len(q), 1) for scale in (descale_q, descale_k))
    out, lse = flash_attn_with_kvcache(
        *(q, k_cache, k_cache[..., :HEAD_DIM_V]),
        cache_seqlens=cache_seqlens,
        page_table=block_table,
        q_descale=of_q,
        k_descale=of_k,
        v_descale=of_k,
        softmax_scale=softmax_scale,
        causal=causal,
        return_softmax_lse=True,
        implementation=implementation,
        check_values=check_values,
    )
    return out, lse
