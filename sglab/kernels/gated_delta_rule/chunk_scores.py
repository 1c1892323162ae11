# mypy: disable-error-code="no-untyped-def"
"""Within a chunk: what each key finds of the earlier ones (the system), and each query of the keys (the attention).

The decay between two tokens is the sum of the gates between them, never a difference of two sums from the chunk's
start: that would lose digits after a strong gate, and be NaN after one of −inf.
"""

from __future__ import annotations

import triton.language as tl

from sglab.triton import triton_kernel

BLOCK = 16
"""Rows of a diagonal block: what is solved row by row, and in KDA scored column by column."""


@triton_kernel
def chunk_tokens(cu_ptr, chunk, batch, CHUNK: tl.constexpr):
    """The first token of a chunk and the end of its request; nothing lies between where no chunk has this number.

    Request r's chunks are numbered from cu[r] // CHUNK + r on, so no two share a number and none is asked for lengths.
    """
    request, beyond = 0, batch
    while beyond - request > 1:
        middle = (request + beyond) // 2
        if tl.load(cu_ptr + middle).to(tl.int32) // CHUNK + middle <= chunk:
            request = middle
        else:
            beyond = middle
    first, end = tl.load(cu_ptr + request).to(tl.int64), tl.load(cu_ptr + request + 1).to(tl.int64)
    return first + (chunk - (first // CHUNK + request)) * CHUNK, end


@triton_kernel
def unit_rows(x, NORMALISE: tl.constexpr):
    """Rows of x in float32, divided by their lengths if asked for."""
    x = x.to(tl.float32)
    if NORMALISE:
        x = x / tl.sqrt(tl.sum(x * x, axis=1) + 1e-6)[:, None]
    return x


@triton_kernel
def gated_delta_scores_kernel(
    q_ptr,
    k_ptr,
    g_ptr,
    beta_ptr,
    cu_ptr,
    system_ptr,
    attention_ptr,
    scale,
    batch,
    heads,
    group,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_gt,
    stride_gh,
    stride_bt,
    K: tl.constexpr,
    K_BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    NORMALISE: tl.constexpr,
    COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One gate per head: products of the tensor cores, times the decays."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    first, end = chunk_tokens(cu_ptr, chunk, batch, CHUNK)
    if first >= end:
        return
    row, dim = tl.arange(0, CHUNK), tl.arange(0, K_BLOCK)
    token = first + row
    real = (token < end)[:, None] & (dim < K)[None, :]
    q = tl.load(q_ptr + token[:, None] * stride_qt + head // group * stride_qh + dim[None, :], mask=real, other=0.0)
    k = tl.load(k_ptr + token[:, None] * stride_kt + head // group * stride_kh + dim[None, :], mask=real, other=0.0)
    q, k = unit_rows(q, NORMALISE).to(COMPUTE), unit_rows(k, NORMALISE).to(COMPUTE)
    g = tl.load(g_ptr + token * stride_gt + head * stride_gh, mask=token < end, other=0.0)
    beta = tl.load(beta_ptr + token * stride_bt + head, mask=token < end, other=0.0).to(tl.float32)
    later, same = row[:, None] > row[None, :], row[:, None] == row[None, :]
    decay = tl.exp(tl.cumsum(tl.where(later, g[:, None], 0.0), axis=0))
    system = tl.dot(k, tl.trans(k), input_precision=PRECISION) * decay * beta[:, None]
    attention = tl.dot(q, tl.trans(k), input_precision=PRECISION) * decay * scale
    place = ((chunk * heads + head).to(tl.int64) * CHUNK + row[:, None]) * CHUNK + row[None, :]
    tl.store(system_ptr + place, tl.where(later, system, 0.0))
    tl.store(attention_ptr + place, tl.where(later | same, attention, 0.0).to(attention_ptr.dtype.element_ty))


@triton_kernel
def kda_scores_kernel(
    q_ptr,
    k_ptr,
    g_ptr,
    beta_ptr,
    cu_ptr,
    system_ptr,
    attention_ptr,
    scale,
    batch,
    heads,
    group,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_gt,
    stride_gh,
    stride_bt,
    K: tl.constexpr,
    K_BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    NORMALISE: tl.constexpr,
    COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A gate per key dim, a block of rows: to earlier blocks through the block's start, so that no factor exceeds 1."""
    chunk, head, start = tl.program_id(0), tl.program_id(1), tl.program_id(2) * BLOCK
    first, end = chunk_tokens(cu_ptr, chunk, batch, CHUNK)
    if first >= end:
        return
    row, column, dim = tl.arange(0, BLOCK), tl.arange(0, CHUNK), tl.arange(0, K_BLOCK)
    wide = (dim < K)[None, :]
    q_head, k_head = q_ptr + head // group * stride_qh + dim, k_ptr + head // group * stride_kh + dim
    g_head = g_ptr + head * stride_gh + dim
    token = first + start + row
    real = (token < end)[:, None] & wide
    q = unit_rows(tl.load(q_head[None, :] + token[:, None] * stride_qt, mask=real, other=0.0), NORMALISE)
    k = unit_rows(tl.load(k_head[None, :] + token[:, None] * stride_kt, mask=real, other=0.0), NORMALISE)
    beta = tl.load(beta_ptr + token * stride_bt + head, mask=token < end, other=0.0).to(tl.float32)
    since_start = tl.exp(tl.cumsum(tl.load(g_head[None, :] + token[:, None] * stride_gt, mask=real, other=0.0), axis=0))
    before = (first + column)[:, None]
    earlier = (column < start)[:, None] & (before < end) & wide
    k_before = unit_rows(tl.load(k_head[None, :] + before * stride_kt, mask=earlier, other=0.0), NORMALISE)
    after = (column + 1 < start)[:, None] & (before + 1 < end) & wide
    to_start = tl.load(g_head[None, :] + (before + 1) * stride_gt, mask=after, other=0.0)
    keys = tl.trans((k_before * tl.exp(tl.cumsum(to_start, axis=0, reverse=True))).to(COMPUTE))
    system = tl.dot((k * since_start).to(COMPUTE), keys, input_precision=PRECISION)
    attention = tl.dot((q * since_start).to(COMPUTE), keys, input_precision=PRECISION)
    between = tl.zeros([BLOCK, K_BLOCK], tl.float32)
    for step in range(BLOCK):
        here = BLOCK - 1 - step
        now = first + start + here
        present = wide & (now < end)
        pair = unit_rows(tl.load(k_head[None, :] + now * stride_kt, mask=present, other=0.0), NORMALISE)
        pair = pair * tl.exp(between)
        found, asked = tl.sum(k * pair, axis=1), tl.sum(q * pair, axis=1)
        this = column[None, :] == start + here
        system = tl.where(this & (row > here)[:, None], found[:, None], system)
        attention = tl.where(this & (row >= here)[:, None], asked[:, None], attention)
        gate = tl.load(g_head[None, :] + now * stride_gt, mask=present, other=0.0)
        between = tl.where((row >= here)[:, None], between + gate, 0.0)
    place = ((chunk * heads + head).to(tl.int64) * CHUNK + start + row[:, None]) * CHUNK + column[None, :]
    tl.store(system_ptr + place, system * beta[:, None])
    tl.store(attention_ptr + place, (attention * scale).to(attention_ptr.dtype.element_ty))
