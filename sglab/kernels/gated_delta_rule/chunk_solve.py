# mypy: disable-error-code="no-untyped-def"
"""A chunk's unit lower triangular system solved, and what the walk over the chunks multiplies the state with (WY form).

With T the inverse: U = T (β v) are the corrections as if the state were 0, W = T (β k · decay since the chunk's start)
is how much of them the state takes away.
"""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.gated_delta_rule.chunk_scores import chunk_tokens, unit_rows
from sglab.triton import triton_kernel


@triton_kernel
def _inverse(system, CHUNK: tl.constexpr, BLOCK: tl.constexpr, EXACT: tl.constexpr):
    """(1 + system)⁻¹: blocks on the diagonal row by row, all at once, then row of blocks by row of blocks.

    Substitution, not a product of powers of the system: those grow where keys are alike.
    """
    BLOCKS: tl.constexpr = CHUNK // BLOCK
    row, column = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    diagonal = row // BLOCK == column // BLOCK
    # (CHUNK, BLOCK): of each row the columns in its own block; no other is nonzero there.
    own = tl.sum(tl.reshape(tl.where(diagonal, system, 0.0), [CHUNK, BLOCKS, BLOCK]), axis=1)
    own = tl.reshape(own, [BLOCKS, BLOCK, BLOCK])
    inner = tl.arange(0, BLOCK)
    solved = tl.zeros([BLOCKS, BLOCK, BLOCK], tl.float32) + (inner[:, None] == inner[None, :]).to(tl.float32)[None]
    for here in range(1, BLOCK):
        mine = (inner == here)[None, :, None]
        factors = tl.sum(tl.where(mine, own, 0.0), axis=1)
        change = tl.sum(factors[:, :, None] * solved, axis=1)
        solved = tl.where(mine, solved - change[:, None, :], solved)
    spread = tl.broadcast_to(tl.reshape(solved, [CHUNK, 1, BLOCK]), [CHUNK, BLOCKS, BLOCK])
    first = tl.where(diagonal, tl.reshape(spread, [CHUNK, CHUNK]), 0.0)
    links = tl.dot(first, tl.where(diagonal, 0.0, system), input_precision=EXACT)
    inverse = first
    for here in range(1, BLOCKS):
        change = tl.dot(links, inverse, input_precision=EXACT)
        inverse = tl.where(row // BLOCK == here, first - change, inverse)
    return inverse


@triton_kernel
def gated_delta_solve_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    g_ptr,
    beta_ptr,
    cu_ptr,
    system_ptr,
    reads_ptr,
    queries_ptr,
    keys_ptr,
    values_ptr,
    decay_ptr,
    scale,
    batch,
    heads,
    group,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_vt,
    stride_vh,
    stride_gt,
    stride_gh,
    stride_bt,
    K: tl.constexpr,
    K_BLOCK: tl.constexpr,
    V: tl.constexpr,
    V_BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK: tl.constexpr,
    PER_DIM: tl.constexpr,
    NORMALISE: tl.constexpr,
    COMPUTE: tl.constexpr,
    PRECISION: tl.constexpr,
    EXACT: tl.constexpr,
):
    """Writes W, q and k with their decays to the chunk's ends, U, and the decay over the whole chunk."""
    chunk, head = tl.program_id(0), tl.program_id(1)
    first, end = chunk_tokens(cu_ptr, chunk, batch, CHUNK)
    if first >= end:
        return
    row, dim, column = tl.arange(0, CHUNK), tl.arange(0, K_BLOCK), tl.arange(0, V_BLOCK)
    at = (chunk * heads + head).to(tl.int64)
    square = (at * CHUNK + row[:, None]) * CHUNK + row[None, :]
    inverse = _inverse(tl.load(system_ptr + square), CHUNK, BLOCK, EXACT).to(COMPUTE)
    token = first + row
    there, wide = (token < end)[:, None], (dim < K)[None, :]
    beta = tl.load(beta_ptr + token * stride_bt + head, mask=token < end, other=0.0).to(tl.float32)[:, None]
    q = tl.load(
        q_ptr + token[:, None] * stride_qt + head // group * stride_qh + dim[None, :], mask=there & wide, other=0.0
    )
    k = tl.load(
        k_ptr + token[:, None] * stride_kt + head // group * stride_kh + dim[None, :], mask=there & wide, other=0.0
    )
    q, k = unit_rows(q, NORMALISE) * scale, unit_rows(k, NORMALISE)
    # One gate per head: the same in every column, for Triton 3.6 cannot compile a scan of one column.
    gates = g_ptr + token[:, None] * stride_gt + head * stride_gh + (dim[None, :] if PER_DIM else dim[None, :] * 0)
    gated = there & wide
    since_start = tl.cumsum(tl.load(gates, mask=gated, other=0.0), axis=0)
    following = gated & (row + 1 < CHUNK)[:, None] & (token + 1 < end)[:, None]
    to_end = tl.cumsum(tl.load(gates + stride_gt, mask=following, other=0.0), axis=0, reverse=True)
    from_start = tl.exp(since_start)
    reads = tl.dot(inverse, (k * from_start * beta).to(COMPUTE), input_precision=PRECISION)
    tall = (at * CHUNK + row[:, None]) * K + dim[None, :]
    tl.store(reads_ptr + tall, reads.to(COMPUTE), mask=wide)
    tl.store(queries_ptr + tall, (q * from_start).to(COMPUTE), mask=wide)
    tl.store(keys_ptr + tall, (k * tl.exp(to_end)).to(COMPUTE), mask=wide)
    whole = tl.where(row[:, None] == CHUNK - 1, from_start, 0.0)
    tl.store(decay_ptr + at * K + dim, tl.sum(whole, axis=0), mask=dim < K)
    v = tl.load(
        v_ptr + token[:, None] * stride_vt + head * stride_vh + column[None, :],
        mask=there & (column < V)[None, :],
        other=0.0,
    )
    values = tl.dot(inverse, (v.to(tl.float32) * beta).to(COMPUTE), input_precision=PRECISION)
    tl.store(values_ptr + (at * CHUNK + row[:, None]) * V + column[None, :], values.to(COMPUTE), mask=column < V)
