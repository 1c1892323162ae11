"""A call of the compiled core's attention on the host (`csrc/cpu_attention`), from checked tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch

from sglab import _core
from sglab.kernels.contract import FLOATS
from sglab.kernels.fp8 import CACHES
from sglab.kernels.scoring import Scoring

UNBOUNDED = 1 << 30
"""A window or a chunk that hides nothing."""


@cache
def available_isas() -> tuple[str, ...]:
    """Instruction sets that this machine can attend with, best first: of "amx", "avx512_bf16", "avx512", "avx2" and
    "baseline" those that it has, then "amx_model", AMX's products in plain C++, which runs everywhere and is slow."""
    return tuple(_core.cpu_attention.available_isas())


@dataclass(frozen=True)
class KeySource:
    """Where keys and values of every request lie, in one buffer each: a pool's slots or pages, or rows in a row.

    Key j of request i is number n = j + first[i]. With a table it lies in row n % page_size of page
    table[i, n // page_size], or, where the table is flat, of page table[start[i] + n // page_size]; without one it is
    row n of page 0.

    Attributes:
        k: (pages, page_size, kv_heads, qk_dim), or of three dimensions: pages of one row with a table, else one page.
        v: likewise, v_dim.
        lengths: (batch,) int32 keys of each request.
        first: (batch,) int32, or None for 0.
        table: (rows, width), or flat, int32 or int64.
        table_rows: (batch,) int64: which row of the table is a request's; None for its own number.
        start: (≥ batch,) int32: where each request's part of a flat table starts.
        k_scale, v_scale: (batch or 1, kv_heads) float32 factors of scores and values, or None.
    """

    k: torch.Tensor
    v: torch.Tensor
    lengths: torch.Tensor
    first: torch.Tensor | None = None
    table: torch.Tensor | None = None
    table_rows: torch.Tensor | None = None
    start: torch.Tensor | None = None
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None


@dataclass(frozen=True)
class Partials:
    """Where decode leaves its splits' results.

    Attributes:
        logits: (≥ tokens, heads, splits, v_dim) float32, a split's normalised result, without sinks and out_scale.
        lse: (≥ tokens, heads, splits) float32, natural.
        keys_per_split: (batch,) int32.
    """

    logits: torch.Tensor
    lse: torch.Tensor
    keys_per_split: torch.Tensor


@dataclass(frozen=True)
class CpuCall:
    """Attention of a ragged batch on the host.

    Attributes:
        q: (tokens, heads, qk_dim); request i's rows are q_start[i] … q_start[i] + q_count[i] − 1.
        out: (tokens, heads, v_dim).
        lse: (tokens, heads) float32, natural, over keys alone; any strides; None if not wanted.
        q_start, q_count: (≥ batch,) and (batch,) int32.
        cached: the keys that come first; fresh: those after them.
        left, right, chunk: a query at p (the last one at the last key) sees keys p − left … p + right of its own chunk.
        mask: flat bool or uint8, (queries, mask_offset + keys) of each request from mask_start[i] on; hides more keys.
        mask_start, mask_offset: (batch,) int64.
        mask_spares_cached: the mask rules fresh keys alone.
        first_position: (batch,) int64, added to positions for a temperature.
        q_scale: (batch, kv_heads) float32 factors of scores; out_scale: (kv_heads,) float32 of the result.
        isa: one of `available_isas`, or "" for the best.
    """

    q: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor | None
    q_start: torch.Tensor
    q_count: torch.Tensor
    cached: KeySource
    scoring: Scoring
    fresh: KeySource | None = None
    left: int = UNBOUNDED
    right: int = UNBOUNDED
    chunk: int = UNBOUNDED
    mask: torch.Tensor | None = None
    mask_start: torch.Tensor | None = None
    mask_offset: torch.Tensor | None = None
    mask_spares_cached: bool = False
    first_position: torch.Tensor | None = None
    q_scale: torch.Tensor | None = None
    out_scale: torch.Tensor | None = None
    partials: Partials | None = None
    isa: str = ""

    def run(self) -> None:
        """Attend, on as many threads as PyTorch uses."""
        if not len(self.q_count) or not self.q.numel():
            return
        addresses = _Addresses()
        _core.cpu_attention.attend(self._as_dict(addresses), self.isa)

    def _as_dict(self, at: _Addresses) -> dict[str, Any]:
        q, out, lse, scoring = self.q, self.out, self.lse, self.scoring
        size, out_size = q.element_size(), out.element_size()
        made: dict[str, Any] = {
            "q": at.of(q),
            "q_token": q.stride(0) * size,
            "q_head": q.stride(1) * size,
            "q_element": _name(q),
            "out": at.of(out),
            "out_token": out.stride(0) * out_size,
            "out_head": out.stride(1) * out_size,
            "out_element": _name(out),
            "lse": at.of(lse),
            "lse_token": 0 if lse is None else lse.stride(0),
            "lse_head": 0 if lse is None else lse.stride(1),
            "batch": len(self.q_count),
            "heads": q.shape[1],
            "kv_heads": self.cached.k.shape[-2],
            "qk_dim": q.shape[2],
            "v_dim": out.shape[2],
            "q_start": at.of(self.q_start, torch.int32),
            "q_count": at.of(self.q_count, torch.int32),
            "cached": _source(self.cached, at),
            "left": self.left,
            "right": self.right,
            "chunk": self.chunk,
            "mask": at.of(self.mask),
            "mask_start": at.of(self.mask_start, torch.int64),
            "mask_offset": at.of(self.mask_offset, torch.int64),
            "mask_spares_cached": self.mask_spares_cached,
            "scale": scoring.sm_scale,
            "cap": scoring.logit_cap,
            "temperature_from": max(scoring.xai_temperature_len, 0),
            "first_position": at.of(self.first_position, torch.int64),
            "q_scale": at.of(self.q_scale, torch.float32),
            "sinks": at.of(scoring.sinks, torch.float32),
            "out_scale": at.of(self.out_scale, torch.float32),
            "threads": torch.get_num_threads(),
            **_partials(self.partials, at),
        }
        if self.fresh is not None:
            made["fresh"] = _source(self.fresh, at)
        return made


