"""What apply_rope_with_cos_sin_cache_inplace asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, Contract, reads_values


@dataclass(frozen=True)
class RopeArguments:
    """Checked arguments: query and key (tokens, heads, head_dim), written in place; the rotary dims come first."""

    positions: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    cos_sin_cache: torch.Tensor
    is_neox: bool

    @property
    def device(self) -> torch.device:
        return self.query.device

    @property
    def rotary_dim(self) -> int:
        return self.cos_sin_cache.shape[1]


def check(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    is_neox: bool,
    check_values: bool | None,
) -> RopeArguments:
    contract = Contract("apply_rope_with_cos_sin_cache_inplace")
    contract.tensor("query", query, "tokens heads head_dim", FLOATS)
    contract.tensor("key", key, "tokens kv_heads head_dim", FLOATS)
    contract.tensor("positions", positions, "tokens", (torch.int64,))
    contract.tensor("cos_sin_cache", cos_sin_cache, "context rotary_dim", (torch.float32,))
    contract.same_dtype(query=query, key=key)
    rotary, head = contract.size("rotary_dim"), contract.size("head_dim")
    expected = f"an even number of columns, at most head_dim = {head}"
    contract.require(rotary % 2 == 0 and 0 < rotary <= head, "cos_sin_cache", expected, rotary, "Check rotary_dim.")
    if reads_values(check_values, query.device):
        inside = (positions >= 0) & (positions < len(cos_sin_cache))
        remedy = "Load the model for a longer context (context_len)."
        contract.elements("positions", inside, f"from 0 to {len(cos_sin_cache) - 1}", positions, remedy)
    return RopeArguments(positions, query, key, cos_sin_cache, is_neox)
