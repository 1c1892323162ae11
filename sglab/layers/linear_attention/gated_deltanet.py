"""GatedDeltaNet: projections, a causal convolution, the gated delta rule and a gated norm.

Source: Qwen3-Next's checkpoint; SGLang `layers/attention/hybrid_linear_attn_backend.py`, `models/qwen3_next.py`.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from sglab.engine import ForwardBatch
from sglab.kernels import fused_gdn_gating, gated_delta_rule
from sglab.layers.layernorm import RMSNormGated
from sglab.layers.linear import ColumnParallelLinear, RowParallelLinear
from sglab.layers.linear_attention.conv import CausalConv1d
from sglab.layers.linear_attention.states import States, extends, layer_states, token_starts
from sglab.layers.loading import sharded
from sglab.layers.parallel import TensorParallel


class GatedDeltaNet(nn.Module):
    """One layer. A query and key head serves value_heads / key_heads value heads.

    Args:
        layer: its number among the linear layers, in the state pool.
    """

    def __init__(
        self,
        hidden_size: int,
        key_heads: int,
        value_heads: int,
        key_dim: int,
        value_dim: int,
        width: int,
        eps: float,
        layer: int,
        tp: TensorParallel,
    ) -> None:
        super().__init__()
        self.layer, self.key_dim, self.value_dim = layer, key_dim, value_dim
        self.key_heads, self.group = tp.divide("linear_num_key_heads", key_heads), value_heads // key_heads
        keys, values = key_heads * key_dim, value_heads * value_dim
        self.in_proj_qkvz = ColumnParallelLinear(hidden_size, 2 * (keys + values), tp=tp)
        self.in_proj_ba = ColumnParallelLinear(hidden_size, 2 * value_heads, tp=tp)
        self.conv1d = CausalConv1d([keys, keys, values], width, tp)
        mine = partial(tp.shard, dim=0)
        self.dt_bias = sharded(torch.ones(self.key_heads * self.group), mine)
        self.A_log = sharded(torch.zeros(self.key_heads * self.group, dtype=torch.float32), mine)
        self.norm = RMSNormGated(value_dim, eps)
        self.out_proj = RowParallelLinear(values, hidden_size, tp=tp)

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        """[tokens, hidden] -> [tokens, hidden]; positions are not used: the state knows the order."""
        mixed, z = self._projected(x)
        b, a = self.in_proj_ba(x).unflatten(-1, (self.key_heads, -1)).chunk(2, -1)
        a, b = (one.flatten(1).contiguous() for one in (a, b))  # one value head per key head leaves gaps between rows
        decay, beta = fused_gdn_gating(self.A_log, a, b, self.dt_bias)
        states = layer_states(forward_batch, self.layer)
        q, k, v = self._heads(self._convolved(mixed, forward_batch, states))
        # The pool gives each request a row and clears it; a captured graph's padded requests share the dummy row.
        o = gated_delta_rule(
            *(q, k, v, decay, beta, states.temporal, states.rows, token_starts(forward_batch, len(states.rows))),
            check_values=False,
        )
        return self.out_proj(self.norm.gated(o.to(x.dtype), z).flatten(1))

    def _projected(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The convolution's input [tokens, q + k + v] and z [tokens, value heads, V], from rows ordered by key head."""
        values = self.group * self.value_dim
        by_head = self.in_proj_qkvz(x).unflatten(-1, (self.key_heads, -1))
        q, k, v, z = by_head.split([self.key_dim, self.key_dim, values, values], -1)
        return torch.cat([part.flatten(1) for part in (q, k, v)], -1), z.unflatten(-1, (self.group, -1)).flatten(1, 2)

    def _convolved(self, mixed: torch.Tensor, forward_batch: ForwardBatch, states: States) -> torch.Tensor:
        if forward_batch.forward_mode.is_decode():
            return self.conv1d.decode(mixed, states.conv, states.rows)
        convolved = torch.empty_like(mixed)
        for new, row in extends(forward_batch, states):
            convolved[new] = self.conv1d.extend(mixed[new], states.conv[row])
        return convolved

    def _heads(self, mixed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """q, k [tokens, key heads, K] and v [tokens, value heads, V]: rows of the convolution's output."""
        keys = self.key_heads * self.key_dim
        q, k, v = mixed.split([keys, keys, mixed.shape[-1] - 2 * keys], -1)
        return (*(one.unflatten(-1, (self.key_heads, -1)) for one in (q, k)), v.unflatten(-1, (-1, self.value_dim)))
