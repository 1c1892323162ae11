"""The gated delta rule token by token: in float64, and in float32 for the CPU, where long extends go chunk by chunk."""

from __future__ import annotations

import torch

from sglab.kernels.gated_delta_rule.chunks import chunk_gated_delta_rule, l2norm, recurrent_gated_delta_rule
from sglab.kernels.gated_delta_rule.contract import DeltaArguments

L2_EPS = 1e-6


def run(a: DeltaArguments) -> tuple[()]:
    for request in range(len(a.slots)):
        _tokens(a, request, torch.float64)
    return ()


def run_float32(a: DeltaArguments) -> tuple[()]:
    chunked = not a.per_dim and a.steps is None and a.parents is None
    lens = a.cu_seqlens.diff().tolist()
    if chunked and set(lens) == {1} and len(a.v) == len(lens):
        _decode(a)
        return ()
    for request, length in enumerate(lens):
        if chunked and length > 1:
            _chunks(a, request)
        else:
            _tokens(a, request, torch.float32)
    return ()


def _state(a: DeltaArguments, request: int, dtype: torch.dtype) -> torch.Tensor:
    state = a.states[int(a.slots[request])].to(dtype)
    fresh = a.initial is not None and not bool(a.initial[request])
    return torch.zeros_like(state) if fresh else state


def _tokens(a: DeltaArguments, request: int, dtype: torch.dtype) -> None:
    first, end = a.cu_seqlens[request : request + 2].tolist()
    if int(a.slots[request]) < 0:
        a.out[first:end] = 0
        return
    q, k = (x[first:end].to(dtype).repeat_interleave(a.group, 1) for x in (a.q, a.k))
    if a.normalise:
        q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + L2_EPS) for x in (q, k))
    v, beta = a.v[first:end].to(dtype), a.beta[first:end].to(dtype)
    decay = a.g[first:end].to(dtype).exp()
    start = _state(a, request, dtype)
    made: list[torch.Tensor] = []
    h = start
    for t in range(end - first):
        if a.parents is not None:
            before = int(a.parents[request, t])
            h = start if before < 0 else made[before]
        h = h * (decay[t][..., None] if a.per_dim else decay[t][:, None, None])
        change = (v[t] - torch.einsum("hkv,hk->hv", h, k[t])) * beta[t][:, None]
        h = h + k[t][..., None] * change[:, None]
        a.out[first + t] = (torch.einsum("hkv,hk->hv", h, q[t]) * a.scale).to(a.out.dtype)
        if a.steps is not None:
            a.steps[request, t] = h.float()
            made.append(h)
    if not a.keep_states:
        a.states[int(a.slots[request])] = h.float()


def _decode(a: DeltaArguments) -> None:
    """One token of every request, all at once."""
    given = a.slots >= 0
    rows = a.slots[given].long()
    q, k = _rows(a, slice(None))
    states = a.states[rows]
    if a.initial is not None:
        states = torch.where(a.initial[given, None, None, None], states, 0.0)
    o, states = recurrent_gated_delta_rule(
        *(q[given], k[given], a.v[given].float(), a.g[given], a.beta[given].float()), states
    )
    a.out[given], a.out[~given] = o.to(a.out.dtype), 0
    if not a.keep_states:
        a.states[rows] = states


def _rows(a: DeltaArguments, now: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """q and k of tokens in float32, for every head; q so that the scale K^-½, which follows, makes a.scale."""
    q, k = (l2norm(x[now]) if a.normalise else x[now].float() for x in (a.q, a.k))
    q = q * (a.scale * q.shape[-1] ** 0.5)
    return q.repeat_interleave(a.group, 1), k.repeat_interleave(a.group, 1)


def _chunks(a: DeltaArguments, request: int) -> None:
    first, end = a.cu_seqlens[request : request + 2].tolist()
    if int(a.slots[request]) < 0:
        a.out[first:end] = 0
        return
    now = slice(first, end)
    q, k = _rows(a, now)
    state = _state(a, request, torch.float32)
    o, state = chunk_gated_delta_rule(q, k, a.v[now].float(), a.g[now], a.beta[now].float(), state)
    a.out[now] = o.to(a.out.dtype)
    if not a.keep_states:
        a.states[int(a.slots[request])] = state
