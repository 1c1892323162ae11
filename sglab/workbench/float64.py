"""Attention in float64, straight from the definition: what every backend must agree with."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from sglab.engine import RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.workbench.batch import Batch


class Reference(NamedTuple):
    """`o`: float64 [tokens, num_heads, v_head_dim]. `lse`: float64 [tokens, num_heads], natural logarithm."""

    o: torch.Tensor
    lse: torch.Tensor


def reference(batch: Batch) -> Reference:
    """Attend over a batch in float64, one new token at a time: no tiling, no split, no online softmax.

    A new token at position t sees the tokens 0 .. t of its request (from t - window on in a sliding-window layer,
    from its chunk's first on in one that sees chunks). The layer's sinks count in the denominator, not in the LSE.
    """
    o, lse = [], []
    pool, layer = batch.runner.token_to_kv_pool, batch.layer
    keys, values = pool.get_kv_buffer(layer.layer_id)
    for i, q in enumerate(batch.q.split(batch.new_tokens)):
        slots = batch.slots(i)
        k, v = keys[slots].double(), values[slots].double()
        for position, row in enumerate(q.double(), start=len(slots) - len(q)):
            chunk = batch.runner.model_config.attention_chunk_size
            out = _token(row, k[: position + 1], v[: position + 1], layer, chunk, batch.sinks)
            o.append(out.o)
            lse.append(out.lse)
    return Reference(torch.stack(o), torch.stack(lse))


def _token(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, layer: RadixAttention, chunk: int, sinks: torch.Tensor | None
) -> Reference:
    """One query [heads, head_dim] over the keys up to its own position. Head h reads KV head h // group."""
    position = len(k) - 1
    oldest = position // chunk * chunk if layer.use_irope and chunk else 0
    if layer.sliding_window_size >= 0:
        oldest = max(oldest, position - layer.sliding_window_size)
    k, v = k[oldest:], v[oldest:]
    grouped = q.view(layer.tp_k_head_num, -1, layer.head_dim)
    logits = torch.einsum("ngd,snd->ngs", grouped, k) * layer.scaling
    if layer.logit_cap > 0:
        logits = layer.logit_cap * torch.tanh(logits / layer.logit_cap)
    if 0 < layer.xai_temperature_len < position:
        logits = logits * math.log2(position) / math.log2(layer.xai_temperature_len)
    peak = logits.amax(-1, keepdim=True)
    weights = torch.exp(logits - peak)
    total = weights.sum(-1, keepdim=True)
    denominator = total
    if sinks is not None:
        denominator = total + torch.exp(sinks.double().view_as(peak) - peak)
    o = torch.einsum("ngs,snd->ngd", weights / denominator, v)
    return Reference(o.flatten(0, 1), (peak + total.log()).flatten())


def max_error(out: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest absolute difference, NaN where either is not finite (NaN never passes a comparison).

    Raises:
        BadArgumentError: the shapes differ.
    """
    if out.shape != expected.shape:
        raise BadArgumentError("out", f"shape {tuple(expected.shape)}", tuple(out.shape), "Compare like with like.")
    return float((out.double() - expected.double()).abs().max())
