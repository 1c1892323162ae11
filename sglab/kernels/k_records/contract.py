"""What writing and reading K records asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, Contract, reads_values
from sglab.kernels.k_records.layout import NOPE, RECORD, ROPE

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
STORED = (torch.float8_e4m3fn, torch.uint8)


@dataclass(frozen=True)
class QuantizeArguments:
    """Checked: k (tokens, 576) becomes records (tokens, 656) uint8, of which slots (tokens,) says where they go."""

    k: torch.Tensor
    records: torch.Tensor
    slots: torch.Tensor | None

    @property
    def device(self) -> torch.device:
        return self.k.device


@dataclass(frozen=True)
class DequantizeArguments:
    """Checked: records (slots, 656) become k (tokens, 576) bfloat16; slots (tokens,) says which, None all."""

    records: torch.Tensor
    k: torch.Tensor
    slots: torch.Tensor | None

    @property
    def device(self) -> torch.device:
        return self.k.device


def check_quantize(
    k: torch.Tensor, records: torch.Tensor | None, slots: torch.Tensor | None, check_values: bool | None
) -> QuantizeArguments:
    contract = Contract("quantize_k_cache")
    contract.tensor("k", k, "tokens 576", DTYPES)
    if records is None:
        records = torch.empty(len(k), RECORD, dtype=torch.uint8, device=k.device)
    check_records(contract, records)
    if slots is not None:
        contract.tensor("slots", slots, "tokens", INDEX)
    if reads_values(check_values, k.device):
        contract.elements("k", k.isfinite(), "finite", k, "One NaN or infinity would spoil its tile of 128.")
        if slots is not None:
            inside = (slots >= 0) & (slots < len(records))
            contract.elements("slots", inside, f"from 0 to {len(records) - 1}", slots, "Pass out_cache_loc.")
    return QuantizeArguments(k, records.view(torch.uint8), slots)


def check_dequantize(
    records: torch.Tensor, slots: torch.Tensor | None, check_values: bool | None
) -> DequantizeArguments:
    contract = Contract("dequantize_k_cache")
    check_records(contract, records)
    if slots is not None:
        contract.tensor("page_table_1_flattened", slots, "tokens", INDEX)
        if reads_values(check_values, records.device):
            inside = (slots >= 0) & (slots < len(records))
            remedy = "Leave out the −1 that pad a page table."
            contract.elements("page_table_1_flattened", inside, f"from 0 to {len(records) - 1}", slots, remedy)
    tokens = len(records) if slots is None else len(slots)
    k = torch.empty(tokens, NOPE + ROPE, dtype=torch.bfloat16, device=records.device)
    return DequantizeArguments(records.view(torch.uint8), k, slots)


def check_records(contract: Contract, records: torch.Tensor) -> None:
    contract.tensor("records", records, f"slots {RECORD}", STORED)
    aligned = records.stride(0) % 4 == 0 and records.data_ptr() % 4 == 0
    contract.require(aligned, "records", "aligned to 4 bytes", f"stride {records.stride(0)}", "Allocate whole records.")
