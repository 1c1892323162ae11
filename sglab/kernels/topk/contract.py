"""What the top-k operators ask of their arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, INT32, Contract, reads_values


@dataclass(frozen=True)
class TopkArguments:
    """Checked: of each row's scores (rows, width) float32, starts[r] … starts[r] + lengths[r], the k best.

    Attributes:
        starts: (rows,) int32 or None for 0; results count from them.
        table: (requests, width) int32: results are looked up in row request_of[r]; None for no lookup.
        request_of: (rows,) int32 or None for row r.
        offsets: (rows,) int32 added to results, or None.
        out: (rows, k) int32; −1 where a row has fewer.
    """

    score: torch.Tensor
    lengths: torch.Tensor
    starts: torch.Tensor | None
    table: torch.Tensor | None
    request_of: torch.Tensor | None
    offsets: torch.Tensor | None
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.score.device


@dataclass(frozen=True)
class LookupArguments:
    """Checked: out[r, j] = table[request_of[r], indices[r, j]], −1 where the index is negative."""

    table: torch.Tensor
    indices: torch.Tensor
    request_of: torch.Tensor | None
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.table.device


def check_topk(
    operator: str,
    score: torch.Tensor,
    lengths: torch.Tensor,
    topk: int,
    starts: torch.Tensor | None,
    check_values: bool | None,
    table: torch.Tensor | None = None,
    cu_seqlens_q: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
) -> TopkArguments:
    contract = Contract(operator)
    contract.tensor("score", score, "rows width", (torch.float32,))
    contract.tensor("lengths", lengths, "rows", INT32)
    contract.require(topk > 0, "topk", "positive", topk, "DeepSeek-V3.2 has 2048.")
    if starts is not None:
        contract.tensor("row_starts", starts, "rows", INT32)
    if offsets is not None:
        contract.tensor("topk_indices_offset", offsets, "rows", INT32)
    request_of = None
    if table is not None:
        contract.tensor("page_table_size_1", table, "requests context", INT32)
        if cu_seqlens_q is not None:
            contract.tensor("cu_seqlens_q", cu_seqlens_q, "cu_seqlens_q", INT32)
            rows = torch.arange(len(score), dtype=torch.int32, device=score.device)
            request_of = torch.searchsorted(cu_seqlens_q, rows, right=True, out_int32=True) - 1
        least = len(score) if request_of is None else len(cu_seqlens_q) - 1 if cu_seqlens_q is not None else 0
        expected = f"of at least {least} rows"
        contract.require(len(table) >= least, "page_table_size_1", expected, len(table), "One per request.")
    if reads_values(check_values, score.device):
        _check_values(contract, score, lengths, starts, table)
    out = torch.empty(len(score), topk, dtype=torch.int32, device=score.device)
    return TopkArguments(score, lengths, starts, table, request_of, offsets, out)


def _check_values(
    contract: Contract,
    score: torch.Tensor,
    lengths: torch.Tensor,
    starts: torch.Tensor | None,
    table: torch.Tensor | None,
) -> None:
    width = score.shape[1]
    first = torch.zeros_like(lengths) if starts is None else starts
    fits = (lengths >= 0) & (first >= 0) & (first + lengths <= width)
    contract.elements("lengths", fits, f"such that a row ends within its {width} scores", lengths, "Check row_starts.")
    if table is not None:
        wide = lengths <= table.shape[1]
        contract.elements("lengths", wide, f"at most {table.shape[1]}, the page table's width", lengths, "Widen it.")
    column = torch.arange(width, device=score.device)
    counts = (column >= first[:, None]) & (column < (first + lengths)[:, None])
    remedy = "A NaN has no rank; look for it in the indexer's keys."
    contract.elements("score", ~(counts & score.isnan()), "a number where a row's keys are", score, remedy)


def check_lookup(
    operator: str,
    table: torch.Tensor,
    indices: torch.Tensor,
    request_of: torch.Tensor | None,
    out: torch.Tensor | None,
    check_values: bool | None,
) -> LookupArguments:
    contract = Contract(operator)
    contract.tensor("page_table", table, "requests context", INT32)
    contract.tensor("topk_indices", indices, "rows topk", INT32)
    if request_of is None:
        expected = f"of at least {len(indices)} rows, one per row of topk_indices"
        contract.require(len(table) >= len(indices), "page_table", expected, len(table), "One per request.")
    else:
        contract.tensor("request_of", request_of, "rows", INDEX)
    if out is None:
        out = torch.empty_like(indices)
    contract.tensor("result", out, "rows topk", INT32)
    if reads_values(check_values, table.device):
        inside = indices < table.shape[1]
        contract.elements("topk_indices", inside, f"below {table.shape[1]}, the table's width", indices, "Widen it.")
    return LookupArguments(table, indices, request_of, out)