def refuses(q: torch.Tensor, *caches: torch.Tensor) -> str | None:
    """Why the host's kernels cannot read these tensors, or None."""
    if q.device.type != "cpu":
        return "it reads the host's memory"
    if q.dtype not in FLOATS or any(cache.dtype not in CACHES for cache in caches):
        return "it takes float32, float16 or bfloat16 queries, and caches of these or of e4m3 or e5m2"
    return None


def scale_of(scale: float | torch.Tensor, kv_heads: int) -> torch.Tensor | None:
    """A number, or one per KV head, as a source takes it; None for 1."""
    if isinstance(scale, torch.Tensor):
        return scale.float().expand(kv_heads)[None].contiguous()
    return None if scale == 1.0 else torch.full((1, kv_heads), scale)


@dataclass
class _Addresses:
    """Addresses of tensors, which live as long as this does."""

    held: list[torch.Tensor] = field(default_factory=list)

    def of(self, tensor: torch.Tensor | None, dtype: torch.dtype | None = None) -> int:
        """With a dtype of one contiguous array of it; else of the tensor as it is."""
        if tensor is None:
            return 0
        if dtype is not None:
            tensor = tensor.to(dtype).contiguous()
        self.held.append(tensor)
        return tensor.data_ptr()


def _source(source: KeySource, at: _Addresses) -> Mapping[str, Any]:
    k, v, table = source.k, source.v, source.table
    if k.dim() == 3:
        k, v = (x.unsqueeze(0) if table is None else x.unsqueeze(1) for x in (k, v))
    k_scale, v_scale = (None if one is None else one.float().contiguous() for one in (source.k_scale, source.v_scale))
    scale = next((one for one in (k_scale, v_scale) if one is not None), None)
    if table is not None and table.stride(-1) != 1:
        table = table.contiguous()
    size = k.element_size()
    return {
        "k": at.of(k),
        "v": at.of(v),
        **{f"k_{name}": k.stride(i) * size for i, name in enumerate(("page", "row", "head"))},
        **{f"v_{name}": v.stride(i) * size for i, name in enumerate(("page", "row", "head"))},
        "element": _name(k),
        "lengths": at.of(source.lengths, torch.int32),
        "first": at.of(source.first, torch.int32),
        "table": at.of(table),
        "wide_table": table is not None and table.dtype == torch.int64,
        "table_stride": 0 if table is None or table.dim() == 1 else table.stride(0),
        "table_rows": at.of(source.table_rows, torch.int64),
        "table_start": at.of(source.start, torch.int32),
        "page_size": 1 if table is None else k.shape[1],
        "k_scale": at.of(k_scale),
        "v_scale": at.of(v_scale),
        "scale_stride": 0 if scale is None or len(scale) == 1 else scale.shape[1],
    }


def _partials(partials: Partials | None, at: _Addresses) -> Mapping[str, Any]:
    logits, lse = (None, None) if partials is None else (partials.logits, partials.lse)
    names = ("token", "head", "split")
    return {
        "partial": at.of(logits),
        "partial_lse": at.of(lse),
        "keys_per_split": at.of(None if partials is None else partials.keys_per_split, torch.int32),
        **{f"partial_{name}": 0 if logits is None else logits.stride(i) for i, name in enumerate(names)},
        **{f"partial_lse_{name}": 0 if lse is None else lse.stride(i) for i, name in enumerate(names)},
    }


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def on_isa(call: CpuCall, isa: str) -> CpuCall:
    """The same call with another instruction set."""
    return replace(call, isa=isa)
