"""Where a batch is cut in two for two-batch overlap. Source: SGLang 0.5.23 `batch_overlap/two_batch_overlap.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from sglab.engine.batch.schedule_batch import ModelWorkerBatch

THRESHOLD = 0.48
"""Least share of an extend's tokens that either half must have, or one request is cut."""


class Cut(NamedTuple):
    """The first half has requests 0 .. request - 1, and `tokens` tokens; of request number `request` the first
    tokens, too, if `through` it."""

    request: int
    tokens: int
    through: bool = False


def cut_of(extend_lens: Sequence[int] | None, batch_size: int) -> Cut | None:
    """Where to cut; None: there are not two halves.

    Args:
        extend_lens: new tokens of each request; None: a decode, of one token each.
    """
    if extend_lens is None:
        return Cut(batch_size // 2, batch_size // 2) if batch_size > 1 else None
    total = sum(extend_lens)
    left = [sum(extend_lens[:i]) for i in range(len(extend_lens))]
    # The most even cut between requests; of two, the later one.
    request = min(range(1, len(left)), key=lambda i: (abs(2 * left[i] - total), -i), default=0)
    if THRESHOLD * total <= (left[request] if request else 0) <= (1 - THRESHOLD) * total:
        return Cut(request, left[request])
    half = total // 2
    through = next(i for i, length in enumerate(extend_lens) if left[i] + length > half)
    if through + 1 <= half and left[through] < half:
        return Cut(through, half, through=True)
    return Cut(request, left[request]) if request else None


def halves(batch: ModelWorkerBatch, cut: Cut) -> tuple[ModelWorkerBatch, ModelWorkerBatch]:
    """A planned pass as two; tensors are on the CPU."""
    lens, prefixes = batch.extend_seq_lens, batch.extend_prefix_lens
    if lens is None or prefixes is None:
        return _part(batch, slice(0, cut.request), None, None), _part(batch, slice(cut.request, None), None, None)
    end, inside = cut.request + cut.through, cut.tokens - sum(lens[: cut.request])
    first_lens, rest_lens, rest_prefixes = list(lens[:end]), list(lens[cut.request :]), list(prefixes[cut.request :])
    if cut.through:
        first_lens[-1] = inside
        rest_lens[0] -= inside
        rest_prefixes[0] += inside
    first = _part(batch, slice(0, end), slice(0, cut.tokens), (first_lens, list(prefixes[:end])))
    return first, _part(batch, slice(cut.request, None), slice(cut.tokens, None), (rest_lens, rest_prefixes))


def _part(
    batch: ModelWorkerBatch, requests: slice, tokens: slice | None, extends: tuple[list[int], list[int]] | None
) -> ModelWorkerBatch:
    own = requests if tokens is None else tokens
    lengths = batch.seq_lens_cpu[requests]
    if extends is not None:
        lengths = torch.tensor([new + prefix for new, prefix in zip(*extends, strict=True)], dtype=lengths.dtype)
    return replace(
        batch,
        input_ids=batch.input_ids[own],
        req_pool_indices=batch.req_pool_indices[requests],
        seq_lens=lengths.to(batch.seq_lens.dtype),
        out_cache_loc=batch.out_cache_loc[own],
        seq_lens_cpu=lengths,
        seq_lens_sum=int(lengths.sum()),
        extend_num_tokens=None if extends is None else sum(extends[0]),
        extend_seq_lens=None if extends is None else extends[0],
        extend_prefix_lens=None if extends is None else extends[1],
        orig_seq_lens=None if batch.orig_seq_lens is None else batch.orig_seq_lens[requests],
    )
