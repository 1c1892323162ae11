"""Calls of flash_attn_with_kvcache like one that was checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from sglab.kernels import kv_append
from sglab.kernels.contract import FLOATS
from sglab.kernels.flash_attn.contract import FlashAttnArguments
from sglab.kernels.known_calls import Template
from sglab.kernels.kv_append.contract import AppendArguments, Places
from sglab.kernels.kv_append.served import AppendServer
from sglab.kernels.scoring import Scoring

_CHANGING = (
    *("q", "k", "v", "starts", "lens", "first", "page_table", "scoring"),
    *("q_descale", "k_descale", "v_descale", "out", "lse"),
)


class KvcacheServer:
    """How calls like one are served from then on: over a paged cache or one with a page per request, after an append of
    as many tokens of every request, if any.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
        appended: what was appended before it.
        return_lse: whether the LSE is wanted.
    """

    def __init__(
        self,
        call: FlashAttnArguments,
        run: Callable[[Any], object],
        appended: AppendArguments | None,
        return_lse: bool,
    ) -> None:
        self._template, self._run, self._return_lse = Template(call, *_CHANGING), run, return_lse
        self._scoring = replace(call.scoring, sinks=None)
        self._room: dict[str, Any] = {"size": call.out.shape, "dtype": call.out.dtype, "device": call.device}
        self._lse_room: dict[str, Any] = {"size": call.lse.shape, "dtype": torch.float32, "device": call.device}
        self._each, self._scaled = call.new_keys, call.k.dtype not in FLOATS
        self._append = None
        if appended is not None:
            self._append = AppendServer(call.operator, appended, kv_append.operator.chosen(appended, "auto"))

    def __call__(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        k: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        qv: None = None,
        rotary_cos: None = None,
        rotary_sin: None = None,
        cache_seqlens: torch.Tensor | None = None,
        cache_batch_idx: None = None,
        cache_leftpad: None = None,
        page_table: torch.Tensor | None = None,
        cu_seqlens_q: torch.Tensor | None = None,
        cu_seqlens_k_new: None = None,
        max_seqlen_q: int | None = None,
        rotary_seqlens: None = None,
        q_descale: torch.Tensor | None = None,
        k_descale: torch.Tensor | None = None,
        v_descale: torch.Tensor | None = None,
        softmax_scale: float | None = None,
        causal: bool = False,
        window_size: tuple[int | None, int | None] = (-1, -1),
        attention_chunk: int | None = None,
        softcap: float = 0.0,
        rotary_interleaved: bool = True,
        num_splits: int = 0,
        return_softmax_lse: bool = False,
        sinks: torch.Tensor | None = None,
        **_: Any,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """As flash_attn_with_kvcache."""
        if page_table is None:
            page_table = torch.arange(len(q), dtype=torch.int32, device=q.device).unsqueeze(1)
        assert cache_seqlens is not None  # or this would not be served here
        out, lse = torch.empty(**self._room), torch.empty(**self._lse_room)
        if self._append is not None and k is not None and v is not None:
            places = Places(None, cache_seqlens, page_table, each=self._each)
            scales = (1.0 if one is None or not self._scaled else one for one in (k_descale, v_descale))
            self._append(k.flatten(0, 1), v.flatten(0, 1), k_cache, v_cache, places, *scales)
        arguments = self._template.of(
            q=q if cu_seqlens_q is not None else q.flatten(0, 1),
            k=k_cache,
            v=v_cache,
            starts=cu_seqlens_q,
            lens=cache_seqlens,
            first=None,
            page_table=page_table,
            scoring=self._scoring if sinks is None else Scoring(**{**vars(self._scoring), "sinks": sinks}),
            q_descale=q_descale,
            k_descale=k_descale,
            v_descale=v_descale,
            out=out,
            lse=lse,
        )
        self._run(arguments)
        if cu_seqlens_q is None:
            batch, count, heads = q.shape[:3]
            out = out.view(batch, count, heads, -1)
            if self._return_lse:
                lse = lse.view(heads, batch, count).transpose(0, 1).contiguous()
        return (out, lse) if self._return_lse else out
