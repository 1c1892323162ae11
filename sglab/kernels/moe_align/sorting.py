"""moe_align_block_size as a stable sort and sums: device work alone, which a CUDA graph can capture."""

from __future__ import annotations

import torch

from sglab.kernels.moe_align.contract import AlignArguments


def run(a: AlignArguments) -> tuple[()]:
    chosen = a.topk_ids.flatten().long()
    choices, block, buckets = len(chosen), a.block_size, a.num_experts + 1
    chosen = torch.where(chosen < 0, a.num_experts, chosen)  # those not here come last
    ordered, order = torch.sort(chosen, stable=True)
    counts = torch.zeros(buckets, dtype=torch.int64, device=a.device)
    counts.scatter_add_(0, chosen, torch.ones_like(chosen))
    padded = (counts + block - 1) // block * block
    ends = padded.cumsum(0)
    place = torch.arange(choices, device=a.device) - (counts.cumsum(0) - counts)[ordered]
    a.sorted_ids.fill_(choices)
    a.sorted_ids[(ends - padded)[ordered] + place] = order.to(torch.int32)
    starts = torch.arange(len(a.expert_ids), device=a.device) * block
    owner = torch.searchsorted(ends, starts, right=True)
    a.expert_ids.copy_(torch.where(owner < a.num_experts, owner, -1))
    a.num_post_pad.copy_(ends[-1:])
    return ()
