"""Attention over slots by FlashInfer's own kernels, on a GPU where the library is installed.

A plan of the library reads the lengths on the host, so it is made once per pass: as long as the arrays are the same
objects with the same contents, all layers use it. A captured graph cannot plan: its wrappers are made and planned
outside of it (`flashinfer_graphs`), and rows that have none are refused there.
"""

from __future__ import annotations

import importlib.util
import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.kernels.scoring import Scoring
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, ROPE_DIM

HEAD_DIMS = (64, 128, 256)
WORKSPACE_BYTES = 384 << 20
"""As SGLang has it; all plans share it, since their kernels run one after the other."""

LEAST_GROUP = 4
"""Query heads per KV head from which a decode runs on tensor cores, as a prefill of one row."""

PLANS = 8
"""Plans that are kept: an extend has two, and layers with windows more."""

_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def refuses(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring) -> str | None:
    """Why the library's kernels cannot serve a call, or None."""
    if q.device.type != "cuda":
        return "its kernels run on a GPU, and these tensors are on a CPU"
    if importlib.util.find_spec("flashinfer") is None:
        return "flashinfer is not installed: pip install 'sglab[gpu]'"
    if torch.cuda.is_current_stream_capturing() and rows.graph_plans is None:
        return "its plan is made on the host, which a graph that is being captured cannot wait for"
    if q.dtype not in (torch.float16, torch.bfloat16):
        return f"it takes float16 and bfloat16 queries, not {q.dtype}"
    if keys.dtype != q.dtype and (keys.dtype not in _FP8 or is_mla(q, values)):
        return f"it does not read {keys.dtype} keys beside {q.dtype} queries"
    if scoring.sinks is not None or scoring.xai_temperature_len > 0:
        return "these wrappers have neither sinks nor a temperature"
    if not rows.causal and rows.custom_mask is None and rows.window >= 0 and rows.max_q > 1:
        return "its windows look back only"
    if rows.custom_mask is not None and rows.window >= 0:
        return "it counts a window in the order of a tree's drafts, not along a draft's path"
    if is_mla(q, values):
        if rows.custom_mask is not None or rows.window >= 0 or scoring.logit_cap > 0:
            return "its MLA kernel has no mask, window or cap"
        if rows.graph_plans is not None and rows.causal and _cuts_a_query(q.shape[1], rows.max_q):
            return (
                f"its causal MLA kernel refuses some lengths where {q.shape[1]} heads do not divide its tile of rows, "
                "and a graph is captured for all of them"
            )
    elif q.shape[-1] not in HEAD_DIMS or values.shape[-1] != q.shape[-1]:
        return f"it takes heads of {', '.join(map(str, HEAD_DIMS))} dims, alike for K and V"
    if rows.graph_plans is not None and torch.cuda.is_current_stream_capturing():
        return rows.graph_plans.refuses(q, keys, values, rows, scoring)
    return None


