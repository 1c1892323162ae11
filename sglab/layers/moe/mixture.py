"""Mixture: a layer's routed experts and shared ones, over tokens that were gathered or that each rank brings itself.

With DeepEP's exchange (SGLang's moe_a2a_backend="deepep") a rank has tokens of its own, sends them to the ranks of
their experts and gets their sums back; nothing is gathered, and shared experts are whole on every rank.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from sglab.layers.moe.dispatcher import ExpertExchange
from sglab.layers.moe.ep_moe import low_latency_experts, normal_experts
from sglab.layers.moe.experts import FusedMoE
from sglab.layers.moe.topk import Routing
from sglab.layers.parallel import TensorParallel


class Mixture(nn.Module):
    """A subclass says how tokens are routed, and which shared experts there are.

    Attributes:
        tp: all ranks. experts: the routed ones.
    """

    tp: TensorParallel
    experts: FusedMoE

    def route(self, x: torch.Tensor) -> Routing:
        """[tokens, hidden] -> each token's experts."""
        raise NotImplementedError

    def shared(self, x: torch.Tensor) -> torch.Tensor | None:
        """What the shared experts add; None: there are none."""
        return None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, hidden] -> the same; all ranks have the same tokens."""
        return self.tp.all_reduce(self._with_shared(x, self.experts(x, self.route(x))))

    def on_own_tokens(self, x: torch.Tensor, low_latency: bool) -> torch.Tensor:
        """[tokens, hidden] of this rank -> the same, by way of all ranks' experts."""
        location, tp = self.experts.location, self.tp
        exchange = ExpertExchange(len(location.physical_to_logical), tp.rank, tp.size, tp.group, tp.a2a_room)
        way = partial(normal_experts, exchange)
        if low_latency:
            way = partial(low_latency_experts, exchange, use_fp8=tp.a2a_fp8)
        return self._with_shared(x, self.experts(x, self.route(x), way))

    def _with_shared(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        shared = self.shared(x)
        return y if shared is None else y + shared
