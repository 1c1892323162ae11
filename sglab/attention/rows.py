"""What backends do with a batch before their kernels: store new rows, walk it request by request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from sglab.engine import ForwardBatch, RadixAttention


class Span(NamedTuple):
    """Request i's new tokens are rows [start, stop) of the batch, at positions first_position .. len(slots) - 1."""

    start: int
    stop: int
    first_position: int
    slots: torch.Tensor
    """int64 [seq_len], the KV slots of all its tokens."""


def spans(forward_batch: ForwardBatch) -> Iterator[Span]:
    """The batch's requests in order; a decode batch has one new token each."""
    assert forward_batch.req_to_token_pool is not None
    table = forward_batch.req_to_token_pool.req_to_token
    lengths = forward_batch.seq_lens.tolist()
    extend = forward_batch.extend_seq_lens_cpu
    new_tokens = extend if extend is not None else [1] * len(lengths)
    start = 0
    for row, length, count in zip(forward_batch.req_pool_indices.tolist(), lengths, new_tokens, strict=True):
        yield Span(start, start + count, length - count, table[row, :length].to(torch.int64))
        start += count


def save_and_get_kv(
    k: torch.Tensor, v: torch.Tensor, layer: RadixAttention, forward_batch: ForwardBatch, save_kv_cache: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Store the new tokens' rows at out_cache_loc, if asked, and return the layer's key and value buffers."""
    pool = forward_batch.token_to_kv_pool
    assert pool is not None
    if save_kv_cache:
        rows = k.view(-1, layer.tp_k_head_num, layer.head_dim), v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
        pool.set_kv_buffer(layer, forward_batch.out_cache_loc, *rows)
    return pool.get_kv_buffer(layer.layer_id)
