"""What the SM100 MLA decode kernel asks of its arguments, beyond what the SM90 one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from sglab.kernels.contract import INT32, Contract, reads_values
from sglab.kernels.mla.arguments import MAX_HEADS, MlaDecodeArguments
from sglab.kernels.mla.arguments import check as check_decode
from sglab.planning.mla_dims import LATENT_DIM
from sglab.planning.set_split_kv import MAX_SPLITS

OPERATOR = "mla_decode_sm100"
Scheduler = Literal["auto", "individual", "persistent"]


@dataclass(frozen=True)
class Sm100Arguments:
    """Checked arguments of one decode step; num_splits None: max_splits for every request."""

    decode: MlaDecodeArguments
    seq_lens: torch.Tensor
    num_splits: torch.Tensor | None


def check(
    seq_lens: torch.Tensor, num_splits: torch.Tensor | None, max_splits: int, check_values: bool | None, *decode: Any
) -> Sm100Arguments:
    arguments = check_decode(OPERATOR, *decode)
    contract = Contract(OPERATOR)
    contract.tensor("q_nope", arguments.q_nope, f"batch heads {LATENT_DIM}")
    contract.tensor("page_table", arguments.page_table, "batch width")
    contract.tensor("seq_lens", seq_lens, "batch", INT32)
    if num_splits is not None:
        contract.tensor("num_splits", num_splits, "batch", INT32)
    if reads_values(check_values, seq_lens.device):
        _check_values(contract, arguments, seq_lens, num_splits, max_splits)
    return Sm100Arguments(arguments, seq_lens, num_splits)


def check_sizes(num_heads: int, max_splits: int, scheduler: str) -> None:
    known = get_args(Scheduler)
    if 1 <= num_heads <= MAX_HEADS and 1 <= max_splits <= MAX_SPLITS and scheduler in known:
        return
    contract = Contract(OPERATOR)
    contract.require(1 <= num_heads <= MAX_HEADS, "num_heads", f"from 1 to {MAX_HEADS}", num_heads, "Split the heads.")
    remedy = "The combine merges no more: pass fewer splits."
    contract.require(1 <= max_splits <= MAX_SPLITS, "max_splits", f"from 1 to {MAX_SPLITS}", max_splits, remedy)
    contract.require(scheduler in known, "scheduler", f"one of {', '.join(known)}", repr(scheduler), "Choose one.")


def _check_values(
    contract: Contract, a: MlaDecodeArguments, seq_lens: torch.Tensor, num_splits: torch.Tensor | None, max_splits: int
) -> None:
    table, pages, page_size = a.page_table, len(a.kv_cache), a.page_size
    capacity = table.shape[1] * page_size
    expected = f"from 0 to {capacity}, the {table.shape[1]} pages of {page_size} tokens of a page_table row"
    contract.elements("seq_lens", (seq_lens >= 0) & (seq_lens <= capacity), expected, seq_lens, "Widen the page table.")
    used = -(-seq_lens.long() // page_size)
    read = torch.arange(table.shape[1], device=table.device)[None, :] < used[:, None]
    inside = ~read | ((table >= 0) & (table < pages))
    remedy = "Entries past a request's last page may hold anything; these are read."
    contract.elements("page_table", inside, f"from 0 to {pages - 1} where tokens are", table, remedy)
    if num_splits is not None:
        holds = (num_splits >= 1) & (num_splits <= max_splits)
        contract.elements("num_splits", holds, f"from 1 to max_splits = {max_splits}", num_splits, "Raise max_splits.")
