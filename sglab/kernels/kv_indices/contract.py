"""What the index kernels ask of their arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, INT32, Contract, reads_values

TOKENS_PER_STEP = 4096
"""Tokens that one vector step of the page-table kernel covers, whatever the page size."""


@dataclass(frozen=True)
class FlashInferArguments:
    """Checked arguments of create_flashinfer_kv_indices; `kv_indices` is the output."""

    req_to_token: torch.Tensor
    req_pool_indices: torch.Tensor
    page_kernel_lens: torch.Tensor
    kv_indptr: torch.Tensor
    kv_start_idx: torch.Tensor | None
    kv_indices: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.req_to_token.device


@dataclass(frozen=True)
class FlashMLAIndicesArguments:
    """Checked arguments of create_flashmla_kv_indices; `kv_indices` is the output."""

    req_to_token: torch.Tensor
    req_pool_indices: torch.Tensor
    page_kernel_lens: torch.Tensor
    kv_start_idx: torch.Tensor | None
    kv_indices: torch.Tensor
    page_size: int

    @property
    def device(self) -> torch.device:
        return self.req_to_token.device


def check_flashinfer(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    page_kernel_lens: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_start_idx: torch.Tensor | None,
    kv_indices: torch.Tensor | None,
    check_values: bool | None,
) -> FlashInferArguments:
    contract = Contract("create_flashinfer_kv_indices")
    _check_requests(contract, req_to_token, req_pool_indices, page_kernel_lens, kv_start_idx)
    contract.tensor("kv_indptr", kv_indptr, "indptr", INDEX)
    batch = contract.size("batch")
    contract.require(
        len(kv_indptr) > batch,
        "kv_indptr",
        f"at least batch + 1 = {batch + 1} long",
        f"length {len(kv_indptr)}",
        "Prepend 0 to the cumulative sum of page_kernel_lens.",
    )
    if kv_indices is None:
        kv_indices = torch.empty(max(int(kv_indptr[batch]), 0), dtype=torch.int32, device=req_to_token.device)
    contract.tensor("kv_indices", kv_indices, "indices", INDEX)
    arguments = FlashInferArguments(
        req_to_token, req_pool_indices, page_kernel_lens, kv_indptr, kv_start_idx, kv_indices
    )
    if reads_values(check_values, arguments.device):
        _check_request_values(contract, arguments)
        _check_indptr(contract, arguments)
    return arguments


def _check_indptr(contract: Contract, arguments: FlashInferArguments) -> None:
    batch, lens, indices = contract.size("batch"), arguments.page_kernel_lens, arguments.kv_indices
    starts, ends = arguments.kv_indptr[:batch].long(), arguments.kv_indptr[1 : batch + 1].long()
    remedy = "It is the cumulative sum of page_kernel_lens with a leading 0."
    contract.elements("kv_indptr", starts >= 0, "0 or more", starts, remedy)
    room = "such that request i's page_kernel_lens[i] entries fit between kv_indptr[i] and kv_indptr[i + 1]"
    contract.elements("page_kernel_lens", lens <= ends - starts, room, lens, "Recompute kv_indptr.")
    contract.elements(
        "kv_indptr", ends <= len(indices), f"at most len(kv_indices) = {len(indices)}", ends, "Allocate kv_indptr[-1]."
    )


def check_flashmla(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    page_kernel_lens: torch.Tensor,
    kv_start_idx: torch.Tensor | None,
    kv_indices: torch.Tensor | None,
    page_size: int,
    check_values: bool | None,
) -> FlashMLAIndicesArguments:
    contract = Contract("create_flashmla_kv_indices")
    _check_page_size(contract, page_size)
    _check_requests(contract, req_to_token, req_pool_indices, page_kernel_lens, kv_start_idx)
    if kv_indices is None:
        longest = int(page_kernel_lens.max()) if len(page_kernel_lens) else 0
        shape = (len(page_kernel_lens), -(-longest // page_size))
        kv_indices = torch.full(shape, -1, dtype=torch.int32, device=req_to_token.device)
    contract.tensor("kv_indices", kv_indices, "batch pages", INT32)
    arguments = FlashMLAIndicesArguments(
        req_to_token, req_pool_indices, page_kernel_lens, kv_start_idx, kv_indices, page_size
    )
    if reads_values(check_values, arguments.device):
        _check_request_values(contract, arguments)
        capacity = kv_indices.shape[1] * page_size
        contract.elements(
            "page_kernel_lens",
            page_kernel_lens <= capacity,
            f"at most {capacity} tokens, the {kv_indices.shape[1]} pages of {page_size} that a row of kv_indices holds",
            page_kernel_lens,
            "Allocate ceil(max(page_kernel_lens) / page_size) columns; a longer request would write into the next row.",
        )
        _check_start(contract, arguments)
        _check_page_alignment(contract, arguments)
    return arguments


def _check_page_size(contract: Contract, page_size: int) -> None:
    contract.require(
        1 <= page_size <= TOKENS_PER_STEP and page_size & (page_size - 1) == 0,
        "page_size",
        f"a power of two from 1 to {TOKENS_PER_STEP}",
        page_size,
        f"The kernel writes {TOKENS_PER_STEP} / page_size entries per step; use 1, 2, 4 … {TOKENS_PER_STEP}.",
    )


def _check_requests(
    contract: Contract,
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    page_kernel_lens: torch.Tensor,
    kv_start_idx: torch.Tensor | None,
) -> None:
    contract.tensor("req_to_token", req_to_token, "requests context", INT32)
    contract.tensor("req_pool_indices", req_pool_indices, "batch", INDEX)
    contract.tensor("page_kernel_lens", page_kernel_lens, "batch", INDEX)
    if kv_start_idx is not None:
        contract.tensor("kv_start_idx", kv_start_idx, "batch", INDEX)


def _check_request_values(contract: Contract, arguments: FlashInferArguments | FlashMLAIndicesArguments) -> None:
    requests, context = arguments.req_to_token.shape
    rows, lens, start = arguments.req_pool_indices, arguments.page_kernel_lens, arguments.kv_start_idx
    contract.elements(
        "req_pool_indices",
        (rows >= 0) & (rows < requests),
        f"from 0 to {requests - 1}, the rows of req_to_token",
        rows,
        "Pass indices that ReqToTokenPool.alloc returned.",
    )
    contract.elements("page_kernel_lens", lens >= 0, "0 or more", lens, "Lengths count tokens.")
    first = torch.zeros_like(lens) if start is None else start
    contract.elements("kv_start_idx", first >= 0, "0 or more", first, "It is the first position to take.")
    contract.elements(
        "page_kernel_lens",
        first + lens <= context,
        f"such that kv_start_idx + page_kernel_lens is at most {context}, the width of req_to_token",
        lens,
        "Shorten the request or enlarge max_context_len.",
    )


def _check_start(contract: Contract, arguments: FlashMLAIndicesArguments) -> None:
    """From the middle of a page on, length / page_size pages are one too few, and the last would be missing."""
    start, page = arguments.kv_start_idx, arguments.page_size
    if start is not None:
        remedy = "Start at the page's first token and mask what comes before, or use create_flashinfer_kv_indices."
        contract.elements("kv_start_idx", start % page == 0, f"a multiple of page_size {page}", start, remedy)


def _check_page_alignment(contract: Contract, arguments: FlashMLAIndicesArguments) -> None:
    """Position p of a request must sit in row p % page_size of its page, or slot // page_size names a wrong page."""
    page = arguments.page_size
    for request, (row, length, start) in enumerate(request_ranges(arguments)):
        positions = torch.arange(start, start + length, page, device=arguments.device)
        slots = arguments.req_to_token[row, start : start + length : page]
        wrong = torch.nonzero(slots % page != positions % page)
        if len(wrong):
            position, slot = int(positions[wrong[0]]), int(slots[wrong[0]])
            contract.fail(
                "req_to_token",
                f"page-aligned (slot % {page} == position % {page}) for request {request}",
                f"slot {slot} at position {position}",
                "Allocate slots page by page, with a paged allocator; pass check_values=False to see what the kernel "
                "returns for an unaligned table.",
            )


def request_ranges(arguments: FlashInferArguments | FlashMLAIndicesArguments) -> list[tuple[int, int, int]]:
    """(row of req_to_token, length, first position) of every request."""
    lens = arguments.page_kernel_lens.tolist()
    starts = [0] * len(lens) if arguments.kv_start_idx is None else arguments.kv_start_idx.tolist()
    return list(zip(arguments.req_pool_indices.tolist(), lens, starts, strict=True))
