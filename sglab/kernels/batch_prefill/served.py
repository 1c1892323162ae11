"""Batch prefills like one that was checked: their tensors put into its arguments, outputs made, and run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from sglab.kernels.flash_attn.contract import Ends, FlashAttnArguments
from sglab.kernels.known_calls import Template
from sglab.kernels.kv_append import split_cache
from sglab.kernels.scoring import Scoring

_CHANGING = ("q", "k", "v", "starts", "page_table", "ends", "out", "lse", "scoring")
State = tuple[torch.Tensor, torch.Tensor]


class PrefillServer:
    """How calls like one are served from then on.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
        kv_layout: order of a page's rows and heads.

    Raises:
        ValueError: it has tensors that these functions are not given.
    """

    def __init__(self, call: FlashAttnArguments, run: Callable[[Any], object], kv_layout: str = "NHD") -> None:
        self._template, self._run, self._kv_layout = Template(call, *_CHANGING), run, kv_layout
        self._scoring = replace(call.scoring, sinks=None)
        self._return_lse = call.base2
        self._room: dict[str, Any] = {"size": call.out.shape, "dtype": call.out.dtype, "device": call.device}
        self._lse_room: dict[str, Any] = {"size": call.out.shape[:2], "dtype": torch.float32, "device": call.device}

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
        table = kv_indices.expand(len(kv_indptr) - 1, -1)
        return self._serve(q, k, v, qo_indptr, Ends(kv_indptr, kv_last_page_len), table, sinks)

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
        return self._serve(q, k[None], v[None], qo_indptr, Ends(kv_indptr), None, sinks)

    def _serve(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        starts: torch.Tensor,
        ends: Ends,
        table: torch.Tensor | None,
        sinks: torch.Tensor | None,
    ) -> torch.Tensor | State:
        out, lse = torch.empty(**self._room), torch.empty(**self._lse_room)
        scoring = self._scoring if sinks is None else Scoring(**{**vars(self._scoring), "sinks": sinks})
        arguments = self._template.of(
            q=q, k=k, v=v, starts=starts, page_table=table, ends=ends, out=out, lse=lse.T, scoring=scoring
        )
        self._run(arguments)
        return (out, lse) if self._return_lse else out
