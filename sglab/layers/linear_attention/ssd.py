"""Mamba2's state space duality, token by token and chunk by chunk: the same function.

Per token and head: h = exp(Δ A) h + Δ x ⊗ B; y = h C + D x, with h [P, N], x [P] and B, C [N]. In a chunk all of it is
matrix products under a decay mask. Source: Dao and Gu, Transformers are SSMs (2024).
"""

from __future__ import annotations

import torch

CHUNK = 64


def recurrent_ssd(
    x: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One token of each of n requests, without D's term.

    Args:
        x: float32 [n, heads, P].
        dt: float32 [n, heads], after its softplus.
        a: float32 [heads], negative.
        b, c: float32 [n, heads, N].
        state: float32 [n, heads, P, N], not changed.

    Returns:
        y [n, heads, P] and the new state.
    """
    state = state * (dt * a).exp()[..., None, None] + (x * dt[..., None])[..., None] * b[..., None, :]
    return torch.einsum("nhps,nhs->nhp", state, c), state


def chunk_ssd(
    x: torch.Tensor, dt: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """All new tokens of one request, CHUNK at a time; shapes as above with tokens for n, and state [heads, P, N]."""
    x, b, c = ((one.transpose(0, 1)) for one in (x * dt[..., None], b, c))
    decay = (dt * a).T
    out = []
    for start in range(0, x.shape[1], CHUNK):
        now = slice(start, start + CHUNK)
        y, state = _chunk(x[:, now], decay[:, now].cumsum(-1), b[:, now], c[:, now], state)
        out.append(y)
    return torch.cat(out, 1).transpose(0, 1), state


def _chunk(
    x: torch.Tensor, decay: torch.Tensor, b: torch.Tensor, c: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """x [heads, tokens, P], already times Δ; decay [heads, tokens] is the log since the chunk's start."""
    upper = torch.ones(decay.shape[1], decay.shape[1], dtype=torch.bool, device=x.device).triu(1)
    between = (decay[..., :, None] - decay[..., None, :]).masked_fill(upper, float("-inf")).exp()
    since_start, to_end = decay.exp()[..., None], (decay[..., -1:] - decay).exp()[..., None]
    y = (c @ b.transpose(-1, -2) * between) @ x + (c * since_start) @ state.transpose(-1, -2)
    return y, state * since_start[..., -1:, :] + x.transpose(-1, -2) @ (b * to_end)
