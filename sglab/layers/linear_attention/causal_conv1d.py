"""causal_conv1d: a depthwise convolution over each request's tokens, with the last inputs kept for the next pass.

Source: SGLang `layers/attention/mamba/causal_conv1d.py`.
"""

from __future__ import annotations

import torch
from torch.nn import functional


def causal_conv1d_fn(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, state: torch.Tensor
) -> torch.Tensor:
    """One request's new tokens, after the inputs that `state` holds; silu(convolution).

    Args:
        x: [tokens, channels].
        weight: [channels, width].
        bias: [channels] or None.
        state: [channels, width - 1], read, and left with the last inputs.

    Returns:
        [tokens, channels].
    """
    inputs = torch.cat((state.to(x.dtype), x.T), -1)
    state.copy_(inputs[:, inputs.shape[1] - state.shape[1] :])
    out = functional.conv1d(inputs[None], weight[:, None], bias, groups=len(weight))[0]
    return functional.silu(out).T


def causal_conv1d_update(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, states: torch.Tensor, rows: torch.Tensor
) -> torch.Tensor:
    """One new token per request.

    Args:
        x: [B, channels].
        states: [rows, channels, width - 1]; `rows` int64 [B] says which; changed in place.

    Returns:
        [B, channels].
    """
    inputs = torch.cat((states[rows].to(x.dtype), x[..., None]), -1)
    states[rows] = inputs[..., 1:].to(states.dtype)
    out = (inputs * weight).sum(-1)
    return functional.silu(out if bias is None else out + bias)
