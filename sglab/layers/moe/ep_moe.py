"""Experts on other ranks: each rank brings its own tokens, and gets their sums. SGLang's DeepEPMoE, in both ways."""

from __future__ import annotations

import torch

from sglab.kernels.formats.fp8 import block_quant_dequant
from sglab.layers.moe.dispatcher import FP8_GROUP, ExpertExchange, LowLatencyDispatched
from sglab.layers.moe.experts import FusedMoE
from sglab.layers.moe.topk import Routing


def normal_experts(exchange: ExpertExchange, experts: FusedMoE, x: torch.Tensor, routing: Routing) -> torch.Tensor:
    """[tokens, hidden] of this rank -> the same, by way of all ranks' experts. For prefills."""
    physical = Routing(routing.weights, experts.location.physical_ids(routing.ids))
    came = exchange.dispatch(x, physical)
    return exchange.combine(experts.compute(came.x, came.routing), came.handle)


def low_latency_experts(
    exchange: ExpertExchange, experts: FusedMoE, x: torch.Tensor, routing: Routing, use_fp8: bool = True
) -> torch.Tensor:
    """As `normal_experts`, for the few tokens of a decode."""
    physical = Routing(routing.weights, experts.location.physical_ids(routing.ids))
    came = exchange.low_latency_dispatch(x, physical.ids, use_fp8)()
    y = masked_experts(experts, came, x.dtype)
    return exchange.low_latency_combine(y, physical, came)()


def masked_experts(experts: FusedMoE, came: LowLatencyDispatched, dtype: torch.dtype) -> torch.Tensor:
    """Every expert over the first masked_m of its rows: [experts here, rows, hidden], zero beyond."""
    x = came.x.to(dtype)
    if came.scales is not None:
        x = block_quant_dequant(came.x, came.scales, (1, FP8_GROUP)).to(dtype)
    count, rows, hidden = x.shape
    expert = torch.arange(count, device=x.device)[:, None].expand(count, rows)
    real = torch.arange(rows, device=x.device) < came.masked_m[:, None]
    ids = torch.where(real, expert, -1).reshape(-1, 1)
    weights = torch.ones(count * rows, 1, device=x.device)
    return experts.compute(x.view(-1, hidden), Routing(weights, ids)).view(count, rows, hidden)
