"""FusedMoE: the weights of a layer's experts, of which each rank holds some, or a slice of every one, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from sglab.kernels import fused_experts
from sglab.layers.loading import Shard, WeightError, copy_into
from sglab.layers.moe.location import ExpertLocation
from sglab.layers.moe.quantized import quantized_experts
from sglab.layers.moe.routed import RoutedExperts
from sglab.layers.moe.topk import Routing
from sglab.layers.parallel import SINGLE, TensorParallel
from sglab.layers.quantization.scheme import Scheme
from sglab.layers.quantization.weight import Cut, QuantizedMatrix, QuantizedWeight

PARTS = {"gate_proj": 0, "up_proj": 1, "down_proj": 2, "w1": 0, "w3": 1, "w2": 2}
"""A checkpoint's names of an expert's matrices -> gate, up, down."""


Way = Callable[["FusedMoE", torch.Tensor, Routing], torch.Tensor]


class FusedMoE(RoutedExperts):
    """Experts over merged weights; the sum over ranks is the caller's, who may add shared experts to it first.

    With ep_size ranks for experts, each of these holds its share of them, whole or cut over the ranks that are left.

    Attributes:
        w13: [experts here, 2 · intermediate / tp, hidden], gate and up; empty where `quantized` holds them.
        w2: [experts here, hidden, intermediate / tp].
        quantized: both in their checkpoint's format; None: they are not quantised.
        location: which experts are where.
    """

    quantized: tuple[QuantizedMatrix, QuantizedMatrix] | None = None

    def __init__(self, num_experts: int, hidden_size: int, intermediate_size: int, tp: TensorParallel = SINGLE) -> None:
        super().__init__()
        self.num_experts, self.hidden_size, self.tp = num_experts, hidden_size, tp
        self.slices = tp.within_experts()
        self.size = self.slices.divide("moe_intermediate_size", intermediate_size)
        self.relocate(ExpertLocation.even(num_experts, tp.ep_size))

    def relocate(self, location: ExpertLocation) -> None:
        """Hold other experts, whose weights are loaded after this."""
        self.location, self.here = location, location.on_rank(self.tp.ep_rank)
        count = len(self.here)
        self.w13 = nn.Parameter(torch.empty(count, 2 * self.size, self.hidden_size), requires_grad=False)
        self.w2 = nn.Parameter(torch.empty(count, self.hidden_size, self.size), requires_grad=False)

    def forward(self, x: torch.Tensor, routing: Routing, way: Way | None = None) -> torch.Tensor:
        """[tokens, hidden] -> this rank's part of the experts' weighted sum.

        Args:
            way: how tokens that this rank alone has travel to the experts of all ranks: the whole sum is returned.
        """
        self.routing = routing
        if way is not None:
            return way(self, x, routing)
        ids = self.location.local_ids(routing.ids, self.tp.ep_rank)
        return self.compute(x, Routing(routing.weights, ids))

    def compute(self, x: torch.Tensor, routing: Routing) -> torch.Tensor:
        """As `forward`, with ids that count the experts here; -1: one of another rank."""
        if self.quantized is not None:
            return quantized_experts(x, *self.quantized, routing)
        return fused_experts(x, self.w13, self.w2, routing.weights, routing.ids, check_values=False)

    def quantize(self, schemes: Sequence[Scheme], label: str = "") -> None:
        """Hold gate, up and down in a checkpoint's format instead."""
        count, whole = len(self.here), self.size * self.slices.size

        def part(scheme: Scheme, shape: tuple[int, int], whole_in: int) -> QuantizedWeight:
            return QuantizedWeight(scheme, shape, whole_in, count, label)

        with self.w13.device:
            gate_up = [part(scheme, (self.size, self.hidden_size), self.hidden_size) for scheme in schemes[:2]]
            down = [part(schemes[2], (self.hidden_size, self.size), whole)]
        self.quantized_w13, self.quantized_w2 = QuantizedMatrix(gate_up), QuantizedMatrix(down)
        self.quantized = (self.quantized_w13, self.quantized_w2)
        self.w13 = nn.Parameter(self.w13.new_empty(0), requires_grad=False)
        self.w2 = nn.Parameter(self.w2.new_empty(0), requires_grad=False)

    def weight_keys(self) -> list[str]:
        keys = []
        for part in range(3):
            names = ["weight"] if self.quantized is None else self._quantized_part(part).names()
            keys += [f"{expert}.{part}.{name}" for expert in sorted(set(self.here)) for name in names]
        return keys

    def load_weight(self, path: str, tensor: torch.Tensor, shard: Shard) -> list[str]:
        """`path` is "<expert>.<matrix>.weight", or another of its tensors. Experts of other ranks are passed over."""
        expert, _, rest = path.partition(".")
        matrix, _, name = rest.partition(".")
        part = PARTS.get(matrix)
        known = part is not None and (
            name == "weight" if self.quantized is None else self._quantized_part(part).takes(name)
        )
        if part is None or not known or not expert.isdecimal() or int(expert) >= self.num_experts:
            expected = f"an expert below {self.num_experts} and one of {', '.join(PARTS)}"
            remedy = "The checkpoint does not belong to this config.json."
            raise WeightError(f"experts.{path}", expected, "another name", remedy)
        places = [place for place, held in enumerate(self.here) if held == int(expert)]
        for place in places:
            if self.quantized is None:
                mine = self.slices.shard(tensor, 1 if part == 2 else 0)
                copy_into(self._matrix(place, part), mine, f"experts.{path}")
            else:
                self._quantized_part(part).load(name, tensor, self._cut(part), place)
        return [f"{expert}.{part}.{name}"] if places else []

    def _matrix(self, place: int, part: int) -> torch.Tensor:
        return self.w2[place] if part == 2 else self.w13[place, part * self.size : (part + 1) * self.size]

    def _quantized_part(self, part: int) -> QuantizedWeight:
        assert self.quantized is not None
        return self.quantized[1].part(0) if part == 2 else self.quantized[0].part(part)

    def _cut(self, part: int) -> Cut:
        whole, start = self.size * self.slices.size, self.size * self.slices.rank
        if part == 2:
            return Cut(0, self.hidden_size, start, whole)
        return Cut(start, whole, 0, self.hidden_size)
