"""What split_kv_combine asks of its arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels.contract import FLOATS, INT32, Contract
from sglab.planning.set_split_kv import MAX_SPLITS

COLUMNS = 512
MANY_SPLITS = 8
"""Splits per entry above which a row is better shared by four warps."""
LSE_UNITS = {"2": 1.0, "e": math.log(2.0)}
"""One unit of log2, in the base's own units."""

TOO_MANY = "Attend with fewer splits: a row's weights must fit the kernel's shared memory."

LseBase = Literal["2", "e"]


@dataclass(frozen=True)
class CombineArguments:
    """Checked arguments of split_kv_combine.

    Attributes:
        many: whether entries have so many splits that four warps should share a row.
    """

    partial_out: torch.Tensor
    partial_lse: torch.Tensor
    slot_indptr: torch.Tensor
    requests: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor | None
    partial_count: torch.Tensor | None
    lse_base: LseBase
    many: bool

    @property
    def device(self) -> torch.device:
        return self.out.device


def check(
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    slot_indptr: torch.Tensor,
    requests: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    partial_count: torch.Tensor | None,
    lse_base: LseBase,
    max_splits: int | None,
) -> CombineArguments:
    contract = Contract("split_kv_combine")
    contract.tensor("partial_out", partial_out, f"slots heads {COLUMNS}", (torch.float32,))
    contract.tensor("partial_lse", partial_lse, "slots heads", (torch.float32,))
    contract.tensor("requests", requests, "entries", INT32)
    contract.fix("entries_and_one", len(requests) + 1, "requests")
    contract.tensor("slot_indptr", slot_indptr, "entries_and_one", INT32)
    contract.tensor("out", out, f"batch heads {COLUMNS}", FLOATS)
    whole = {"partial_out": partial_out, "partial_lse": partial_lse}
    if lse is not None:
        contract.tensor("lse", lse, "batch heads", (torch.float32,))
        whole["lse"] = lse
    if partial_count is not None:
        contract.tensor("partial_count", partial_count, "batch", INT32)
    for name, tensor in whole.items():
        strides = f"strides {tuple(tensor.stride())}"
        contract.require(tensor.is_contiguous(), name, "contiguous", strides, f"Pass {name}.contiguous().")
    strides = f"strides {tuple(out.stride())}"
    contract.require(all(s % 4 == 0 for s in out.stride()[:2]), "out", "of rows 4 elements apart", strides, "Clone it.")
    contract.require(lse_base in LSE_UNITS, "lse_base", "'2' or 'e'", repr(lse_base), "Choose one.")
    inputs = {"partial_out": partial_out, "partial_lse": partial_lse, "slot_indptr": slot_indptr, "requests": requests}
    contract.apart("out", out, **inputs, partial_count=partial_count, lse=lse)
    if lse is not None:
        contract.apart("lse", lse, **inputs, partial_count=partial_count)
    if max_splits is None or out.device.type == "cpu":
        most = _most(contract, slot_indptr, len(partial_out), MAX_SPLITS if max_splits is None else max_splits)
        _check_rows(contract, slot_indptr, requests, partial_count, len(out))
        max_splits = most if max_splits is None else max_splits
    contract.require(max_splits <= MAX_SPLITS, "max_splits", f"at most {MAX_SPLITS}", max_splits, TOO_MANY)
    many = len(requests) > 0 and max_splits > MANY_SPLITS
    return CombineArguments(partial_out, partial_lse, slot_indptr, requests, out, lse, partial_count, lse_base, many)


def _check_rows(
    contract: Contract, slot_indptr: torch.Tensor, requests: torch.Tensor, counts: torch.Tensor | None, batch: int
) -> None:
    """Whose rows are written, and of how many slots."""
    inside = (requests >= 0) & (requests < batch)
    contract.elements("requests", inside, f"from 0 to {batch - 1}, the rows of out", requests, "Number the requests.")
    if counts is not None:
        filled = counts[requests.long()]
        fits = (filled >= 0) & (filled <= slot_indptr.diff())
        contract.elements("partial_count", fits, "at most the request's slots", filled, "Count its filled slots.")


def _most(contract: Contract, slot_indptr: torch.Tensor, slots: int, limit: int) -> int:
    """The most slots of an entry, from the contents of slot_indptr."""
    counts = slot_indptr.diff()
    remedy = "An entry is a request that was split; leave the others out."
    contract.elements("slot_indptr", slot_indptr >= 0, "0 or more", slot_indptr, "Start at the first slot.")
    contract.elements("slot_indptr", slot_indptr <= slots, f"at most {slots}, the slots there are", slot_indptr, remedy)
    contract.elements("slot_indptr", counts > 0, "increasing", slot_indptr[1:], remedy)
    contract.elements("slot_indptr", counts <= limit, f"of at most {limit} slots an entry", slot_indptr[1:], TOO_MANY)
    return int(counts.max()) if len(counts) else 0
