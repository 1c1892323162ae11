"""FlashInfer's batch prefill, over pages listed in CSR form or over ragged keys, with its base-2 LSE.

It also serves decoding with tensor cores (one query per request) and multi-item scoring: several candidate items after
one prefix, each of which sees the prefix and itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels.contract import INT32, Contract, reads_values
from sglab.kernels.flash_attn.calls import outputs, run
from sglab.kernels.flash_attn.contract import UNBOUNDED, FlashAttnArguments, Masking
from sglab.kernels.known_calls import checked_once
from sglab.kernels.kv_append import split_cache
from sglab.kernels.scoring import Scoring

__all__ = ["batch_prefill_with_paged_kv_cache", "batch_prefill_with_ragged_kv_cache", "multi_item_positions"]

LN2 = math.log(2)

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
    name = "batch_prefill_with_paged_kv_cache"
    contract = Contract(name)
    contract.require(kv_layout in ("NHD", "HND"), "kv_layout", "'NHD' or 'HND'", repr(kv_layout), "NHD: rows first.")
    k, v = split_cache(paged_kv_cache, kv_layout)
    contract.tensor("kv_indptr", kv_indptr, "indptr", INT32)
    contract.tensor("kv_indices", kv_indices, "indices", INT32)
    contract.fix("batch", len(kv_indptr) - 1, "kv_indptr")
    contract.tensor("kv_last_page_len", kv_last_page_len, "batch", INT32)
    contract.tensor("k", k, "pages page_size kv_heads qk_dim")
    page_size, starts = k.shape[1], kv_indptr * k.shape[1]
    first = starts[:-1]
    if reads_values(check_values, kv_indptr.device):
        counts = kv_indptr.diff()
        contract.elements("kv_indptr", counts >= 0, "non-decreasing", counts, "Use a cumulative sum.")
        fits = ((kv_last_page_len >= 1) & (kv_last_page_len <= page_size)) | (counts == 0)
        contract.elements("kv_last_page_len", fits, f"from 1 to {page_size}", kv_last_page_len, "It counts tokens.")
    lens = (starts[1:] - first).add_(kv_last_page_len).sub_(page_size).clamp_(min=0)  # of no pages: at most 0
    prefix = (prefix_len_ptr is None) == (token_pos_in_items_ptr is None)
    contract.require(prefix, "token_pos_in_items_ptr", "given with prefix_len_ptr", "one alone", "Pass both.")
    left = UNBOUNDED if window_left < 0 else window_left
    right = 0 if causal or prefix_len_ptr is not None else UNBOUNDED
    masking = Masking(left, right, UNBOUNDED, prefix_len_ptr, token_pos_in_items_ptr)
    table = kv_indices.expand(len(first), -1)
    options = _Options(sm_scale, logits_soft_cap, sinks, k_scale, v_scale, num_splits, max_seqlen_q)
    given = (q, k, v, qo_indptr, lens, first, table, masking, options)
    return _attend(name, *given, out, return_lse, implementation, check_values)


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
    options = _Options(sm_scale, logits_soft_cap, sinks, None, None, 1, max_seqlen_q)
    given = (q, k[None], v[None], qo_indptr, kv_indptr.diff(), kv_indptr[:-1], None, masking, options)
    return _attend(name, *given, out, return_lse, implementation, check_values)


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


@dataclass(frozen=True)
class _Options:
    sm_scale: float | None
    logits_soft_cap: float
    sinks: torch.Tensor | None
    k_scale: float | torch.Tensor | None
    v_scale: float | torch.Tensor | None
    num_splits: int
    longest: int | None


def _attend(
    name: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qo_indptr: torch.Tensor,
    lens: torch.Tensor,
    first: torch.Tensor,
    table: torch.Tensor | None,
    masking: Masking,
    options: _Options,
    out: torch.Tensor | None,
    return_lse: bool,
    implementation: str,
    check_values: bool | None,
) -> Result:
    Contract(name).tensor("q", q, "tokens heads qk_dim")
    sm_scale = q.shape[-1] ** -0.5 if options.sm_scale is None else options.sm_scale
    made_out = out is None
    out, lse = outputs(name, q, v, out, padded=False)
    arguments = FlashAttnArguments(
        operator=name,
        q=q,
        qv=None,
        k=k,
        v=v,
        cu_seqlens_q=qo_indptr,
        seqlens_q=None,
        seqlens_k=lens,
        first_key=first,
        page_table=table,
        max_seqlen_q=len(q) if options.longest is None else options.longest,
        masking=masking,
        scoring=Scoring(sm_scale, options.logits_soft_cap, sinks=options.sinks),
        q_descale=None,
        k_descale=_descale(options.k_scale, lens, k),
        v_descale=_descale(options.v_scale, lens, k),
        out=out,
        lse=lse,
        num_splits=options.num_splits,
        made_out=made_out,
    )
    run(arguments, implementation, check_values)
    return (out, _base2(lse)) if return_lse else out


def _base2(lse: torch.Tensor) -> torch.Tensor:
    """A natural LSE (heads, tokens) as (tokens, heads), base 2."""
    made = lse.new_empty((lse.shape[1], lse.shape[0]))
    return torch.div(lse.T, LN2, out=made)


def _descale(scale: float | torch.Tensor | None, lens: torch.Tensor, k: torch.Tensor) -> torch.Tensor | None:
    """(batch, kv_heads) float32."""
    if scale is None or (not isinstance(scale, torch.Tensor) and scale == 1):
        return None
    shape = (len(lens), k.shape[2])
    if isinstance(scale, torch.Tensor):
        return scale.float().expand(shape)
    return torch.full(shape, scale, dtype=torch.float32, device=k.device)
