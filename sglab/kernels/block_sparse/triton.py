# mypy: disable-error-code="no-untyped-def"
"""Block-sparse attention: a program takes 64 queries of a head, walks over their blocks, then over their columns."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.block_sparse.contract import BLOCK_M, BLOCK_N, BlockSparseArguments
from sglab.kernels.scoring_triton import LN_2, base2_logits
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def _step(
    q,
    keys,
    inside,
    p,
    k_ptr,
    v_ptr,
    stride_k,
    stride_v,
    sm_scale,
    top,
    total,
    accumulator,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    LOGIT_CAP: tl.constexpr,
):
    """Online softmax over some keys, given by number; p: the last key that each row may see."""
    column = tl.arange(0, DIM_BLOCK)
    mask = inside[:, None] & (column < DIM)[None, :]
    k = tl.load(k_ptr + keys.to(tl.int64)[:, None] * stride_k + column[None, :], mask=mask, other=0.0)
    v = tl.load(v_ptr + keys.to(tl.int64)[:, None] * stride_v + column[None, :], mask=mask, other=0.0)
    qk = base2_logits(tl.dot(q, tl.trans(k), input_precision="ieee"), sm_scale, 1.0, LOGIT_CAP, False)
    qk = tl.where(inside[None, :] & (keys[None, :] <= p[:, None]), qk, float("-inf"))
    new_top = tl.maximum(top, tl.max(qk, axis=1))
    shift = tl.where(new_top == float("-inf"), 0.0, new_top)
    rescale = tl.exp2(top - shift)
    weight = tl.exp2(qk - shift[:, None])
    total = total * rescale + tl.sum(weight, axis=1)
    accumulator = tl.dot(weight.to(v.dtype), v, accumulator * rescale[:, None], input_precision="ieee")
    return new_top, total, accumulator


@triton_kernel
def _covered(columns, offset_ptr, blocks, BLOCK_N: tl.constexpr):
    """Which columns a block holds: they count once."""
    found = columns < 0
    for block in range(blocks):
        first = tl.load(offset_ptr + block)
        found = found | ((columns >= first) & (columns < first + BLOCK_N))
    return found


@triton_kernel
def sparse_attn_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    cu_q_ptr,
    cu_k_ptr,
    block_count_ptr,
    block_offset_ptr,
    column_count_ptr,
    column_index_ptr,
    sm_scale,
    heads,
    rows,
    nnz_s,
    nnz_v,
    group,
    stride_qt,
    stride_qh,
    stride_kt,
    stride_kh,
    stride_vt,
    stride_vh,
    stride_ot,
    stride_oh,
    stride_lse,
    CAUSAL: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    LOGIT_CAP: tl.constexpr,
):
    block_row, head, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first_q, first_k = tl.load(cu_q_ptr + request).to(tl.int64), tl.load(cu_k_ptr + request).to(tl.int64)
    queries = (tl.load(cu_q_ptr + request + 1) - first_q).to(tl.int32)
    keys = (tl.load(cu_k_ptr + request + 1) - first_k).to(tl.int32)
    if block_row * BLOCK_M >= queries:
        return
    row, column = block_row * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, DIM_BLOCK)
    real = (row < queries)[:, None] & (column < DIM)[None, :]
    q = tl.load(q_ptr + (first_q + row)[:, None] * stride_qt + head * stride_qh + column[None, :], mask=real, other=0.0)
    p = tl.zeros([BLOCK_M], tl.int32) + keys
    if CAUSAL:
        p = row + keys - queries
    k, v = (
        k_ptr + first_k * stride_kt + head // group * stride_kh,
        v_ptr + first_k * stride_vt + head // group * stride_vh,
    )
    at = (request.to(tl.int64) * heads + head) * rows + block_row
    blocks, columns = tl.load(block_count_ptr + at), tl.load(column_count_ptr + at)
    offsets, numbers = block_offset_ptr + at * nnz_s, column_index_ptr + at * nnz_v

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    accumulator = tl.zeros([BLOCK_M, DIM_BLOCK], tl.float32)
    lane = tl.arange(0, BLOCK_N)
    previous = -BLOCK_N
    for block in range(blocks):
        key = tl.load(offsets + block) + lane
        # Where blocks overlap, and they ascend, a key counts in the first of them.
        inside = (key < keys) & (key >= previous + BLOCK_N)
        previous = tl.load(offsets + block)
        top, total, accumulator = _step(
            q, key, inside, p, k, v, stride_kt, stride_vt, sm_scale, top, total, accumulator, DIM, DIM_BLOCK, LOGIT_CAP
        )
    for start in range(0, columns, BLOCK_N):
        key = tl.load(numbers + start + lane, mask=start + lane < columns, other=-1)
        inside = (key >= 0) & (key < keys) & (_covered(key, offsets, blocks, BLOCK_N) == 0)
        top, total, accumulator = _step(
            q, key, inside, p, k, v, stride_kt, stride_vt, sm_scale, top, total, accumulator, DIM, DIM_BLOCK, LOGIT_CAP
        )

    tl.store(lse_ptr + head * stride_lse + first_q + row, (top + tl.log2(total)) * LN_2, mask=row < queries)
    o = accumulator / tl.where(total == 0, 1.0, total)[:, None]
    out = out_ptr + (first_q + row)[:, None] * stride_ot + head * stride_oh + column[None, :]
    tl.store(out, o.to(out_ptr.dtype.element_ty), mask=real)


def run(a: BlockSparseArguments) -> tuple[LaunchRecord, ...]:
    tokens, heads, dim = a.q.shape
    batch, _, rows = a.block_count.shape
    if not batch * tokens * heads * rows:
        return ()
    record = sparse_attn_kernel[(rows, heads, batch)](
        *(a.q, a.k, a.v, a.out, a.lse, a.cu_q, a.cu_k),
        *(x.contiguous() for x in (a.block_count, a.block_offset, a.column_count, a.column_index)),
        *(a.scoring.sm_scale, heads, rows, a.block_offset.shape[-1], a.column_index.shape[-1]),
        *(heads // a.k.shape[1], *a.q.stride()[:2], *a.k.stride()[:2], *a.v.stride()[:2], *a.out.stride()[:2]),
        a.lse.stride(0),
        CAUSAL=a.causal,
        DIM=dim,
        DIM_BLOCK=max(16, triton.next_power_of_2(dim)),
        BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N,
        LOGIT_CAP=a.scoring.logit_cap,
        num_warps=4,
        num_stages=2 if a.q.element_size() == 2 else 1,
    )
    return (record,)
