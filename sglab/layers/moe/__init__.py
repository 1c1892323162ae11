"""Mixture of experts: `gate` scores, `topk` routes, `experts` compute."""

from sglab.layers.moe.experts import FusedMoE
from sglab.layers.moe.gate import Gate
from sglab.layers.moe.topk import Routing, TopK

__all__ = ["FusedMoE", "Gate", "Routing", "TopK"]
