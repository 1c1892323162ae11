"""Cascades like one that was checked: a prefill per level, and the merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from sglab.kernels.batch_prefill.served import PrefillServer, State
from sglab.kernels.flash_attn.contract import FlashAttnArguments
from sglab.kernels.flash_attn.operator import operator
from sglab.kernels.kv_append import split_cache
from sglab.kernels.merge import merge_state_in_place_operator
from sglab.kernels.merge.contract import MergeRule, PairArguments
from sglab.kernels.merge.served import PairServer


class Level(Protocol):
    """See CascadeLevel."""

    @property
    def qo_indptr(self) -> torch.Tensor: ...
    @property
    def kv_indptr(self) -> torch.Tensor: ...
    @property
    def kv_indices(self) -> torch.Tensor: ...
    @property
    def kv_last_page_len(self) -> torch.Tensor: ...


class CascadeServer:
    """How calls like one are served from then on.

    Args:
        calls: those of its levels, the last level first.
        implementation, merge_with: what computes the levels, and what merges them.
        kv_layout: order of a page's rows and heads.
        return_lse: whether the LSE is wanted.
    """

    def __init__(
        self,
        calls: Sequence[FlashAttnArguments],
        implementation: str,
        merge_with: str,
        kv_layout: str,
        return_lse: bool,
    ) -> None:
        self._own, *self._shared = (
            PrefillServer(call, operator.chosen(call, implementation), kv_layout) for call in calls
        )
        out, lse = calls[0].out, calls[0].lse.T
        pair = PairArguments(out, lse, out, lse, out, lse, MergeRule.BASE2, in_place=True)
        self._merge = PairServer(pair, merge_state_in_place_operator.chosen(pair, merge_with))
        self._kv_layout, self._return_lse = kv_layout, return_lse

    def __call__(
        self, q: torch.Tensor, paged_kv_cache: torch.Tensor | State, levels: Sequence[Level], **_: Any
    ) -> torch.Tensor | State:
        """As cascade_attention."""
        k, v = split_cache(paged_kv_cache, self._kv_layout)
        at = len(levels) - 1
        own = levels[at]
        out, lse = self._own.of_pages(q, k, v, own.qo_indptr, own.kv_indptr, own.kv_indices, own.kv_last_page_len)
        for served in self._shared:
            at -= 1
            own = levels[at]
            other, its_lse = served.of_pages(
                q, k, v, own.qo_indptr, own.kv_indptr, own.kv_indices, own.kv_last_page_len
            )
            self._merge(out, lse, other, its_lse, out, lse)
        return (out, lse) if self._return_lse else out
