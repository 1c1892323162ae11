"""What backends do with a batch before their kernels: store new rows, walk it request by request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from sglab.attention.arithmetic import PagedRows
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.inputs import AttentionInputs
from sglab.engine import BadArgumentError, ForwardBatch, MHATokenToKVPool, MLATokenToKVPool


class Span(NamedTuple):
    """Request i's new tokens are rows [start, stop) of the batch, at positions first_position .. len(slots) - 1."""

    start: int
    stop: int
    first_position: int
    slots: torch.Tensor
    """int64 [seq_len], the KV slots of all its tokens; of a cross-attention layer, of its encoder's."""
    mask: torch.Tensor | None = None
    """[new tokens, seq_len]: which tokens each draft of a tree sees; None: those before it."""


def spans(forward_batch: ForwardBatch, cross: bool = False) -> Iterator[Span]:
    """The batch's requests in order; a decode batch has one new token each, a verification its drafts.

    Args:
        cross: read the encoder's slots, which come first in a request's row, instead of the decoder's.
    """
    assert forward_batch.req_to_token_pool is not None
    table = forward_batch.req_to_token_pool.req_to_token
    lengths = forward_batch.seq_lens.tolist()
    if forward_batch.forward_mode.is_target_verify():
        if forward_batch.encoder_lens is not None:
            remedy = "Decode a model that has an encoder token by token."
            raise BadArgumentError("forward_batch.encoder_lens", "None in TARGET_VERIFY", "a tensor", remedy)
        yield from _draft_spans(forward_batch, table, lengths)
        return
    new_tokens = [1] * len(lengths) if forward_batch.forward_mode.is_decode() else forward_batch.extend_seq_lens_cpu
    if new_tokens is None:
        remedy = "ForwardBatch.init_new fills it from the worker batch."
        raise BadArgumentError("forward_batch.extend_seq_lens_cpu", "new tokens per request in an extend", None, remedy)
    encoders = [0] * len(lengths) if forward_batch.encoder_lens is None else forward_batch.encoder_lens.tolist()
    rows = forward_batch.req_pool_indices.tolist()
    start = 0
    for row, length, encoder, count in zip(rows, lengths, encoders, new_tokens, strict=True):
        slots = table[row, :encoder] if cross else table[row, encoder : encoder + length]
        yield Span(start, start + count, length - count, slots.to(torch.int64))
        start += count


def _draft_spans(forward_batch: ForwardBatch, table: torch.Tensor, prefixes: list[int]) -> Iterator[Span]:
    """TARGET_VERIFY: lengths are those before the drafts, and the masks of all requests lie end to end."""
    spec, at = forward_batch.spec_info, 0
    drafts = spec.draft_token_num
    for i, (row, prefix) in enumerate(zip(forward_batch.req_pool_indices.tolist(), prefixes, strict=True)):
        length = prefix + drafts
        mask = spec.custom_mask[at : at + drafts * length].view(drafts, length)
        at += drafts * length
        yield Span(i * drafts, (i + 1) * drafts, prefix, table[row, :length].to(torch.int64), mask)


def request_rows(forward_batch: ForwardBatch, causal: bool, window: int) -> PagedRows:
    """The whole of every request, as `spans` has it, for arithmetic that goes request by request; of drafts a chain."""
    parts = list(spans(forward_batch))
    device = forward_batch.seq_lens.device
    new = torch.tensor([part.stop - part.start for part in parts], dtype=torch.int32, device=device)
    lens = torch.tensor([len(part.slots) for part in parts], dtype=torch.int32, device=device)
    slots = torch.cat([part.slots for part in parts])
    most = max(part.stop - part.start for part in parts)
    return PagedRows(indptr_of(new), indptr_of(lens), slots, most, causal, window)


def save_and_get_kv(inputs: AttentionInputs) -> tuple[torch.Tensor, torch.Tensor]:
    """Store the new tokens' rows at out_cache_loc, if asked, and return the layer's key and value buffers."""
    if inputs.save_kv_cache:
        save_kv(inputs)
    pool = inputs.forward_batch.token_to_kv_pool
    assert pool is not None
    return pool.get_kv_buffer(inputs.layer.layer_id)


