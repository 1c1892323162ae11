"""Layers that see one chunk of the text, Llama 4's: every chunk of a request is a request of its own to the kernel.

A token at position p sees the tokens of p // chunk · chunk .. p. Source: SGLang 0.5.23 `layers/attention/
local_attention.py`; the fields have its names.
"""

from __future__ import annotations

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.page_table.metadata import FlashAttentionMetadata, LocalAttentionMetadata, StepBuffers, steps


def virtual_requests(chunk: int, new: list[int], lens: list[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """A pass as one virtual request for each chunk that has query rows.

    Args:
        new: query rows of each request, its last tokens; lens: its keys, those among them.

    Returns:
        Of each virtual request: whose it is, its query rows, its keys and the position of its first one.
    """
    owners, queries, keys, starts = [], [], [], []
    for owner, (count, length) in enumerate(zip(new, lens, strict=True)):
        at = length - count
        while at < length:
            start = at // chunk * chunk
            end = min(start + chunk, length)
            owners.append(owner)
            queries.append(end - at)
            keys.append(end - start)
            starts.append(start)
            at = end
    return owners, queries, keys, starts


def local_metadata(
    chunk: int, new: list[int], lens: list[int], page_table: torch.Tensor, page_size: int
) -> LocalAttentionMetadata:
    """That of an eager pass, whose lengths the host knows."""
    owners, queries, keys, starts = virtual_requests(chunk, new, lens)
    device = page_table.device
    owner, start = (torch.tensor(each, dtype=torch.int64, device=device) for each in (owners, starts))
    return LocalAttentionMetadata(
        local_query_start_loc=indptr_of(torch.tensor(queries, dtype=torch.int32, device=device)),
        local_seqused_k=torch.tensor(keys, dtype=torch.int32, device=device),
        local_block_table=_pages(chunk, owner, start, page_table, page_size),
        local_max_query_len=max(queries, default=0),
        local_max_seq_len=max(keys, default=0),
        total=sum(keys),
    )


def local_rows(
    chunk: int, per_request: int, lens: torch.Tensor, page_table: torch.Tensor, page_size: int
) -> LocalAttentionMetadata:
    """The same with a virtual request for every query row, by device work alone: what a graph's replay makes again.

    Args:
        per_request: query rows of each request, its last tokens. lens: int [B], its keys, those among them.
    """
    requests = len(lens)
    back = torch.arange(per_request - 1, -1, -1, device=lens.device)
    at = (lens.to(torch.int64)[:, None] - 1 - back).clamp(min=0).flatten()  # a padded row has fewer keys than queries
    owner = torch.arange(requests, device=lens.device).repeat_interleave(per_request)
    start = at // chunk * chunk
    return LocalAttentionMetadata(
        local_query_start_loc=steps(requests * per_request, 1, lens.device),
        local_seqused_k=(at - start + 1).to(torch.int32),
        local_block_table=_pages(chunk, owner, start, page_table, page_size),
        local_max_query_len=1,
        local_max_seq_len=chunk,
    )


def _pages(
    chunk: int, owner: torch.Tensor, start: torch.Tensor, page_table: torch.Tensor, page_size: int
) -> torch.Tensor:
    at = start[:, None] // page_size + torch.arange(chunk // page_size, device=page_table.device)
    return page_table[owner[:, None], at.clamp(max=page_table.shape[1] - 1)]


class LocalBuffers:
    """What captured passes read of virtual requests, for the largest graph."""

    def __init__(self, max_tokens: int, chunk: int, page_size: int, device: torch.device) -> None:
        self.chunk, self.page_size = chunk, page_size
        self.seqused_k = torch.zeros(max_tokens, dtype=torch.int32, device=device)
        self.block_table = torch.zeros((max_tokens, chunk // page_size), dtype=torch.int32, device=device)

    def fill(self, made: FlashAttentionMetadata, query_steps: StepBuffers) -> LocalAttentionMetadata:
        """In place; the metadata are views of the buffers."""
        local = local_rows(self.chunk, made.max_seq_len_q, made.cache_seqlens_int32, made.page_table, self.page_size)
        count = len(local.local_seqused_k)
        self.seqused_k[:count] = local.local_seqused_k
        self.block_table[:count] = local.local_block_table
        return LocalAttentionMetadata(
            query_steps.of(count, 1),
            self.seqused_k[:count],
            self.block_table[:count],
            local.local_max_query_len,
            local.local_max_seq_len,
        )
