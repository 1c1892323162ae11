"""Rotation in float64 and indexed assignment; fast enough on a CPU to be what runs there."""

from __future__ import annotations

import torch

from sglab.kernels.fp8 import stored
from sglab.kernels.kv_append.contract import AppendArguments, Rotary


def run(a: AppendArguments) -> tuple[()]:
    k = a.k
    if a.rotary is not None:
        if a.queries is not None:
            a.queries.out.copy_(_rotated(a.queries.q, a.queries.positions, a.rotary))
        k = _rotated(k, a.positions, a.rotary).to(k.dtype)
        if a.k_out is not None:
            a.k_out.copy_(k)
    kept = a.slots >= 0
    k_scale, v_scale = (x[kept, :, None] if isinstance(x, torch.Tensor) else x for x in (a.k_scale, a.v_scale))
    page_size = a.k_cache.shape[1]
    page, row = a.slots[kept] // page_size, a.slots[kept] % page_size
    a.k_cache[page, row] = stored(k[kept], a.k_cache.dtype, k_scale)
    a.v_cache[page, row] = stored(a.v[kept], a.v_cache.dtype, v_scale)
    return ()


def _rotated(x: torch.Tensor, positions: torch.Tensor | None, rotary: Rotary) -> torch.Tensor:
    """x in float64 with each pair (a, b) of its rotary dims turned: (a cos − b sin, b cos + a sin)."""
    wide = x.double()
    cos, sin = rotary.cos[positions].double()[:, None], rotary.sin[positions].double()[:, None]
    turned, rest = wide.split([rotary.dim, x.shape[-1] - rotary.dim], -1)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if rotary.interleaved else turned.chunk(2, -1)
    pair = (a * cos - b * sin, b * cos + a * sin)
    return torch.cat([torch.stack(pair, -1).flatten(-2) if rotary.interleaved else torch.cat(pair, -1), rest], -1)
