"""The gated delta rule, token by token and chunk by chunk: the same function.

Per token and head: h *= exp(g); h += k ⊗ β (v - hᵀ k); o = hᵀ q, with q and k of length 1 and q scaled by K^-½. The
state h is [K, V]. In a chunk the corrections solve a unit lower triangular system (the UT transform), so that all its
tokens are matrix products. Source: Yang et al., Gated Delta Networks (2024); SGLang `layers/attention/fla`.
"""

from __future__ import annotations

import torch

CHUNK = 64
L2_EPS = 1e-6


def l2norm(x: torch.Tensor) -> torch.Tensor:
    """x / |x| over the last dimension, in float32."""
    wide = x.float()
    return wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + L2_EPS)


def recurrent_gated_delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token of each of n requests.

    Args:
        q, k: float32 [n, heads, K], normalised; q is scaled here.
        v: float32 [n, heads, V].
        g, beta: float32 [n, heads], the log of the decay and the step.
        state: float32 [n, heads, K, V], not changed.

    Returns:
        o [n, heads, V] and the new state.
    """
    state = state * g.exp()[..., None, None]
    correction = (v - torch.einsum("nhkv,nhk->nhv", state, k)) * beta[..., None]
    state = state + k[..., None] * correction[..., None, :]
    return torch.einsum("nhkv,nhk->nhv", state, q * q.shape[-1] ** -0.5), state


def chunk_gated_delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """All new tokens of one request, CHUNK at a time; shapes as above with tokens for n, and state [heads, K, V]."""
    q, k, v, g, beta = (one.transpose(0, 1) for one in (q * q.shape[-1] ** -0.5, k, v, g, beta))
    out = []
    for start in range(0, q.shape[1], CHUNK):
        now = slice(start, start + CHUNK)
        o, state = _chunk(q[:, now], k[:, now], v[:, now], g[:, now], beta[:, now], state)
        out.append(o)
    return torch.cat(out, 1).transpose(0, 1), state


def _chunk(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, beta: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """[heads, tokens, dim] each."""
    later = torch.ones(len(g[0]), len(g[0]), dtype=torch.bool, device=g.device).tril(-1)
    # Sums of the gates between two tokens, not differences of sums: a gate may be −inf.
    between = torch.where(later, g[..., :, None], 0.0).cumsum(-2).exp().tril()
    since_start, to_end = g.cumsum(-1).exp()[..., None], between[..., -1, :, None]
    keys = k * beta[..., None]
    system = keys @ k.transpose(-1, -2) * between  # its diagonal is taken as 1
    right_side = torch.cat((v * beta[..., None], keys * since_start), -1)
    solved = torch.linalg.solve_triangular(system, right_side, upper=False, unitriangular=True)
    values, reads = solved.split([v.shape[-1], k.shape[-1]], -1)
    values = values - reads @ state
    o = (q * since_start) @ state + (q @ k.transpose(-1, -2) * between) @ values
    return o, state * since_start[..., -1:, :] + (k * to_end).transpose(-1, -2) @ values
