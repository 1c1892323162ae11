"""What copying KV rows within their caches asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, Contract, reads_values

MOST_ROWS = 256
"""That the kernel holds in registers at once, 128 bytes of each."""


@dataclass(frozen=True)
class CopyArguments:
    """Checked: in every buffer row tgt[i] becomes what row src[i] was before the call.

    Attributes:
        buffers: each (slots, …) of contiguous rows, as (slots, bytes) uint8.
    """

    buffers: tuple[torch.Tensor, ...]
    tgt: torch.Tensor
    src: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.tgt.device


def check(
    buffers: list[torch.Tensor], tgt: torch.Tensor, src: torch.Tensor, check_values: bool | None
) -> CopyArguments:
    contract = Contract("copy_all_layer_kv_cache")
    contract.tensor("tgt_loc", tgt, "rows", INDEX)
    contract.tensor("src_loc", src, "rows", INDEX)
    rows = []
    for number, buffer in enumerate(buffers):
        name = f"buffers[{number}]"
        contract.require(buffer.is_contiguous(), name, "contiguous", buffer.stride(), "Pass the pool's buffers.")
        flat = buffer.view(len(buffer), -1).view(torch.uint8)
        contract.tensor(name, flat, f"slots bytes_{number}")
        rows.append(flat)
    if reads_values(check_values, tgt.device) and rows:
        slots = contract.size("slots")
        for name, loc in (("tgt_loc", tgt), ("src_loc", src)):
            inside = (loc >= 0) & (loc < slots)
            contract.elements(name, inside, f"from 0 to {slots - 1}", loc, "Pass slots of the pool.")
        unique = len(tgt.unique()) == len(tgt)
        contract.require(unique, "tgt_loc", "free of duplicates", "a slot twice", "Each row goes to one place.")
    return CopyArguments(tuple(rows), tgt, src)
