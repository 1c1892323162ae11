"""A pass over linear attention: each request's rows of the batch and its state, or all of them at once in decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.nn import functional

from sglab.engine import BadArgumentError, ForwardBatch


class States(NamedTuple):
    """One layer's states: `conv` [rows, channels, width - 1] and `temporal` [rows, heads, ...], live."""

    conv: torch.Tensor
    temporal: torch.Tensor
    rows: torch.Tensor
    """int64 [B], each request's row."""


def layer_states(forward_batch: ForwardBatch, layer: int) -> States:
    """The states of the layer with this number among the linear ones.

    Raises:
        BadArgumentError: the batch has no state pool.
    """
    pool = forward_batch.state_pool
    if pool is None:
        remedy = "Make one from the model's state_config and give it to the ModelRunner."
        raise BadArgumentError("forward_batch.state_pool", "a LinearStatePool", None, remedy)
    given = forward_batch.state_indices
    return States(pool.conv[layer], pool.temporal[layer], forward_batch.req_pool_indices if given is None else given)


def token_starts(forward_batch: ForwardBatch, requests: int) -> torch.Tensor:
    """int64 [requests + 1]: where each request's rows of the batch start, and their end; in decode a row each."""
    lens = None if forward_batch.forward_mode.is_decode() else forward_batch.extend_seq_lens
    if lens is None:
        return torch.arange(requests + 1, device=forward_batch.input_ids.device)
    return functional.pad(lens.cumsum(0), (1, 0))


def extends(forward_batch: ForwardBatch, states: States) -> Iterator[tuple[slice, int]]:
    """Each request's new tokens (rows of the batch) and its state's row, which is zero where nothing came before."""
    counts, prefixes = forward_batch.extend_seq_lens_cpu, forward_batch.extend_prefix_lens_cpu
    assert counts is not None
    assert prefixes is not None
    start = 0
    for count, prefix, row in zip(counts, prefixes, states.rows.tolist(), strict=True):
        if prefix == 0:
            states.conv[row].zero_()
            states.temporal[row].zero_()
        yield slice(start, start + count), row
        start += count
