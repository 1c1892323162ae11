"""TARGET_VERIFY of trees, as FlashAttention serves it: the prefix and the drafts apart, then merged.

The first call has no mask: every draft sees the whole prefix. The second has one query per request and a table of its
own: each draft's ancestors, page size 1. A layer with a window is served by one call instead, whose tables hold what
each draft sees of both. Source: SGLang 0.5.9 `flashattention_backend.py`, `init_forward_metadata`.
"""

from __future__ import annotations

import sys

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.page_table.metadata import (
    FlashAttentionMetadata,
    longest,
    page_table_of,
    steps,
    token_table,
)
from sglab.engine import ForwardBatch


def prefix_metadata(
    batch: ForwardBatch, drafts: int, req_to_token: torch.Tensor, page_size: int
) -> FlashAttentionMetadata:
    """The prefix's call: `drafts` query rows per request over keys without the drafts'."""
    lens = batch.seq_lens.to(torch.int32)
    most = longest(batch, req_to_token.shape[1])
    return FlashAttentionMetadata(
        cache_seqlens_int32=lens,
        cu_seqlens_q=steps(batch.batch_size, drafts, lens.device),
        cu_seqlens_k=indptr_of(lens),
        page_table=page_table_of(token_table(req_to_token, batch.req_pool_indices, most), page_size),
        max_seq_len_q=drafts,
        max_seq_len_k=most,
    )


def draft_mask(custom_mask: torch.Tensor, prefixes: torch.Tensor, drafts: int) -> torch.Tensor:
    """The tree's part of a flat mask: bool [B · drafts, drafts].

    Args:
        custom_mask: bool, flat: per request (drafts, prefix + drafts).
        prefixes: int64 [B].
    """
    offsets = torch.arange(drafts, device=prefixes.device)
    columns = offsets + prefixes[:, None]
    widths = (prefixes + drafts).repeat_interleave(drafts)
    starts = torch.cumsum(widths, 0) - widths
    at = columns.repeat_interleave(drafts, 0) + starts[:, None]
    return custom_mask[at.flatten()].view(-1, drafts).to(torch.bool)


def path_windows(
    prefix: FlashAttentionMetadata, expand: FlashAttentionMetadata, page_size: int, window: int = -1, chunk: int = 0
) -> FlashAttentionMetadata:
    """Each draft a request of one query over the last window + 1 tokens of its own path, or what its chunk has of that,
    itself among them; page size 1. SGLang's `swa_spec_metadata` holds the whole path, for pages of one token alone, and
    its kernel applies the window. By device work alone, so that a replay makes it again.

    Args:
        window: -1: none. chunk: of the model, where the layer sees chunks; else 0.
    """
    lens, table = prefix.cache_seqlens_int32, prefix.page_table
    drafts = len(expand.cache_seqlens_int32) // max(len(lens), 1)
    before = lens.repeat_interleave(drafts)
    total = before + expand.cache_seqlens_int32
    kept = total if chunk == 0 else (total - 1) % chunk + 1
    width = min(chunk or sys.maxsize, table.shape[1] * page_size + drafts)
    if window >= 0:
        kept, width = kept.clamp(max=window + 1), min(window + 1, width)
    at = (total - kept)[:, None] + torch.arange(width, device=lens.device, dtype=torch.int32)
    request = torch.arange(len(total), device=lens.device)[:, None] // max(drafts, 1)
    pages = table[request, (at // page_size).clamp(max=table.shape[1] - 1)]
    own = expand.page_table.gather(1, (at - before[:, None]).clamp(0, drafts - 1).to(torch.int64))
    return FlashAttentionMetadata(
        cache_seqlens_int32=kept,
        cu_seqlens_q=expand.cu_seqlens_q,
        cu_seqlens_k=indptr_of(kept),
        page_table=torch.where(at < before[:, None], pages * page_size + at % page_size, own),
        max_seq_len_k=width,
    )


def expand_metadata(
    custom_mask: torch.Tensor, prefixes: torch.Tensor, rows: torch.Tensor, drafts: int, req_to_token: torch.Tensor
) -> FlashAttentionMetadata:
    """The drafts' call: each draft a request of one query, its table the slots it sees, visible ones first.

    Entries after those that it sees are the others, in order: the kernel reads cache_seqlens_int32 of them.
    """
    mask = draft_mask(custom_mask, prefixes, drafts)
    offsets = torch.arange(drafts, device=prefixes.device)
    order = torch.where(mask, offsets, offsets + drafts).argsort(1)
    slots = req_to_token[rows].gather(1, offsets + prefixes[:, None]).repeat_interleave(drafts, 0)
    lens = mask.sum(1).to(torch.int32)
    return FlashAttentionMetadata(
        cache_seqlens_int32=lens,
        cu_seqlens_q=steps(len(mask), 1, lens.device),
        cu_seqlens_k=indptr_of(lens),
        page_table=slots.gather(1, order),
    )
