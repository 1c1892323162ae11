"""FlashInfer's batch prefill, over pages listed in CSR form or over ragged keys, with its base-2 LSE.

It also serves decoding with tensor cores (one query per request) and multi-item scoring: several candidate items after
one prefix, each of which sees the prefix and itself.
"""

from __future__ import annotations

from typing import Literal

import torch

from sglab.kernels.batch_prefill.call import PagedOptions, call_of, paged_call
from sglab.kernels.batch_prefill.served import PrefillServer
from sglab.kernels.contract import INT32, Contract
from sglab.kernels.flash_attn.calls import run
from sglab.kernels.flash_attn.contract import UNBOUNDED, Ends, Masking
from sglab.kernels.flash_attn.operator import operator
from sglab.kernels.known_calls import checked_once, next_time

__all__ = ["batch_prefill_with_paged_kv_cache", "batch_prefill_with_ragged_kv_cache", "multi_item_positions"]

Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


@checked_once
def batch_prefill_with_paged_kv_cache(
    q: torch.Tensor,
    paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    max_seqlen_q: int | None = None,
    *,
    kv_layout: Literal["NHD", "HND"] = "NHD",
    causal: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    k_scale: float | torch.Tensor | None = None,
    v_scale: float | torch.Tensor | None = None,
    prefix_len_ptr: torch.Tensor | None = None,
    token_pos_in_items_ptr: torch.Tensor | None = None,
    num_splits: int = 0,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Result:
    """Attention of a ragged batch of queries over paged keys. After FlashInfer's BatchPrefillWithPagedKVCacheWrapper.

    Masks are bottom-right. Request i's pages are kv_indices[kv_indptr[i] : kv_indptr[i + 1]], the last of which holds
    kv_last_page_len[i] tokens.

    Args:
        q: (tokens, heads, qk_dim).
        paged_kv_cache: K and V of (pages, page_size, kv_heads, dim), or with HND heads before rows; or one tensor
            (pages, 2, …). The dtype of q, or 8-bit.
        qo_indptr, kv_indptr: (batch + 1,) int32, in tokens and in pages.
        kv_indices: int32; kv_last_page_len: (batch,) int32.
        max_seqlen_q: longest request's queries; None for all of q.
        causal: a query sees keys up to its own position.
        window_left: and of these this many before it; −1 for all.
        k_scale, v_scale: what stored values are multiplied by: a number, or (kv_heads,) float32.
        prefix_len_ptr, token_pos_in_items_ptr: (batch,) and (batch, positions after the prefix), see
            multi_item_positions; then attention is causal.
        num_splits: parts that a request's keys are cut into; 1 gives the same bits in every batch, 0 chooses.
        return_lse: also return the LSE (tokens, heads) float32, base 2.

    Returns:
        out (tokens, heads, v_dim), or (out, lse).

    Raises:
        ContractError: an argument does not fit.
    """
    options = PagedOptions(
        *(kv_layout, causal, sm_scale, window_left, logits_soft_cap, sinks, k_scale, v_scale),
        *(prefix_len_ptr, token_pos_in_items_ptr, num_splits, return_lse, out, check_values),
    )
    pages = (qo_indptr, kv_indptr, kv_indices, kv_last_page_len)
    call = paged_call(q, paged_kv_cache, *pages, max_seqlen_q, options)
    run(call, implementation, check_values)
    if PrefillServer.can_serve(call):
        next_time(lambda: PrefillServer(call, operator.chosen(call, implementation), kv_layout).paged)
    return (call.out, call.lse.T) if return_lse else call.out


@checked_once
def batch_prefill_with_ragged_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    max_seqlen_q: int | None = None,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float = 0.0,
    sinks: torch.Tensor | None = None,
    return_lse: bool = False,
    out: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Result:
    """As above, over keys (key tokens, kv_heads, dim), request i's at kv_indptr[i]; kv_indptr counts tokens.

    After FlashInfer's BatchPrefillWithRaggedKVCacheWrapper.

    Raises:
        ContractError: an argument does not fit.
    """
    name = "batch_prefill_with_ragged_kv_cache"
    contract = Contract(name)
    contract.tensor("kv_indptr", kv_indptr, "indptr", INT32)
    contract.tensor("k", k, "key_tokens kv_heads qk_dim")
    contract.tensor("v", v, "key_tokens kv_heads v_dim")
    left = UNBOUNDED if window_left < 0 else window_left
    masking = Masking(left, 0 if causal else UNBOUNDED)
    options = PagedOptions(
        sm_scale=sm_scale, logits_soft_cap=logits_soft_cap, sinks=sinks, num_splits=1, return_lse=return_lse, out=out
    )
    call = call_of(name, q, k[None], v[None], qo_indptr, Ends(kv_indptr), None, masking, options, max_seqlen_q)
    run(call, implementation, check_values)
    if PrefillServer.can_serve(call):
        next_time(lambda: PrefillServer(call, operator.chosen(call, implementation)).ragged)
    return (call.out, call.lse.T) if return_lse else call.out


def multi_item_positions(input_ids: torch.Tensor, delimiter: int) -> tuple[int, torch.Tensor, int]:
    """One request's items after its prefix, as multi-item scoring describes them.

    Args:
        input_ids: (tokens,): prefix, delimiter, item, delimiter, item, … and a last delimiter.
        delimiter: the token between them.

    Returns:
        The prefix's length; (tokens after the prefix,) int32, how far each token is from its delimiter, which counts as
        0: three items of one token give 0 1 0 1 0 1 0; the longest item's tokens.

    Raises:
        ContractError: there is no delimiter.
    """
    places = torch.nonzero(input_ids == delimiter).flatten()
    contract = Contract("multi_item_positions")
    contract.require(len(places) > 0, "input_ids", f"with the delimiter {delimiter} in it", "none", "Add it.")
    prefix = int(places[0])
    number = torch.arange(prefix, len(input_ids), device=input_ids.device)
    last = places[torch.searchsorted(places, number, right=True) - 1]
    positions = (number - last).int()
    return prefix, positions, int(positions.max())