def kv_for(
    inputs: AttentionInputs, kv_indptr: torch.Tensor, kv_indices: torch.Tensor, *, save: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The layer's keys and values, and where the rows of `kv_indices` lie in them.

    A pool's own buffers, and the indices as they are; of a pool with scales for blocks a copy of those rows in the
    queries' dtype, or of all rows where the indices are a graph's, as long as the largest pass's.

    Args:
        save: store the new tokens' rows first, where that is asked for.
    """
    if save and inputs.save_kv_cache:
        save_kv(inputs)
    pool, layer_id, dtype = inputs.forward_batch.token_to_kv_pool, inputs.layer.layer_id, inputs.q.dtype
    assert pool is not None
    if not pool.kv_format:
        return *pool.get_kv_buffer(layer_id), kv_indices
    if len(kv_indices) >= pool.size:
        return *pool.read(layer_id, None, dtype), kv_indices
    copies = pool.read(layer_id, kv_indices, dtype, kv_indptr[-1:])
    return *copies, torch.arange(len(kv_indices), device=kv_indices.device, dtype=kv_indices.dtype)


def read_kv(inputs: AttentionInputs) -> tuple[torch.Tensor, torch.Tensor]:
    """The layer's keys and values in whole, for kernels that follow a page table: of a pool with scales for blocks a
    copy in the queries' dtype."""
    pool, layer_id = inputs.forward_batch.token_to_kv_pool, inputs.layer.layer_id
    assert pool is not None
    return pool.read(layer_id, None, inputs.q.dtype) if pool.kv_format else pool.get_kv_buffer(layer_id)


def save_kv(inputs: AttentionInputs) -> None:
    """Store the new tokens' rows at out_cache_loc; in an FP8 pool divided by the layer's scales."""
    layer, forward_batch = inputs.layer, inputs.forward_batch
    pool, k, v = forward_batch.token_to_kv_pool, inputs.k, inputs.v
    assert k is not None
    assert v is not None
    loc = forward_batch.encoder_out_cache_loc if layer.is_cross_attention else forward_batch.out_cache_loc
    assert loc is not None
    if isinstance(pool, MLATokenToKVPool):
        if inputs.k_rope is not None:
            pool.set_mla_kv_buffer(layer, loc, k, inputs.k_rope)
        else:
            pool.set_kv_buffer(layer, loc, k, v)
    elif isinstance(pool, MHATokenToKVPool):
        pool.set_kv_buffer(layer, loc, k, v, layer.k_scale, layer.v_scale)
    else:
        assert pool is not None
        pool.set_kv_buffer(layer, loc, k, v)


def scales_of(inputs: AttentionInputs) -> tuple[float, float]:
    """What keys and values were divided by when they were stored: the layer's scales in an FP8 pool of K and V; 1 in
    pools of the queries' dtype and in MLA's, which store rows as they are, and in those with scales for blocks, whose
    copies are multiplied already."""
    pool, layer = inputs.forward_batch.token_to_kv_pool, inputs.layer
    if pool is None or pool.kv_format or pool.dtype == inputs.q.dtype or isinstance(pool, MLATokenToKVPool):
        return 1.0, 1.0
    return layer.k_scale or 1.0, layer.v_scale or 1.0


def whole_query(inputs: AttentionInputs) -> torch.Tensor:
    """[tokens, heads, head_dim]: MLA's latent and rotary parts joined, where they came apart."""
    return inputs.q if inputs.q_rope is None else torch.cat((inputs.q, inputs.q_rope), -1)


def check_encoder(inputs: AttentionInputs) -> None:
    """What a cross-attention layer needs of the batch, before anything is written."""
    batch = inputs.forward_batch
    needed = ("encoder_lens", "encoder_out_cache_loc") if inputs.save_kv_cache else ("encoder_lens",)
    for name in needed:
        if getattr(batch, name) is None:
            remedy = "The scheduler of an encoder-decoder model fills it; without new rows pass save_kv_cache=False."
            raise BadArgumentError(f"forward_batch.{name}", "a tensor for a cross-attention layer", None, remedy)
