"""FlashAttentionMetadata: the arrays of fa3, fa4, trtllm_mha and intel_xpu, mode by mode; pure functions of a batch.

Source: SGLang 0.5.9 `layers/attention/flashattention_backend.py` (`init_forward_metadata`); the fields have its names.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.engine import ForwardBatch


@dataclass
class FlashAttentionMetadata:
    """What all layers of a pass share."""

    cache_seqlens_int32: torch.Tensor
    """int32 [B], keys of each request."""
    cu_seqlens_q: torch.Tensor
    """int32 [B + 1], where each request's query rows start."""
    cu_seqlens_k: torch.Tensor
    """int32 [B + 1]."""
    page_table: torch.Tensor
    """int32 [B, pages]."""
    max_seq_len_q: int = 1
    max_seq_len_k: int = 0
    encoder_lens_int32: torch.Tensor | None = None
    """int32 [B], of a cross-attention layer, as the three below."""
    encoder_cu_seqlens_k: torch.Tensor | None = None
    encoder_page_table: torch.Tensor | None = None
    encoder_max_seq_len_k: int = 0
    local_attn_metadata: LocalAttentionMetadata | None = None
    """Of layers that see one chunk of the text; None: no layer does."""
    image_token_ranges: torch.Tensor | None = None
    """int32 [tokens, 2], fa4's: first and last position of the image that each new token is of, −1 of text."""
    bidirectional_block_ids: torch.Tensor | None = None
    """int32 [keys], intel_xpu's: the image that each token is of, −1 of text."""


@dataclass
class LocalAttentionMetadata:
    """FlashAttentionMetadata of virtual requests (see `local.py`)."""

    local_query_start_loc: torch.Tensor
    """int32 [V + 1]."""
    local_seqused_k: torch.Tensor
    """int32 [V], keys of each: what its chunk has of the request's text."""
    local_block_table: torch.Tensor
    """int32 [V, chunk // page_size]; pages behind the table's last are that one."""
    local_max_query_len: int
    local_max_seq_len: int
    total: int | None = None
    """Keys of all, where the host knows them."""

    def as_requests(self) -> FlashAttentionMetadata:
        return FlashAttentionMetadata(
            cache_seqlens_int32=self.local_seqused_k,
            cu_seqlens_q=self.local_query_start_loc,
            cu_seqlens_k=indptr_of(self.local_seqused_k),
            page_table=self.local_block_table,
            max_seq_len_q=self.local_max_query_len,
            max_seq_len_k=self.local_max_seq_len,
        )


def token_table(req_to_token: torch.Tensor, rows: torch.Tensor, width: int) -> torch.Tensor:
    """int32 [B, width]: the slot of every position, whatever follows a request's last."""
    return req_to_token[rows, :width]


def page_table_of(tokens: torch.Tensor, page_size: int) -> torch.Tensor:
    """Page numbers from slots: every page_size-th, divided. Entries after a request's last page are stale, not −1."""
    return tokens if page_size == 1 else tokens[:, ::page_size] // page_size


def longest(batch: ForwardBatch, capacity: int) -> int:
    """The longest request; where only the device knows, the longest there can be: nothing waits for the device."""
    if batch.seq_lens_cpu is None:
        return capacity
    return int(batch.seq_lens_cpu.max()) if len(batch.seq_lens_cpu) else 0


def decode_metadata(batch: ForwardBatch, req_to_token: torch.Tensor, page_size: int) -> FlashAttentionMetadata:
    """One query row per request."""
    lens = batch.seq_lens.to(torch.int32)
    most = longest(batch, req_to_token.shape[1])
    return FlashAttentionMetadata(
        cache_seqlens_int32=lens,
        cu_seqlens_q=torch.arange(batch.batch_size + 1, dtype=torch.int32, device=lens.device),
        cu_seqlens_k=indptr_of(lens),
        page_table=page_table_of(token_table(req_to_token, batch.req_pool_indices, most), page_size),
        max_seq_len_k=most,
    )