def run(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `dense.run`. Rows without keys get o = 0 and LSE −inf."""
    if rows.graph_plans is not None and len(q):
        return rows.graph_plans.run(q, keys, values, rows, scoring)
    if rows.max_q == 1 and rows.custom_mask is None:
        rows = rows.windowed()
    if not len(q):
        return q.new_zeros((*q.shape[:2], values.shape[-1])), q.new_zeros(q.shape[:2], dtype=torch.float32)
    planned = _planned(q, keys, values, rows, scoring)
    q = q.contiguous()
    if is_mla(q, values):
        o, lse = run_mla(planned.wrapper, q, keys)
    else:
        o, lse = planned.wrapper.run(q, (keys.unsqueeze(1), values.unsqueeze(1)), return_lse=True)
    if planned.without_keys is not None:
        o = o.masked_fill(planned.without_keys[:, None, None], 0)
        lse = lse.masked_fill(planned.without_keys[:, None], -torch.inf)
    return o, lse * math.log(2)  # the library's is of base 2


@dataclass(frozen=True)
class _Planned:
    """A planned wrapper and the arrays that it was planned from, held so that their ids stay theirs."""

    wrapper: Any
    arrays: tuple[torch.Tensor | None, ...]
    without_keys: torch.Tensor | None
    """bool [tokens], the rows of requests without keys: fa3's kernel leaves their results unwritten. None: no such."""


_plans: OrderedDict[tuple[Any, ...], _Planned] = OrderedDict()


def _planned(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring) -> _Planned:
    arrays = (rows.qo_indptr, rows.kv_indptr, rows.kv_indices, rows.custom_mask)
    contents = tuple(None if array is None else (id(array), array._version) for array in arrays)
    heads = (q.shape[1:], keys.shape[1:], values.shape[1:], q.dtype, keys.dtype, q.device)
    key = (contents, heads, rows.max_q, rows.causal, rows.window, scoring.sm_scale, scoring.logit_cap)
    if key not in _plans:
        _plans[key] = _Planned(_new_wrapper(q, keys, values, rows, scoring), arrays, _without_keys(rows))
        while len(_plans) > PLANS:
            _plans.popitem(last=False)
    _plans.move_to_end(key)
    return _plans[key]


def _without_keys(rows: PagedRows) -> torch.Tensor | None:
    empty = rows.kv_indptr.diff() == 0
    return torch.repeat_interleave(empty, rows.qo_indptr.diff().long()) if bool(empty.any()) else None


def _new_wrapper(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring) -> Any:
    import flashinfer

    room, indices = workspace(q.device), rows.kv_indices.int()
    heads, kv_heads, dim = q.shape[1], keys.shape[1], q.shape[2]
    if is_mla(q, values):
        wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(room)
        asked = (heads, rows.causal, scoring.sm_scale, (q.dtype, keys.dtype))
        plan_mla(wrapper, rows.qo_indptr, rows.kv_indptr, indices, *asked)
        return wrapper
    last = torch.ones(rows.batch, dtype=torch.int32, device=q.device)
    options: dict[str, Any] = {
        "sm_scale": scoring.sm_scale,
        "window_left": rows.window,
        "logits_soft_cap": scoring.logit_cap,
        "q_data_type": q.dtype,
        "kv_data_type": keys.dtype,
    }
    group, one_row = heads // kv_heads, rows.max_q == 1 and rows.custom_mask is None
    if one_row and group < LEAST_GROUP and keys.dtype == q.dtype:
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(room)
        wrapper.plan(rows.kv_indptr, indices, last, heads, kv_heads, dim, 1, **options)
        return wrapper
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(room)
    mask = None if rows.custom_mask is None else mask_of(rows)
    arrays = (rows.qo_indptr, rows.kv_indptr, indices, last)
    causal = rows.causal and mask is None
    wrapper.plan(*arrays, heads, kv_heads, dim, 1, custom_mask=mask, causal=causal, **options)
    return wrapper


def plan_mla(
    wrapper: Any,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    heads: int,
    causal: bool,
    sm_scale: float,
    dtypes: tuple[torch.dtype, torch.dtype],
) -> None:
    """Plan a BatchMLAPagedAttentionWrapper for run_mla: pages of one token.

    Args:
        wrapper: the library's.
        qo_indptr, kv_indptr: int32 (batch + 1,), on the host or on the device.
        kv_indices: int32, as long as kv_indptr says.
        dtypes: of queries and of keys.
    """
    import flashinfer

    wrapper.plan(
        metadata=flashinfer.mla.MLAPlanMetadata.csr(qo_indptr, kv_indptr, kv_indices, kv_indptr.diff()),
        num_heads=heads,
        head_dim_ckv=LATENT_DIM,
        head_dim_kpe=ROPE_DIM,
        page_size=1,
        causal=causal,
        sm_scale=sm_scale,
        q_data_type=dtypes[0],
        kv_data_type=dtypes[1],
        query_layout="split",
        kv_cache_layout="split",
        lse_mode="base2",
    )


def run_mla(wrapper: Any, q: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """O and its base-2 LSE: q (tokens, heads, 576), keys (slots, 1, 576)."""
    query, cache = ((x[..., :LATENT_DIM], x[..., LATENT_DIM:]) for x in (q, keys))
    o, lse = wrapper.run(query=query, kv_cache=cache, return_lse=True)
    return o, lse


def _cuts_a_query(heads: int, queries: int) -> bool:
    """Whether a tile of the MLA kernel ends among the heads of a query that is not the request's last: of such
    requests the library's plan refuses those whose mask ends where a tile of keys begins."""
    tile = 64 if queries * heads <= 64 else 128
    return queries * heads > tile and tile % heads != 0


def mask_of(rows: PagedRows) -> torch.Tensor:
    """The requests' masks one after the other, as the library wants them; ours may have room between them."""
    assert rows.custom_mask is not None
    assert rows.mask_indptr is not None
    sizes = (rows.qo_indptr.diff() * rows.kv_indptr.diff()).tolist()
    starts = rows.mask_indptr[: rows.batch].tolist()
    flat = rows.custom_mask.flatten().bool()
    return torch.cat([flat[start : start + size] for start, size in zip(starts, sizes, strict=True)])


def is_mla(q: torch.Tensor, values: torch.Tensor) -> bool:
    return (q.shape[-1], values.shape[-1]) == (HEAD_DIM, LATENT_DIM)


@cache
def workspace(device: torch.device) -> torch.Tensor:
    """What all plans share on a device."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
