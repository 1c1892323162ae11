"""Calls of FlashAttention's functions like one that was checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from sglab.kernels import kv_append
from sglab.kernels.contract import FLOATS
from sglab.kernels.flash_attn.contract import Ends, FlashAttnArguments
from sglab.kernels.known_calls import Served, Template
from sglab.kernels.kv_append.contract import AppendArguments
from sglab.kernels.kv_append.served import AppendServer

_WHERE = ("page_table", "lens", "first", "ends")
_FACTORS = ("q_descale", "k_descale", "v_descale")
Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


class AttentionServer(Served[FlashAttnArguments]):
    """What servers of attention have in common: room for outputs, and the sinks of each call.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
        changing: tensors that each call has of its own, beside q, k, v, starts, sinks and the outputs.
        by_token: a token's LSEs lie side by side.

    Raises:
        ValueError: it has other tensors.
    """

    def __init__(
        self, call: FlashAttnArguments, run: Callable[[Any], object], *changing: str, by_token: bool = False
    ) -> None:
        super().__init__(call, run, "q", "k", "v", "starts", "scoring", "out", "lse", *changing)
        self._scoring = replace(call.scoring, sinks=None)
        self._with_sinks = Template(self._scoring, "sinks")
        self._by_token = by_token
        like_q = (call.q.shape, call.q.dtype) == (call.out.shape, call.out.dtype)
        self._room: dict[str, Any] | None = None  # as much as a contiguous q, which is quicker to ask for
        if not (like_q and call.q.is_contiguous()):
            self._room = {"size": call.out.shape, "dtype": call.out.dtype, "device": call.device}
        shape = call.lse.T.shape if by_token else call.lse.shape
        self._lse_room: dict[str, Any] = {"size": shape, "dtype": torch.float32, "device": call.device}

    def _attend(
        self, q: torch.Tensor, sinks: torch.Tensor | None, tensors: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """out (tokens, heads, v_dim), and the LSE as it lies. The arguments keep the dictionary."""
        out = torch.empty_like(q) if self._room is None else torch.empty(**self._room)
        lse = torch.empty(**self._lse_room)
        tensors["q"], tensors["out"], tensors["lse"] = q, out, lse.T if self._by_token else lse
        tensors["scoring"] = self._scoring if sinks is None else self._with_sinks.of(sinks=sinks)
        self._serve(tensors)
        return out, lse


class VarlenServer(AttentionServer):
    """How calls of flash_attn_varlen_func like one are served from then on.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
        return_lse: whether the LSE is wanted.
    """

    def __init__(self, call: FlashAttnArguments, run: Callable[[Any], object], return_lse: bool) -> None:
        super().__init__(call, run, "qv", *_WHERE, *_FACTORS)
        self._return_lse = return_lse

    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor | None,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        seqused_q: None = None,
        seqused_k: torch.Tensor | None = None,
        page_table: torch.Tensor | None = None,
        softmax_scale: float | None = None,
        causal: bool = False,
        qv: torch.Tensor | None = None,
        q_descale: torch.Tensor | None = None,
        k_descale: torch.Tensor | None = None,
        v_descale: torch.Tensor | None = None,
        window_size: tuple[int | None, int | None] = (-1, -1),
        attention_chunk: int = 0,
        softcap: float = 0.0,
        num_splits: int = 1,
        return_softmax_lse: bool = False,
        sinks: torch.Tensor | None = None,
        **_: Any,
    ) -> Result:
        """As flash_attn_varlen_func."""
        first, ends = None, None
        if cu_seqlens_k is not None:
            k, v = k.unsqueeze(0), v.unsqueeze(0)
            if seqused_k is None:
                ends = Ends(cu_seqlens_k)
            else:
                first = cu_seqlens_k[:-1]
        factors = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
        where = {"page_table": page_table, "lens": seqused_k, "first": first, "ends": ends}
        out, lse = self._attend(q, sinks, {"k": k, "v": v, "qv": qv, "starts": cu_seqlens_q, **where, **factors})
        return (out, lse) if self._return_lse else out


class KvcacheServer(AttentionServer):
    """How calls of flash_attn_with_kvcache like one are served from then on: over a paged cache or one with a page per
    request, after an append of as many tokens of every request, if any.

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
        super().__init__(call, run, "lens", "page_table", *_FACTORS)
        self._return_lse = return_lse
        self._scaled = call.k.dtype not in FLOATS
        self._append = None
        if appended is not None and appended.places is not None:
            run_append = kv_append.operator.chosen(appended, "auto")
            self._append = AppendServer(call.operator, appended, run_append)
            self._places = Template(appended.places, "positions", "table")

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
    ) -> Result:
        """As flash_attn_with_kvcache."""
        if page_table is None:
            page_table = torch.arange(len(q), dtype=torch.int32, device=q.device).unsqueeze(1)
        if self._append is not None:
            assert k is not None and v is not None  # as in the call that was checked
            places = self._places.of(positions=cache_seqlens, table=page_table)
            k_scale = 1.0 if k_descale is None or not self._scaled else k_descale
            v_scale = 1.0 if v_descale is None or not self._scaled else v_descale
            self._append(k.flatten(0, 1), v.flatten(0, 1), k_cache, v_cache, places, k_scale, v_scale)
        rows = q if cu_seqlens_q is not None else q.flatten(0, 1)
        factors = {"q_descale": q_descale, "k_descale": k_descale, "v_descale": v_descale}
        where = {"starts": cu_seqlens_q, "lens": cache_seqlens, "page_table": page_table}
        out, lse = self._attend(rows, sinks, {"k": k_cache, "v": v_cache, **where, **factors})
        if cu_seqlens_q is None:
            batch, count, heads = q.shape[:3]
            out = out.view(batch, count, heads, -1)
            if self._return_lse:
                lse = lse.view(heads, batch, count).transpose(0, 1).contiguous()
        return (out, lse) if self._return_lse else out
