"""FusedMoE: the weights of a layer's experts, of which each rank holds a slice of every one."""

from __future__ import annotations

import torch
from torch import nn

from sglab.kernels import fused_experts
from sglab.layers.loading import Shard, WeightError, copy_into
from sglab.layers.moe.topk import Routing
from sglab.layers.parallel import SINGLE, TensorParallel

_PARTS = {"gate_proj": 0, "up_proj": 1, "down_proj": 2, "w1": 0, "w3": 1, "w2": 2}
"""A checkpoint's names of an expert's matrices -> gate, up, down."""


class FusedMoE(nn.Module):
    """Experts over merged weights; the sum over ranks is the caller's, who may add shared experts to it first.

    Attributes:
        w13: [experts, 2 · intermediate / tp, hidden], gate and up.
        w2: [experts, hidden, intermediate / tp].
        routing: of the pass last run, for whoever looks on; None before the first.
    """

    routing: Routing | None = None

    def __init__(self, num_experts: int, hidden_size: int, intermediate_size: int, tp: TensorParallel = SINGLE) -> None:
        super().__init__()
        self.num_experts, self.tp = num_experts, tp
        self.size = tp.divide("moe_intermediate_size", intermediate_size)
        self.w13 = nn.Parameter(torch.empty(num_experts, 2 * self.size, hidden_size), requires_grad=False)
        self.w2 = nn.Parameter(torch.empty(num_experts, hidden_size, self.size), requires_grad=False)

    def forward(self, x: torch.Tensor, routing: Routing) -> torch.Tensor:
        """[tokens, hidden] -> this rank's part of the experts' weighted sum."""
        self.routing = routing
        return fused_experts(x, self.w13, self.w2, routing.weights, routing.ids, check_values=False)

    def weight_keys(self) -> list[str]:
        return [f"{expert}.{part}" for expert in range(self.num_experts) for part in range(3)]

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        """`path` is "<expert>.<matrix>.weight"."""
        expert, _, rest = path.partition(".")
        part = _PARTS.get(rest.removesuffix(".weight"))
        if part is None or not expert.isdecimal() or int(expert) >= self.num_experts:
            expected = f"an expert below {self.num_experts} and one of {', '.join(_PARTS)}"
            remedy = "The checkpoint does not belong to this config.json."
            raise WeightError(f"experts.{path}", expected, "another name", remedy)
        copy_into(self._matrix(int(expert), part), self.tp.shard(tensor, 1 if part == 2 else 0), f"experts.{path}")
        return [f"{expert}.{part}"]

    def _matrix(self, expert: int, part: int) -> torch.Tensor:
        return self.w2[expert] if part == 2 else self.w13[expert, part * self.size : (part + 1) * self.size]
