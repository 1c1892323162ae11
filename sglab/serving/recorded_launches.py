"""A recording of a pass on a CPU: a layer's attention and its experts are one launch each, as kernels of a GPU are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from sglab.engine import AttnBackend, ChoosingBackend, ForwardBatch, RadixAttention
from sglab.layers.moe.routed import RoutedExperts
from sglab.layers.moe.topk import Routing
from sglab.models import CausalLM


class Launches(Protocol):
    """What records whole launches: a RecordedGraph, or what passes them on to the one under way."""

    def launch(self, name: str, run: Callable[[], torch.Tensor], reads: tuple[torch.Tensor, ...]) -> torch.Tensor: ...


@contextmanager
def expert_launches(graph: Launches, model: CausalLM) -> Iterator[None]:
    """During a recording each layer's experts are one launch, as a fused kernel: it reads the routing when it runs."""
    experts = [(name, module) for name, module in model.named_modules() if isinstance(module, RoutedExperts)]

    def launching(name: str, module: RoutedExperts) -> Callable[[torch.Tensor, Routing], torch.Tensor]:
        run = module.forward

        def forward(x: torch.Tensor, routing: Routing) -> torch.Tensor:
            return graph.launch(name, lambda: run(x, routing), (x, routing.weights, routing.ids))

        return forward

    try:
        for name, module in experts:
            module.forward = launching(name, module)
        yield
    finally:
        for _, module in experts:
            del module.forward  # the class's own again


class AttentionLaunches:
    """Stands before a backend during a recording: each layer's attention is one launch."""

    def __init__(self, graph: Launches, backend: AttnBackend) -> None:
        self.graph, self.backend = graph, backend

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        **options: Any,
    ) -> torch.Tensor:
        """Record the layer's attention with these tensors."""
        given = (q, k, v, *options.values(), forward_batch.seq_lens, forward_batch.req_pool_indices)
        reads = tuple(each for each in (*given, forward_batch.out_cache_loc) if isinstance(each, torch.Tensor))
        return self.graph.launch(
            f"attention of layer {layer.layer_id}",
            lambda: self.backend.forward(q, k, v, layer, forward_batch, **options),
            reads,
        )

    @property
    def takes_chosen(self) -> bool:
        return isinstance(self.backend, ChoosingBackend) and self.backend.takes_chosen

    def choose_tokens(
        self, q: torch.Tensor, keys: torch.Tensor, weights: torch.Tensor, topk: int, forward_batch: ForwardBatch
    ) -> torch.Tensor | None:
        """Record the choice with these tensors; whether there is one depends on the capture alone."""

        def choose() -> torch.Tensor:
            assert isinstance(self.backend, ChoosingBackend)
            chosen = self.backend.choose_tokens(q, keys, weights, topk, forward_batch)
            return q.new_empty(0, dtype=torch.int32) if chosen is None else chosen

        reads = (q, keys, weights, forward_batch.seq_lens, forward_batch.req_pool_indices)
        out = self.graph.launch("choice of tokens", choose, reads)
        return out if out.numel() else None
