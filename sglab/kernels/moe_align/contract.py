"""What moe_align_block_size asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, Contract, reads_values


@dataclass(frozen=True)
class AlignArguments:
    """Checked arguments, and the outputs: `sorted_ids` and `expert_ids` int32, `num_post_pad` int32 (1,)."""

    topk_ids: torch.Tensor
    block_size: int
    num_experts: int
    sorted_ids: torch.Tensor
    expert_ids: torch.Tensor
    num_post_pad: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.topk_ids.device


def check(topk_ids: torch.Tensor, block_size: int, num_experts: int, check_values: bool | None) -> AlignArguments:
    contract = Contract("moe_align_block_size")
    contract.tensor("topk_ids", topk_ids, "tokens topk", INDEX)
    contract.require(block_size >= 1, "block_size", "at least 1", block_size, "Kernels take 16 to 128.")
    contract.require(num_experts >= 1, "num_experts", "at least 1", num_experts, "Pass w1.shape[0].")
    if reads_values(check_values, topk_ids.device):
        inside = (topk_ids >= -1) & (topk_ids < num_experts)
        remedy = "-1 stands for an expert that another rank holds."
        contract.elements("topk_ids", inside, f"from -1 to {num_experts - 1}", topk_ids, remedy)
    most = max_padded(topk_ids.numel(), block_size, num_experts)
    outputs = [
        torch.empty(size, dtype=torch.int32, device=topk_ids.device) for size in (most, -(-most // block_size), 1)
    ]
    return AlignArguments(topk_ids, block_size, num_experts, *outputs)


def max_padded(choices: int, block_size: int, num_experts: int) -> int:
    """The longest that `sorted_ids` can become: every expert, and those not here, leave a block almost empty."""
    if choices < num_experts + 1:
        return choices * block_size
    return choices + (num_experts + 1) * (block_size - 1)
