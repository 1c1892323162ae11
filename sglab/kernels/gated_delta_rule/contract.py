"""What the gated delta rule asks of its arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values


@dataclass(frozen=True)
class DeltaArguments:
    """Checked: requests' tokens one after another, and a state per request.

    Attributes:
        q, k: (tokens, key_heads, K); v: (tokens, heads, V); head h uses key head h // (heads / key_heads).
        g: (tokens, heads) logarithm of the decay; KDA: (tokens, heads, K), one per key dim.
        beta: (tokens, heads).
        states: (slots, heads, K, V) float32, changed in place unless `keep_states`.
        slots: (batch,) which is a request's; a negative one: no request, its outputs are 0.
        cu_seqlens: (batch + 1,) where requests start.
        initial: (batch,) bool: whether a request's state counts; else it starts from 0. None: all do.
        steps: output (batch, most tokens, heads, K, V) float32: the state after each token, or None.
        parents: (batch, most tokens) int32: after which of the request's tokens a token comes, −1: after the state;
            None: after the one before it.
        out: output (tokens, heads, V).
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    g: torch.Tensor
    beta: torch.Tensor
    states: torch.Tensor
    slots: torch.Tensor
    cu_seqlens: torch.Tensor
    initial: torch.Tensor | None
    scale: float
    normalise: bool
    keep_states: bool
    steps: torch.Tensor | None
    parents: torch.Tensor | None
    out: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def group(self) -> int:
        """Heads of a key head."""
        return self.v.shape[1] // self.k.shape[1]

    @property
    def per_dim(self) -> bool:
        """Whether each key dim decays on its own, as in KDA."""
        return self.g.ndim == 3


def check(operator: str, a: DeltaArguments, check_values: bool | None) -> None:
    contract = Contract(operator)
    contract.tensor("q", a.q, "tokens key_heads K", FLOATS)
    contract.tensor("k", a.k, "tokens key_heads K", FLOATS)
    contract.tensor("v", a.v, "tokens heads V", FLOATS)
    contract.same_dtype(q=a.q, k=a.k, v=a.v)
    heads, key_heads = contract.size("heads"), contract.size("key_heads")
    divides = key_heads > 0 and heads % key_heads == 0
    contract.require(
        divides, "v", f"of heads divisible by {key_heads} key heads", f"{heads} heads", "Heads form groups."
    )
    contract.tensor("g", a.g, "tokens heads K" if a.g.ndim == 3 else "tokens heads", (torch.float32,))
    contract.tensor("beta", a.beta, "tokens heads", FLOATS)
    contract.tensor("initial_state", a.states, "slots heads K V", (torch.float32,))
    contract.require(
        a.states[:1].is_contiguous(), "initial_state", "of contiguous states", a.states.stride(), "Copy it."
    )
    contract.tensor("cu_seqlens", a.cu_seqlens, "cu_seqlens", INDEX)
    contract.fix("batch", len(a.cu_seqlens) - 1, "cu_seqlens")
    contract.tensor("initial_state_indices", a.slots, "batch", INDEX)
    if a.initial is not None:
        contract.tensor("has_initial_state", a.initial, "batch", (torch.bool,))
    if a.steps is not None:
        contract.tensor("intermediate_states_buffer", a.steps, "batch steps heads K V", (torch.float32,))
        contiguous = a.steps.is_contiguous()
        contract.require(contiguous, "intermediate_states_buffer", "contiguous", a.steps.stride(), "Allocate it so.")
    if a.parents is not None:
        contract.tensor("retrieve_parent_token", a.parents, "batch steps", (torch.int32,))
        remedy = "A token after another than the last needs that one's state."
        given = a.steps is not None
        contract.require(given, "intermediate_states_buffer", "given with retrieve_parent_token", None, remedy)
    contract.require(math.isfinite(a.scale), "scale", "finite", a.scale, "K ** -0.5 by default.")
    if reads_values(check_values, a.device):
        _check_values(contract, a)


def _check_values(contract: Contract, a: DeltaArguments) -> None:
    steps = torch.cat([a.cu_seqlens[:1], a.cu_seqlens.diff()])
    tokens = contract.size("tokens")
    fits = (steps >= 0) & (a.cu_seqlens <= tokens)
    contract.elements("cu_seqlens", fits, f"non-decreasing, at most {tokens}", a.cu_seqlens, "Use a cumulative sum.")
    slots = contract.size("slots")
    contract.elements("initial_state_indices", a.slots < slots, f"below {slots}", a.slots, "Pass the pool's rows.")
    used, counts = torch.unique(a.slots[a.slots >= 0], return_counts=True)
    alone = bool((counts == 1).all()) or a.keep_states
    contract.require(alone, "initial_state_indices", "a state per request", "a slot twice", "Allocate one for each.")
    contract.elements("g", a.g <= 0, "at most 0, the logarithm of a decay", a.g, "It is −exp(A_log) · softplus(…).")
    for name, x in (("q", a.q), ("k", a.k), ("v", a.v), ("beta", a.beta)):
        contract.elements(name, x.isfinite(), "finite", x, "One NaN would stay in the state.")
    finite = a.states[used.long()].flatten(1).isfinite().all(1)
    contract.elements("initial_state", finite, "finite", used, "Clear the state when its request ends.")
    if a.steps is not None:
        most = int(a.cu_seqlens.diff().max()) if len(a.cu_seqlens) > 1 else 0
        room = a.steps.shape[1]
        contract.require(most <= room, "intermediate_states_buffer", f"of {most} steps", room, "Allocate more.")
    if a.parents is not None:
        column = torch.arange(a.parents.shape[1], device=a.device)
        real = column < a.cu_seqlens.diff()[:, None]
        before = ~real | ((a.parents >= -1) & (a.parents < column))
        contract.elements("retrieve_parent_token", before, "−1 or an earlier token", a.parents, "Parents come first.")
