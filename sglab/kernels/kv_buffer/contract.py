"""What set_mla_kv_buffer asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.contract import INDEX, Contract, reads_values


@dataclass(frozen=True)
class BufferArguments:
    """Checked arguments, heads axes dropped: kv_buffer (slots, nope + rope), cache_k_nope and _rope (tokens, dim)."""

    kv_buffer: torch.Tensor
    loc: torch.Tensor
    cache_k_nope: torch.Tensor
    cache_k_rope: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.kv_buffer.device


def check(
    kv_buffer: torch.Tensor,
    loc: torch.Tensor,
    cache_k_nope: torch.Tensor,
    cache_k_rope: torch.Tensor,
    check_values: bool | None,
) -> BufferArguments:
    contract = Contract("set_mla_kv_buffer")
    buffer = _without_heads(contract, "kv_buffer", kv_buffer, "slots kv_dim")
    contract.tensor("loc", loc, "tokens", INDEX)
    nope = _without_heads(contract, "cache_k_nope", cache_k_nope, "tokens nope_dim")
    rope = _without_heads(contract, "cache_k_rope", cache_k_rope, "tokens rope_dim")
    contract.same_dtype(kv_buffer=buffer, cache_k_nope=nope, cache_k_rope=rope)
    total = contract.size("nope_dim") + contract.size("rope_dim")
    contract.require(
        contract.size("kv_dim") == total,
        "kv_buffer",
        f"nope_dim + rope_dim = {total} wide (a token's latent, then its rotary key)",
        f"{contract.size('kv_dim')} wide",
        "Allocate the pool with kv_lora_rank + qk_rope_head_dim columns.",
    )
    if reads_values(check_values, kv_buffer.device):
        _check_slots(contract, loc)
    return BufferArguments(buffer, loc, nope, rope)


def _without_heads(contract: Contract, name: str, value: torch.Tensor, shape: str) -> torch.Tensor:
    """Accept (rows, 1, dim) beside (rows, dim): MLA has one shared KV head."""
    if isinstance(value, torch.Tensor) and value.ndim == 3 and value.shape[1] == 1:
        value = value[:, 0]
    contract.tensor(name, value, shape)
    return value


def _check_slots(contract: Contract, loc: torch.Tensor) -> None:
    slots = contract.size("slots")
    contract.elements(
        "loc",
        (loc >= 0) & (loc < slots),
        f"from 0 to {slots - 1}, the slots of kv_buffer",
        loc,
        "Pass out_cache_loc as the allocator returned it.",
    )
    taken, counts = torch.unique(loc[loc != 0], return_counts=True)
    if (counts > 1).any():
        slot = int(taken[counts > 1][0])
        contract.fail(
            "loc",
            "free of duplicates (slot 0, where padding rows go, excepted)",
            f"slot {slot} twice",
            "Two tokens in one slot would overwrite each other in no defined order.",
        )
