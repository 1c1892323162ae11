"""What one rank of several builds: a context or a prompt that ranks share, as the first of them has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.cp.backend import PromptParallelBackend
from sglab.attention.dcp.backend import ContextParallelBackend, tokens_apart
from sglab.attention.dcp.prefix import GatheredPrefix
from sglab.attention.explore.costs import Seen
from sglab.engine import ForwardBatch, RadixAttention


@dataclass(frozen=True)
class FirstRank:
    """Rank 0 of `size` without the others: backends are made and prepared on it, and nothing is exchanged."""

    size: int
    rank: int = 0

    def all_gather(self, x: torch.Tensor, dim: int = -1) -> NoReturn:
        raise RuntimeError("a pass that is only looked at has no other ranks")

    reduce_scatter = all_to_all = all_gather


@dataclass(frozen=True)
class OwnPart:
    """A rank's part of a prepared pass.

    Attributes:
        backend: whose metadata are those of the pass.
        batch, layer: what it attends to, with which heads.
        seen: what its queries see; None: not counted.
        gathered: the prefixes' keys that are brought here before.
        note: what is not in the count, or why there is none.
    """

    backend: AttentionBackend
    batch: ForwardBatch
    layer: RadixAttention
    seen: Seen | None
    gathered: GatheredPrefix | None = None
    note: str = ""


def own_part(backend: AttentionBackend, batch: ForwardBatch, layer: RadixAttention, whole: Seen) -> OwnPart:
    """Of a backend that has prepared `batch`; `whole`: what all of its queries see."""
    if isinstance(backend, PromptParallelBackend):
        return _of_prompt(backend, batch, layer, whole)
    if isinstance(backend, ContextParallelBackend):
        return _of_context(backend, batch, layer)
    return OwnPart(backend, batch, layer, whole)


def _of_prompt(backend: PromptParallelBackend, batch: ForwardBatch, layer: RadixAttention, whole: Seen) -> OwnPart:
    shares, pieces = backend.shares, backend.pieces
    if shares is None or pieces is None:
        return OwnPart(backend.inner, batch, layer, whole, note="every rank runs this pass in whole")
    rows = list(zip(shares.requests, shares.q_lens, shares.kv_lens, strict=True))
    seen = _seen(rows, layer.sliding_window_size)
    note = f"of rank 0 of {backend.group.size}; the new keys that it gathers from the others are not counted"
    return OwnPart(backend.inner, pieces, layer, seen, note=note)


def _of_context(backend: ContextParallelBackend, batch: ForwardBatch, layer: RadixAttention) -> OwnPart:
    size = backend.group.size
    if not backend.joined:
        note = f"of rank 0 of {size}; what a prompt reads where ranks share its context is not counted"
        return OwnPart(backend.inner, batch, layer, None, backend.gathered, note)
    apart = batch if batch.forward_mode.is_decode() else tokens_apart(batch)
    lens = backend.share.lens(apart.seq_lens)
    own = replace(apart, seq_lens=lens, seq_lens_cpu=lens.cpu(), seq_lens_sum=int(lens.sum()))
    rows = [
        (request, 1, length) for request, length in zip(apart.req_pool_indices.tolist(), lens.tolist(), strict=True)
    ]
    everyones = replace(layer, tp_q_head_num=layer.tp_q_head_num * size)
    note = f"of rank 0 of {size}, with the queries of all; what the ranks exchange is not counted"
    return OwnPart(backend.inner, own, everyones, _seen(rows, layer.sliding_window_size), note=note)


def _seen(pieces: list[tuple[int, int, int]], window: int) -> Seen:
    """Of pieces (request, queries, keys that its last query sees): a row that several of a request see counts once."""
    queries, keys, pairs = ({request: 0 for request, _, _ in pieces} for _ in range(3))
    spans: dict[int, list[tuple[int, int]]] = {request: [] for request in queries}
    for request, count, last in pieces:
        spans[request].append((max(0, last - count - window) if window >= 0 else 0, last))
        queries[request] += count
        keys[request] = max(keys[request], last)
        pairs[request] += sum(p + 1 if window < 0 else min(p + 1, window + 1) for p in range(last - count, last))
    read = [_covered(sorted(each)) for each in spans.values()]
    return Seen(list(queries.values()), list(keys.values()), read, list(pairs.values()))


def _covered(spans: list[tuple[int, int]]) -> int:
    """How many numbers ascending spans cover together."""
    total, end = 0, 0
    for first, last in spans:
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total
