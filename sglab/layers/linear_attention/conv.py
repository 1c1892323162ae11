"""CausalConv1d: the convolution's parameters, of this rank."""

from __future__ import annotations

import torch
from torch import nn

from sglab.layers.linear_attention.causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from sglab.layers.loading import sharded
from sglab.layers.parallel import TensorParallel


class CausalConv1d(nn.Module):
    """The weight [channels, 1, width] of a depthwise convolution; its channels are parts, each cut over ranks."""

    def __init__(self, parts: list[int], width: int, tp: TensorParallel, bias: bool = False) -> None:
        super().__init__()
        channels = sum(tp.divide("channels", part) for part in parts)

        def cut(whole: torch.Tensor) -> torch.Tensor:
            return torch.cat([tp.shard(part, 0) for part in whole.split(parts)])

        self.weight = sharded(torch.empty(channels, 1, width), cut)
        self.bias = sharded(torch.zeros(channels), cut) if bias else None

    def extend(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        return causal_conv1d_fn(x, self.weight[:, 0], self.bias, state)

    def decode(self, x: torch.Tensor, states: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return causal_conv1d_update(x, self.weight[:, 0], self.bias, states, rows)
