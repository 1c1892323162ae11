"""What a rank of several computes with layers that it has a part of, beside the unsharded ones."""

from __future__ import annotations

import torch

from sglab.layers import (
    MergedColumnParallelLinear,
    ParallelLMHead,
    RowParallelLinear,
    TensorParallel,
    VocabParallelEmbedding,
)
from sglab.layers.dp_attention import DpBatch, DpPaddingMode
from sglab.layers.moe import (
    ExpertExchange,
    ExpertLocation,
    FusedMoE,
    Routing,
    TopK,
    low_latency_experts,
    normal_experts,
)

WIDTH = 16
"""Of `layers`."""
HIDDEN, EXPERTS = 128, 4
"""Of `experts`."""


def drawn() -> dict[str, torch.Tensor]:
    shapes = {"gate": (8, WIDTH), "up": (8, WIDTH), "down": (WIDTH, 8), "embedding": (100, WIDTH)}
    shapes |= {f"{e}.{part}": shapes[part] for e in range(4) for part in ("gate", "up", "down")}
    return {name: torch.randn(shape) for name, shape in shapes.items()} | {"bias": torch.randn(WIDTH)}


def layers(tp: TensorParallel, given: dict[str, torch.Tensor], x: torch.Tensor) -> dict[str, torch.Tensor]:
    """An embedding, an MLP, experts and logits."""
    embedding, head = VocabParallelEmbedding(100, WIDTH, tp), ParallelLMHead(100, WIDTH, tp)
    up, down = MergedColumnParallelLinear(WIDTH, [8, 8], tp=tp), RowParallelLinear(8, WIDTH, True, tp)
    experts = FusedMoE(4, WIDTH, 8, tp)
    for layer in (embedding, head):
        layer.load_weight("weight", given["embedding"], None)
    up.load_weight("weight", given["gate"], 0)
    up.load_weight("weight", given["up"], 1)
    down.load_weight("weight", given["down"], None)
    down.load_weight("bias", given["bias"], None)
    for e in range(4):
        for part in ("gate", "up", "down"):
            experts.load_weight(f"{e}.{part}_proj.weight", given[f"{e}.{part}"], None)
    routing = TopK(2)(x[:, :4])
    gate, other = up(x).chunk(2, -1)
    return {
        "embedding": embedding(torch.tensor([0, 63, 64, 99])),
        "mlp": down(gate.sigmoid() * other),
        "experts": tp.all_reduce(experts(x, routing)),
        "logits": head.logits(x),
    }


def gathered(tp: TensorParallel, counts: tuple[int, ...], mode: DpPaddingMode) -> tuple[torch.Tensor, torch.Tensor]:
    batch, group = DpBatch(counts, mode, tp), tp.dp_rank
    mine = torch.arange(counts[group] * 3).view(-1, 3) + 100.0 * group
    whole = batch.gather(mine)
    return whole, batch.scatter(whole) - mine


def weights() -> dict[str, torch.Tensor]:
    shapes = {"gate_proj": (16, HIDDEN), "up_proj": (16, HIDDEN), "down_proj": (HIDDEN, 16)}
    return {f"{e}.{part}.weight": torch.randn(shape) * 0.2 for e in range(EXPERTS) for part, shape in shapes.items()}


def experts(tp: TensorParallel, given: dict[str, torch.Tensor], physical: tuple[int, ...] | None = None) -> FusedMoE:
    layer = FusedMoE(EXPERTS, HIDDEN, 16, tp)
    if physical is not None:
        layer.relocate(ExpertLocation(physical, tp.ep_size))
    filled = [key for name, one in given.items() for key in layer.load_weight(name, one, None)]
    assert sorted(set(filled)) == sorted(layer.weight_keys())
    return layer


def routed(x: torch.Tensor) -> Routing:
    routing = TopK(2)(x[:, :EXPERTS])
    ids = routing.ids.clone()
    ids[:1] = -1  # a padded token
    return Routing(routing.weights, ids)


def travelled(
    tp: TensorParallel, given: dict[str, torch.Tensor], xs: list[torch.Tensor], physical: tuple[int, ...] | None
) -> list[torch.Tensor]:
    layer, x = experts(tp, given, physical), xs[tp.rank]
    exchange = ExpertExchange(len(layer.here) * tp.size, tp.rank, tp.size, room=8)
    layout = exchange.get_dispatch_layout(layer.location.physical_ids(routed(x).ids))
    came = exchange.dispatch(x, Routing(routed(x).weights, layer.location.physical_ids(routed(x).ids)), 128)
    assert all(count % 128 == 0 for count in came.num_per_expert)
    return [
        normal_experts(exchange, layer, x, routed(x)),
        low_latency_experts(exchange, layer, x, routed(x), use_fp8=False),
        low_latency_experts(exchange, layer, x, routed(x)),
        exchange.combine(came.x, came.handle) - x * layout.is_token_in_rank.sum(1, keepdim=True),
    ]
