"""One rank of `record_exchange`: `python -m sglab.workbench.recorders.exchange`, which reads its task from stdin."""

from __future__ import annotations

import pickle
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from sglab.layers import TensorParallel, collectives
from sglab.layers.moe import ExpertExchange, FusedMoE, TopK, low_latency_experts, normal_experts
from sglab.layers.shards import shards_of

WAYS = {"normal": normal_experts, "low_latency": low_latency_experts}


class Layer(nn.Module):
    """A mixture whose tokens travel: named as a model's."""

    def __init__(self, experts: FusedMoE, exchange: ExpertExchange, topk: TopK, way: str) -> None:
        super().__init__()
        self.experts, self.exchange, self.topk, self.way = experts, exchange, topk, way

    def forward(self, x: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        return WAYS[self.way](self.exchange, self.experts, x, self.topk(logits))


def run(task: dict[str, Any]) -> Any:
    """This rank's log and shards."""
    torch.set_num_threads(1)
    rank, ranks, experts, hidden = task["rank"], task["ranks"], task["experts"], task["hidden"]
    distributed.init_process_group("gloo", init_method=f"file://{task['store']}", rank=rank, world_size=ranks)
    tp = TensorParallel(rank, ranks, ep_size=ranks, dp_size=ranks)
    held = FusedMoE(experts, hidden, hidden // 2, tp)
    torch.manual_seed(task["seed"] * 1000 + rank)
    for parameter in held.parameters():
        nn.init.normal_(parameter, std=0.02)
    way = task["way"]
    model = nn.Sequential()
    layer = Layer(held, ExpertExchange(experts, rank, ranks), TopK(task["top_k"]), way)
    model.add_module("mlp", layer)
    tokens = [max(1, task["tokens"] - each) for each in range(ranks)]
    x, logits = torch.randn(tokens[rank], hidden), torch.randn(tokens[rank], experts)
    mode = "EXTEND" if way == "normal" else "DECODE"
    with torch.inference_mode():
        layer(x, logits)  # connections are made at the first exchange
        distributed.barrier()
        collectives.start(model, rank)
        collectives.begin_pass(lambda: collectives.PassStart(mode, tuple(tokens), "", 0, time.monotonic_ns()))
        layer(x, logits)
    made = collectives.stop(), shards_of(model)
    distributed.barrier()
    distributed.destroy_process_group()
    return made


if __name__ == "__main__":
    given = pickle.loads(sys.stdin.buffer.read())
    Path(given["out"]).write_bytes(pickle.dumps(run(given)))
