"""Cascade attention: keys that requests share are read once for all of them, level by level, and the results merged.

Level 0 may be a system prompt of the whole batch, level 1 what some requests share, the last level each request's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels.batch_prefill.call import PagedOptions, paged_call
from sglab.kernels.batch_prefill.served import PrefillServer
from sglab.kernels.cascade.served import CascadeServer
from sglab.kernels.contract import Contract, reads_values
from sglab.kernels.flash_attn.calls import run
from sglab.kernels.known_calls import checked_once, is_argument, next_time
from sglab.kernels.kv_append import split_cache
from sglab.kernels.merge import merge_state_in_place

__all__ = ["CascadeLevel", "MultiLevelCascadeAttentionWrapper", "cascade_attention"]

Cache = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


@is_argument
@dataclass(frozen=True)
class CascadeLevel:
    """Groups of queries and each group's keys on one level.

    Attributes:
        qo_indptr: (groups + 1,) int32: group i's queries; the last entry is the number of all queries on every level.
        kv_indptr, kv_indices, kv_last_page_len: group i's pages, in CSR form.
    """

    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    kv_last_page_len: torch.Tensor


@checked_once
def cascade_attention(
    q: torch.Tensor,
    paged_kv_cache: Cache,
    levels: Sequence[CascadeLevel],
    *,
    kv_layout: Literal["NHD", "HND"] = "NHD",
    causal: bool = False,
    sm_scale: float | None = None,
    logits_soft_cap: float = 0.0,
    k_scale: float | torch.Tensor | None = None,
    v_scale: float | torch.Tensor | None = None,
    return_lse: bool = False,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Attention over the keys of all levels, one after another. After FlashInfer.

    The last level is computed first and the others merged into it, in q's dtype; only the last one is causal, for what
    is shared comes before every query.

    Args:
        q: (tokens, heads, qk_dim).
        paged_kv_cache, kv_layout, sm_scale, logits_soft_cap, k_scale, v_scale: see batch_prefill_with_paged_kv_cache.
        levels: from what most requests share to what is a request's own.
        return_lse: also return the LSE over all levels (tokens, heads) float32, base 2.

    Returns:
        out (tokens, heads, v_dim), or (out, lse).

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("cascade_attention")
    contract.require(len(levels) > 0, "levels", "at least one", "none", "The last one is the requests' own keys.")
    for number, level in enumerate(levels):
        if reads_values(check_values, level.qo_indptr.device):
            groups = level.qo_indptr.tolist()
            all_of_them = bool(groups) and groups[0] == 0 and groups[-1] == len(q)
            expected, got = f"from 0 to {len(q)}, the queries", f"{groups} on level {number}"
            contract.require(all_of_them, "qo_indptr", expected, got, "Every level has every query in a group.")
    options = [
        PagedOptions(
            *(kv_layout, causal and level is levels[-1], sm_scale, -1, logits_soft_cap, None, k_scale, v_scale),
            return_lse=True,
            check_values=check_values,
        )
        for level in levels
    ]
    calls = []
    for level, chosen in zip(reversed(levels), reversed(options), strict=True):
        pages = (level.qo_indptr, level.kv_indptr, level.kv_indices, level.kv_last_page_len)
        calls.append(paged_call(q, paged_kv_cache, *pages, None, chosen))
        run(calls[-1], implementation, check_values)
    merge_with = "auto" if implementation == "torch" else implementation
    (out, lse), *others = ((call.out, call.lse.T) for call in calls)
    for other in others:
        merge_state_in_place(out, lse, *other, implementation=merge_with)
    if all(map(PrefillServer.can_serve, calls)):
        next_time(lambda: CascadeServer(calls, implementation, merge_with, kv_layout, return_lse))
    return (out, lse) if return_lse else out


class MultiLevelCascadeAttentionWrapper:
    """FlashInfer's plan-then-run form of cascade_attention.

    Args:
        num_levels: how many levels plan will be given.
        float_workspace_buffer: accepted for FlashInfer's callers; nothing is kept in it.
        kv_layout: order of a page's rows and heads.
    """

    def __init__(
        self,
        num_levels: int,
        float_workspace_buffer: torch.Tensor | None = None,
        kv_layout: Literal["NHD", "HND"] = "NHD",
    ) -> None:
        contract = Contract("MultiLevelCascadeAttentionWrapper")
        contract.require(num_levels > 0, "num_levels", "at least 1", num_levels, "2: a shared prefix and the rest.")
        self.num_levels, self.kv_layout = num_levels, kv_layout
        self._levels: list[CascadeLevel] = []
        self._causal, self._cap = False, 0.0
        self._sm_scale: float | None = None
        self._sizes = (0, 0, 0, 0)

    def plan(
        self,
        qo_indptr_arr: Sequence[torch.Tensor],
        paged_kv_indptr_arr: Sequence[torch.Tensor],
        paged_kv_indices_arr: Sequence[torch.Tensor],
        paged_kv_last_page_len: Sequence[torch.Tensor],
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        causal: bool = False,
        sm_scale: float | None = None,
        logits_soft_cap: float | None = None,
    ) -> None:
        """Keep the levels' arrays for the layers of a step.

        Raises:
            ContractError: the arrays are not one per level.
        """
        contract = Contract("MultiLevelCascadeAttentionWrapper.plan")
        arrays = (qo_indptr_arr, paged_kv_indptr_arr, paged_kv_indices_arr, paged_kv_last_page_len)
        lengths = [len(array) for array in arrays]
        expected = f"{self.num_levels}, one per level"
        one_each = lengths == [self.num_levels] * 4
        contract.require(one_each, "each array's length", expected, lengths, "Give each array an entry per level.")
        self._levels = [CascadeLevel(*level) for level in zip(*arrays, strict=True)]
        self._causal, self._sm_scale, self._cap = causal, sm_scale, logits_soft_cap or 0.0
        self._sizes = (num_qo_heads, num_kv_heads, head_dim, page_size)

    def run(self, q: torch.Tensor, paged_kv_cache: Cache, *, implementation: str = "auto") -> torch.Tensor:
        """Attention of one layer: (tokens, heads, head_dim).

        Raises:
            ContractError: there is no plan, or it was made for other sizes: lengths of last pages are in its page size.
        """
        contract = Contract("MultiLevelCascadeAttentionWrapper.run")
        contract.require(bool(self._levels), "the wrapper", "planned", "no plan", "Call plan first.")
        heads, kv_heads, dim, page_size = self._sizes
        expected = f"of {heads} heads of {dim}, as planned"
        contract.require(tuple(q.shape[1:]) == (heads, dim), "q", expected, tuple(q.shape), "Plan for these sizes.")
        k = split_cache(paged_kv_cache, self.kv_layout)[0]
        expected = f"of pages of {page_size} tokens and {kv_heads} KV heads of {dim}, as planned"
        planned = tuple(k.shape[1:]) == (page_size, kv_heads, dim)
        contract.require(planned, "paged_kv_cache", expected, tuple(k.shape), "Plan for these sizes.")
        out = cascade_attention(
            *(q, paged_kv_cache, self._levels),
            kv_layout=self.kv_layout,
            causal=self._causal,
            sm_scale=self._sm_scale,
            logits_soft_cap=self._cap,
            implementation=implementation,
        )
        assert isinstance(out, torch.Tensor)
        return out
