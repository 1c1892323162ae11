# mypy: disable-error-code="no-untyped-def"
"""The merges: one program merges a tile of rows, a row being one head of one token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels.merge.contract import PairArguments, Rule, StatesArguments
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def _max_number(a, b):
    """The larger; a NaN loses against a number, as CUDA's fmaxf has it."""
    return tl.where(a != a, b, tl.where(b != b, a, tl.maximum(a, b)))


@triton_kernel
def _power(x, NATURAL: tl.constexpr):
    return tl.exp(x) if NATURAL else tl.exp2(x)


@triton_kernel
def _logarithm(x, NATURAL: tl.constexpr):
    return tl.log(x) if NATURAL else tl.log2(x)


@triton_kernel
def _pair_weights(a, b, V2: tl.constexpr, GUARDED: tl.constexpr, NATURAL: tl.constexpr):
    """Share of each side, and the merged LSE. contract.Rule explains the rules."""
    if V2:
        a = tl.where(a == float("inf"), float("-inf"), a)
        b = tl.where(b == float("inf"), float("-inf"), b)
        top = tl.maximum(a, b)
        if GUARDED:
            top = tl.where(top == float("-inf"), 0.0, top)
        weight_a, weight_b = tl.exp(a - top), tl.exp(b - top)
        total = weight_a + weight_b
        scale = 1.0 / total
        if GUARDED:
            scale = tl.where(total == 0, 0.0, scale)
    else:
        top = _max_number(a, b)
        weight_a = _power(_max_number(a - top, float("-inf")), NATURAL)
        weight_b = _power(_max_number(b - top, float("-inf")), NATURAL)
        total = weight_a + weight_b
        scale = tl.where(total > 0, 1.0 / total, 0.0)
    return weight_a * scale, weight_b * scale, _logarithm(total, NATURAL) + top


@triton_kernel
def merge_state_kernel(
    v_a_ptr,
    s_a_ptr,
    v_b_ptr,
    s_b_ptr,
    v_merged_ptr,
    s_merged_ptr,
    mask_ptr,
    num_rows,
    num_heads,
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    V2: tl.constexpr,
    GUARDED: tl.constexpr,
    NATURAL: tl.constexpr,
    IN_PLACE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    active = row < num_rows
    if mask_ptr is not None:
        active &= tl.load(mask_ptr + row // num_heads, mask=active, other=0) != 0
    column = tl.arange(0, HEAD_DIM_BLOCK)
    element = row[:, None] * HEAD_DIM + column[None, :]
    inside = active[:, None] & (column < HEAD_DIM)[None, :]

    v_a = tl.load(v_a_ptr + element, mask=inside, other=0.0).to(tl.float32)
    v_b = tl.load(v_b_ptr + element, mask=inside, other=0.0).to(tl.float32)
    s_a = tl.load(s_a_ptr + row, mask=active, other=0.0)
    s_b = tl.load(s_b_ptr + row, mask=active, other=0.0)
    share_a, share_b, s_merged = _pair_weights(s_a, s_b, V2, GUARDED, NATURAL)
    if GUARDED:
        # An empty partial's V may hold anything; multiplying NaN by its share of 0 would let it through.
        v_a = tl.where(tl.abs(s_a)[:, None] == float("inf"), 0.0, v_a)
        v_b = tl.where(tl.abs(s_b)[:, None] == float("inf"), 0.0, v_b)
    if IN_PLACE:
        # A row's LSE is read by several warps and written by one: all must have read before it writes.
        tl.debug_barrier()
    v_merged = v_a * share_a[:, None] + v_b * share_b[:, None]
    tl.store(v_merged_ptr + element, v_merged.to(v_merged_ptr.dtype.element_ty), mask=inside)
    tl.store(s_merged_ptr + row, s_merged, mask=active)


@triton_kernel
def merge_states_kernel(
    v_ptr,
    s_ptr,
    v_merged_ptr,
    s_merged_ptr,
    num_rows,
    num_states,
    num_heads,
    HEAD_DIM: tl.constexpr,
    HEAD_DIM_BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    NATURAL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    active = row < num_rows
    # Row (token, head) of the result merges rows (token, 0 … n - 1, head) of the input.
    first = row // num_heads * num_states * num_heads + row % num_heads
    column = tl.arange(0, HEAD_DIM_BLOCK)
    inside = active[:, None] & (column < HEAD_DIM)[None, :]

    top = tl.full([ROWS], float("-inf"), tl.float32)
    for state in range(num_states):
        top = _max_number(top, tl.load(s_ptr + first + state * num_heads, mask=active, other=0.0))
    # With the maximum known in advance nothing is rescaled, and the loads of all states are independent.
    total = tl.zeros([ROWS], tl.float32)
    accumulator = tl.zeros([ROWS, HEAD_DIM_BLOCK], tl.float32)
    for state in tl.range(0, num_states, loop_unroll_factor=4):
        source = first + state * num_heads
        s = tl.load(s_ptr + source, mask=active, other=0.0)
        weight = _power(_max_number(s - top, float("-inf")), NATURAL)
        v = tl.load(v_ptr + source[:, None] * HEAD_DIM + column[None, :], mask=inside, other=0.0)
        accumulator += weight[:, None] * v.to(tl.float32)
        total += weight
    scale = tl.where(total > 0, 1.0 / total, 0.0)
    v_merged = accumulator * scale[:, None]
    element = row[:, None] * HEAD_DIM + column[None, :]
    tl.store(v_merged_ptr + element, v_merged.to(v_merged_ptr.dtype.element_ty), mask=inside)
    tl.store(s_merged_ptr + row, _logarithm(total, NATURAL) + top, mask=active)


def _tile(v: torch.Tensor, elements: int) -> dict[str, int]:
    """Rows per program so that a tile has about `elements` elements, and the padded head dimension."""
    head_dim = v.shape[-1]
    block = triton.next_power_of_2(max(head_dim, 1))
    return {"HEAD_DIM": head_dim, "HEAD_DIM_BLOCK": block, "ROWS": max(1, elements // block)}


def pair(arguments: PairArguments) -> tuple[LaunchRecord, ...]:
    tile = _tile(arguments.v_a, 8192 // arguments.v_a.element_size())
    rows = arguments.s_merged.numel()
    record = merge_state_kernel[(triton.cdiv(rows, tile["ROWS"]),)](
        arguments.v_a,
        arguments.s_a,
        arguments.v_b,
        arguments.s_b,
        arguments.v_merged,
        arguments.s_merged,
        arguments.mask,
        rows,
        arguments.s_merged.shape[1],
        **tile,
        V2=arguments.rule in {Rule.V2, Rule.V2_GUARDED},
        GUARDED=arguments.rule is Rule.V2_GUARDED,
        NATURAL=arguments.rule is not Rule.BASE2,
        IN_PLACE=arguments.in_place,
        num_warps=4,
    )
    return (record,)


def states(arguments: StatesArguments) -> tuple[LaunchRecord, ...]:
    tile = _tile(arguments.v, 4096 // arguments.v.element_size())
    rows = arguments.s_merged.numel()
    record = merge_states_kernel[(triton.cdiv(rows, tile["ROWS"]),)](
        arguments.v,
        arguments.s,
        arguments.v_merged,
        arguments.s_merged,
        rows,
        arguments.s.shape[1],
        arguments.s.shape[2],
        **tile,
        NATURAL=arguments.rule is not Rule.BASE2,
        num_warps=4,
    )
    return (record,)
