"""MInference's sparsity: vertical lines (keys that all queries see) and slashes (distances), as blocks and columns."""

from __future__ import annotations

import torch

from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.vertical_slash.contract import check

__all__ = ["convert_vertical_slash_indexes", "convert_vertical_slash_indexes_mergehead", "operator"]

operator = Operator(
    "convert_vertical_slash_indexes",
    Implementation("triton", "sglab.kernels.vertical_slash.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.vertical_slash.reference:run", EVERYWHERE),
)
Converted = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def convert_vertical_slash_indexes(
    q_seqlens: torch.Tensor,
    kv_seqlens: torch.Tensor,
    vertical_indexes: torch.Tensor,
    slash_indexes: torch.Tensor,
    context_size: int,
    block_size_M: int,
    block_size_N: int,
    causal: bool = True,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Converted:
    """Which blocks of keys and which single keys each row of queries sees. After sgl-kernel and MInference.

    On a GPU a program per row of queries runs in Triton; the reference, elsewhere, reads every value on the host.

    Args:
        q_seqlens, kv_seqlens: (batch,) int32.
        vertical_indexes: (batch, heads, nnz_v) int32, ascending.
        slash_indexes: (batch, heads, nnz_s) int32 distances from key to query, descending.
        context_size: queries that there is room for in the result.
        block_size_M, block_size_N: queries of a row, keys of a block. Upstream's kernel checks no bounds: where rows
            are wider than blocks it writes into the next row's blocks or never ends, so that is refused here.
        causal: queries stand at the end of the keys; else all of them come after all keys.

    Returns:
        block_count (batch, heads, rows), block_offset (…, nnz_s), column_count, column_index (…, nnz_v), int32; 0 past
        the counts and past q_seqlens.

    Raises:
        ContractError: an argument does not fit.
    """
    sizes = (context_size, block_size_M, block_size_N)
    lines = (vertical_indexes, slash_indexes)
    a = check("convert_vertical_slash_indexes", q_seqlens, kv_seqlens, *lines, *sizes, causal, None, None, check_values)
    operator(a, implementation)
    return a.outputs


def convert_vertical_slash_indexes_mergehead(
    q_seqlens: torch.Tensor,
    kv_seqlens: torch.Tensor,
    vertical_indexes: torch.Tensor,
    slash_indexes: torch.Tensor,
    vertical_indices_count: torch.Tensor,
    slash_indices_count: torch.Tensor,
    context_size: int,
    block_size_M: int,
    block_size_N: int,
    causal: bool = True,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Converted:
    """convert_vertical_slash_indexes with as many lines per head as (heads,) int32 counts say.

    Unlike upstream's, rows past q_seqlens are 0 here, not whatever was in memory.

    Raises:
        ContractError: an argument does not fit.
    """
    sizes = (context_size, block_size_M, block_size_N)
    lines, counts = (vertical_indexes, slash_indexes), (vertical_indices_count, slash_indices_count)
    name = "convert_vertical_slash_indexes_mergehead"
    a = check(name, q_seqlens, kv_seqlens, *lines, *sizes, causal, *counts, check_values=check_values)
    operator(a, implementation)
    return a.outputs
