"""Mixture of experts: `gate` scores, `topk` routes, `location` says where experts lie, `experts` compute."""

from sglab.layers.moe.experts import FusedMoE
from sglab.layers.moe.gate import Gate
from sglab.layers.moe.location import ExpertLocation
from sglab.layers.moe.topk import Routing, TopK

__all__ = ["ExpertLocation", "FusedMoE", "Gate", "Routing", "TopK"]