def extend_metadata(batch: ForwardBatch, req_to_token: torch.Tensor, page_size: int) -> FlashAttentionMetadata:
    """Without any prefix the queries' cumulative lengths are the keys' own array."""
    lens = batch.seq_lens.to(torch.int32)
    most = longest(batch, req_to_token.shape[1])
    cu_seqlens_k = indptr_of(lens)
    cu_seqlens_q, max_q = cu_seqlens_k, most
    assert batch.extend_prefix_lens_cpu is not None
    assert batch.extend_seq_lens_cpu is not None
    assert batch.extend_seq_lens is not None
    if any(batch.extend_prefix_lens_cpu) or batch.forward_mode.is_draft_extend(include_v2=True):
        cu_seqlens_q, max_q = indptr_of(batch.extend_seq_lens), max(batch.extend_seq_lens_cpu)
    return FlashAttentionMetadata(
        cache_seqlens_int32=lens,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        page_table=page_table_of(token_table(req_to_token, batch.req_pool_indices, most), page_size),
        max_seq_len_q=max_q,
        max_seq_len_k=most,
    )


def chain_metadata(
    batch: ForwardBatch, drafts: int, req_to_token: torch.Tensor, page_size: int
) -> FlashAttentionMetadata:
    """TARGET_VERIFY of chains: `drafts` more keys and as many query rows per request, causal."""
    lens = (batch.seq_lens + drafts).to(torch.int32)
    most = min(longest(batch, req_to_token.shape[1]) + drafts, req_to_token.shape[1])
    return FlashAttentionMetadata(
        cache_seqlens_int32=lens,
        cu_seqlens_q=steps(batch.batch_size, drafts, lens.device),
        cu_seqlens_k=indptr_of(lens),
        page_table=page_table_of(token_table(req_to_token, batch.req_pool_indices, most), page_size),
        max_seq_len_q=drafts,
        max_seq_len_k=most,
    )


def steps(count: int, size: int, device: torch.device) -> torch.Tensor:
    """int32 [count + 1]: 0, size, 2 size …"""
    return torch.arange(0, count * size + 1, size, dtype=torch.int32, device=device)


class StepBuffers:
    """`steps` for graphs: a captured graph keeps the address, so a buffer lives as long as its backend.

    Args:
        most: the largest count.
    """

    def __init__(self, most: int, device: torch.device) -> None:
        self.most, self.device = most, device
        self._by_size: dict[int, torch.Tensor] = {}

    def of(self, count: int, size: int) -> torch.Tensor:
        """int32 [count + 1], a view of the buffer for this size."""
        if size not in self._by_size:
            self._by_size[size] = steps(self.most, size, self.device)
        return self._by_size[size][: count + 1]


def add_encoder(
    metadata: FlashAttentionMetadata, batch: ForwardBatch, longest_encoder: int, req_to_token: torch.Tensor, size: int
) -> None:
    """Split the table of an encoder-decoder's requests: an encoder's tokens come first in its request's row."""
    assert batch.encoder_lens is not None
    lens, rows = batch.encoder_lens.to(torch.int32), batch.req_pool_indices
    metadata.encoder_lens_int32, metadata.encoder_max_seq_len_k = lens, longest_encoder
    metadata.encoder_cu_seqlens_k = indptr_of(lens)
    metadata.encoder_page_table = page_table_of(token_table(req_to_token, rows, longest_encoder), size)
    own = table_behind(req_to_token, rows, batch.encoder_lens, metadata.max_seq_len_k)
    metadata.page_table = page_table_of(own, size)


def table_behind(req_to_token: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, width: int) -> torch.Tensor:
    """int32 [B, width]: the slots from each request's own start on; behind a row's end its last entry."""
    at = starts.to(torch.int64)[:, None] + torch.arange(width, device=starts.device)
    return req_to_token[rows.to(torch.int64)[:, None], at.clamp(max=req_to_token.shape[1] - 1)]
