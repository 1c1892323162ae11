"""What qk_norm_rope_store asks of its arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values
from sglab.kernels.launch_cache import Known, shaped

_right = Known()


@dataclass(frozen=True)
class FusedArguments:
    """Checked arguments: query and key (tokens, heads, head_dim), written in place, as are the caches' slots."""

    positions: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    cos_sin_cache: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    indices: torch.Tensor
    q_weight: torch.Tensor | None
    k_weight: torch.Tensor | None
    eps: float
    is_neox: bool

    @property
    def device(self) -> torch.device:
        return self.query.device


def check(
    positions: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    eps: float,
    is_neox: bool,
    check_values: bool | None,
) -> FusedArguments:
    parts = (positions, query, key, value, cos_sin_cache, k_cache, v_cache, indices)
    arguments = FusedArguments(*parts, q_weight, k_weight, eps, is_neox)
    known = (eps, shaped(*parts, q_weight, k_weight))
    reads = isinstance(query, torch.Tensor) and reads_values(check_values, query.device)
    contract = Contract("qk_norm_rope_store")
    if not reads and known in _right:  # but for where they lie: heads are other tensors at every call
        _check_apart(contract, arguments)
        return arguments
    contract.tensor("query", query, "tokens heads head_dim", FLOATS)
    contract.tensor("key", key, "tokens kv_heads head_dim", FLOATS)
    contract.tensor("value", value, "tokens kv_heads v_head_dim", FLOATS)
    contract.tensor("positions", positions, "tokens", (torch.int64,))
    contract.tensor("cos_sin_cache", cos_sin_cache, "context rotary_dim", (torch.float32,))
    contract.tensor("k_cache", k_cache, "slots kv_heads head_dim")
    contract.tensor("v_cache", v_cache, "slots kv_heads v_head_dim")
    contract.tensor("indices", indices, "tokens", INDEX)
    contract.same_dtype(query=query, key=key, value=value, k_cache=k_cache, v_cache=v_cache)
    for name, weight in (("q_weight", q_weight), ("k_weight", k_weight)):
        if weight is not None:
            contract.tensor(name, weight, "head_dim", FLOATS)
    both = (q_weight is None) == (k_weight is None)
    contract.require(both, "k_weight", "given with q_weight, or left out with it", "one alone", "Pass both.")
    rotary, head = contract.size("rotary_dim"), contract.size("head_dim")
    expected = f"an even number of columns, at most head_dim = {head}"
    contract.require(rotary % 2 == 0 and 0 < rotary <= head, "cos_sin_cache", expected, rotary, "Check rotary_dim.")
    contract.require(math.isfinite(eps) and eps >= 0, "eps", "finite and at least 0", eps, "Pass rms_norm_eps.")
    _check_apart(contract, arguments)
    if reads:
        inside = (positions >= 0) & (positions < len(cos_sin_cache))
        remedy = "Load the model for a longer context (context_len)."
        contract.elements("positions", inside, f"from 0 to {len(cos_sin_cache) - 1}", positions, remedy)
        _check_slots(contract, indices)
    _right.add(known)
    return arguments


def _check_apart(contract: Contract, a: FusedArguments) -> None:
    contract.apart("k_cache", a.k_cache, query=a.query, key=a.key, value=a.value, v_cache=a.v_cache)
    contract.apart("v_cache", a.v_cache, query=a.query, key=a.key, value=a.value)


def _check_slots(contract: Contract, indices: torch.Tensor) -> None:
    slots, remedy = contract.size("slots"), "Pass out_cache_loc as the allocator returned it."
    contract.elements("indices", (indices >= 0) & (indices < slots), f"from 0 to {slots - 1}", indices, remedy)
    taken, counts = torch.unique(indices[indices != 0], return_counts=True)
    if (counts > 1).any():
        slot = int(taken[counts > 1][0])
        remedy = "Two tokens in one slot would overwrite each other in no defined order."
        contract.fail("indices", "free of duplicates (slot 0 excepted)", f"slot {slot} twice", remedy)
