"""Mamba2: projections, a causal convolution, the state space recurrence and a gated norm.

Source: the checkpoints of Bamba; SGLang `layers/attention/mamba/mamba.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn import functional

from sglab.engine import ForwardBatch, StateConfig
from sglab.layers.layernorm import RMSNormGated
from sglab.layers.linear import MergedColumnParallelLinear, RowParallelLinear
from sglab.layers.linear_attention.conv import CausalConv1d
from sglab.layers.linear_attention.ssd import chunk_ssd, recurrent_ssd
from sglab.layers.linear_attention.states import States, extends, layer_states
from sglab.layers.loading import sharded
from sglab.layers.parallel import TensorParallel


@dataclass(frozen=True)
class Mamba2Shape:
    """Of the whole layer, before it is cut over ranks. `groups` of heads share B and C."""

    heads: int
    head_dim: int
    state_size: int
    groups: int
    width: int
    conv_bias: bool = True
    proj_bias: bool = False
    dt_limit: tuple[float, float] = (0.0, float("inf"))

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def parts(self) -> list[int]:
        """What the convolution runs over: x, B and C."""
        return [self.inner, self.groups * self.state_size, self.groups * self.state_size]

    def state_config(self, layer_num: int, tp: TensorParallel) -> StateConfig:
        conv = (sum(self.parts) // tp.size, self.width - 1)
        return StateConfig(layer_num, conv, (self.heads // tp.size, self.head_dim, self.state_size))


class Mamba2Mixer(nn.Module):
    """One layer; `layer` is its number among the linear layers, in the state pool."""

    def __init__(self, hidden_size: int, shape: Mamba2Shape, eps: float, layer: int, tp: TensorParallel) -> None:
        super().__init__()
        self.shape, self.layer = shape, layer
        self.groups, self.heads = tp.divide("mamba_n_groups", shape.groups), tp.divide("mamba_n_heads", shape.heads)
        sizes = [shape.inner, *shape.parts, shape.heads]
        self.in_proj = MergedColumnParallelLinear(hidden_size, sizes, shape.proj_bias, tp)
        self.conv1d = CausalConv1d(shape.parts, shape.width, tp, shape.conv_bias)
        mine = partial(tp.shard, dim=0)
        self.dt_bias = sharded(torch.ones(self.heads), mine)
        self.A_log = sharded(torch.zeros(self.heads, dtype=torch.float32), mine)
        self.D = sharded(torch.ones(self.heads), mine)
        inner = self.heads * shape.head_dim
        self.norm = RMSNormGated(inner, eps, inner // self.groups, norm_before_gate=False)
        self.norm.weight = sharded(torch.ones(inner), mine)
        self.out_proj = RowParallelLinear(shape.inner, hidden_size, shape.proj_bias, tp)

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        """[tokens, hidden] -> [tokens, hidden]; positions are not used: the state knows the order."""
        inner, channels = self.heads * self.shape.head_dim, len(self.conv1d.weight)
        gate, mixed, dt = self.in_proj(x).split([inner, channels, self.heads], -1)
        dt = functional.softplus(dt.float() + self.dt_bias.float()).clamp(*self.shape.dt_limit)
        states = layer_states(forward_batch, self.layer)
        if forward_batch.forward_mode.is_decode():
            y = self._decode(mixed, dt, states)
        else:
            y = torch.cat(
                [self._extend(mixed[new], dt[new], states, row) for new, row in extends(forward_batch, states)]
            )
        return self.out_proj(self.norm.gated(y.flatten(1).to(x.dtype), gate))

    def _parts(self, mixed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """x [tokens, heads, P], B and C [tokens, heads, N] in float32."""
        shared = self.groups * self.shape.state_size
        x, b, c = mixed.float().split([mixed.shape[-1] - 2 * shared, shared, shared], -1)
        b, c = (one.unflatten(-1, (self.groups, -1)).repeat_interleave(self.heads // self.groups, 1) for one in (b, c))
        return x.unflatten(-1, (self.heads, -1)), b, c

    def _decode(self, mixed: torch.Tensor, dt: torch.Tensor, states: States) -> torch.Tensor:
        x, b, c = self._parts(self.conv1d.decode(mixed, states.conv, states.rows))
        y, new = recurrent_ssd(x, dt, -self.A_log.float().exp(), b, c, states.temporal[states.rows])
        states.temporal[states.rows] = new
        return y + x * self.D.float()[:, None]

    def _extend(self, mixed: torch.Tensor, dt: torch.Tensor, states: States, row: int) -> torch.Tensor:
        x, b, c = self._parts(self.conv1d.extend(mixed, states.conv[row]))
        y, new = chunk_ssd(x, dt, -self.A_log.float().exp(), b, c, states.temporal[row])
        states.temporal[row] = new
        return y + x * self.D.float()[:, None]
