"""The tokens that sparse attention reads: the best k scores of each query, as positions, slots or ragged rows.

Which k is defined, in which order is not; here results ascend, and of equal scores the earlier tokens are taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.kernels.contract import Contract
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.topk.contract import check_lookup, check_topk

__all__ = [
    "fast_topk_transform_fused",
    "fast_topk_transform_ragged_fused",
    "fast_topk_v2",
    "transform_index_page_table_decode",
    "transform_index_page_table_prefill",
]


topk_operator = Operator(
    "fast_topk",
    Implementation("triton", "sglab.kernels.topk.triton:topk", GPU, needs_triton),
    Implementation("torch", "sglab.kernels.topk.reference:topk_sorted", EVERYWHERE),
    Implementation("reference", "sglab.kernels.topk.reference:topk", EVERYWHERE),
)
lookup_operator = Operator(
    "transform_index_page_table",
    Implementation("triton", "sglab.kernels.topk.triton:lookup", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.topk.reference:lookup", EVERYWHERE),
)


def fast_topk_v2(
    score: torch.Tensor,
    lengths: torch.Tensor,
    topk: int = 2048,
    row_starts: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """The positions of each row's best scores. After sgl-kernel.

    Args:
        score: (rows, width) float32.
        lengths: (rows,) int32: a row's scores are score[r, row_starts[r] : row_starts[r] + lengths[r]].
        topk: how many; a row with fewer gets all, then −1.
        row_starts: (rows,) int32; None for 0. Positions count from it.

    Returns:
        (rows, topk) int32.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_topk("fast_topk_v2", score, lengths, topk, row_starts, check_values)
    topk_operator(arguments, implementation)
    return arguments.out


def fast_topk_transform_fused(
    score: torch.Tensor,
    lengths: torch.Tensor,
    page_table_size_1: torch.Tensor,
    cu_seqlens_q: torch.Tensor | None = None,
    topk: int = 2048,
    row_starts: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """fast_topk_v2, and each position looked up in its request's page table of page size 1: slots. After sgl-kernel.

    Args:
        page_table_size_1: (requests, context) int32, slots.
        cu_seqlens_q: (requests + 1,) int32, whose rows are whose; None: row r is request r's, as in decoding.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_topk(
        *("fast_topk_transform_fused", score, lengths, topk, row_starts, check_values),
        table=page_table_size_1,
        cu_seqlens_q=cu_seqlens_q,
    )
    topk_operator(arguments, implementation)
    return arguments.out


def fast_topk_transform_ragged_fused(
    score: torch.Tensor,
    lengths: torch.Tensor,
    topk_indices_offset: torch.Tensor,
    topk: int = 2048,
    row_starts: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """fast_topk_v2, and each position plus its row's topk_indices_offset (rows,) int32: rows of ragged keys.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_topk(
        *("fast_topk_transform_ragged_fused", score, lengths, topk, row_starts, check_values),
        offsets=topk_indices_offset,
    )
    topk_operator(arguments, implementation)
    return arguments.out


def transform_index_page_table_decode(
    page_table: torch.Tensor,
    topk_indices: torch.Tensor,
    result: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Positions to slots: result[r, j] = page_table[r, topk_indices[r, j]]; −1 stays −1. After SGLang.

    Args:
        page_table: (≥ rows, context) int32 of page size 1.
        topk_indices: (rows, topk) int32.
        result: output, allocated if None.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    arguments = check_lookup("transform_index_page_table_decode", page_table, topk_indices, None, result, check_values)
    lookup_operator(arguments, implementation)
    return arguments.out


def transform_index_page_table_prefill(
    page_table: torch.Tensor,
    topk_indices: torch.Tensor,
    extend_lens_cpu: Sequence[int],
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Positions to slots for an extend: request i has the next extend_lens_cpu[i] rows of topk_indices.

    Rows past them all, padding of a graph, get −1.

    Raises:
        ContractError: an argument does not fit.
    """
    name, total = "transform_index_page_table_prefill", sum(extend_lens_cpu)
    contract = Contract(name)
    fits = total <= len(topk_indices) and len(extend_lens_cpu) <= len(page_table)
    expected = f"for at most {len(page_table)} requests and {len(topk_indices)} rows in all"
    contract.require(fits, "extend_lens_cpu", expected, list(extend_lens_cpu), "It holds the new tokens per request.")
    lens = torch.tensor(list(extend_lens_cpu), dtype=torch.int64, device=page_table.device)
    requests = torch.arange(len(lens), device=page_table.device)
    request_of = torch.repeat_interleave(requests, lens, output_size=total)
    result = torch.full_like(topk_indices, -1)
    arguments = check_lookup(name, page_table, topk_indices[:total], request_of, result[:total], check_values)
    lookup_operator(arguments, implementation)
    return result
