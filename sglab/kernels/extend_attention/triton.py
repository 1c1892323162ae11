# mypy: disable-error-code="no-untyped-def"
"""Extend attention: a block of new tokens attends to the paged prefix, then to the new tokens themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import triton
import triton.language as tl

from sglab.kernels import devices
from sglab.kernels.extend_attention.contract import ExtendArguments
from sglab.kernels.fp8 import number_and_tensor
from sglab.kernels.scoring_triton import LN_2, LOG2_E, base2_logits, dim_blocks, xai_temperature
from sglab.triton import LaunchRecord, triton_kernel

HOPPER = 9
WARP_GROUPS = (9, 10)
"""Compute capabilities with products of warp groups, and 227 KB of shared memory for a CTA; others have 99 or 163."""


@triton_kernel
def _hide(
    qk,
    inside,
    q_position,
    k_position,
    mask_row,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
    WINDOW: tl.constexpr,
    AHEAD: tl.constexpr,
):
    """qk (queries, keys), −inf where `contract.Visibility` hides the key; `inside` marks the pairs that exist."""
    if MASKED:
        inside = tl.load(mask_row[:, None] + k_position[None, :], mask=inside, other=0) != 0
    if CAUSAL:
        inside = inside & (q_position[:, None] >= k_position[None, :])
    if WINDOW > 0:
        inside = inside & (q_position[:, None] <= k_position[None, :] + WINDOW)
    if AHEAD:
        inside = inside & (k_position[None, :] <= q_position[:, None] + WINDOW)
    return tl.where(inside, qk, float("-inf"))


@triton_kernel
def _softmax_step(qk, factor, v, top, total, accumulator):
    """One step of online softmax in base 2 over logits qk · factor; a row that has seen nothing yet keeps top = −inf.

    factor is positive, so the largest product makes the largest logit: each weight costs one multiply-add.
    """
    new_top = tl.maximum(top, tl.max(qk, axis=1) * factor)
    shift = tl.where(new_top == float("-inf"), 0.0, new_top)
    rescale = tl.exp2(top - shift)
    weight = tl.exp2(qk * tl.expand_dims(factor, 1) - shift[:, None])
    total = total * rescale + tl.sum(weight, axis=1)
    accumulator = tl.dot(weight.to(v.dtype), v, accumulator * rescale[:, None], input_precision="ieee")
    return new_top, total, accumulator


@triton_kernel
def extend_attention_kernel(
    Q_Extend,
    K_Extend,
    V_Extend,
    O_Extend,
    Lse,
    K_Buffer,
    V_Buffer,
    qo_indptr,
    kv_indptr,
    kv_indices,
    mask_ptr,
    mask_indptr,
    window_kv_offsets,
    sinks,
    k_scales,
    v_scales,
    sm_scale,
    k_scale,
    v_scale,
    stride_qbs,
    stride_qh,
    stride_kbs,
    stride_kh,
    stride_vbs,
    stride_vh,
    stride_obs,
    stride_oh,
    stride_buf_kbs,
    stride_buf_kh,
    stride_buf_vbs,
    stride_buf_vh,
    num_heads,
    GROUP: tl.constexpr,
    QK_DIM: tl.constexpr,
    QK_BLOCK: tl.constexpr,
    QK_REST: tl.constexpr,
    V_DIM: tl.constexpr,
    V_BLOCK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PREFIX_STAGES: tl.constexpr,
    CAUSAL: tl.constexpr,
    SKIP_PREFIX_MASK: tl.constexpr,
    HIDE_ALWAYS: tl.constexpr,
    WINDOW: tl.constexpr,
    LOGIT_CAP: tl.constexpr,
    TEMPERATURE_LEN: tl.constexpr,
):
    request, head = tl.program_id(0), tl.program_id(1)
    # Later blocks see more keys: they start first, so that the last programs to run are short ones.
    block = tl.num_programs(2) - 1 - tl.program_id(2)
    first_row = tl.load(qo_indptr + request).to(tl.int64)
    new_len = (tl.load(qo_indptr + request + 1) - first_row).to(tl.int32)
    if block * BLOCK_M >= new_len:
        return
    indices = kv_indices + tl.load(kv_indptr + request)
    prefix_len = tl.load(kv_indptr + request + 1) - tl.load(kv_indptr + request)
    kv_head = head // GROUP

    row = block * BLOCK_M + tl.arange(0, BLOCK_M)
    real_row = row < new_len
    q_position = prefix_len + row
    column, v_column = tl.arange(0, QK_BLOCK), tl.arange(0, V_BLOCK)
    real_column, real_v_column = column < QK_DIM, v_column < V_DIM
    q_ptr = Q_Extend + (first_row + row)[:, None] * stride_qbs + head * stride_qh
    q = tl.load(q_ptr + column[None, :], mask=real_row[:, None] & real_column[None, :], other=0.0)
    if QK_REST > 0:
        rest = QK_BLOCK + tl.arange(0, QK_REST)
        q_rest = tl.load(q_ptr + rest[None, :], mask=real_row[:, None], other=0.0)
    if k_scales is not None:
        k_scale = tl.load(k_scales + kv_head)
    if v_scales is not None:
        v_scale = tl.load(v_scales + kv_head)
    prefix_scale = sm_scale * k_scale
    temperature = tl.full([BLOCK_M], 1.0, tl.float32)
    if TEMPERATURE_LEN > 0:
        temperature = xai_temperature(q_position, TEMPERATURE_LEN)
    # A logit is q · k · factor, unless a cap bends it or scales of heads are a tensor, which may hold 0: then it is
    # worked out first, and its factor is 1.
    PLAIN: tl.constexpr = LOGIT_CAP == 0 and k_scales is None
    factor, prefix_factor = tl.full([BLOCK_M], 1.0, tl.float32), tl.full([BLOCK_M], 1.0, tl.float32)
    if PLAIN:
        factor = temperature * (sm_scale * LOG2_E)
        prefix_factor = temperature * (prefix_scale * LOG2_E)
    MASKED: tl.constexpr = mask_ptr is not None
    PREFIX_MASKED: tl.constexpr = MASKED and not SKIP_PREFIX_MASK
    last_position = prefix_len + tl.minimum(new_len, (block + 1) * BLOCK_M) - 1
    mask_row = q_position
    if MASKED:
        offset = 0
        if window_kv_offsets is not None:
            offset = tl.load(window_kv_offsets + request)
        width = (offset + prefix_len + new_len).to(tl.int64)
        mask_row = mask_ptr + tl.load(mask_indptr + request) + row * width + offset

    top = tl.full([BLOCK_M], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    accumulator = tl.zeros([BLOCK_M, V_BLOCK], tl.float32)

    # The prefix, through the page table. A window lets whole steps at its start be skipped. Most steps lie whole in
    # what all rows see: the others alone hide keys, but for mma.sync, whose products Triton chains in registers only
    # where no branch lies between them (HIDE_ALWAYS).
    first_key = 0
    if WINDOW > 0:
        first_key = tl.maximum(prefix_len + block * BLOCK_M - WINDOW, 0) // BLOCK_N * BLOCK_N
    for start in tl.range(first_key, prefix_len, BLOCK_N, num_stages=PREFIX_STAGES):
        position = start + tl.arange(0, BLOCK_N)
        inside = position < prefix_len
        slot = tl.load(indices + position, mask=inside, other=0).to(tl.int64)
        k_ptr = K_Buffer + slot[:, None] * stride_buf_kbs + kv_head * stride_buf_kh
        k = tl.load(k_ptr + column[None, :], mask=inside[:, None] & real_column[None, :], other=0.0).to(q.dtype)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        if QK_REST > 0:
            k_rest = tl.load(k_ptr + rest[None, :], mask=inside[:, None], other=0.0).to(q.dtype)
            qk = tl.dot(q_rest, tl.trans(k_rest), qk, input_precision="ieee")
        if not PLAIN:
            qk = base2_logits(qk, prefix_scale, temperature[:, None], LOGIT_CAP, TEMPERATURE_LEN > 0)
        edge = HIDE_ALWAYS or PREFIX_MASKED or start + BLOCK_N > prefix_len
        if WINDOW > 0:
            edge = edge or last_position > start + WINDOW
        if edge:
            pairs = real_row[:, None] & inside[None, :]
            qk = _hide(qk, pairs, q_position, position, mask_row, False, PREFIX_MASKED, WINDOW, False)
        v_ptr = V_Buffer + slot[:, None] * stride_buf_vbs + kv_head * stride_buf_vh + v_column[None, :]
        v = tl.load(v_ptr, mask=inside[:, None] & real_v_column[None, :], other=0.0).to(q.dtype)
        top, total, accumulator = _softmax_step(qk, prefix_factor, v, top, total, accumulator)

    accumulator *= v_scale

    # The new tokens, consecutive in k_extend; a causal block ends at its own last row, another's window behind that.
    AHEAD: tl.constexpr = WINDOW > 0 and not CAUSAL
    end, seen_by_all = new_len, new_len
    if CAUSAL and not MASKED:
        end = tl.minimum(new_len, (block + 1) * BLOCK_M)
        seen_by_all = block * BLOCK_M + 1
    if AHEAD:
        end = tl.minimum(new_len, (block + 1) * BLOCK_M + WINDOW)
        seen_by_all = tl.minimum(new_len, block * BLOCK_M + WINDOW + 1)
    first_key = 0
    if WINDOW > 0:
        first_key = tl.maximum(block * BLOCK_M - WINDOW, 0) // BLOCK_N * BLOCK_N
    for start in range(first_key, end, BLOCK_N):
        key = start + tl.arange(0, BLOCK_N)
        inside = key < end
        source = (first_row + key)[:, None]
        k_ptr = K_Extend + source * stride_kbs + kv_head * stride_kh
        k = tl.load(k_ptr + column[None, :], mask=inside[:, None] & real_column[None, :], other=0.0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee")
        if QK_REST > 0:
            k_rest = tl.load(k_ptr + rest[None, :], mask=inside[:, None], other=0.0)
            qk = tl.dot(q_rest, tl.trans(k_rest), qk, input_precision="ieee")
        if not PLAIN:
            qk = base2_logits(qk, sm_scale, temperature[:, None], LOGIT_CAP, TEMPERATURE_LEN > 0)
        edge = HIDE_ALWAYS or MASKED or start + BLOCK_N > seen_by_all
        if WINDOW > 0:
            edge = edge or last_position > prefix_len + start + WINDOW
        if edge:
            pairs = real_row[:, None] & inside[None, :]
            above = CAUSAL and not MASKED
            qk = _hide(qk, pairs, q_position, prefix_len + key, mask_row, above, MASKED, WINDOW, AHEAD)
        v_ptr = V_Extend + source * stride_vbs + kv_head * stride_vh + v_column[None, :]
        v = tl.load(v_ptr, mask=inside[:, None] & real_v_column[None, :], other=0.0)
        top, total, accumulator = _softmax_step(qk, factor, v, top, total, accumulator)

    if Lse is not None:
        tl.store(Lse + (first_row + row) * num_heads + head, (top + tl.log2(total)) * LN_2, mask=real_row)
    if sinks is not None:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        shift = tl.maximum(top, sink)
        accumulator = accumulator * tl.exp2(top - shift)[:, None]
        total = total * tl.exp2(top - shift) + tl.exp2(sink - shift)
    # A row that saw no key accumulated nothing: O = 0 for any divisor.
    o = accumulator / tl.where(total == 0, 1.0, total)[:, None]
    o_ptr = O_Extend + (first_row + row)[:, None] * stride_obs + head * stride_oh + v_column[None, :]
    tl.store(o_ptr, o.to(O_Extend.dtype.element_ty), mask=real_row[:, None] & real_v_column[None, :])


@dataclass(frozen=True)
class ExtendTile:
    """New tokens × keys of one step, warps, stages of the load pipeline."""

    rows: int
    keys: int
    num_warps: int
    num_stages: int
    prefix_stages: int = 1
    """Of the prefix: there a load waits for the load of its slot, so it takes one stage more to run as far ahead."""


def extend_tile(qk_dim: int, v_dim: int, element_size: int, masked: bool, capability: int) -> ExtendTile:
    """Tile for head dimensions, such that ptxas reports next to no spills for sm_80, sm_90 and sm_100."""
    if element_size == 4:
        return ExtendTile(rows=16, keys=32 if qk_dim <= 256 else 16, num_warps=8, num_stages=1)
    tile = _any_tile(qk_dim)
    if capability == HOPPER and not masked:  # a mask's tile takes shared memory and registers, too
        tile = _hopper_tile(qk_dim, v_dim)
    return replace(tile, prefix_stages=tile.num_stages + (capability in WARP_GROUPS))


def _any_tile(qk_dim: int) -> ExtendTile:
    if qk_dim > 256:
        return ExtendTile(rows=32, keys=32, num_warps=8, num_stages=2)
    if qk_dim > 192:
        return ExtendTile(rows=64, keys=64, num_warps=8, num_stages=2)
    return ExtendTile(rows=128, keys=64, num_warps=8, num_stages=3 if qk_dim <= 128 else 2)


def _hopper_tile(qk_dim: int, v_dim: int) -> ExtendTile:
    """The fastest of some six each that were tried (docs/performance.md): wide products, as shared memory allows."""
    if qk_dim > 256:
        return ExtendTile(rows=64, keys=32, num_warps=8, num_stages=2)
    if qk_dim > 192 or v_dim > 128:
        return ExtendTile(rows=128, keys=64, num_warps=8, num_stages=2)
    if qk_dim > 64:
        return ExtendTile(rows=128, keys=128, num_warps=8, num_stages=2)
    return ExtendTile(rows=64, keys=128, num_warps=4, num_stages=3)


def run(arguments: ExtendArguments) -> tuple[LaunchRecord, ...]:
    q, k, v, o = arguments.q_extend, arguments.k_extend, arguments.v_extend, arguments.o_extend
    k_buffer, v_buffer = arguments.k_buffer, arguments.v_buffer
    visibility, scoring = arguments.visibility, arguments.scoring
    heads, qk_dim, v_dim = q.shape[1], q.shape[2], v.shape[2]
    (k_scale, k_scales), (v_scale, v_scales) = (number_and_tensor(x) for x in (arguments.k_scale, arguments.v_scale))
    block, rest = dim_blocks(qk_dim)
    masked, capability = visibility.custom_mask is not None, devices.capability(arguments.device)[0]
    tile = extend_tile(qk_dim, v_dim, q.element_size(), masked, capability)
    record = extend_attention_kernel[(arguments.batch, heads, triton.cdiv(arguments.max_len_extend, tile.rows))](
        *(q, k, v, o, arguments.lse, k_buffer, v_buffer),
        *(arguments.qo_indptr, arguments.kv_indptr, arguments.kv_indices),
        *(visibility.custom_mask, visibility.mask_indptr, visibility.window_kv_offsets),
        *(scoring.sinks, k_scales, v_scales, scoring.sm_scale, k_scale, v_scale),
        *(q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1), o.stride(0), o.stride(1)),
        *(k_buffer.stride(0), k_buffer.stride(1), v_buffer.stride(0), v_buffer.stride(1)),
        heads,
        GROUP=arguments.group,
        QK_DIM=qk_dim,
        QK_BLOCK=block,
        QK_REST=rest,
        V_DIM=v_dim,
        V_BLOCK=max(16, triton.next_power_of_2(v_dim)),
        BLOCK_M=tile.rows,
        BLOCK_N=tile.keys,
        PREFIX_STAGES=tile.prefix_stages,
        CAUSAL=visibility.is_causal,
        SKIP_PREFIX_MASK=visibility.skip_prefix_custom_mask,
        HIDE_ALWAYS=capability not in WARP_GROUPS,
        WINDOW=max(visibility.sliding_window_size, 0),
        LOGIT_CAP=scoring.logit_cap,
        TEMPERATURE_LEN=max(scoring.xai_temperature_len, 0),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    return (record,)
