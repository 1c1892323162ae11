# mypy: disable-error-code="no-untyped-def"
"""The attention kernel: a block of rows, each a query's head, over a part of the keys that it may see."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.scoring_triton import LN_2, LOG2_E
from sglab.triton import triton_kernel


@triton_kernel
def _capped(qk, scale, cap, HAS_CAP: tl.constexpr):
    """Scores in base 2: scale holds log2(e) already, unless there is a cap."""
    if HAS_CAP:
        # tanh(x) = 2 · sigmoid(2x) − 1
        return (2 * tl.sigmoid(2 * scale / cap * qk) - 1) * (cap * LOG2_E)
    return qk * scale


@triton_kernel
def _visible(p, key, key_len, left, right, chunk, prefix, place, CHUNKED: tl.constexpr, ITEMS: tl.constexpr):
    """(rows, keys): what `contract.Masking` says."""
    seen = (key < key_len)[None, :] & (key[None, :] >= p[:, None] - left) & (key[None, :] <= p[:, None] + right)
    if CHUNKED:
        first = tl.where(p >= 0, p // chunk, -((chunk - 1 - p) // chunk)) * chunk
        seen = seen & (key[None, :] >= first[:, None]) & (key[None, :] < first[:, None] + chunk)
    if ITEMS:
        own = key[None, :] > (p - place)[:, None]
        seen = seen & (own | (key < prefix)[None, :] | (p < prefix)[:, None])
    return seen


@triton_kernel
def flash_attn_kernel(
    Q,
    QV,
    K,
    V,
    Out,
    Lse,
    cu_seqlens_q,
    seqlens_q,
    seqlens_k,
    first_key,
    ends,
    page_table,
    sinks,
    q_descale,
    k_descale,
    v_descale,
    prefix_lens,
    token_pos,
    sm_scale,
    softcap,
    left,
    right,
    chunk,
    stride_qt,
    stride_qh,
    stride_qvt,
    stride_qvh,
    stride_kp,
    stride_kr,
    stride_kh,
    stride_vp,
    stride_vr,
    stride_vh,
    stride_os,
    stride_ot,
    stride_oh,
    stride_ls,
    stride_lh,
    stride_lt,
    stride_table,
    stride_place,
    stride_descale_b,
    stride_descale_h,
    page_size,
    splits,
    longest,
    new_keys,
    GROUP: tl.constexpr,
    QK_DIM: tl.constexpr,
    QK_BLOCK: tl.constexpr,
    QK_REST: tl.constexpr,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HAS_CAP: tl.constexpr,
    CHUNKED: tl.constexpr,
    BASE2: tl.constexpr,
    COMPUTE: tl.constexpr,
):
    """Out and Lse are the results, or with splits each split's own; a sink counts only where there is one split.

    Without cu_seqlens_q every request has `longest` queries. With `ends` (contract.Ends) seqlens_k counts tokens of
    last pages, or is None where keys are not paged.
    """
    block, split = tl.program_id(0) // splits, tl.program_id(0) % splits
    kv_head, request = tl.program_id(1), tl.program_id(2)
    if cu_seqlens_q is None:
        first_token = request.to(tl.int64) * longest
        q_len = longest
    else:
        first_token = tl.load(cu_seqlens_q + request).to(tl.int64)
        q_len = (tl.load(cu_seqlens_q + request + 1) - first_token).to(tl.int32)
    if seqlens_q is not None:
        q_len = tl.load(seqlens_q + request)
    if block * BLOCK_M >= q_len * GROUP:
        return
    offset = 0
    if ends is not None:
        offset = tl.load(ends + request)
        k_len = tl.load(ends + request + 1) - offset
        if seqlens_k is not None:
            k_len = tl.maximum((k_len - 1) * page_size + tl.load(seqlens_k + request), 0)
            offset *= page_size
    else:
        k_len = tl.load(seqlens_k + request) + new_keys
        if first_key is not None:
            offset = tl.load(first_key + request)

    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    token, head = row // GROUP, kv_head * GROUP + row % GROUP
    real_row = token < q_len
    p = token + k_len - q_len
    column, v_column = tl.arange(0, QK_BLOCK), tl.arange(0, V_BLOCK)
    real_column, real_v = column < QK_DIM, v_column < V_DIM
    q_ptr = Q + (first_token + token)[:, None] * stride_qt + head[:, None] * stride_qh
    q = tl.load(q_ptr + column[None, :], mask=real_row[:, None] & real_column[None, :], other=0.0).to(COMPUTE)
    if QK_REST > 0:
        rest = QK_BLOCK + tl.arange(0, QK_REST)
        q_rest = tl.load(q_ptr + rest[None, :], mask=real_row[:, None], other=0.0).to(COMPUTE)
    if QV is not None:
        qv_ptr = QV + (first_token + token)[:, None] * stride_qvt + head[:, None] * stride_qvh + v_column[None, :]
        qv = tl.load(qv_ptr, mask=real_row[:, None] & real_v[None, :], other=0.0).to(COMPUTE)

    scale = sm_scale
    descale = request * stride_descale_b + kv_head * stride_descale_h
    if q_descale is not None:
        scale *= tl.load(q_descale + descale)
    if k_descale is not None:
        scale *= tl.load(k_descale + descale)
    if not HAS_CAP:
        scale *= LOG2_E
    ITEMS: tl.constexpr = prefix_lens is not None
    prefix, place = 0, p
    if ITEMS:
        prefix = tl.load(prefix_lens + request).to(tl.int32)
        after = real_row & (p >= prefix)
        place = tl.load(token_pos + request * stride_place + p - prefix, mask=after, other=0).to(tl.int32)

    # The keys that any row of this block sees, shared out evenly over the splits.
    p_first = block * BLOCK_M // GROUP + k_len - q_len
    p_last = tl.minimum(((block + 1) * BLOCK_M - 1) // GROUP, q_len - 1) + k_len - q_len
    begin = tl.maximum(p_first - left, 0) // BLOCK_N * BLOCK_N
    end = tl.minimum(k_len, p_last + right + 1)
    if CHUNKED:
        begin = tl.maximum(begin, tl.maximum(p_first, 0) // chunk * chunk // BLOCK_N * BLOCK_N)
    per_split = tl.cdiv(tl.cdiv(tl.maximum(end - begin, 0), splits), BLOCK_N) * BLOCK_N
    begin += split * per_split
    end = tl.minimum(begin + per_split, end)

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    accumulator = tl.zeros([BLOCK_M, V_BLOCK], tl.float32)
    for start in range(begin, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        inside = key < end
        at = key + offset
        if page_table is not None:
            page = tl.load(page_table + request * stride_table + at // page_size, mask=inside, other=0).to(tl.int64)
            entry = at % page_size
            k_row = page * stride_kp + entry * stride_kr
            v_row = page * stride_vp + entry * stride_vr
        else:
            k_row = at.to(tl.int64) * stride_kr
            v_row = at.to(tl.int64) * stride_vr
        k_ptr = K + k_row[:, None] + kv_head * stride_kh
        k = tl.load(k_ptr + column[None, :], mask=inside[:, None] & real_column[None, :], other=0.0).to(COMPUTE)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        if QK_REST > 0:
            k_rest = tl.load(k_ptr + rest[None, :], mask=inside[:, None], other=0.0).to(COMPUTE)
            qk = tl.dot(q_rest, tl.trans(k_rest), qk, input_precision="ieee")
        v_ptr = V + v_row[:, None] + kv_head * stride_vh + v_column[None, :]
        v = tl.load(v_ptr, mask=inside[:, None] & real_v[None, :], other=0.0).to(COMPUTE)
        if QV is not None:
            qk = tl.dot(qv, tl.trans(v), qk, input_precision="ieee")
        seen = _visible(p, key, end, left, right, chunk, prefix, place, CHUNKED, ITEMS) & real_row[:, None]
        qk = tl.where(seen, _capped(qk, scale, softcap, HAS_CAP), float("-inf"))
        new_top = tl.maximum(top, tl.max(qk, axis=1))
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        rescale = tl.exp2(top - shift)
        weight = tl.exp2(qk - shift[:, None])
        total = total * rescale + tl.sum(weight, axis=1)
        accumulator = tl.dot(weight.to(COMPUTE), v, accumulator * rescale[:, None], input_precision="ieee")
        top = new_top

    if sinks is not None and splits == 1:
        sink = tl.load(sinks + head, mask=real_row, other=0.0).to(tl.float32) * LOG2_E
        shift = tl.maximum(top, sink)
        rescale = tl.exp2(top - shift)
        accumulator = accumulator * rescale[:, None]
        total = total * rescale + tl.exp2(sink - shift)
        top = shift
    lse_ptr = Lse + split * stride_ls + head * stride_lh + (first_token + token) * stride_lt
    lse = top + tl.log2(total)
    tl.store(lse_ptr, lse if BASE2 else lse * LN_2, mask=real_row)
    # A row that saw no key accumulated nothing: O = 0 for any divisor.
    o = accumulator / tl.where(total == 0, 1.0, total)[:, None]
    if v_descale is not None:
        o *= tl.load(v_descale + descale)
    o_ptr = Out + split * stride_os + (first_token + token)[:, None] * stride_ot + head[:, None] * stride_oh
    tl.store(o_ptr + v_column[None, :], o.to(Out.dtype.element_ty), mask=real_row[:, None] & real_v[None, :])


@triton_kernel
def flash_attn_combine_kernel(
    Parts,
    Part_Lse,
    Out,
    Lse,
    sinks,
    stride_ps,
    stride_pt,
    stride_ph,
    stride_ls,
    stride_lh,
    stride_ot,
    stride_oh,
    stride_out_lh,
    stride_out_lt,
    splits,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    SINK_IN_LSE: tl.constexpr,
    EMPTY_LSE: tl.constexpr,
    BASE2: tl.constexpr = False,
):
    """One head of one token: its splits' outputs weighed by exp(lse), then the sink. Without keys LSE is EMPTY_LSE."""
    token, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = tl.arange(0, V_BLOCK)
    top = float("-inf")
    total = 0.0
    accumulator = tl.zeros([V_BLOCK], tl.float32)
    for split in range(splits):
        lse = tl.load(Part_Lse + split * stride_ls + head * stride_lh + token) * LOG2_E
        part = Parts + split * stride_ps + token * stride_pt + head * stride_ph
        o = tl.load(part + column, mask=column < V_DIM, other=0.0)
        new_top = tl.maximum(top, lse)
        shift = tl.where(new_top == float("-inf"), 0.0, new_top)
        rescale, weight = tl.exp2(top - shift), tl.exp2(lse - shift)
        accumulator = accumulator * rescale + weight * o
        total = total * rescale + weight
        top = new_top
    keys_alone = top + tl.log2(total)
    if sinks is not None:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        shift = tl.maximum(top, sink)
        rescale = tl.exp2(top - shift)
        accumulator = accumulator * rescale
        total = total * rescale + tl.exp2(sink - shift)
        top = shift
    lse = top + tl.log2(total) if SINK_IN_LSE else keys_alone
    lse = tl.where(lse == float("-inf"), EMPTY_LSE, lse if BASE2 else lse * LN_2)
    tl.store(Lse + head * stride_out_lh + token * stride_out_lt, lse)
    o = accumulator / tl.where(total == 0, 1.0, total)
    tl.store(Out + token * stride_ot + head * stride_oh + column, o.to(Out.dtype.element_ty), mask=column < V_DIM)
