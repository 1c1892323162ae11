# mypy: disable-error-code="no-untyped-def"
"""The index kernels: one program per request walks its row of req_to_token in vector steps."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.kv_indices.contract import FlashInferArguments, FlashMLAIndicesArguments
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def create_flashinfer_kv_indices_triton(
    req_to_token_ptr,
    req_pool_indices_ptr,
    page_kernel_lens_ptr,
    kv_indptr,
    kv_start_idx,
    kv_indices_ptr,
    req_to_token_ptr_stride,
):
    STEP: tl.constexpr = 512
    request = tl.program_id(0)
    length = tl.load(page_kernel_lens_ptr + request).to(tl.int32)
    # A pool of many long requests has more than 2^31 entries.
    row = tl.load(req_pool_indices_ptr + request).to(tl.int64)
    source = req_to_token_ptr + row * req_to_token_ptr_stride
    if kv_start_idx is not None:
        source += tl.load(kv_start_idx + request)
    destination = kv_indices_ptr + tl.load(kv_indptr + request)
    for first in range(0, length, STEP):
        token = first + tl.arange(0, STEP)
        inside = token < length
        slots = tl.load(source + token, mask=inside)
        tl.store(destination + token, slots, mask=inside)


@triton_kernel
def create_flashmla_kv_indices_triton(
    req_to_token_ptr,
    req_pool_indices_ptr,
    page_kernel_lens_ptr,
    kv_start_idx,
    kv_indices_ptr,
    req_to_token_ptr_stride,
    kv_indices_ptr_stride,
    PAGED_SIZE: tl.constexpr = 64,
):
    PAGES_PER_STEP: tl.constexpr = 4096 // PAGED_SIZE
    request = tl.program_id(0)
    length = tl.load(page_kernel_lens_ptr + request).to(tl.int32)
    num_pages = tl.cdiv(length, PAGED_SIZE)
    row = tl.load(req_pool_indices_ptr + request).to(tl.int64)
    source = req_to_token_ptr + row * req_to_token_ptr_stride
    if kv_start_idx is not None:
        source += tl.load(kv_start_idx + request)
    destination = kv_indices_ptr + request.to(tl.int64) * kv_indices_ptr_stride
    for first in range(0, num_pages, PAGES_PER_STEP):
        page = first + tl.arange(0, PAGES_PER_STEP)
        inside = page < num_pages
        # The slot of a page's first token, divided by the page size, is the page: pages are allocated whole.
        first_slot = tl.load(source + page * PAGED_SIZE, mask=inside)
        tl.store(destination + page, first_slot // PAGED_SIZE, mask=inside)


def flashinfer(arguments: FlashInferArguments) -> tuple[LaunchRecord, ...]:
    record = create_flashinfer_kv_indices_triton[(len(arguments.page_kernel_lens),)](
        arguments.req_to_token,
        arguments.req_pool_indices,
        arguments.page_kernel_lens,
        arguments.kv_indptr,
        arguments.kv_start_idx,
        arguments.kv_indices,
        arguments.req_to_token.stride(0),
        num_warps=4,
    )
    return (record,)


def flashmla(arguments: FlashMLAIndicesArguments) -> tuple[LaunchRecord, ...]:
    record = create_flashmla_kv_indices_triton[(len(arguments.page_kernel_lens),)](
        arguments.req_to_token,
        arguments.req_pool_indices,
        arguments.page_kernel_lens,
        arguments.kv_start_idx,
        arguments.kv_indices,
        arguments.req_to_token.stride(0),
        arguments.kv_indices.stride(0),
        PAGED_SIZE=arguments.page_size,
        num_warps=4,
    )
    return (record,)
