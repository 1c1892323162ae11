"""What get_num_kv_splits asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, INT32, Contract, reads_values


@dataclass(frozen=True)
class SplitsArguments:
    """Checked arguments of get_num_kv_splits; num_kv_splits is the output."""

    num_kv_splits: torch.Tensor
    seq_lens: torch.Tensor
    num_head: int
    num_kv_head: int
    max_kv_splits: int
    device_core_count: int

    @property
    def device(self) -> torch.device:
        return self.seq_lens.device

    @property
    def num_group(self) -> int:
        """Entries of num_kv_splits per request: draft tokens under speculation, else 1."""
        return len(self.num_kv_splits) // len(self.seq_lens)


def check(arguments: SplitsArguments, check_values: bool | None) -> None:
    contract = Contract("get_num_kv_splits")
    contract.tensor("seq_lens", arguments.seq_lens, "batch", INDEX)
    contract.tensor("num_kv_splits", arguments.num_kv_splits, "tokens", INT32)
    batch, tokens = contract.size("batch"), contract.size("tokens")
    contract.require(batch > 0, "seq_lens", "of one request or more", "none", "Do not call it for an empty batch.")
    contract.require(
        tokens > 0 and tokens % batch == 0,
        "num_kv_splits",
        f"as long as a multiple of the batch, {batch}",
        f"length {tokens}",
        "One entry per request, or one per draft token under speculation.",
    )
    for name in ("num_kv_head", "max_kv_splits", "device_core_count"):
        value = getattr(arguments, name)
        contract.require(value >= 1, name, "1 or more", value, "It counts heads, splits or SMs.")
    contract.require(
        arguments.num_head >= 1 and arguments.num_head % arguments.num_kv_head == 0,
        "num_head",
        f"a positive multiple of num_kv_head = {arguments.num_kv_head}",
        arguments.num_head,
        "Every KV head serves the same number of query heads.",
    )
    if reads_values(check_values, arguments.device):
        contract.elements(
            "seq_lens",
            arguments.seq_lens >= 1,
            "1 or more",
            arguments.seq_lens,
            "The rule divides by the shortest length; padded rows of a CUDA graph have length 1.",
        )
