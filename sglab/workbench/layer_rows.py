"""A model's own queries, keys and values of its layers: the model runs over tokens, into the slots that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from sglab.attention.create import create_attention_backend
from sglab.engine import (
    AttnBackend,
    BadArgumentError,
    ForwardBatch,
    ForwardMode,
    ModelConfig,
    ModelRunner,
    RadixAttention,
    Req,
    arguments,
)
from sglab.models import CausalLM
from sglab.serving.config import EngineConfig
from sglab.serving.execution import torch_threads
from sglab.workbench.forward_pass import worker_batch


def attention_shape(model: CausalLM, layer: int) -> ModelConfig:
    """A model's attention, once it is known that a batch of the workbench can hold it.

    Raises:
        BadArgumentError: no such layer, or a model that also keeps a state or has an encoder.
    """
    shape = model.attention_config()
    arguments.integer("layer", layer, 0, shape.num_hidden_layers - 1, f"It has {shape.num_hidden_layers} of them.")
    if model.state_config() is not None or shape.index_head_dim or hasattr(model, "encode"):
        remedy = "Its layers need more than a KV pool; choose another."
        raise BadArgumentError("model", "a model with a plain KV cache", type(model).__name__, remedy)
    return shape


class LayerQueries(NamedTuple):
    """What a layer was called with: itself, [tokens, heads, head_dim], and its sinks, [heads], where it has some."""

    layer: RadixAttention
    q: torch.Tensor
    sinks: torch.Tensor | None


class Watched:
    """A backend that keeps the queries of some layers.

    Attributes:
        seen: layer -> its last call.
    """

    def __init__(self, backend: AttnBackend, layer_ids: Sequence[int]) -> None:
        self._backend, self._layer_ids = backend, frozenset(layer_ids)
        self.seen: dict[int, LayerQueries] = {}

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        **options: Any,
    ) -> torch.Tensor:
        if layer.layer_id in self._layer_ids:
            rows, rope = q.view(len(q), layer.tp_q_head_num, -1), options.get("q_rope")
            kept = rows.clone() if rope is None else torch.cat((rows, rope), -1)
            sinks = options.get("sinks")
            self.seen[layer.layer_id] = LayerQueries(layer, kept, None if sinks is None else sinks.detach().clone())
        return self._backend.forward(q, k, v, layer, forward_batch, **options)


def run_tokens(
    runner: ModelRunner, reqs: Sequence[Req], model: CausalLM, layers: Sequence[int]
) -> dict[int, LayerQueries]:
    """One prefill of all tokens of these requests, from the first on, into the runner's pool.

    On a CPU with as many threads as an engine would take: a small model waits longer for a second one than it gains.

    Returns:
        layer -> the layer and its queries, request after request.
    """
    lengths = [req.kv_committed_len for req in reqs]
    made = worker_batch(runner.req_to_token_pool, list(reqs), lengths, ForwardMode.EXTEND)
    forward_batch = ForwardBatch.init_new(made, runner)
    backend = create_attention_backend("torch_native", runner)
    backend.prepare(forward_batch)
    watched = Watched(backend, layers)
    forward_batch.attn_backend = watched
    assert forward_batch.positions is not None
    threads = EngineConfig().threads(sum(each.numel() for each in model.parameters()))
    with torch.no_grad(), torch_threads(threads if model.device.type == "cpu" else None):
        model(forward_batch.input_ids, forward_batch.positions, forward_batch)
    return watched.seen
