"""get_num_kv_splits by the planner, on the host."""

from __future__ import annotations

import torch

from sglab.kernels.kv_splits.contract import SplitsArguments
from sglab.planning.num_kv_splits import get_num_kv_splits


def run(arguments: SplitsArguments) -> tuple[()]:
    splits = get_num_kv_splits(
        arguments.seq_lens.cpu().numpy(),
        num_head=arguments.num_head,
        num_kv_head=arguments.num_kv_head,
        device_core_count=arguments.device_core_count,
        max_kv_splits=arguments.max_kv_splits,
        num_group=arguments.num_group,
    )
    arguments.num_kv_splits.copy_(torch.from_numpy(splits))
    return ()
