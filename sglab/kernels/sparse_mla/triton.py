# mypy: disable-error-code="no-untyped-def"
"""Sparse MLA: a program takes one query's block of heads and a part of its keys, gathered one by one."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels import devices
from sglab.kernels.flash_attn.kernel import flash_attn_combine_kernel
from sglab.kernels.k_records.layout import NOPE, ROPE, TILE, taken_apart
from sglab.kernels.scoring_triton import LN_2, LOG2_E
from sglab.kernels.sparse_mla.contract import Keys, SparseArguments
from sglab.triton import LaunchRecord, triton_kernel

_KEYS = 32


@triton_kernel
def _share(lengths, token, topk, split, splits, KEYS: tl.constexpr):
    """Where a split's part of a query's indices starts and ends."""
    count = topk
    if lengths is not None:
        count = tl.minimum(tl.maximum(tl.load(lengths + token), 0), topk)
    per_split = tl.cdiv(tl.cdiv(count, splits), KEYS) * KEYS
    begin = split * per_split
    return begin, tl.minimum(begin + per_split, count)


@triton_kernel
def _attend(
    q,
    q_rope,
    Nope,
    Rope,
    Scales,
    indices,
    slots,
    begin,
    end,
    scale,
    stride_nope,
    stride_rope,
    stride_scale,
    top,
    total,
    accumulator,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    TILE: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Online softmax in base 2 over the keys that indices[begin:end] name."""
    column, rest = tl.arange(0, NOPE), tl.arange(0, ROPE)
    for start in range(begin, end, KEYS):
        key = start + tl.arange(0, KEYS)
        slot = tl.load(indices + key, mask=key < end, other=-1).to(tl.int64)
        valid = (slot >= 0) & (slot < slots)
        slot = tl.where(valid, slot, 0)
        k = tl.load(Nope + slot[:, None] * stride_nope + column[None, :], mask=valid[:, None], other=0.0)
        if Scales is not None:
            factor = Scales + slot[:, None] * stride_scale + (column // TILE)[None, :]
            k = k.to(tl.float32) * tl.load(factor, mask=valid[:, None], other=0.0)
        k = k.to(q.dtype)
        k_rope = tl.load(Rope + slot[:, None] * stride_rope + rest[None, :], mask=valid[:, None], other=0.0)
        qk = tl.dot(q, tl.trans(k))
        qk = tl.dot(q_rope, tl.trans(k_rope.to(q.dtype)), qk)
        qk = tl.where(valid[None, :], qk * scale, float("-inf"))
        new_top = tl.maximum(top, tl.max(qk, axis=1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        rescale = tl.exp2(top - shift)
        weight = tl.exp2(qk - shift[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        accumulator = tl.dot(weight.to(q.dtype), k, accumulator * rescale[:, None])
        top = new_top
    return top, total, accumulator


@triton_kernel
def sparse_mla_kernel(
    Q,
    Nope,
    Rope,
    Scales,
    Indices,
    lengths,
    ExtraNope,
    ExtraRope,
    ExtraScales,
    ExtraIndices,
    extra_lengths,
    sink,
    Out,
    Top,
    Lse,
    slots,
    topk,
    extra_slots,
    extra_topk,
    splits,
    heads,
    sm_scale,
    stride_qt,
    stride_qh,
    stride_nope,
    stride_rope,
    stride_scale,
    stride_index,
    stride_extra_nope,
    stride_extra_rope,
    stride_extra_scale,
    stride_extra_index,
    stride_os,
    stride_ot,
    stride_oh,
    stride_ls,
    stride_lt,
    stride_lh,
    NOPE: tl.constexpr,
    ROPE: tl.constexpr,
    TILE: tl.constexpr,
    HEADS: tl.constexpr,
    KEYS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    split = tl.program_id(2)
    real = head < heads
    column, rest = tl.arange(0, NOPE), tl.arange(0, ROPE)
    q_ptr = Q + token * stride_qt + head[:, None] * stride_qh
    q = tl.load(q_ptr + column[None, :], mask=real[:, None], other=0.0)
    q_rope = tl.load(q_ptr + NOPE + rest[None, :], mask=real[:, None], other=0.0)
    top = tl.full([HEADS], float("-inf"), tl.float32)
    total = tl.zeros([HEADS], tl.float32)
    accumulator = tl.zeros([HEADS, NOPE], tl.float32)
    begin, end = _share(lengths, token, topk, split, splits, KEYS)
    top, total, accumulator = _attend(
        q,
        q_rope,
        Nope,
        Rope,
        Scales,
        Indices + token * stride_index,
        slots,
        begin,
        end,
        sm_scale * LOG2_E,
        stride_nope,
        stride_rope,
        stride_scale,
        top,
        total,
        accumulator,
        NOPE,
        ROPE,
        TILE,
        KEYS,
    )
    if ExtraNope is not None:
        begin, end = _share(extra_lengths, token, extra_topk, split, splits, KEYS)
        top, total, accumulator = _attend(
            q,
            q_rope,
            ExtraNope,
            ExtraRope,
            ExtraScales,
            ExtraIndices + token * stride_extra_index,
            extra_slots,
            begin,
            end,
            sm_scale * LOG2_E,
            stride_extra_nope,
            stride_extra_rope,
            stride_extra_scale,
            top,
            total,
            accumulator,
            NOPE,
            ROPE,
            TILE,
            KEYS,
        )

    lse = (top + tl.log2(total)) * LN_2
    if splits == 1:
        if Top is not None:
            tl.store(Top + token * heads + head, top * LN_2, mask=real)
        if sink is not None:
            extra = tl.load(sink + head, mask=real, other=0.0) * LOG2_E
            shift = tl.maximum(top, extra)
            rescale = tl.exp2(top - shift)
            accumulator = accumulator * rescale[:, None]
            total = total * rescale + tl.exp2(extra - shift)
        lse = tl.where(lse == float("-inf"), float("inf"), lse)
    tl.store(Lse + split * stride_ls + token * stride_lt + head * stride_lh, lse, mask=real)
    o = accumulator / tl.where(total == 0, 1.0, total)[:, None]
    o_ptr = Out + split * stride_os + token * stride_ot + head[:, None] * stride_oh + column[None, :]
    tl.store(o_ptr, o.to(Out.dtype.element_ty), mask=real[:, None])


def run(a: SparseArguments) -> tuple[LaunchRecord, ...]:
    tokens, heads, _ = a.q.shape
    if not tokens * heads:
        return ()
    block = 16 if heads <= 16 else 32 if heads <= 32 else 64
    topk = sum(keys.indices.shape[1] for keys in a.caches)
    splits = 1 if a.top is not None else _splits(a, tokens * triton.cdiv(heads, block), topk)
    out, lse = (a.out, a.lse) if splits == 1 else _parts(a, splits)
    (main, sizes, strides), (extra, extra_sizes, extra_strides) = _operands(a.keys), _operands(a.extra)
    first = sparse_mla_kernel[(tokens, triton.cdiv(heads, block), splits)](
        *(a.q, *main, *extra, a.sink, out, a.top, lse, *sizes, *extra_sizes, splits, heads, a.sm_scale),
        *(*a.q.stride()[:2], *strides, *extra_strides),
        *((0, *out.stride()[:2]) if splits == 1 else out.stride()[:3]),
        *((0, *lse.stride()) if splits == 1 else (lse.stride(0), lse.stride(2), lse.stride(1))),
        NOPE=NOPE,
        ROPE=ROPE,
        TILE=TILE,
        HEADS=block,
        KEYS=_KEYS,
        num_warps=8 if block > 16 else 4,
        num_stages=2,
    )
    return (first,) if splits == 1 else (first, _combine(a, out, lse, splits))


Operands = tuple[tuple[torch.Tensor | None, ...], tuple[int, int], tuple[int, int, int, int]]


def _operands(keys: Keys | None) -> Operands:
    """Latent part, RoPE part, scales, indices and lengths; slots and indices of a row; the strides of rows."""
    if keys is None:
        return (None,) * 5, (0, 0), (0, 0, 0, 0)
    if keys.records:
        views = taken_apart(keys.kv)
        nope, rope, scales, scale_stride = views.nope, views.rope, views.scales, views.scales.stride(0)
    else:
        nope, rope, scales, scale_stride = keys.kv[:, :NOPE], keys.kv[:, NOPE:], None, 0
    strides = nope.stride(0), rope.stride(0), scale_stride, keys.indices.stride(0)
    return (nope, rope, scales, keys.indices, keys.lengths), (len(keys.kv), keys.indices.shape[1]), strides


def _splits(a: SparseArguments, programs: int, topk: int) -> int:
    """So many that the SMs are busy, each of at least 4 steps."""
    return max(1, min(devices.sm_count(a.device) // programs, topk // (4 * _KEYS), 32))


def _parts(a: SparseArguments, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for each split: outputs (splits, tokens, heads, 512) and LSE (splits, heads, tokens)."""
    tokens, heads, _ = a.out.shape
    out = torch.empty(splits, tokens, heads, NOPE, dtype=torch.float32, device=a.device)
    return out, torch.empty(splits, heads, tokens, device=a.device)


def _combine(a: SparseArguments, out: torch.Tensor, lse: torch.Tensor, splits: int) -> LaunchRecord:
    tokens, heads, _ = a.out.shape
    return flash_attn_combine_kernel[(tokens, heads)](
        *(out, lse, a.out, a.lse.T, a.sink, *out.stride()[:3], *lse.stride()[:2], *a.out.stride()[:2]),
        *(*a.lse.T.stride(), splits),
        V_DIM=NOPE,
        V_BLOCK=NOPE,
        SINK_IN_LSE=False,
        EMPTY_LSE=float("inf"),
        num_warps=4,
    )
