"""Sorting a batch's expert choices so that each block of a grouped GEMM belongs to one expert."""

from __future__ import annotations

import torch

from sglab.kernels.moe_align.contract import check
from sglab.kernels.registry import EVERYWHERE, Implementation, Operator

operator = Operator(
    "moe_align_block_size",
    Implementation("torch", "sglab.kernels.moe_align.sorting:run", EVERYWHERE),
    Implementation("reference", "sglab.kernels.moe_align.reference:run", EVERYWHERE),
)


def moe_align_block_size(
    topk_ids: torch.Tensor,
    block_size: int,
    num_experts: int,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Choices by expert, each expert's padded to whole blocks. After SGLang's moe_align_block_size.

    Returns sorted_ids, expert_ids and num_post_pad, int32: the numbers (token · topk + choice) expert after expert,
    padded with tokens · topk; each block's expert, -1 for choices of experts that are not here and for blocks beyond
    the end; and (1,) where the end is. Raises ContractError.

    Args:
        topk_ids: (tokens, topk) int32 or int64; -1: an expert that is not here.
        block_size: rows of a GEMM's tile.
        num_experts: experts that are here.
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    arguments = check(topk_ids, block_size, num_experts, check_values)
    operator(arguments, implementation)
    return arguments.sorted_ids, arguments.expert_ids, arguments.num_post_pad
