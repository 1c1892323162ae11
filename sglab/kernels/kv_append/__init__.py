"""Writing new keys and values into a paged cache, rotated and quantised on the way."""

from __future__ import annotations

from typing import Literal

import torch

from sglab.kernels.contract import Contract, reads_values
from sglab.kernels.known_calls import checked_once, next_time
from sglab.kernels.kv_append.contract import AppendArguments, Places, Queries, Rotary, check, check_places
from sglab.kernels.kv_append.served import PagedAppends, RotatedAppends, split_cache, token_scale
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = [
    "append",
    "append_paged_kv_cache",
    "append_paged_mla_kv_cache",
    "apply_rope_inplace_with_kvcache",
    "split_cache",
]

operator = Operator(
    "kv_append",
    Implementation("triton", "sglab.kernels.kv_append.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.kv_append.reference:run", EVERYWHERE),
)


def append(
    name: str, arguments: AppendArguments, implementation: str = "auto", check_values: bool | None = None
) -> None:
    """Check and run an append on behalf of the operator `name`, which errors mention."""
    operator(check(name, arguments, check_values), implementation)


@checked_once
def append_paged_kv_cache(
    append_key: torch.Tensor,
    append_value: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    kv_layout: Literal["NHD", "HND"] = "NHD",
    *,
    k_scale: float | torch.Tensor = 1.0,
    v_scale: float | torch.Tensor = 1.0,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Write tokens at their positions into their requests' pages. After FlashInfer.

    Token t goes to page kv_indices[kv_indptr[b] + p // page_size], row p % page_size, where b = batch_indices[t] and
    p = positions[t].

    Args:
        append_key, append_value: (tokens, kv_heads, dim) float32, float16 or bfloat16.
        batch_indices, positions: (tokens,) int32 or int64, see get_batch_indices_positions.
        paged_kv_cache: K and V of (pages, page_size, kv_heads, dim), or (pages, kv_heads, page_size, dim) if HND; or
            one tensor (pages, 2, …). Any float dtype, or e4m3 or e5m2.
        kv_indices: (…,) int32 page numbers.
        kv_indptr: (batch + 1,) int32, in pages.
        kv_last_page_len: (batch,) int32; only its shape matters here, as in FlashInfer.
        kv_layout: order of a page's rows and heads.
        k_scale, v_scale: the cache gets k / k_scale and v / v_scale; numbers, or (kv_heads,) or (tokens, kv_heads)
            float32.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    contract = Contract("append_paged_kv_cache")
    contract.require(
        kv_layout in ("NHD", "HND"), "kv_layout", "'NHD' or 'HND'", repr(kv_layout), "NHD: rows before heads."
    )
    k_cache, v_cache = split_cache(paged_kv_cache, kv_layout)
    contract.tensor("kv_last_page_len", kv_last_page_len, "batch", (torch.int32,))
    places = Places(batch_indices, positions, kv_indices, kv_indptr)
    check_places(contract, places, k_cache.shape[1], reads_values(check_values, positions.device))
    arguments = AppendArguments(
        *(append_key, append_value, k_cache, v_cache, None),
        positions=None,
        rotary=None,
        queries=None,
        k_scale=token_scale(append_key, k_scale),
        v_scale=token_scale(append_key, v_scale),
        k_out=None,
        places=places,
    )
    append("append_paged_kv_cache", arguments, implementation, check_values)
    next_time(lambda: PagedAppends(arguments, places, operator.chosen(arguments, implementation), kv_layout))


def append_paged_mla_kv_cache(
    append_ckv: torch.Tensor,
    append_kpe: torch.Tensor,
    batch_indices: torch.Tensor,
    positions: torch.Tensor,
    ckv_cache: torch.Tensor,
    kpe_cache: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """append_paged_kv_cache for MLA: (tokens, 512) and (tokens, 64) into (pages, page_size, 512) and (…, 64).

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    append_paged_kv_cache(
        *(append_ckv.unsqueeze(1), append_kpe.unsqueeze(1), batch_indices, positions),
        *((ckv_cache.unsqueeze(2), kpe_cache.unsqueeze(2)), kv_indices, kv_indptr, kv_last_page_len),
        implementation=implementation,
        check_values=check_values,
    )


@checked_once
def apply_rope_inplace_with_kvcache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    positions: torch.Tensor,
    out_loc: torch.Tensor,
    *,
    is_neox: bool,
    rope_dim: int = 0,
    k_scale: float | torch.Tensor = 1.0,
    v_scale: float | torch.Tensor = 1.0,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Rotate q and k in place, and store k and v into the cache, in one launch. After SGLang 0.5.23.

    Args:
        q: (tokens, heads, head_dim); k, v: (tokens, kv_heads, head_dim).
        k_cache, v_cache: (slots, kv_heads · head_dim), or with heads apart; any float dtype, or e4m3 or e5m2.
        cos_sin_cache: (context, rope_dim) float32: cosines, then sines.
        positions, out_loc: (tokens,) int32 or int64; a negative out_loc drops its token.
        is_neox: pairs are (i, i + rope_dim / 2); else (2 i, 2 i + 1).
        rope_dim: 0: what cos_sin_cache has.
        k_scale, v_scale: the cache gets k / k_scale and v / v_scale; numbers, or (kv_heads,) or (tokens, kv_heads)
            float32.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    contract = Contract("apply_rope_inplace_with_kvcache")
    contract.tensor("cos_sin_cache", cos_sin_cache, "context rope_dim", (torch.float32,))
    width = cos_sin_cache.shape[1]
    contract.require(rope_dim in (0, width), "rope_dim", f"{width}, the width of cos_sin_cache", rope_dim, "Omit it.")
    contract.tensor("k", k, "tokens kv_heads head_dim")
    heads = k.shape[1]
    k_cache, v_cache = (cache.view(len(cache), 1, heads, -1) for cache in (k_cache, v_cache))
    cos, sin = cos_sin_cache.chunk(2, -1)
    rotary, queries = Rotary(cos, sin, not is_neox), Queries(q, positions, q)
    arguments = AppendArguments(
        *(k, v.view_as(k), k_cache, v_cache, out_loc),
        positions=positions,
        rotary=rotary,
        queries=queries,
        k_scale=token_scale(k, k_scale),
        v_scale=token_scale(k, v_scale),
        k_out=k,
    )
    append("apply_rope_inplace_with_kvcache", arguments, implementation, check_values)
    next_time(lambda: RotatedAppends(arguments, operator.chosen(arguments, implementation), rotary, queries))
