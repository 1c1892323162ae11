"""Decode attention over a paged KV cache, as FlashInfer's batch decode lays it out."""

from __future__ import annotations

import torch

from sglab.kernels.known_calls import checked_once
from sglab.kernels.paged_decode.contract import PagedDecodeArguments, check
from sglab.kernels.registry import EVERYWHERE, Implementation, Operator

__all__ = ["batch_decode_with_paged_kv_cache", "operator"]

operator = Operator(
    "batch_decode_with_paged_kv_cache",
    Implementation("cuda", "sglab.kernels.paged_decode.cuda:run", EVERYWHERE),
    Implementation("reference", "sglab.kernels.paged_decode.reference:run", EVERYWHERE),
)


@checked_once
def batch_decode_with_paged_kv_cache(
    q: torch.Tensor,
    paged_k_cache: torch.Tensor,
    paged_v_cache: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    *,
    sm_scale: float | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One query token per request attends to its pages; no split-KV: a CTA is a request and a KV head.

    Returns out and lse. Raises ContractError. After FlashInfer's BatchDecodeWithPagedKVCache.

    Args:
        q: (batch, heads, 128) float16; heads is 1, 4 or 8 times kv_heads.
        paged_k_cache, paged_v_cache: (pages, page_size, kv_heads, 128) float16, contiguous (NHD).
        kv_indptr: (batch + 1,) int32: where a request's pages begin in kv_indices.
        kv_indices: int32 page numbers.
        kv_last_page_len: (batch,) int32, tokens on a request's last page, 1 to page_size; without pages of no meaning.
        sm_scale: of q · k; 128 ** −0.5 unless given.
        out: (batch, heads, 128) float16.
        lse: (batch, heads) float32, base 2. A request without pages gets 0 and −inf.
        check_values: also check contents; by default only on the CPU.
    """
    tensors = (q, paged_k_cache, paged_v_cache, kv_indptr, kv_indices, kv_last_page_len)
    arguments: PagedDecodeArguments = check(*tensors, sm_scale, out, lse, check_values)
    operator(arguments, implementation)
    return arguments.out, arguments.lse
