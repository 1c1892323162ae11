# mypy: disable-error-code="no-untyped-def"
"""qk_norm_rope_store: a program takes a few heads of one token, of the queries or of the keys with their values."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.qk_norm_rope.contract import FusedArguments
from sglab.planning.arith import ceil_div, next_power_of_two
from sglab.triton import LaunchRecord, triton_kernel

_HEADS = 4
"""Of a program: a warp each, whose sum of squares stays within it."""


@triton_kernel
def _turned(x, weight_ptr, cos, sin, first, second, rest, real, eps, HALF: tl.constexpr, DIM: tl.constexpr):
    """Some heads' pairs, normed and turned, and what lies after them; each step rounded as it would be in memory."""
    dtype = x.dtype.element_ty
    in_pair, in_rest = real & (first < DIM) & (second < DIM), real & (rest < DIM)
    a = tl.load(x + first, mask=in_pair, other=0.0).to(tl.float32)
    b = tl.load(x + second, mask=in_pair, other=0.0).to(tl.float32)
    c = tl.load(x + rest, mask=in_rest, other=0.0).to(tl.float32)
    if weight_ptr is not None:
        squares = tl.sum(a * a, 1) + tl.sum(b * b, 1) + tl.sum(c * c, 1)
        scale = (1 / tl.sqrt(squares / DIM + eps))[:, None]
        a = a * scale * tl.load(weight_ptr + first, mask=first < DIM, other=0.0).to(tl.float32)
        b = b * scale * tl.load(weight_ptr + second, mask=second < DIM, other=0.0).to(tl.float32)
        c = c * scale * tl.load(weight_ptr + rest, mask=rest < DIM, other=0.0).to(tl.float32)
        a, b, c = a.to(dtype).to(tl.float32), b.to(dtype).to(tl.float32), c.to(dtype).to(tl.float32)
    return (a * cos - b * sin).to(dtype), (b * cos + a * sin).to(dtype), c.to(dtype)


@triton_kernel
def qk_norm_rope_store_kernel(
    positions_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    cos_sin_ptr,
    k_cache_ptr,
    v_cache_ptr,
    indices_ptr,
    q_weight_ptr,
    k_weight_ptr,
    eps,
    q_heads,
    kv_heads,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_vt,
    stride_vh,
    stride_cos,
    stride_ks,
    stride_kch,
    stride_vs,
    stride_vch,
    NEOX: tl.constexpr,
    HALF: tl.constexpr,
    HALF_BLOCK: tl.constexpr,
    DIM: tl.constexpr,
    REST_BLOCK: tl.constexpr,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    HEADS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    q_blocks = tl.cdiv(q_heads, HEADS)
    pair = tl.arange(0, HALF_BLOCK)[None, :]
    turns = pair < HALF
    # Where a block is wider than the pairs, its columns lie beyond the head and are masked.
    first = tl.where(turns, pair if NEOX else pair * 2, DIM)
    second = tl.where(turns, pair + HALF if NEOX else pair * 2 + 1, DIM)
    rest = 2 * HALF + tl.arange(0, REST_BLOCK)[None, :]
    angle = cos_sin_ptr + tl.load(positions_ptr + token) * stride_cos + pair
    cos = tl.load(angle, mask=turns, other=0.0)
    sin = tl.load(angle + HALF, mask=turns, other=0.0)
    if block < q_blocks:
        head = block * HEADS + tl.arange(0, HEADS)[:, None]
        real = head < q_heads
        q = q_ptr + token * stride_qt + head * stride_qh
        x, y, z = _turned(q, q_weight_ptr, cos, sin, first, second, rest, real, eps, HALF, DIM)
        tl.store(q + first, x, mask=real & turns)
        tl.store(q + second, y, mask=real & turns)
        tl.store(q + rest, z, mask=real & (rest < DIM))
    else:
        head = (block - q_blocks) * HEADS + tl.arange(0, HEADS)[:, None]
        real = head < kv_heads
        slot = tl.load(indices_ptr + token).to(tl.int64)
        k = k_ptr + token * stride_kt + head * stride_kh
        k_cache = k_cache_ptr + slot * stride_ks + head * stride_kch
        x, y, z = _turned(k, k_weight_ptr, cos, sin, first, second, rest, real, eps, HALF, DIM)
        tl.store(k + first, x, mask=real & turns)
        tl.store(k + second, y, mask=real & turns)
        tl.store(k + rest, z, mask=real & (rest < DIM))
        tl.store(k_cache + first, x, mask=real & turns)
        tl.store(k_cache + second, y, mask=real & turns)
        tl.store(k_cache + rest, z, mask=real & (rest < DIM))
        column = tl.arange(0, V_BLOCK)[None, :]
        inside = real & (column < V_DIM)
        value = tl.load(v_ptr + token * stride_vt + head * stride_vh + column, mask=inside)
        tl.store(v_cache_ptr + slot * stride_vs + head * stride_vch + column, value, mask=inside)


def run(a: FusedArguments) -> tuple[LaunchRecord, ...]:
    tokens, q_heads, dim = a.query.shape
    kv_heads, v_dim = a.value.shape[1], a.value.shape[2]
    if not tokens:
        return ()
    half = a.cos_sin_cache.shape[1] // 2
    (qt, qh, _), (kt, kh, _), (vt, vh, _) = a.query.stride(), a.key.stride(), a.value.stride()
    (ks, kch, _), (vs, vch, _) = a.k_cache.stride(), a.v_cache.stride()
    record = qk_norm_rope_store_kernel[(tokens, ceil_div(q_heads, _HEADS) + ceil_div(kv_heads, _HEADS))](
        a.positions,
        *(a.query, a.key, a.value, a.cos_sin_cache, a.k_cache, a.v_cache, a.indices, a.q_weight, a.k_weight),
        *(a.eps, q_heads, kv_heads, qt, qh, kt, kh, vt, vh, a.cos_sin_cache.stride(0), ks, kch, vs, vch),
        NEOX=a.is_neox,
        HALF=half,
        HALF_BLOCK=next_power_of_two(half),
        DIM=dim,
        REST_BLOCK=next_power_of_two(max(dim - 2 * half, 1)),
        V_DIM=v_dim,
        V_BLOCK=next_power_of_two(v_dim),
        HEADS=_HEADS,
        num_warps=_HEADS,
    )
    return (record,)
