# mypy: disable-error-code="no-untyped-def"
"""The rotation: a program turns a few heads of one token; query and key heads are numbered on."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.rotary.contract import RopeArguments
from sglab.planning.arith import ceil_div, next_power_of_two
from sglab.triton import LaunchRecord, triton_kernel

_HEADS = 8


@triton_kernel
def apply_rope_kernel(
    positions_ptr,
    q_ptr,
    k_ptr,
    cache_ptr,
    q_heads,
    k_heads,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_cache,
    half,
    NEOX: tl.constexpr,
    HEADS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    pair = tl.arange(0, BLOCK)
    real = pair < half
    cache = cache_ptr + tl.load(positions_ptr + token) * stride_cache + pair
    cos = tl.load(cache, mask=real, other=0.0)[None, :]
    sin = tl.load(cache + half, mask=real, other=0.0)[None, :]
    first = pair if NEOX else pair * 2
    second = pair + half if NEOX else pair * 2 + 1
    in_q, in_k = head < q_heads, (head >= q_heads) & (head < q_heads + k_heads)
    q = q_ptr + token * stride_qt + head[:, None] * stride_qh
    k = k_ptr + token * stride_kt + (head - q_heads)[:, None] * stride_kh
    of_q, of_k = in_q[:, None] & real[None, :], in_k[:, None] & real[None, :]
    a = tl.load(q + first[None, :], mask=of_q, other=0.0) + tl.load(k + first[None, :], mask=of_k, other=0.0)
    b = tl.load(q + second[None, :], mask=of_q, other=0.0) + tl.load(k + second[None, :], mask=of_k, other=0.0)
    a, b = a.to(tl.float32), b.to(tl.float32)
    x = (a * cos - b * sin).to(q_ptr.dtype.element_ty)
    y = (b * cos + a * sin).to(q_ptr.dtype.element_ty)
    tl.store(q + first[None, :], x, mask=of_q)
    tl.store(q + second[None, :], y, mask=of_q)
    tl.store(k + first[None, :], x, mask=of_k)
    tl.store(k + second[None, :], y, mask=of_k)


def run(a: RopeArguments) -> tuple[LaunchRecord, ...]:
    tokens, q_heads, _ = a.query.shape
    k_heads, half = a.key.shape[1], a.rotary_dim // 2
    if not tokens:
        return ()
    record = apply_rope_kernel[(tokens, ceil_div(q_heads + k_heads, _HEADS))](
        a.positions,
        a.query,
        a.key,
        a.cos_sin_cache,
        q_heads,
        k_heads,
        a.query.stride(0),
        a.query.stride(1),
        a.key.stride(0),
        a.key.stride(1),
        a.cos_sin_cache.stride(0),
        half,
        NEOX=a.is_neox,
        HEADS=_HEADS,
        BLOCK=next_power_of_two(half),
        num_warps=4,
    )
    return (record,)
