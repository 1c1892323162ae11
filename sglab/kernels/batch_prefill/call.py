"""From batch prefill's arguments to one form of a call."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INT32, Contract, reads_values
from sglab.kernels.flash_attn.calls import outputs
from sglab.kernels.flash_attn.contract import UNBOUNDED, Ends, FlashAttnArguments, Masking
from sglab.kernels.kv_append import split_cache
from sglab.kernels.scoring import Scoring


@dataclass(frozen=True)
class PagedOptions:
    """What batch_prefill_with_paged_kv_cache is given beside its tensors, under its names."""

    kv_layout: str = "NHD"
    causal: bool = False
    sm_scale: float | None = None
    window_left: int = -1
    logits_soft_cap: float = 0.0
    sinks: torch.Tensor | None = None
    k_scale: float | torch.Tensor | None = None
    v_scale: float | torch.Tensor | None = None
    prefix_len_ptr: torch.Tensor | None = None
    token_pos_in_items_ptr: torch.Tensor | None = None
    num_splits: int = 0
    return_lse: bool = False
    out: torch.Tensor | None = None
    check_values: bool | None = None


def paged_call(
    q: torch.Tensor,
    paged_kv_cache: torch.Tensor | tuple[torch.Tensor, torch.Tensor],
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    max_seqlen_q: int | None,
    o: PagedOptions,
) -> FlashAttnArguments:
    """A call over pages, whose indices are checked and the rest is not."""
    name = "batch_prefill_with_paged_kv_cache"
    contract = Contract(name)
    layouts, remedy = ("NHD", "HND"), "NHD: rows first."
    contract.require(o.kv_layout in layouts, "kv_layout", "'NHD' or 'HND'", repr(o.kv_layout), remedy)
    k, v = split_cache(paged_kv_cache, o.kv_layout)
    contract.tensor("kv_indptr", kv_indptr, "indptr", INT32)
    contract.tensor("kv_indices", kv_indices, "indices", INT32)
    contract.fix("batch", len(kv_indptr) - 1, "kv_indptr")
    contract.tensor("kv_last_page_len", kv_last_page_len, "batch", INT32)
    contract.tensor("k", k, "pages page_size kv_heads qk_dim")
    if reads_values(o.check_values, kv_indptr.device):
        page_size, counts = k.shape[1], kv_indptr.diff()
        contract.elements("kv_indptr", counts >= 0, "non-decreasing", counts, "Use a cumulative sum.")
        fits = ((kv_last_page_len >= 1) & (kv_last_page_len <= page_size)) | (counts == 0)
        contract.elements("kv_last_page_len", fits, f"from 1 to {page_size}", kv_last_page_len, "It counts tokens.")
    items = (o.prefix_len_ptr, o.token_pos_in_items_ptr)
    prefix = (items[0] is None) == (items[1] is None)
    contract.require(prefix, "token_pos_in_items_ptr", "given with prefix_len_ptr", "one alone", "Pass both.")
    left = UNBOUNDED if o.window_left < 0 else o.window_left
    right = 0 if o.causal or items[0] is not None else UNBOUNDED
    ends, table = Ends(kv_indptr, kv_last_page_len), kv_indices.expand(len(kv_indptr) - 1, -1)
    masking = Masking(left, right, UNBOUNDED, *items)
    return call_of(name, q, k, v, qo_indptr, ends, table, masking, o, max_seqlen_q)


def call_of(
    name: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qo_indptr: torch.Tensor,
    ends: Ends,
    table: torch.Tensor | None,
    masking: Masking,
    options: PagedOptions,
    max_seqlen_q: int | None,
) -> FlashAttnArguments:
    """Arguments to be checked, with room for the results."""
    Contract(name).tensor("q", q, "tokens heads qk_dim")
    sm_scale = q.shape[-1] ** -0.5 if options.sm_scale is None else options.sm_scale
    out, lse = outputs(name, q, v, options.out, padded=False, by_token=True)
    batch = len(ends.indptr) - 1
    return FlashAttnArguments(
        operator=name,
        q=q,
        qv=None,
        k=k,
        v=v,
        starts=qo_indptr,
        seqlens_q=None,
        lens=None,
        first=None,
        page_table=table,
        max_seqlen_q=len(q) if max_seqlen_q is None else max_seqlen_q,
        masking=masking,
        scoring=Scoring(sm_scale, options.logits_soft_cap, sinks=options.sinks),
        q_descale=None,
        k_descale=_descale(options.k_scale, batch, k),
        v_descale=_descale(options.v_scale, batch, k),
        out=out,
        lse=lse,
        num_splits=options.num_splits,
        made_out=options.out is None,
        ends=ends,
        base2=options.return_lse,
    )


def _descale(scale: float | torch.Tensor | None, batch: int, k: torch.Tensor) -> torch.Tensor | None:
    """(batch, kv_heads) float32."""
    if scale is None or (not isinstance(scale, torch.Tensor) and scale == 1):
        return None
    shape = (batch, k.shape[2])
    if isinstance(scale, torch.Tensor):
        return scale.float().expand(shape)
    return torch.full(shape, scale, dtype=torch.float32, device=k.device)
