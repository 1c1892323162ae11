"""From request to slot or page: the two index kernels that attention backends run before a batch."""

from __future__ import annotations

import torch

from sglab.kernels.kv_indices.contract import check_flashinfer, check_flashmla
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

flashinfer_operator = Operator(
    "create_flashinfer_kv_indices",
    Implementation("triton", "sglab.kernels.kv_indices.triton:flashinfer", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.kv_indices.reference:flashinfer", EVERYWHERE),
)
flashmla_operator = Operator(
    "create_flashmla_kv_indices",
    Implementation("triton", "sglab.kernels.kv_indices.triton:flashmla", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.kv_indices.reference:flashmla", EVERYWHERE),
)


def create_flashinfer_kv_indices(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    page_kernel_lens: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_start_idx: torch.Tensor | None = None,
    kv_indices: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Gather the token slots of a batch into one CSR array, as FlashInfer and the Triton backend read it.

    For request i: kv_indices[kv_indptr[i] + t] = req_to_token[req_pool_indices[i], kv_start_idx[i] + t] for t in
    0 … page_kernel_lens[i] − 1. One program per request, 512 tokens per vector step. Other entries stay as they are.

    Returns kv_indices. Raises ContractError. After SGLang's kernel create_flashinfer_kv_indices_triton.

    Args:
        req_to_token: (requests, max_context_len) int32, the slot of every position of every request.
        req_pool_indices: (batch,) int32 or int64, rows of req_to_token.
        page_kernel_lens: (batch,) int32 or int64, tokens to take per request (0 is allowed).
        kv_indptr: (≥ batch + 1,) int32 or int64, where each request starts in kv_indices; an input.
        kv_start_idx: (batch,) first position to take, or None for 0.
        kv_indices: the output, int32 or int64, at least kv_indptr[batch] long; allocated as int32 if None.
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    arguments = check_flashinfer(
        req_to_token, req_pool_indices, page_kernel_lens, kv_indptr, kv_start_idx, kv_indices, check_values
    )
    flashinfer_operator(arguments, implementation)
    return arguments.kv_indices


def create_flashmla_kv_indices(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    page_kernel_lens: torch.Tensor,
    kv_start_idx: torch.Tensor | None = None,
    kv_indices: torch.Tensor | None = None,
    *,
    page_size: int = 64,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Build a page table (block table): one row of page numbers per request, as FlashMLA and CUTLASS MLA read it.

    For request i: kv_indices[i, j] = req_to_token[req_pool_indices[i], kv_start_idx[i] + j·page_size] // page_size for
    j in 0 … ceil(page_kernel_lens[i] / page_size) − 1. Later entries of the row stay as they are. One program per
    request, 4096 tokens = 4096 / page_size pages per vector step.

    Returns kv_indices. Raises ContractError. After SGLang's kernel create_flashmla_kv_indices_triton.

    Args:
        req_to_token, req_pool_indices, page_kernel_lens, kv_start_idx: as for create_flashinfer_kv_indices;
            kv_start_idx in multiples of page_size.
        kv_indices: the output, (batch, pages) int32; if None, allocated with −1 in every entry and just wide enough for
            the longest request.
        page_size: a power of two from 1 to 4096. Slots must be page-aligned: slot % page_size == position % page_size.
        check_values: also check contents, alignment included (see `sglab.kernels.contract.reads_values`).
    """
    arguments = check_flashmla(
        req_to_token, req_pool_indices, page_kernel_lens, kv_start_idx, kv_indices, page_size, check_values
    )
    flashmla_operator(arguments, implementation)
    return arguments.kv_indices
