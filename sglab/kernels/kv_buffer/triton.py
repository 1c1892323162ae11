# mypy: disable-error-code="no-untyped-def"
"""set_mla_kv_buffer: one program scatters one token, 512 latent elements and 64 rotary ones."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels.kv_buffer.contract import BufferArguments
from sglab.triton import LaunchRecord, triton_kernel

_BYTES = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


@triton_kernel
def set_mla_kv_buffer_kernel(
    kv_buffer_ptr,
    cache_k_nope_ptr,
    cache_k_rope_ptr,
    loc_ptr,
    buffer_stride,
    nope_stride,
    rope_stride,
    nope_dim: tl.constexpr,
    rope_dim: tl.constexpr,
    NOPE_BLOCK: tl.constexpr,
    ROPE_BLOCK: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(loc_ptr + token).to(tl.int64)
    destination = kv_buffer_ptr + slot * buffer_stride
    latent = tl.arange(0, NOPE_BLOCK)
    rotary = tl.arange(0, ROPE_BLOCK)
    nope = tl.load(cache_k_nope_ptr + token * nope_stride + latent, mask=latent < nope_dim)
    rope = tl.load(cache_k_rope_ptr + token * rope_stride + rotary, mask=rotary < rope_dim)
    tl.store(destination + latent, nope, mask=latent < nope_dim)
    tl.store(destination + nope_dim + rotary, rope, mask=rotary < rope_dim)


def run(arguments: BufferArguments) -> tuple[LaunchRecord, ...]:
    nope_dim, rope_dim = arguments.cache_k_nope.shape[1], arguments.cache_k_rope.shape[1]
    # A copy needs no arithmetic: moving the elements as integers of their size serves every dtype, fp8 included.
    integers = _BYTES[arguments.kv_buffer.element_size()]
    record = set_mla_kv_buffer_kernel[(len(arguments.loc),)](
        arguments.kv_buffer.view(integers),
        arguments.cache_k_nope.view(integers),
        arguments.cache_k_rope.view(integers),
        arguments.loc,
        arguments.kv_buffer.stride(0),
        arguments.cache_k_nope.stride(0),
        arguments.cache_k_rope.stride(0),
        nope_dim=nope_dim,
        rope_dim=rope_dim,
        NOPE_BLOCK=triton.next_power_of_2(nope_dim),
        ROPE_BLOCK=triton.next_power_of_2(rope_dim),
        num_warps=1,
    )
    return (record,)
