"""Mixture of experts: `gate` scores, `topk` routes, `location` says where experts lie, `experts` compute; `eplb` places
them by their load, `dispatcher` exchanges tokens between ranks."""

from sglab.layers.moe.dispatcher import ExpertExchange
from sglab.layers.moe.ep_moe import low_latency_experts, normal_experts
from sglab.layers.moe.eplb import Placement, rebalance_experts
from sglab.layers.moe.experts import FusedMoE
from sglab.layers.moe.gate import Gate
from sglab.layers.moe.load import ExpertLoad
from sglab.layers.moe.location import ExpertLocation
from sglab.layers.moe.mixture import Mixture
from sglab.layers.moe.routed import RoutedExperts
from sglab.layers.moe.topk import Routing, TopK

__all__ = [
    "ExpertExchange",
    "ExpertLoad",
    "ExpertLocation",
    "FusedMoE",
    "Gate",
    "Mixture",
    "Placement",
    "RoutedExperts",
    "Routing",
    "TopK",
    "low_latency_experts",
    "normal_experts",
    "rebalance_experts",
]
