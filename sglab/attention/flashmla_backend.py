"""flashmla: MLA decode through FlashMLA's dense operator, page size 64; every other mode through a fallback backend.

After SGLang 0.5.9 `flashmla_backend.py`, whose fallback (and base class) is FlashInfer's MLA backend; here it is
triton. The operator runs our own kernel for Hopper under FlashMLA's plan; for CPU tensors on an emulated H100.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.paged_mla import PagedMLABackend
from sglab.attention.registry import register_attention_backend
from sglab.engine import ForwardBatch, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.kernels import flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.flash_mla import PAGE_SIZE


@dataclass
class FlashMLADecodeMetadata:
    """`flashmla_metadata`: int32 [parts, 8]. `num_splits`: int32 [B + 1]. `block_kv_indices`: int32 [B, pages].
    `cache_seqlens`: int32 [B]."""

    flashmla_metadata: torch.Tensor
    num_splits: torch.Tensor
    block_kv_indices: torch.Tensor
    cache_seqlens: torch.Tensor


@register_attention_backend("flashmla")
class FlashMLABackend(PagedMLABackend[FlashMLADecodeMetadata]):
    """SGLang runs this backend with page size 64 only, FlashMLA's own."""

    name = "flashmla"
    tile = PAGE_SIZE

    def check_page_size(self) -> None:
        if self.page_size != PAGE_SIZE:
            remedy = f"Build the batch with page_size={PAGE_SIZE}: FlashMLA has no other."
            raise BadArgumentError("page_size", f"{PAGE_SIZE} for flashmla", self.page_size, remedy)

    def padding_page(self) -> int:
        """−1 as in SGLang: entries behind the last page are not read."""
        return -1

    def new_metadata(self, table: torch.Tensor, seq_lens: torch.Tensor) -> FlashMLADecodeMetadata:
        lens = seq_lens.to(torch.int32)
        return FlashMLADecodeMetadata(*get_mla_metadata(lens, self.num_q_heads, 1), table, lens)

    def graph_metadata(self, graph: FlashMLADecodeMetadata, bs: int, seq_lens: torch.Tensor) -> FlashMLADecodeMetadata:
        """The plan changes with the lengths, so a graph reads it from buffers that are filled before each replay."""
        graph.cache_seqlens[:bs] = seq_lens
        metadata, num_splits = get_mla_metadata(graph.cache_seqlens[:bs], self.num_q_heads, 1)
        graph.flashmla_metadata.copy_(metadata)
        graph.num_splits[: bs + 1] = num_splits
        return FlashMLADecodeMetadata(
            graph.flashmla_metadata, graph.num_splits[: bs + 1], graph.block_kv_indices[:bs], graph.cache_seqlens[:bs]
        )

    def table_of(self, metadata: FlashMLADecodeMetadata) -> torch.Tensor:
        return metadata.block_kv_indices

    def decode(
        self,
        metadata: FlashMLADecodeMetadata,
        q: torch.Tensor,
        q_rope: torch.Tensor,
        cache: torch.Tensor,
        forward_batch: ForwardBatch,
        layer: RadixAttention,
    ) -> torch.Tensor:
        out, _ = flash_mla_with_kvcache(
            torch.cat([q, q_rope], -1).unsqueeze(1),
            cache.unsqueeze(2),
            metadata.block_kv_indices,
            metadata.cache_seqlens,
            layer.v_head_dim,
            metadata.flashmla_metadata,
            metadata.num_splits,
            layer.scaling,
            implementation=self.implementation,
        )
        return out.squeeze(1)
