"""moe_align_block_size expert by expert."""

from __future__ import annotations

from sglab.kernels.moe_align.contract import AlignArguments


def run(a: AlignArguments) -> tuple[()]:
    chosen, block = a.topk_ids.flatten().tolist(), a.block_size
    a.sorted_ids.fill_(len(chosen))
    a.expert_ids.fill_(-1)
    end = 0
    for expert in (*range(a.num_experts), -1):
        for place, choice in enumerate(choice for choice, one in enumerate(chosen) if one == expert):
            a.sorted_ids[end + place] = choice
        blocks = -(-chosen.count(expert) // block)
        a.expert_ids[end // block : end // block + blocks] = expert
        end += blocks * block
    a.num_post_pad[0] = end
    return ()
