"""What appending to a KV cache asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values
from sglab.kernels.fp8 import CACHES, check_scale


@dataclass(frozen=True)
class Rotary:
    """The rotation of a token's first `dim` dims: cos and sin (context, dim / 2), row = position."""

    cos: torch.Tensor
    sin: torch.Tensor
    interleaved: bool

    @property
    def dim(self) -> int:
        return 2 * self.cos.shape[1]


@dataclass(frozen=True)
class Queries:
    """Queries (tokens, heads, head_dim) to be rotated on the way, each at its position (tokens,), into `out`."""

    q: torch.Tensor
    positions: torch.Tensor
    out: torch.Tensor


@dataclass(frozen=True)
class Places:
    """From requests' pages to tokens' slots, for kernels that find their way alone.

    Token t is of request b = requests[t], and key positions[t] of it; or, without requests, of b = t // each, and key
    positions[b] + t % each. A key p lies in row p % page_size of page table[b, p // page_size], or, where the table is
    flat, of page table[start[b] + p // page_size].

    Attributes:
        requests: (tokens,) int32 or int64, or None.
        positions: (tokens,) or (batch,) int32 or int64.
        table: (batch, width) or flat, int32 or int64.
        start: (≥ batch,) int32 or int64, of a flat table.
        each: tokens of every request.
    """

    requests: torch.Tensor | None
    positions: torch.Tensor
    table: torch.Tensor
    start: torch.Tensor | None = None
    each: int = 1

    def slots(self, tokens: int, page_size: int) -> torch.Tensor:
        """(tokens,) int64."""
        key, request = self.positions, self.requests
        if request is None:
            number = torch.arange(tokens, device=key.device)
            request = number // self.each
            key = key[request] + number % self.each
        entry = key // page_size
        page = self.table[request, entry] if self.start is None else self.table[self.start[request] + entry]
        return torch.add(key % page_size, page.long(), alpha=page_size)


@dataclass(frozen=True)
class AppendArguments:
    """Checked arguments: k and v (tokens, kv_heads, dim) go to slots of the caches (pages, page_size, kv_heads, dim).

    Attributes:
        given_slots: (tokens,) int64, page · page_size + row; a negative one drops its token. None where `places` says.
        positions: (tokens,), for the rotation; None without one.
        k_scale, v_scale: the caches hold k / k_scale and v / v_scale; a number, or one per token and head, (tokens,
            kv_heads) float32.
        k_out: where the rotated keys go, too; k itself, or None.
        places: where tokens go, in the place of given_slots.
    """

    k: torch.Tensor
    v: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    given_slots: torch.Tensor | None
    positions: torch.Tensor | None
    rotary: Rotary | None
    queries: Queries | None
    k_scale: float | torch.Tensor
    v_scale: float | torch.Tensor
    k_out: torch.Tensor | None
    places: Places | None = None

    @cached_property
    def slots(self) -> torch.Tensor:
        """(tokens,) int64."""
        if self.given_slots is not None:
            return self.given_slots
        assert self.places is not None
        return self.places.slots(len(self.k), self.k_cache.shape[1])

    @property
    def device(self) -> torch.device:
        return self.k.device


def check(operator: str, a: AppendArguments, check_values: bool | None) -> AppendArguments:
    contract = Contract(operator)
    if contract.known:
        contract.apart("k_cache", a.k_cache, k=a.k, v=a.v)
        contract.apart("v_cache", a.v_cache, k=a.k, v=a.v)
        return a
    contract.tensor("k", a.k, "tokens kv_heads head_dim", FLOATS)
    contract.tensor("v", a.v, "tokens kv_heads v_dim", FLOATS)
    contract.same_dtype(k=a.k, v=a.v)
    contract.tensor("k_cache", a.k_cache, "pages page_size kv_heads head_dim", CACHES)
    contract.tensor("v_cache", a.v_cache, "pages page_size kv_heads v_dim", CACHES)
    if a.places is None:
        contract.tensor("slots", a.given_slots, "tokens", INDEX)
    elif a.places.requests is not None:
        contract.tensor("batch_indices", a.places.requests, "tokens", INDEX)
    contract.apart("k_cache", a.k_cache, k=a.k, v=a.v)
    contract.apart("v_cache", a.v_cache, k=a.k, v=a.v)
    check_scale(contract, "k_scale", a.k_scale, "tokens kv_heads")
    check_scale(contract, "v_scale", a.v_scale, "tokens kv_heads")
    if a.rotary is not None:
        _check_rotary(contract, a, a.rotary)
    if reads_values(check_values, a.device):
        _check_values(contract, a)
    return a


def check_places(contract: Contract, places: Places, page_size: int, check_values: bool) -> None:
    """Of places that callers of append_paged_kv_cache give."""
    requests, start = places.requests, places.start
    contract.tensor("batch_indices", requests, "tokens", INDEX)
    contract.tensor("positions", places.positions, "tokens", INDEX)
    contract.tensor("kv_indptr", start, "indptr", INDEX)
    contract.tensor("kv_indices", places.table, "indices", INDEX)
    if not check_values or requests is None or start is None:
        return
    batch = len(start) - 1
    inside = (requests >= 0) & (requests < batch)
    contract.elements("batch_indices", inside, f"from 0 to {batch - 1}", requests, "Number the requests.")
    rows = start.long().diff()[requests.long()] * page_size
    remedy = "Allocate pages for the new tokens first."
    fits = (places.positions >= 0) & (places.positions < rows)
    contract.elements("positions", fits, "within the request's pages", places.positions, remedy)


def _check_rotary(contract: Contract, a: AppendArguments, rotary: Rotary) -> None:
    contract.tensor("positions", a.positions, "tokens", INDEX)
    contract.tensor("rotary_cos", rotary.cos, "context half", (*FLOATS, torch.float64))
    contract.tensor("rotary_sin", rotary.sin, "context half", (*FLOATS, torch.float64))
    contract.same_dtype(rotary_cos=rotary.cos, rotary_sin=rotary.sin)
    head = contract.size("head_dim")
    expected = f"of at most {head // 2} columns, half a head"
    contract.require(0 < rotary.dim <= head, "rotary_cos", expected, rotary.dim // 2, "It has rotary_dim / 2 columns.")
    if a.queries is not None:
        contract.tensor("q", a.queries.q, "q_tokens heads head_dim", FLOATS)
        contract.tensor("q_positions", a.queries.positions, "q_tokens", INDEX)
        contract.same_dtype(k=a.k, q=a.queries.q)


def _check_values(contract: Contract, a: AppendArguments) -> None:
    slots = contract.size("pages") * contract.size("page_size")
    remedy = "Allocate pages for the new tokens first."
    contract.elements("slots", a.slots < slots, f"below {slots}, the slots of the cache", a.slots, remedy)
    taken, counts = torch.unique(a.slots[a.slots >= 0], return_counts=True)
    if (counts > 1).any():
        slot = int(taken[counts > 1][0])
        remedy = "Two tokens in one slot would overwrite each other in no defined order."
        contract.fail("slots", "free of duplicates", f"slot {slot} twice", remedy)
    if a.rotary is None:
        return
    queries = () if a.queries is None else (("q_positions", a.queries.positions),)
    for name, positions in (("positions", a.positions), *queries):
        context = len(a.rotary.cos)
        inside = (positions >= 0) & (positions < context)
        remedy = "Compute cosines and sines for a longer context."
        contract.elements(name, inside, f"from 0 to {context - 1}, the rows of rotary_cos", positions, remedy)
