# mypy: disable-error-code="no-untyped-def"
"""MLA decode in Triton, cut as the SM100 kernel cuts it: head blocks × requests × splits of whole 128-token tiles."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels import devices
from sglab.kernels.cutlass_mla.contract import MLAArguments
from sglab.kernels.decode_attention.tiles import grouped_tile
from sglab.kernels.scoring_triton import LN_2, LOG2_E
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS, ROPE_DIM
from sglab.planning.set_split_kv import MAX_SPLITS, TILE_S
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def _used_splits(length, split_kv, TILE: tl.constexpr):
    """(tokens per split, splits that have work): tiles are dealt out by rounding up."""
    tiles = tl.cdiv(length, TILE)
    tiles_per_split = tl.maximum(tl.cdiv(tiles, split_kv), 1)
    return tiles_per_split * TILE, tl.cdiv(tiles, tiles_per_split)


@triton_kernel
def mla_decode_kernel(
    q_nope_ptr,
    q_pe_ptr,
    cache_ptr,
    seq_lens_ptr,
    page_table_ptr,
    out_ptr,
    lse_ptr,
    partial_ptr,
    partial_lse_ptr,
    sm_scale,
    num_heads,
    split_kv,
    stride_nope_b,
    stride_nope_h,
    stride_pe_b,
    stride_pe_h,
    stride_page,
    stride_table,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    PADDED_HEADS: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    STRIDE_ROW: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DIRECT: tl.constexpr,
):
    """DIRECT: there is one split, which writes O itself; otherwise splits leave partials for the reduction."""
    head_block, request, split = tl.program_id(0), tl.program_id(1).to(tl.int64), tl.program_id(2)
    length = tl.load(seq_lens_ptr + request)
    per_split, _ = _used_splits(length, split_kv, TILE)
    first = split * per_split
    end = tl.minimum(first + per_split, length)
    if not DIRECT:  # noqa: SIM102 (the outer condition is known when compiling)
        if first >= end:
            return

    head = head_block * BLOCK_H + tl.arange(0, BLOCK_H)
    real_head = head < num_heads
    latent, rope = tl.arange(0, LATENT), tl.arange(0, ROPE)
    q_nope_ptrs = q_nope_ptr + request * stride_nope_b + head[:, None] * stride_nope_h + latent[None, :]
    q_nope = tl.load(q_nope_ptrs, mask=real_head[:, None], other=0.0)
    q_pe_ptrs = q_pe_ptr + request * stride_pe_b + head[:, None] * stride_pe_h + rope[None, :]
    q_pe = tl.load(q_pe_ptrs, mask=real_head[:, None], other=0.0)
    table = page_table_ptr + request * stride_table

    top = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    accumulator = tl.zeros([BLOCK_H, LATENT], tl.float32)
    for start in range(first, end, BLOCK_N):
        token = start + tl.arange(0, BLOCK_N)
        inside = token < end
        if PAGE_SIZE >= BLOCK_N:
            # A step is within one page: one page number, consecutive rows.
            page = tl.load(table + start // PAGE_SIZE).to(tl.int64)
            in_page = start % PAGE_SIZE + tl.arange(0, BLOCK_N)
            row = cache_ptr + page * stride_page + in_page[:, None] * STRIDE_ROW
        else:
            page = tl.load(table + token // PAGE_SIZE, mask=inside, other=0).to(tl.int64)
            row = cache_ptr + page[:, None] * stride_page + (token % PAGE_SIZE)[:, None] * STRIDE_ROW
        # Rows past the end are not loaded but zero: multiplied by weight 0, a NaN there would spread.
        kv = tl.load(row + latent[None, :], mask=inside[:, None], other=0.0)
        k_pe = tl.load(row + LATENT + rope[None, :], mask=inside[:, None], other=0.0)
        qk = tl.dot(q_nope, tl.trans(kv))
        qk = tl.dot(q_pe, tl.trans(k_pe), qk)
        qk = tl.where(inside[None, :], qk * (sm_scale * LOG2_E), float("-inf"))
        new_top = tl.maximum(top, tl.max(qk, axis=1))
        rescale = tl.exp2(top - new_top)
        weight = tl.exp2(qk - new_top[:, None])
        accumulator = tl.dot(weight.to(kv.dtype), kv, accumulator * rescale[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        top = new_top

    # Without keys nothing was accumulated: O = 0 for any divisor, and LSE = −inf.
    o = accumulator / tl.where(total == 0, 1.0, total)[:, None]
    lse = (top + tl.log2(total)) * LN_2
    if DIRECT:
        out = out_ptr + (request * num_heads + head[:, None]) * LATENT + latent[None, :]
        tl.store(out, o.to(out_ptr.dtype.element_ty), mask=real_head[:, None])
        if lse_ptr is not None:
            tl.store(lse_ptr + request * num_heads + head, lse, mask=real_head)
    else:
        partial = partial_ptr + ((request * PADDED_HEADS + head[:, None]) * split_kv + split) * LATENT + latent[None, :]
        tl.store(partial, o, mask=real_head[:, None])
        tl.store(partial_lse_ptr + (request * split_kv + split) * PADDED_HEADS + head, lse, mask=real_head)


@triton_kernel
def mla_reduction_kernel(
    seq_lens_ptr,
    out_ptr,
    lse_ptr,
    partial_ptr,
    partial_lse_ptr,
    num_heads,
    split_kv,
    LATENT: tl.constexpr,
    PADDED_HEADS: tl.constexpr,
    TILE: tl.constexpr,
    SPLITS_BLOCK: tl.constexpr,
):
    head, request = tl.program_id(0), tl.program_id(1).to(tl.int64)
    _, used_splits = _used_splits(tl.load(seq_lens_ptr + request), split_kv, TILE)
    split = tl.arange(0, SPLITS_BLOCK)
    lse_ptrs = partial_lse_ptr + (request * split_kv + split) * PADDED_HEADS + head
    lses = tl.load(lse_ptrs, mask=split < used_splits, other=float("-inf")) * LOG2_E
    top = tl.max(lses, axis=0)
    top = tl.where(top == float("-inf"), 0.0, top)  # a request without keys has no splits
    lse = top + tl.log2(tl.sum(tl.exp2(lses - top), axis=0))
    latent = tl.arange(0, LATENT)
    partial = partial_ptr + (request * PADDED_HEADS + head) * split_kv * LATENT + latent
    o = tl.zeros([LATENT], tl.float32)
    for each in range(used_splits):
        weight = tl.exp2(tl.load(partial_lse_ptr + (request * split_kv + each) * PADDED_HEADS + head) * LOG2_E - lse)
        o += weight * tl.load(partial + each * LATENT)
    tl.store(out_ptr + (request * num_heads + head) * LATENT + latent, o.to(out_ptr.dtype.element_ty))
    if lse_ptr is not None:
        tl.store(lse_ptr + request * num_heads + head, lse * LN_2)


def run(arguments: MLAArguments) -> tuple[LaunchRecord, ...]:
    batch, heads, _ = arguments.q_nope.shape
    q_nope, q_pe, cache = arguments.q_nope, arguments.q_pe, arguments.kv_c_and_k_pe_cache
    partial, partial_lse = arguments.partials() if arguments.split_kv > 1 else (None, None)
    tile = grouped_tile(heads, LATENT_DIM + ROPE_DIM, q_nope.element_size(), devices.capability(arguments.device)[0])
    decode = mla_decode_kernel[(-(-heads // tile.heads), batch, arguments.split_kv)](
        *(q_nope, q_pe, cache, arguments.seq_lens, arguments.page_table, arguments.out, arguments.lse),
        *(partial, partial_lse, arguments.sm_scale, heads, arguments.split_kv),
        *(q_nope.stride(0), q_nope.stride(1), q_pe.stride(0), q_pe.stride(1)),
        *(cache.stride(0), arguments.page_table.stride(0)),
        LATENT=LATENT_DIM,
        ROPE=ROPE_DIM,
        PADDED_HEADS=NUM_HEADS,
        PAGE_SIZE=arguments.page_size,
        STRIDE_ROW=cache.stride(1),
        TILE=TILE_S,
        BLOCK_H=tile.heads,
        BLOCK_N=tile.keys,
        DIRECT=arguments.split_kv == 1,
        num_warps=tile.num_warps,
        # Page numbers that are scalars take no load stage of their own.
        num_stages=tile.num_stages - (arguments.page_size >= tile.keys),
    )
    if arguments.split_kv == 1:
        return (decode,)
    reduction = mla_reduction_kernel[(heads, batch)](
        *(arguments.seq_lens, arguments.out, arguments.lse, partial, partial_lse, heads, arguments.split_kv),
        LATENT=LATENT_DIM,
        PADDED_HEADS=NUM_HEADS,
        TILE=TILE_S,
        SPLITS_BLOCK=MAX_SPLITS,
        num_warps=4,
    )
    return decode, reduction
