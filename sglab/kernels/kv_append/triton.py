# mypy: disable-error-code="no-untyped-def"
"""Append with rotation: a program takes one row, a query's or a new token's, a few heads at a time."""

from __future__ import annotations

import torch
import triton.language as tl

from sglab.kernels.fp8 import largest
from sglab.kernels.kv_append.contract import AppendArguments, Places
from sglab.planning.arith import ceil_div, next_power_of_two
from sglab.triton import LaunchRecord, triton_kernel

_HEADS = 8


@triton_kernel
def _stored(x, scale, cache, LARGEST: tl.constexpr):
    """A value as the cache holds it."""
    quotient = x.to(tl.float32) / scale
    if LARGEST < 1e38:
        bounded = tl.minimum(tl.maximum(quotient, -LARGEST), LARGEST)
        quotient = tl.where(quotient != quotient, quotient, bounded)
    return quotient.to(cache.dtype.element_ty)


@triton_kernel
def _rotated(x, first, second, cos, sin, mask):
    """The pairs of some heads, turned."""
    a = tl.load(x + first, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x + second, mask=mask, other=0.0).to(tl.float32)
    return a * cos - b * sin, b * cos + a * sin


@triton_kernel
def kv_append_kernel(
    q_ptr,
    q_positions_ptr,
    q_out_ptr,
    k_ptr,
    v_ptr,
    k_out_ptr,
    positions_ptr,
    slots_ptr,
    requests_ptr,
    keys_ptr,
    table_ptr,
    start_ptr,
    cos_ptr,
    sin_ptr,
    k_cache_ptr,
    v_cache_ptr,
    k_scales_ptr,
    v_scales_ptr,
    k_scale,
    v_scale,
    stride_k_scale,
    stride_v_scale,
    stride_qt,
    stride_qh,
    stride_ot,
    stride_oh,
    stride_kt,
    stride_kh,
    stride_vt,
    stride_vh,
    stride_cos,
    stride_kp,
    stride_kr,
    stride_kch,
    stride_vp,
    stride_vr,
    stride_vch,
    q_tokens,
    q_heads,
    kv_heads,
    page_size,
    stride_table,
    each,
    ROTARY: tl.constexpr,
    INTERLEAVED: tl.constexpr,
    HALF: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
    K_DIM: tl.constexpr,
    K_BLOCK: tl.constexpr,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    K_LARGEST: tl.constexpr,
    V_LARGEST: tl.constexpr,
    HEADS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    pair = tl.arange(0, HALF_BLOCK)[None, :]
    first = pair * 2 if INTERLEAVED else pair
    second = pair * 2 + 1 if INTERLEAVED else pair + HALF
    if row < q_tokens:
        if ROTARY and q_ptr is not None:
            turned = (head < q_heads) & (pair < HALF)
            angle = tl.load(q_positions_ptr + row) * stride_cos + pair
            cos = tl.load(cos_ptr + angle, mask=pair < HALF, other=0.0).to(tl.float32)
            sin = tl.load(sin_ptr + angle, mask=pair < HALF, other=0.0).to(tl.float32)
            x, y = _rotated(q_ptr + row * stride_qt + head * stride_qh, first, second, cos, sin, turned)
            out = q_out_ptr + row * stride_ot + head * stride_oh
            tl.store(out + first, x.to(q_out_ptr.dtype.element_ty), mask=turned)
            tl.store(out + second, y.to(q_out_ptr.dtype.element_ty), mask=turned)
        return
    row -= q_tokens
    if slots_ptr is not None:
        slot = tl.load(slots_ptr + row).to(tl.int64)
        real = (head < kv_heads) & (slot >= 0)
        page, entry = slot // page_size, slot % page_size
    else:  # contract.Places
        real = head < kv_heads
        if requests_ptr is not None:
            request, key = tl.load(requests_ptr + row), tl.load(keys_ptr + row)
        else:
            request = row // each
            key = tl.load(keys_ptr + request) + (row % each).to(tl.int32)
        at = tl.load(start_ptr + request) if start_ptr is not None else request * stride_table
        page, entry = tl.load(table_ptr + at + key // page_size).to(tl.int64), key % page_size
    k, v = k_ptr + row * stride_kt + head * stride_kh, v_ptr + row * stride_vt + head * stride_vh
    k_cache = k_cache_ptr + page * stride_kp + entry * stride_kr + head * stride_kch
    v_cache = v_cache_ptr + page * stride_vp + entry * stride_vr + head * stride_vch
    if k_scales_ptr is not None:
        k_scale = tl.load(k_scales_ptr + row * stride_k_scale + head, mask=head < kv_heads, other=1.0)
    if v_scales_ptr is not None:
        v_scale = tl.load(v_scales_ptr + row * stride_v_scale + head, mask=head < kv_heads, other=1.0)
    column, start = tl.arange(0, K_BLOCK)[None, :], 0
    if ROTARY:
        start = 2 * HALF
        turned = (head < kv_heads) & (pair < HALF)
        angle = tl.load(positions_ptr + row) * stride_cos + pair
        cos = tl.load(cos_ptr + angle, mask=pair < HALF, other=0.0).to(tl.float32)
        sin = tl.load(sin_ptr + angle, mask=pair < HALF, other=0.0).to(tl.float32)
        x, y = _rotated(k, first, second, cos, sin, turned)
        x, y = x.to(k_ptr.dtype.element_ty), y.to(k_ptr.dtype.element_ty)
        if k_out_ptr is not None:
            out = k_out_ptr + row * stride_kt + head * stride_kh
            tl.store(out + first, x, mask=turned)
            tl.store(out + second, y, mask=turned)
        tl.store(k_cache + first, _stored(x, k_scale, k_cache_ptr, K_LARGEST), mask=turned & real)
        tl.store(k_cache + second, _stored(y, k_scale, k_cache_ptr, K_LARGEST), mask=turned & real)
    plain = real & (column >= start) & (column < K_DIM)
    tl.store(
        k_cache + column,
        _stored(tl.load(k + column, mask=plain, other=0.0), k_scale, k_cache_ptr, K_LARGEST),
        mask=plain,
    )
    v_column = tl.arange(0, V_BLOCK)[None, :]
    inside = real & (v_column < V_DIM)
    value = tl.load(v + v_column, mask=inside, other=0.0)
    tl.store(v_cache + v_column, _stored(value, v_scale, v_cache_ptr, V_LARGEST), mask=inside)


def run(a: AppendArguments) -> tuple[LaunchRecord, ...]:
    rotary, queries = a.rotary, a.queries
    q_tokens = 0 if rotary is None or queries is None else len(queries.q)
    kv_heads, k_dim, v_dim = a.k.shape[1], a.k.shape[2], a.v.shape[2]
    q_heads = 1 if queries is None else queries.q.shape[1]
    if queries is not None and (rotary is None or rotary.dim < k_dim) and queries.out is not queries.q:
        queries.out.copy_(queries.q)  # the dims that are not turned
    if not q_tokens + len(a.k):
        return ()
    q, out = (a.k, a.k) if queries is None else (queries.q, queries.out)
    # stride(1) is 1: the scales of a token's heads lie side by side
    scales = [x.contiguous() if isinstance(x, torch.Tensor) else None for x in (a.k_scale, a.v_scale)]
    numbers = [1.0 if isinstance(x, torch.Tensor) else float(x) for x in (a.k_scale, a.v_scale)]
    half = 0 if rotary is None else rotary.dim // 2
    record = kv_append_kernel[(q_tokens + len(a.k), ceil_div(max(q_heads, kv_heads), _HEADS))](
        *(q, None if queries is None else queries.positions, out, a.k, a.v, a.k_out, a.positions, a.given_slots),
        *_places(a.places),
        *((None, None) if rotary is None else (rotary.cos, rotary.sin)),
        *(a.k_cache, a.v_cache, *scales, *numbers),
        *(0 if scale is None else scale.stride(0) for scale in scales),
        *(q.stride(0), q.stride(1), out.stride(0), out.stride(1)),
        *(a.k.stride(0), a.k.stride(1), a.v.stride(0), a.v.stride(1), 0 if rotary is None else rotary.cos.stride(0)),
        *a.k_cache.stride()[:3],
        *a.v_cache.stride()[:3],
        *(q_tokens, q_heads, kv_heads, a.k_cache.shape[1]),
        *(0 if a.places is None else a.places.table.stride(0), 1 if a.places is None else a.places.each),
        ROTARY=rotary is not None,
        INTERLEAVED=rotary is not None and rotary.interleaved,
        HALF=half,
        HALF_BLOCK=next_power_of_two(max(half, 1)),
        K_DIM=k_dim,
        K_BLOCK=next_power_of_two(k_dim),
        V_DIM=v_dim,
        V_BLOCK=next_power_of_two(v_dim),
        K_LARGEST=largest(a.k_cache.dtype),
        V_LARGEST=largest(a.v_cache.dtype),
        HEADS=_HEADS,
        num_warps=4,
    )
    return (record,)


def _places(places: Places | None) -> tuple[torch.Tensor | None, ...]:
    if places is None:
        return None, None, None, None
    return places.requests, places.positions, places.table, places.start
