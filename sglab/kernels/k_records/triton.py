# mypy: disable-error-code="no-untyped-def"
"""K records: a program writes or reads one token, tile by tile."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.k_records.contract import DequantizeArguments, QuantizeArguments
from sglab.kernels.k_records.layout import NOPE, ROPE, TILE, TILES, taken_apart
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def quantize_k_kernel(
    k_ptr,
    nope_ptr,
    scale_ptr,
    rope_ptr,
    slots_ptr,
    stride_k,
    stride_nope,
    stride_scale,
    stride_rope,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = token
    if slots_ptr is not None:
        slot = tl.load(slots_ptr + token).to(tl.int64)
    tile, column = tl.arange(0, TILES), tl.arange(0, TILE)
    place = tile[:, None] * TILE + column[None, :]
    x = tl.load(k_ptr + token * stride_k + place).to(tl.float32)
    top = tl.max(tl.abs(x), axis=1)
    scale = tl.where(top == 0, 1.0, tl.div_rn(top, 448.0))
    stored = tl.minimum(tl.maximum(tl.div_rn(x, tl.broadcast_to(scale[:, None], x.shape)), -448.0), 448.0)
    tl.store(nope_ptr + slot * stride_nope + place, stored.to(tl.float8e4nv))
    tl.store(scale_ptr + slot * stride_scale + tile, scale)
    rest = tl.arange(0, ROPE)
    rope = tl.load(k_ptr + token * stride_k + NOPE + rest).to(tl.bfloat16)
    tl.store(rope_ptr + slot * stride_rope + rest, rope)


@triton_kernel
def dequantize_k_kernel(
    k_ptr,
    nope_ptr,
    scale_ptr,
    rope_ptr,
    slots_ptr,
    stride_k,
    stride_nope,
    stride_scale,
    stride_rope,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    TILE: tl.constexpr,
    TILES: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = token
    if slots_ptr is not None:
        slot = tl.load(slots_ptr + token).to(tl.int64)
    tile, column = tl.arange(0, TILES), tl.arange(0, TILE)
    place = tile[:, None] * TILE + column[None, :]
    scale = tl.load(scale_ptr + slot * stride_scale + tile)
    x = tl.load(nope_ptr + slot * stride_nope + place).to(tl.float32) * scale[:, None]
    tl.store(k_ptr + token * stride_k + place, x.to(tl.bfloat16))
    rest = tl.arange(0, ROPE)
    tl.store(k_ptr + token * stride_k + NOPE + rest, tl.load(rope_ptr + slot * stride_rope + rest))


def _launch(kernel, a: QuantizeArguments | DequantizeArguments) -> tuple[LaunchRecord, ...]:
    tokens = len(a.k)
    if not tokens:
        return ()
    views = taken_apart(a.records)
    strides = (a.k.stride(0), views.nope.stride(0), views.scales.stride(0), views.rope.stride(0))
    record = kernel[(tokens,)](
        *(a.k, views.nope, views.scales, views.rope, a.slots, *strides),
        NOPE=NOPE,
        ROPE=ROPE,
        TILE=TILE,
        TILES=TILES,
        num_warps=4,
    )
    return (record,)


def quantize(a: QuantizeArguments) -> tuple[LaunchRecord, ...]:
    return _launch(quantize_k_kernel, a)


def dequantize(a: DequantizeArguments) -> tuple[LaunchRecord, ...]:
    return _launch(dequantize_k_kernel, a)
