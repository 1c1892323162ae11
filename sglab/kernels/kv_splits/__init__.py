"""How many splits decode attention gives each request, computed where the lengths are."""

from __future__ import annotations

import torch

from sglab.kernels.kv_splits.contract import SplitsArguments, check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

operator = Operator(
    "get_num_kv_splits",
    Implementation("triton", "sglab.kernels.kv_splits.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.kv_splits.reference:run", EVERYWHERE),
)


def get_num_kv_splits(
    num_kv_splits: torch.Tensor,
    seq_lens: torch.Tensor,
    num_head: int,
    num_kv_head: int,
    max_kv_splits: int,
    device_core_count: int,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Fill num_kv_splits by SGLang's dynamic rule (`sglab.planning.get_num_kv_splits`, the same numbers on the host).

    Raises ContractError. After SGLang's get_num_kv_splits_triton.

    Args:
        num_kv_splits: output (batch · num_group,) int32; num_group entries per request, all the same.
        seq_lens: (batch,) int32 or int64, each 1 or more.
        num_head, num_kv_head: query and KV heads on this device.
        max_kv_splits: upper limit, SGLang's default is 8.
        device_core_count: streaming multiprocessors.
        check_values: also check that every length is 1 or more.
    """
    arguments = SplitsArguments(num_kv_splits, seq_lens, num_head, num_kv_head, max_kv_splits, device_core_count)
    check(arguments, check_values)
    operator(arguments, implementation)
