"""The arrays of DeepSeek Sparse Attention, mode by mode.

Source: SGLang 0.5.9 `layers/attention/nsa_backend.py`, init_forward_metadata, _cal_indexer_k_start_end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.page_table.metadata import longest, page_table_of, steps
from sglab.engine import ForwardBatch

INDEX_PAGE_SIZE = 64
"""Of the pages that the indexer's kernel reads, whatever the KV pool's."""


class TopkTransformMethod(IntEnum):
    """What chosen positions become: slots through page_table_1, or rows of a contiguous copy of the keys."""

    PAGED = 1
    RAGGED = 2


@dataclass
class DSAMetadata:
    """SGLang's NSAMetadata. "Expanded": one entry per query token, as the sparse kernels see every token as a request.

    Attributes:
        cache_seqlens_int32, cu_seqlens_q, cu_seqlens_k: int32, per request.
        page_table_1: int32 [B, longest], slots; in verification and catching up one row per query token.
        real_page_table: the same as pages of the pool.
        seqlens_expanded: int32 [tokens], keys that each token may see.
        dsa_cache_seqlens_int32: the same, at most topk. dsa_cu_seqlens_q, dsa_cu_seqlens_k: int32 [tokens + 1].
        extend_seq_lens: query tokens of each request, on the host.
        topk_indices_offset: int32 [tokens], where each token's request starts among all keys; RAGGED only.
        page_table_1_flattened: int32, all requests' slots; RAGGED with prefixes only.
        indexer_k_start_end: int32 [tokens] each, the keys that a token is scored against in a prefill.
        token_to_batch_idx: int32 [tokens].
    """

    page_size: int
    cache_seqlens_int32: torch.Tensor
    max_seq_len_q: int
    max_seq_len_k: int
    cu_seqlens_q: torch.Tensor
    cu_seqlens_k: torch.Tensor
    page_table_1: torch.Tensor
    real_page_table: torch.Tensor
    seqlens_expanded: torch.Tensor
    dsa_cache_seqlens_int32: torch.Tensor
    dsa_cu_seqlens_q: torch.Tensor
    dsa_cu_seqlens_k: torch.Tensor
    extend_seq_lens: list[int]
    topk_indices_offset: torch.Tensor | None = None
    page_table_1_flattened: torch.Tensor | None = None
    indexer_k_start_end: tuple[torch.Tensor, torch.Tensor] | None = None
    token_to_batch_idx: torch.Tensor | None = None

    def token_tables(self) -> torch.Tensor:
        """int32 [tokens, longest]: page_table_1 with a row for every query token."""
        owner = self.token_to_batch_idx
        if owner is None or len(self.page_table_1) == len(self.seqlens_expanded):
            return self.page_table_1
        return self.page_table_1[owner.long()]

    def flattened_table(self) -> torch.Tensor:
        """int32 [keys]: all requests' slots, end to end; page_table_1 has a row per request."""
        lens = self.cache_seqlens_int32[:, None]
        return self.page_table_1[torch.arange(self.page_table_1.shape[1], device=lens.device) < lens]


def expanded(kv_lens: list[int], q_lens: list[int], device: torch.device) -> torch.Tensor:
    """int32 [tokens]: kv − q + 1 … kv for each request."""
    parts = [torch.arange(kv - q + 1, kv + 1, dtype=torch.int32) for kv, q in zip(kv_lens, q_lens, strict=True)]
    return torch.cat(parts).to(device) if parts else torch.zeros(0, dtype=torch.int32, device=device)


def dsa_metadata(
    batch: ForwardBatch,
    req_to_token: torch.Tensor,
    page_size: int,
    topk: int,
    method: TopkTransformMethod = TopkTransformMethod.PAGED,
) -> DSAMetadata:
    """The arrays of an eager pass; lengths must be known on the host.

    Args:
        topk: tokens that a query attends to, at most.
        method: RAGGED where the keys are attended to as a contiguous copy: an FP8 pool's prefill.
    """
    mode, device = batch.forward_mode, batch.seq_lens.device
    drafts = batch.spec_info.draft_token_num if mode.is_target_verify() else 0
    host = batch.seq_lens if batch.seq_lens_cpu is None else batch.seq_lens_cpu
    kv_lens = [length + drafts for length in host.tolist()]
    lens = (batch.seq_lens + drafts).to(torch.int32)
    most = min(longest(batch, req_to_token.shape[1]) + drafts, req_to_token.shape[1])
    table, cu_seqlens_k = req_to_token[batch.req_pool_indices, :most], indptr_of(lens)
    count, max_q, flattened, offset, bounds, owner = batch.batch_size, 1, None, None, None, None
    if mode.is_decode():
        q_lens, cu_seqlens_q, seen = [1] * count, steps(count, 1, device), lens
    elif mode.is_target_verify() or mode.is_draft_extend(include_v2=True):
        q_lens = [drafts] * count if drafts else list(batch.extend_seq_lens_cpu or ())
        cu_seqlens_q, seen = steps(sum(q_lens), 1, device), expanded(kv_lens, q_lens, device)
        table = table.repeat_interleave(torch.tensor(q_lens, device=device), 0)
    else:
        assert batch.extend_seq_lens is not None
        q_lens = list(batch.extend_seq_lens_cpu or ())
        seen, max_q, cu_seqlens_q = expanded(kv_lens, q_lens, device), most, cu_seqlens_k
        if any(batch.extend_prefix_lens_cpu or ()):
            max_q, cu_seqlens_q = max(q_lens), indptr_of(batch.extend_seq_lens)
        if method is TopkTransformMethod.RAGGED:
            offset = torch.repeat_interleave(cu_seqlens_k[:-1], batch.extend_seq_lens)
            if any(batch.extend_prefix_lens_cpu or ()):
                flattened = torch.cat([table[i, :length] for i, length in enumerate(kv_lens)])
        bounds, owner = _key_bounds(kv_lens, q_lens, seen, device)
    kept = seen.clamp(max=topk)
    return DSAMetadata(
        page_size=page_size,
        cache_seqlens_int32=lens,
        max_seq_len_q=max_q,
        max_seq_len_k=most,
        cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_k,
        page_table_1=table,
        real_page_table=page_table_of(table, page_size),
        seqlens_expanded=seen,
        dsa_cache_seqlens_int32=kept,
        dsa_cu_seqlens_q=steps(len(kept), 1, device),
        dsa_cu_seqlens_k=indptr_of(kept),
        extend_seq_lens=q_lens,
        topk_indices_offset=offset,
        page_table_1_flattened=flattened,
        indexer_k_start_end=bounds,
        token_to_batch_idx=owner,
    )


def _key_bounds(
    kv_lens: list[int], q_lens: list[int], seen: torch.Tensor, device: torch.device
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Among all requests' keys: the first that a token may see and the one after its last; and whose token it is."""
    counts = torch.tensor(q_lens, device=device)
    starts = torch.cumsum(torch.tensor([0, *kv_lens[:-1]], device=device), 0, dtype=torch.int32)
    first = torch.repeat_interleave(starts, counts)
    owner = torch.repeat_interleave(torch.arange(len(q_lens), dtype=torch.int32, device=device), counts)
    return (first, first + seen), owner
