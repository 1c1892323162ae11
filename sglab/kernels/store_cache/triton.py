# mypy: disable-error-code="no-untyped-def"
"""store_cache: one program copies one token's key row and value row."""

from __future__ import annotations

import torch
import triton.language as tl

from sglab.kernels.store_cache.contract import StoreArguments
from sglab.planning.arith import next_power_of_two
from sglab.triton import LaunchRecord, triton_kernel

_BYTES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@triton_kernel
def store_cache_kernel(
    k_ptr,
    v_ptr,
    k_cache_ptr,
    v_cache_ptr,
    indices_ptr,
    k_stride,
    v_stride,
    k_cache_stride,
    v_cache_stride,
    limit,
    skip,
    width: tl.constexpr,
    v_width: tl.constexpr,
    BLOCK: tl.constexpr,
    V_BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(indices_ptr + token).to(tl.int64)
    # The slot is within limits or the row is dropped; the caller's contract has checked it where values can be read.
    written = (slot != skip) & (slot >= 0) & (slot < limit)
    column = tl.arange(0, BLOCK)
    v_column = tl.arange(0, V_BLOCK)
    inside = (column < width) & written
    v_inside = (v_column < v_width) & written
    row = tl.load(k_ptr + token * k_stride + column, mask=inside)
    v_row = tl.load(v_ptr + token * v_stride + v_column, mask=v_inside)
    tl.store(k_cache_ptr + slot * k_cache_stride + column, row, mask=inside)
    tl.store(v_cache_ptr + slot * v_cache_stride + v_column, v_row, mask=v_inside)


def run(arguments: StoreArguments) -> tuple[LaunchRecord, ...]:
    # A copy needs no arithmetic: moving the elements as integers of their size serves every dtype.
    k_type, v_type = _BYTES[arguments.k.element_size()], _BYTES[arguments.v.element_size()]
    width, v_width = arguments.k.shape[1], arguments.v.shape[1]
    record = store_cache_kernel[(len(arguments.indices),)](
        arguments.k.view(k_type),
        arguments.v.view(v_type),
        arguments.k_cache.view(k_type),
        arguments.v_cache.view(v_type),
        arguments.indices,
        arguments.k.stride(0),
        arguments.v.stride(0),
        arguments.k_cache.stride(0),
        arguments.v_cache.stride(0),
        arguments.limit,
        arguments.skip,
        width=width,
        v_width=v_width,
        BLOCK=next_power_of_two(width),
        V_BLOCK=next_power_of_two(v_width),
        num_warps=arguments.warps,
    )
    return (record,)
