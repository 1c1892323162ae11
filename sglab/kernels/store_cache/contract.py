"""What store_cache asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch

from sglab.kernels.contract import INDEX, Contract, reads_values
from sglab.kernels.store_cache.threads import num_threads


@dataclass(frozen=True)
class StoreArguments:
    """Checked arguments: k and v (tokens, width), caches (slots, width), heads joined; `warps` copy a token's rows;
    slots below `limit` may be written, `skip` is not."""

    k: torch.Tensor
    v: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    indices: torch.Tensor
    warps: int
    limit: int
    skip: int

    @property
    def device(self) -> torch.device:
        return self.k_cache.device


def check(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    row_bytes: int,
    v_row_bytes: int,
    num_split: int,
    size_limit: int,
    skip: int,
    check_values: bool | None,
) -> StoreArguments:
    contract = Contract("store_cache")
    cache_k, cache_v = (
        _rows(contract, "k_cache", k_cache, "slots width"),
        _rows(contract, "v_cache", v_cache, "slots v_width"),
    )
    rows_k, rows_v = _rows(contract, "k", k, "tokens width"), _rows(contract, "v", v, "tokens v_width")
    contract.tensor("indices", indices, "tokens", INDEX)
    contract.same_dtype(k_cache=cache_k, k=rows_k)
    contract.same_dtype(v_cache=cache_v, v=rows_v)
    widths = [rows.shape[1] * rows.element_size() for rows in (rows_k, rows_v)]
    for name, asked, width in (("row_bytes", row_bytes, widths[0]), ("v_row_bytes", v_row_bytes, widths[1])):
        contract.require(asked in (0, width), name, f"{width}, the bytes of a row, or 0", asked, "Leave it out.")
    slots = contract.size("slots")
    contract.require(0 <= size_limit <= slots, "size_limit", f"0 to {slots}, the slots", size_limit, "Leave it out.")
    warps = num_split or num_threads(*widths) // 32
    power = 1 <= warps <= 32 and warps & (warps - 1) == 0
    contract.require(power, "num_split", "a power of two from 1 to 32, or 0", num_split, "Leave it out.")
    limit = size_limit or slots
    if reads_values(check_values, cache_k.device):
        _check_slots(contract, indices, limit, skip)
    return StoreArguments(rows_k, rows_v, cache_k, cache_v, indices, warps, limit, skip)


def _rows(contract: Contract, name: str, value: torch.Tensor, shape: str) -> torch.Tensor:
    """Accept (rows, heads, dim) beside (rows, width), where heads lie side by side."""
    if isinstance(value, torch.Tensor) and value.ndim > 2:
        inner, strides = tuple(value.shape[1:]), value.stride()[1:]
        dense = tuple(prod(inner[k + 1 :]) for k in range(len(inner)))
        remedy = f"Pass {name}.contiguous()."
        contract.require(strides == dense, name, "of heads side by side", f"strides {value.stride()}", remedy)
        value = value.as_strided((value.shape[0], prod(inner)), (value.stride(0), 1))
    contract.tensor(name, value, shape)
    return value


def _check_slots(contract: Contract, indices: torch.Tensor, limit: int, skip: int) -> None:
    inside = ((indices >= 0) & (indices < limit)) | (indices == skip)
    remedy = "Pass out_cache_loc as the allocator returned it."
    contract.elements("indices", inside, f"from 0 to {limit - 1}", indices, remedy)
    taken, counts = torch.unique(indices[indices != skip], return_counts=True)
    if (counts > 1).any():
        slot = int(taken[counts > 1][0])
        remedy = "Two tokens in one slot would overwrite each other in no defined order."
        contract.fail("indices", f"free of duplicates (slot {skip} excepted)", f"slot {slot} twice", remedy)
