"""Attention over the blocks and columns of convert_vertical_slash_indexes, a pattern per head and row of queries."""

from __future__ import annotations

import torch

from sglab.kernels.block_sparse.contract import BLOCK_M, BLOCK_N, BlockSparseArguments, check
from sglab.kernels.contract import Contract
from sglab.kernels.known_calls import checked_once
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.scoring import Scoring

__all__ = ["BLOCK_M", "BLOCK_N", "operator", "sparse_attn_func", "sparse_attn_varlen_func"]

operator = Operator(
    "sparse_attn",
    Implementation("triton", "sglab.kernels.block_sparse.triton:run", GPU, needs_triton),
    Implementation("torch", "sglab.kernels.block_sparse.reference:run_float32", EVERYWHERE),
    Implementation("reference", "sglab.kernels.block_sparse.reference:run", EVERYWHERE),
)
Result = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


@checked_once
def sparse_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_count: torch.Tensor,
    block_offset: torch.Tensor,
    column_count: torch.Tensor,
    column_index: torch.Tensor,
    softmax_scale: float | None = None,
    causal: bool = False,
    softcap: float = 0.0,
    *,
    return_softmax_lse: bool = False,
    out: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Result:
    """Dense attention under a mask: a row of 64 queries sees its blocks of 64 keys and its columns. After sgl-kernel.

    Args:
        q: (batch, queries, heads, dim); k, v: (batch, keys, kv_heads, dim), one dtype.
        block_count, column_count: (batch, heads, rows) int32.
        block_offset, column_index: (batch, heads, rows, most) int32, first keys of blocks, and keys.
        causal: bottom-right, on top of it.

    Returns:
        out, or (out, lse) with lse (batch, heads, queries) float32, natural. A query that sees nothing gets 0 and −inf.

    Raises:
        ContractError: an argument does not fit.
    """
    name = "sparse_attn_func"
    contract = Contract(name)
    contract.tensor("q", q, "batch queries heads dim")
    contract.tensor("k", k, "batch keys kv_heads dim")
    contract.tensor("v", v, "batch keys kv_heads dim")
    batch, queries, heads, _ = q.shape
    cu = (_starts(batch, queries, q.device), _starts(batch, k.shape[1], q.device))
    flat = None if out is None else out.flatten(0, 1)
    lines = (block_count, block_offset, column_count, column_index)
    o, lse = _attend(
        *(name, q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), cu, lines),
        Scoring(_scale(q, softmax_scale), softcap),
        causal,
        flat,
        implementation,
        check_values,
    )
    o = o.view(batch, queries, heads, -1)
    return (o, lse.view(heads, batch, queries).transpose(0, 1).contiguous()) if return_softmax_lse else o


@checked_once
def sparse_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_count: torch.Tensor,
    block_offset: torch.Tensor,
    column_count: torch.Tensor,
    column_index: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    softcap: float = 0.0,
    *,
    return_softmax_lse: bool = False,
    out: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> Result:
    """sparse_attn_func over a ragged batch: q (tokens, heads, dim), k and v (key tokens, kv_heads, dim).

    Returns:
        out, or (out, lse) with lse (heads, tokens) float32.

    Raises:
        ContractError: an argument does not fit.
    """
    lines = (block_count, block_offset, column_count, column_index)
    name = "sparse_attn_varlen_func"
    Contract(name).tensor("q", q, "tokens heads dim")
    scoring = Scoring(_scale(q, softmax_scale), softcap)
    cu = (cu_seqlens_q, cu_seqlens_k)
    o, lse = _attend(name, q, k, v, cu, lines, scoring, causal, out, implementation, check_values)
    return (o, lse) if return_softmax_lse else o


def _starts(batch: int, count: int, device: torch.device) -> torch.Tensor:
    return torch.arange(batch + 1, dtype=torch.int32, device=device) * count


def _scale(q: torch.Tensor, softmax_scale: float | None) -> float:
    return q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale


def _attend(
    name: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu: tuple[torch.Tensor, torch.Tensor],
    lines: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    scoring: Scoring,
    causal: bool,
    out: torch.Tensor | None,
    implementation: str,
    check_values: bool | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty_like(q, memory_format=torch.contiguous_format) if out is None else out
    lse = torch.empty(q.shape[1], len(q), device=q.device)
    arguments = BlockSparseArguments(q, k, v, *cu, *lines, causal=causal, scoring=scoring, out=out, lse=lse)
    check(name, arguments, check_values)
    operator(arguments, implementation)
    return out, lse
