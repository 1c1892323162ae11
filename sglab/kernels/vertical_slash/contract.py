"""What the conversion of vertical lines and slashes asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INT32, Contract, reads_values


@dataclass(frozen=True)
class VerticalSlashArguments:
    """Checked: lines per head become blocks of `keys_of` keys, and columns, per row of `rows_of` queries.

    Attributes:
        q_seqlens, kv_seqlens: (batch,) int32.
        vertical_indexes: (batch, heads, lines) int32, ascending keys; slash_indexes: descending distances.
        vertical_counts, slash_counts: (heads,) int32: only so many of a head's lines count; None for all.
        block_count, column_count: outputs (batch, heads, rows) int32.
        block_offset, column_index: outputs (batch, heads, rows, lines) int32: each slash makes at most one block, for
            rows_of is at most keys_of.
    """

    q_seqlens: torch.Tensor
    kv_seqlens: torch.Tensor
    vertical_indexes: torch.Tensor
    slash_indexes: torch.Tensor
    vertical_counts: torch.Tensor | None
    slash_counts: torch.Tensor | None
    rows_of: int
    keys_of: int
    causal: bool
    block_count: torch.Tensor
    block_offset: torch.Tensor
    column_count: torch.Tensor
    column_index: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.q_seqlens.device

    @property
    def outputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.block_count, self.block_offset, self.column_count, self.column_index


def check(
    operator: str,
    q_seqlens: torch.Tensor,
    kv_seqlens: torch.Tensor,
    vertical_indexes: torch.Tensor,
    slash_indexes: torch.Tensor,
    context_size: int,
    block_size_M: int,
    block_size_N: int,
    causal: bool,
    vertical_counts: torch.Tensor | None,
    slash_counts: torch.Tensor | None,
    check_values: bool | None,
) -> VerticalSlashArguments:
    contract = Contract(operator)
    contract.tensor("q_seqlens", q_seqlens, "batch", INT32)
    contract.tensor("kv_seqlens", kv_seqlens, "batch", INT32)
    contract.tensor("vertical_indexes", vertical_indexes, "batch heads nnz_v", INT32)
    contract.tensor("slash_indexes", slash_indexes, "batch heads nnz_s", INT32)
    for name, value in (("block_size_M", block_size_M), ("block_size_N", block_size_N), ("context_size", context_size)):
        contract.require(value > 0, name, "positive", value, "64 is usual for blocks.")
    remedy = "With wider rows a slash makes several blocks: there is no room for them, and verticals may never end."
    expected = f"at most block_size_N = {block_size_N}"
    contract.require(block_size_M <= block_size_N, "block_size_M", expected, block_size_M, remedy)
    for name, lines in (("vertical_indexes", vertical_indexes), ("slash_indexes", slash_indexes)):
        contract.require(lines.shape[2] > 0, name, "of at least one line per head", 0, "Add one that is covered.")
    for name, counts in (("vertical_indices_count", vertical_counts), ("slash_indices_count", slash_counts)):
        if counts is not None:
            contract.tensor(name, counts, "heads", INT32)
    if reads_values(check_values, q_seqlens.device):
        _check_values(contract, q_seqlens, kv_seqlens, vertical_indexes, slash_indexes, vertical_counts, slash_counts)
        fits = q_seqlens <= context_size
        contract.elements("q_seqlens", fits, f"at most context_size {context_size}", q_seqlens, "Enlarge context_size.")
    batch, heads, nnz_v = vertical_indexes.shape
    nnz_s = slash_indexes.shape[2]
    rows = -(-context_size // block_size_M)

    def empty(*width: int) -> torch.Tensor:
        return torch.zeros(batch, heads, rows, *width, dtype=torch.int32, device=q_seqlens.device)

    return VerticalSlashArguments(
        q_seqlens,
        kv_seqlens,
        vertical_indexes,
        slash_indexes,
        vertical_counts,
        slash_counts,
        block_size_M,
        block_size_N,
        causal,
        block_count=empty(),
        block_offset=empty(nnz_s),
        column_count=empty(),
        column_index=empty(nnz_v),
    )


def _check_values(
    contract: Contract,
    q_seqlens: torch.Tensor,
    kv_seqlens: torch.Tensor,
    verticals: torch.Tensor,
    slashes: torch.Tensor,
    vertical_counts: torch.Tensor | None,
    slash_counts: torch.Tensor | None,
) -> None:
    contract.elements("q_seqlens", q_seqlens >= 0, "0 or more", q_seqlens, "Lengths count tokens.")
    contract.elements("kv_seqlens", kv_seqlens >= 0, "0 or more", kv_seqlens, "Lengths count tokens.")
    for name, lines, counts, sign in (
        ("vertical_indexes", verticals, vertical_counts, 1),
        ("slash_indexes", slashes, slash_counts, -1),
    ):
        width = lines.shape[2]
        real = torch.full((lines.shape[1],), width) if counts is None else counts.cpu()
        argument = name.replace("indexes", "indices_count")
        contract.elements(argument, (real >= 1) & (real <= width), f"from 1 to {width}", real, "Heads have a line.")
        step = torch.nn.functional.pad(lines.diff(dim=-1) * sign, (1, 0))
        ordered = (step >= 0) | (torch.arange(width) >= real[:, None])
        order = "ascending" if sign > 0 else "descending"
        contract.elements(name, ordered & (lines >= 0), f"{order} and not negative", lines, "Sort them.")
