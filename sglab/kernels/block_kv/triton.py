# mypy: disable-error-code="no-untyped-def"
"""Block-scaled KV rows: a program writes or reads one head of one token, all its blocks at once."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.block_kv.contract import BlockRows
from sglab.kernels.block_kv.layout import ATOM, SCALE_LAYOUTS
from sglab.triton import LaunchRecord, triton_kernel

INTERLEAVED, SWIZZLED = SCALE_LAYOUTS.index("interleaved"), SCALE_LAYOUTS.index("swizzled")


@triton_kernel
def scale_place(slot, head, block, heads, PAGE: tl.constexpr, BLOCKS: tl.constexpr, LAYOUT: tl.constexpr):
    """Where the scales of a token's head lie, int64 [blocks]; LAYOUT is a number of SCALE_LAYOUTS."""
    if LAYOUT == 0:
        return (slot * heads + head) * BLOCKS + block
    token = slot % PAGE
    first = (slot // PAGE * heads + head) * PAGE
    if LAYOUT == 2:
        return (first + token % 32 * (PAGE // 32) + token // 32) * BLOCKS + block
    if LAYOUT == 3:
        return (first + token // 4 * 4 + block // (BLOCKS // 4)) * BLOCKS + block % (BLOCKS // 4) * 4 + token % 4
    return (first + token) * BLOCKS + block


@triton_kernel
def e2m1_code(x, TIES_AWAY: tl.constexpr):
    """Codes 0..15 in int32; ties to the even code, or to the larger magnitude."""
    m = tl.abs(x)
    code = (m >= 0.75).to(tl.int32) + (m >= 1.75).to(tl.int32) + (m >= 3.5).to(tl.int32)
    if TIES_AWAY:
        code += (m >= 0.25).to(tl.int32) + (m >= 1.25).to(tl.int32) + (m >= 2.5).to(tl.int32) + (m >= 5.0).to(tl.int32)
        negative = x < 0
    else:
        code += (m > 0.25).to(tl.int32) + (m > 1.25).to(tl.int32) + (m > 2.5).to(tl.int32) + (m > 5.0).to(tl.int32)
        negative = x.to(tl.int32, bitcast=True) < 0
    return code | (negative.to(tl.int32) << 3)


@triton_kernel
def e2m1_value(code):
    exponent, half = (code >> 1) & 3, (code & 1).to(tl.float32) * 0.5
    m = tl.where(exponent == 0, half, (1.0 + half) * (1 << exponent).to(tl.float32) * 0.5)
    return tl.where((code & 8) != 0, m * -1.0, m)  # a minus sign before a zero would be lost


@triton_kernel
def block_scale(amax, spoilt, factor, BITS: tl.constexpr, POWER: tl.constexpr):
    """The scales' bytes in int32, and the float32 by which a block's values are divided."""
    if POWER:
        needed = tl.div_rn(tl.maximum(amax, 1e-30), tl.full(amax.shape, 448.0, tl.float32))
        if BITS == 4:
            needed = tl.maximum(tl.div_rn(amax, tl.full(amax.shape, 6.0, tl.float32)), 1e-10)
        bits = needed.to(tl.int32, bitcast=True)
        byte = ((bits >> 23) & 255) + ((bits & 0x7FFFFF) != 0).to(tl.int32)
        byte = tl.minimum(byte, 254)
        return tl.where(spoilt, 255, byte), (byte << 23).to(tl.float32, bitcast=True)
    sixth = tl.div_rn(amax, tl.full(amax.shape, 6.0, tl.float32))
    wide = tl.minimum(tl.div_rn(sixth, tl.zeros(amax.shape, tl.float32) + factor), 448.0)
    stored = wide.to(tl.float8e4nv)
    byte = stored.to(tl.uint8, bitcast=True).to(tl.int32)
    return tl.where(spoilt, 0x7F, byte), stored.to(tl.float32) * factor


@triton_kernel
def quantize_block_kv_kernel(
    rows_ptr,
    codes_ptr,
    scales_ptr,
    slots_ptr,
    stride_row,
    stride_head,
    heads,
    factor,
    PAGE: tl.constexpr,
    DIM: tl.constexpr,
    BLOCKS: tl.constexpr,
    SLAB: tl.constexpr,
    BLOCK: tl.constexpr,
    BITS: tl.constexpr,
    POWER: tl.constexpr,
    LAYOUT: tl.constexpr,
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    slot = token
    if slots_ptr is not None:
        slot = tl.load(slots_ptr + token).to(tl.int64)
    block, inside = tl.arange(0, SLAB), tl.arange(0, SLAB) < BLOCKS
    source = rows_ptr + token * stride_row + head * stride_head
    wanted = (slot * heads + head) * (DIM * BITS // 8)
    if BITS == 4:
        pair = tl.arange(0, BLOCK // 2)
        at = block[:, None] * BLOCK + 2 * pair[None, :]
        low = tl.load(source + at, mask=inside[:, None], other=0.0).to(tl.float32)
        high = tl.load(source + at + 1, mask=inside[:, None], other=0.0).to(tl.float32)
        top = tl.maximum(tl.abs(low), tl.abs(high))
        bad = tl.max(((low - low != 0) | (high - high != 0)).to(tl.int32), axis=1) != 0
        amax = tl.max(tl.where(bad[:, None], 0.0, top), axis=1)
        byte, divisor = block_scale(amax, bad, factor, BITS, POWER)
        good = (divisor > 0) & (bad == 0)
        wide = tl.broadcast_to(tl.where(good, divisor, 1.0)[:, None], low.shape)
        low = tl.where(good[:, None], tl.div_rn(low, wide), 0.0)
        high = tl.where(good[:, None], tl.div_rn(high, wide), 0.0)
        packed = e2m1_code(low, POWER) | (e2m1_code(high, POWER) << 4)
        place = block[:, None] * (BLOCK // 2) + pair[None, :]
        tl.store(codes_ptr + wanted + place, packed.to(tl.uint8), mask=inside[:, None])
    else:
        one = tl.arange(0, BLOCK)
        at = block[:, None] * BLOCK + one[None, :]
        x = tl.load(source + at, mask=inside[:, None], other=0.0).to(tl.float32)
        bad = tl.max((x - x != 0).to(tl.int32), axis=1) != 0
        amax = tl.max(tl.where(bad[:, None], 0.0, tl.abs(x)), axis=1)
        byte, divisor = block_scale(amax, bad, factor, BITS, POWER)
        x = tl.where(bad[:, None], 0.0, tl.div_rn(x, tl.broadcast_to(divisor[:, None], x.shape)))
        stored = tl.minimum(tl.maximum(x, -448.0), 448.0).to(tl.float8e4nv)
        tl.store(codes_ptr + wanted + at, stored.to(tl.uint8, bitcast=True), mask=inside[:, None])
    to = scale_place(slot, head, block, heads, PAGE, BLOCKS, LAYOUT)
    tl.store(scales_ptr + to, byte.to(tl.uint8), mask=inside)


@triton_kernel
def dequantize_block_kv_kernel(
    rows_ptr,
    codes_ptr,
    scales_ptr,
    slots_ptr,
    count_ptr,
    stride_row,
    stride_head,
    heads,
    factor,
    PAGE: tl.constexpr,
    DIM: tl.constexpr,
    BLOCKS: tl.constexpr,
    SLAB: tl.constexpr,
    BLOCK: tl.constexpr,
    BITS: tl.constexpr,
    POWER: tl.constexpr,
    LAYOUT: tl.constexpr,
):
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    block = tl.arange(0, SLAB)
    live, real = block < BLOCKS, block < BLOCKS
    if count_ptr is not None:
        real = live & (token < tl.load(count_ptr))
    slot = token
    if slots_ptr is not None:
        slot = tl.load(slots_ptr + token).to(tl.int64)
    wanted = (slot * heads + head) * (DIM * BITS // 8)
    byte = tl.load(scales_ptr + scale_place(slot, head, block, heads, PAGE, BLOCKS, LAYOUT), mask=real, other=0)
    if POWER:
        bits = byte.to(tl.int32)
        scale = tl.where(bits == 0, 0x00400000, tl.where(bits == 255, 0x7FC00000, bits << 23))
        scale = scale.to(tl.float32, bitcast=True)
    else:
        scale = byte.to(tl.float8e4nv, bitcast=True).to(tl.float32) * factor
    target = rows_ptr + token * stride_row + head * stride_head
    if BITS == 4:
        pair = tl.arange(0, BLOCK // 2)
        packed = tl.load(
            codes_ptr + wanted + block[:, None] * (BLOCK // 2) + pair[None, :], mask=real[:, None], other=0
        ).to(tl.int32)
        at = block[:, None] * BLOCK + 2 * pair[None, :]
        low, high = e2m1_value(packed & 15) * scale[:, None], e2m1_value(packed >> 4) * scale[:, None]
        tl.store(target + at, tl.where(real[:, None], low, 0.0).to(rows_ptr.dtype.element_ty), mask=live[:, None])
        tl.store(target + at + 1, tl.where(real[:, None], high, 0.0).to(rows_ptr.dtype.element_ty), mask=live[:, None])
    else:
        at = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        stored = tl.load(codes_ptr + wanted + at, mask=real[:, None], other=0)
        x = stored.to(tl.float8e4nv, bitcast=True).to(tl.float32) * scale[:, None]
        tl.store(target + at, tl.where(real[:, None], x, 0.0).to(rows_ptr.dtype.element_ty), mask=live[:, None])


def _launch(kernel, a: BlockRows, *more: object) -> tuple[LaunchRecord, ...]:
    tokens, heads, dim = a.rows.shape
    if not tokens or not heads:
        return ()
    assert ATOM == 32
    blocks = a.format.scales(dim)
    record = kernel[(tokens, heads)](
        *(a.rows, a.codes, a.scales, a.slots, *more, a.rows.stride(0), a.rows.stride(1), heads, a.factor),
        PAGE=a.page_size,
        DIM=dim,
        BLOCKS=blocks,
        SLAB=triton.next_power_of_2(blocks),
        BLOCK=a.format.block,
        BITS=a.format.bits,
        POWER=a.format.power_of_two,
        LAYOUT=SCALE_LAYOUTS.index(a.layout),
        num_warps=1,
    )
    return (record,)


def quantize(a: BlockRows) -> tuple[LaunchRecord, ...]:
    return _launch(quantize_block_kv_kernel, a)


def dequantize(a: BlockRows) -> tuple[LaunchRecord, ...]:
    return _launch(dequantize_block_kv_kernel, a, a.count)
