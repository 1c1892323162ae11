"""Multi-item scoring: several candidate items behind one prefix, each seen by itself alone.

Source: SGLang 0.5.9 `flashinfer_backend.py`, _process_multi_item_scoring; FlashInfer 0.7.2 `attention/prefill.cuh`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.engine import ForwardBatch


@dataclass(frozen=True)
class MultiItemScoringParams:
    """FlashInfer's arguments. A request's prefix ends where its first delimiter is; from there on positions start again
    at every delimiter, which has 0."""

    prefix_len_ptr: torch.Tensor
    """uint32 [requests with items]."""
    token_pos_in_items_ptr: torch.Tensor
    """uint16 [requests · token_pos_in_items_len], filled up with zeros."""
    token_pos_in_items_len: int
    max_item_len_ptr: torch.Tensor
    """uint16 [requests], the longest item of each."""


def multi_item_params(batch: ForwardBatch, delimiter: int) -> MultiItemScoringParams | None:
    """The arguments for a batch; None: it has no delimiter.

    Also sets `batch.positions`: the tokens of every item follow the prefix, as if they were the only item.
    """
    assert batch.extend_seq_lens_cpu is not None
    assert batch.extend_prefix_lens_cpu is not None
    assert batch.positions is not None
    prefixes: list[int] = []
    within: list[torch.Tensor] = []
    start = 0
    for cached, count in zip(batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True):
        part = slice(start, start + count)
        start += count
        marks = (batch.input_ids[part] == delimiter).nonzero()[:, 0]
        if not len(marks):
            continue
        first = int(marks[0])
        at = torch.arange(first, count, device=batch.input_ids.device)
        latest = marks[torch.searchsorted(marks, at, right=True) - 1]
        prefixes.append(cached + first)
        within.append((at - latest).to(torch.uint16))
        batch.positions[part][first:] = cached + first + (at - latest) - 1
    if not within:
        return None
    width = max(len(each) for each in within)
    padded = [torch.cat((each, each.new_zeros(width - len(each)))) for each in within]
    return MultiItemScoringParams(
        torch.tensor(prefixes, dtype=torch.int64, device=batch.input_ids.device).to(torch.uint32),
        torch.cat(padded),
        width,
        torch.stack([each.to(torch.int32).max().to(torch.uint16) for each in within]),
    )


def multi_item_mask(batch: ForwardBatch, params: MultiItemScoringParams) -> tuple[torch.Tensor, torch.Tensor]:
    """The same visibility as a mask: bool, flat, per request (new tokens, prefix + new tokens), and where each starts.

    A token at position p of its item sees the prefix and the last p keys, itself among them; a delimiter (p = 0) sees
    the prefix alone. Requests must all have items, as FlashInfer's arrays presume.
    """
    assert batch.extend_seq_lens_cpu is not None
    assert batch.extend_prefix_lens_cpu is not None
    positions = params.token_pos_in_items_ptr.to(torch.int64).view(-1, params.token_pos_in_items_len)
    prefixes = params.prefix_len_ptr.to(torch.int64).tolist()
    masks = []
    for i, (cached, count) in enumerate(zip(batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True)):
        query = torch.arange(cached, cached + count, device=positions.device)[:, None]
        key = torch.arange(cached + count, device=positions.device)
        own = positions[i][(query - prefixes[i]).clamp(0, positions.shape[1] - 1)]
        item = (key <= query) & (query < key + own)
        masks.append(torch.where(query < prefixes[i], key <= query, (key < prefixes[i]) | item).flatten())
    ends = torch.cumsum(torch.tensor([len(mask) for mask in masks], device=positions.device), 0)
    return torch.cat(masks), torch.nn.functional.pad(ends, (1, 0))
