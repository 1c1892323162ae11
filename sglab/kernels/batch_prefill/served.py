"""Batch prefills like one that was checked: their tensors put into its arguments, outputs made, and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglab.kernels.flash_attn.contract import Ends, FlashAttnArguments
from sglab.kernels.flash_attn.served import AttentionServer
from sglab.kernels.kv_append import split_cache

State = tuple[torch.Tensor, torch.Tensor]


class PrefillServer(AttentionServer):
    """How calls like one are served from then on.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
        kv_layout: order of a page's rows and heads.

    Raises:
        ValueError: it has tensors that these functions are not given.
    """

    def __init__(self, call: FlashAttnArguments, run: Callable[[Any], object], kv_layout: str = "NHD") -> None:
        super().__init__(call, run, "page_table", "ends", by_token=True)
        self._kv_layout, self._return_lse = kv_layout, call.base2
        self._requests = call.batch

    @staticmethod
    def can_serve(call: FlashAttnArguments) -> bool:
        """Whether all its tensors are among those that these functions are given."""
        others = (call.k_descale, call.v_descale, call.masking.prefix_lens)
        return call.made_out and all(tensor is None for tensor in others)

    def paged(
        self,
        q: torch.Tensor,
        paged_kv_cache: torch.Tensor | State,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_indices: torch.Tensor,
        kv_last_page_len: torch.Tensor,
        max_seqlen_q: int | None = None,
        *,
        sinks: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor | State:
        """As batch_prefill_with_paged_kv_cache."""
        k, v = split_cache(paged_kv_cache, self._kv_layout)
        made = self.of_pages(q, k, v, qo_indptr, kv_indptr, kv_indices, kv_last_page_len, sinks)
        return made if self._return_lse else made[0]

    def ragged(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        max_seqlen_q: int | None = None,
        *,
        sinks: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor | State:
        """As batch_prefill_with_ragged_kv_cache."""
        k, v = k.unsqueeze(0), v.unsqueeze(0)
        where = {"starts": qo_indptr, "ends": Ends(kv_indptr), "page_table": None}
        made = self._attend(q, sinks, {"k": k, "v": v, **where})
        return made if self._return_lse else made[0]

    def of_pages(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        starts: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last: torch.Tensor,
        sinks: torch.Tensor | None = None,
    ) -> State:
        """out and its LSE, from a cache that split_cache has split."""
        ends, table = Ends(indptr, last), indices.expand(self._requests, -1)
        return self._attend(q, sinks, {"k": k, "v": v, "starts": starts, "ends": ends, "page_table": table})
