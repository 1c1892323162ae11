"""What an indexer asks of the backend: lengths, tables, and what its chosen positions become.

Source: SGLang 0.5.9 `nsa/nsa_indexer.py`, BaseIndexerMetadata, and `nsa_backend.py`, NSAIndexerMetadata.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.attention.page_table.metadata import page_table_of
from sglab.attention.sparse.dsa_metadata import INDEX_PAGE_SIZE, DSAMetadata, TopkTransformMethod


@dataclass(frozen=True)
class IndexerMetadata:
    """`metadata`: of the pass. `method`: what chosen positions become."""

    metadata: DSAMetadata
    method: TopkTransformMethod = TopkTransformMethod.PAGED

    def get_seqlens_int32(self) -> torch.Tensor:
        """int32 [B], keys of each request."""
        return self.metadata.cache_seqlens_int32

    def get_page_table_64(self) -> torch.Tensor:
        """int32 [B, pages]: pages of 64 index keys."""
        return page_table_of(self.metadata.page_table_1, INDEX_PAGE_SIZE)

    def get_page_table_1(self) -> torch.Tensor:
        """int32 [B, longest]: slots."""
        return self.metadata.page_table_1

    def get_seqlens_expanded(self) -> torch.Tensor:
        """int32 [tokens]: keys that each query token may see."""
        return self.metadata.seqlens_expanded

    def get_cu_seqlens_k(self) -> torch.Tensor:
        """int32 [B + 1]."""
        return self.metadata.cu_seqlens_k

    def get_token_to_batch_idx(self) -> torch.Tensor | None:
        """int32 [tokens] in a prefill; None elsewhere."""
        return self.metadata.token_to_batch_idx

    def topk_transform(self, logits: torch.Tensor, topk: int) -> torch.Tensor:
        """The best tokens of every row as the sparse kernels read them.

        Args:
            logits: float32 [tokens, keys of the request], what lies after a row's own keys is not looked at.

        Returns:
            int32 [tokens, topk], slots (PAGED) or rows of the contiguous keys (RAGGED); −1 where a row has fewer keys.
            Their order is not defined.
        """
        made = self.metadata
        seen = made.seqlens_expanded[:, None]
        column = torch.arange(logits.shape[1], device=logits.device)
        scores = logits.masked_fill(column >= seen, -math.inf)
        best = scores.topk(min(topk, logits.shape[1]), -1)
        chosen = torch.where(best.values > -math.inf, best.indices, -1)
        chosen = torch.nn.functional.pad(chosen, (0, topk - chosen.shape[1]), value=-1)
        if self.method is TopkTransformMethod.RAGGED and made.topk_indices_offset is not None:
            return torch.where(chosen >= 0, chosen + made.topk_indices_offset[:, None], -1).to(torch.int32)
        return self.slots(chosen)

    def slots(self, positions: torch.Tensor) -> torch.Tensor:
        """int32 [tokens, topk]: page_table_1's entries at these positions; −1 stays −1."""
        table = self.metadata.token_tables()
        taken = table.gather(1, positions.clamp(0, table.shape[1] - 1).to(torch.int64))
        return torch.where(positions >= 0, taken, -1).to(torch.int32)
