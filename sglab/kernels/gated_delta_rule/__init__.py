"""The gated delta rule of Gated DeltaNet and KDA: decoding, prefill and the verification of drafts.

Per token and head: h *= exp(g); h += k ⊗ β (v − hᵀ k); o = scale · hᵀ q, after the update. In KDA each key dim has its
own g. Source: SGLang `layers/attention/fla`; flash-linear-attention.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from sglab.kernels.contract import FLOATS, Contract
from sglab.kernels.gated_delta_rule.contract import DeltaArguments, check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = ["fused_gdn_gating", "gated_delta_rule", "operator", "update_state_after_verify"]


def _refuses_chunks(a: DeltaArguments) -> str | None:
    """Calls that ask for each token's own state, or that have no chunks."""
    if a.steps is not None:
        return "the states after each token are asked for, and chunks make one state each"
    if len(a.v) <= len(a.slots):
        return "no more tokens than requests: there are no chunks"
    if a.k.shape[2] > 256:
        return f"it takes up to 256 key dims, got {a.k.shape[2]}"
    return needs_triton(a)


operator = Operator(
    "gated_delta_rule",
    Implementation("triton_chunks", "sglab.kernels.gated_delta_rule.triton_chunks:run", GPU, _refuses_chunks),
    Implementation("triton", "sglab.kernels.gated_delta_rule.triton:run", GPU, needs_triton),
    Implementation("torch", "sglab.kernels.gated_delta_rule.reference:run_float32", EVERYWHERE),
    Implementation("reference", "sglab.kernels.gated_delta_rule.reference:run", EVERYWHERE),
)


def gated_delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    initial_state: torch.Tensor,
    initial_state_indices: torch.Tensor,
    cu_seqlens: torch.Tensor,
    *,
    scale: float | None = None,
    has_initial_state: torch.Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = True,
    disable_state_update: bool = False,
    intermediate_states_buffer: torch.Tensor | None = None,
    retrieve_parent_token: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """The rule over a ragged batch: one token per request decodes, more extend, drafts verify.

    Args:
        q, k: (tokens, key_heads, K) float32, float16 or bfloat16; v: (tokens, heads, V).
        g: (tokens, heads) float32, the logarithm of the decay, at most 0; for KDA (tokens, heads, K).
        beta: (tokens, heads).
        initial_state: (slots, heads, K, V) float32, the pool; a request's state is changed in place.
        initial_state_indices: (batch,) int32 or int64; a negative one is padding: its outputs are 0.
        cu_seqlens: (batch + 1,) int32 or int64.
        scale: of o; K ** −0.5 by default.
        has_initial_state: (batch,) bool: False starts from 0, whatever the slot's former owner left.
        use_qk_l2norm_in_kernel: divide q and k by their lengths, √(Σ x² + 1e-6).
        disable_state_update: leave initial_state as it is: drafts may be rejected.
        intermediate_states_buffer: output (batch, steps, heads, K, V) float32: the state after each token.
        retrieve_parent_token: (batch, steps) int32: which token of the request a draft comes after, −1 for the state;
            None: each after the one before. Needs intermediate_states_buffer.

    Returns:
        o (tokens, heads, V), the dtype of v.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    name = "gated_delta_rule"
    Contract(name).tensor("k", k, "tokens key_heads K")
    out = torch.empty_like(v, memory_format=torch.contiguous_format)
    arguments = DeltaArguments(
        *(q, k, v, g, beta, initial_state, initial_state_indices, cu_seqlens, has_initial_state),
        scale=k.shape[-1] ** -0.5 if scale is None else scale,
        normalise=use_qk_l2norm_in_kernel,
        keep_states=disable_state_update,
        steps=intermediate_states_buffer,
        parents=retrieve_parent_token,
        out=out,
    )
    check(name, arguments, check_values)
    operator(arguments, implementation)
    return out


def fused_gdn_gating(
    A_log: torch.Tensor, a: torch.Tensor, b: torch.Tensor, dt_bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """g = −exp(A_log) · softplus(a + dt_bias) and beta = sigmoid(b), float32 (tokens, heads). After SGLang.

    Args:
        A_log, dt_bias: (heads,); a, b: (tokens, heads).

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("fused_gdn_gating")
    contract.tensor("a", a, "tokens heads", FLOATS)
    contract.tensor("b", b, "tokens heads", FLOATS)
    contract.tensor("A_log", A_log, "heads", FLOATS)
    contract.tensor("dt_bias", dt_bias, "heads", FLOATS)
    softplus = functional.softplus(a.float() + dt_bias.float(), threshold=20.0)
    return -A_log.float().exp() * softplus, b.float().sigmoid()


def update_state_after_verify(
    states: torch.Tensor, state_indices: torch.Tensor, intermediate_states: torch.Tensor, accepted: torch.Tensor
) -> None:
    """states[state_indices[i]] = intermediate_states[i, accepted[i]], where accepted[i] and the index are not negative.

    Args:
        states: (slots, heads, K, V); intermediate_states: (batch, steps, heads, K, V).
        accepted: (batch,) int64, the last accepted draft; −1: none.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    contract = Contract("update_state_after_verify")
    contract.tensor("states", states, "slots heads K V")
    contract.tensor("intermediate_states", intermediate_states, "batch steps heads K V")
    contract.tensor("state_indices", state_indices, "batch")
    contract.tensor("accepted", accepted, "batch")
    if states.device.type == "cpu":
        steps = intermediate_states.shape[1]
        contract.elements("accepted", accepted < steps, f"below {steps}", accepted, "It numbers a request's drafts.")
        below = state_indices < len(states)
        contract.elements("state_indices", below, f"below {len(states)}", state_indices, "Pass the pool's rows.")
    rows = torch.minimum(accepted, state_indices).ge(0).nonzero()[:, 0]
    states[state_indices[rows].long()] = intermediate_states[rows, accepted[rows].long()]
