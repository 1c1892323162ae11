"""flashmla: MLA decode through FlashMLA's dense operator, page size 64; every other mode through a fallback backend.

After SGLang 0.5.9 `flashmla_backend.py`, whose fallback (and base class) is FlashInfer's MLA backend; here it is
triton. The operator runs our own kernel for Hopper under FlashMLA's plan; for CPU tensors on an emulated H100.

A chain of draft tokens (spec_info.topk = 1) is verified by the same operator, causally. SGLang's backend takes chains
only; here trees, and chains in CUDA graphs, go to the fallback, which follows the tree's mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sglab.attention.paged_mla import PagedMLABackend
from sglab.attention.registry import register_attention_backend
from sglab.engine import ForwardBatch, ModelRunner, RadixAttention
from sglab.engine.errors import BadArgumentError
from sglab.kernels import flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.flash_mla import PAGE_SIZE


@dataclass
class FlashMLADecodeMetadata:
    """`flashmla_metadata`: int32 [parts, 8]. `num_splits`: int32 [B + 1]. `block_kv_indices`: int32 [B, pages].
    `cache_seqlens`: int32 [B]. `query_tokens`: per request; several are masked causally."""

    flashmla_metadata: torch.Tensor
    num_splits: torch.Tensor
    block_kv_indices: torch.Tensor
    cache_seqlens: torch.Tensor
    query_tokens: int = 1


@register_attention_backend("flashmla")
class FlashMLABackend(PagedMLABackend[FlashMLADecodeMetadata]):
    """SGLang runs this backend with page size 64 only, FlashMLA's own."""

    name = "flashmla"
    tile = PAGE_SIZE

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self._verify: FlashMLADecodeMetadata | None = None

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

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        spec, self._verify = forward_batch.spec_info, None
        if forward_batch.forward_mode.is_target_verify() and getattr(spec, "topk", None) == 1:
            self._verify = self._verify_metadata(forward_batch, spec.draft_token_num)
        else:
            super().init_forward_metadata(forward_batch)

    def _verify_metadata(self, forward_batch: ForwardBatch, drafts: int) -> FlashMLADecodeMetadata:
        """For the prefix and the drafts behind it, whose keys are written before they attend."""
        known = forward_batch.seq_lens if forward_batch.seq_lens_cpu is None else forward_batch.seq_lens_cpu
        lens = forward_batch.seq_lens + drafts
        table = self.new_table(forward_batch.batch_size, int(known.max()) + drafts, self.padding_page())
        self._fill(table, forward_batch.req_pool_indices, lens)
        lens = lens.to(torch.int32)
        return FlashMLADecodeMetadata(*get_mla_metadata(lens, drafts * self.num_q_heads, 1), table, lens, drafts)

    def init_forward_metadata_capture_cuda_graph(self, *args: Any, **kwargs: Any) -> None:
        self._verify = None
        super().init_forward_metadata_capture_cuda_graph(*args, **kwargs)

    def extend_metadata(self, forward_batch: ForwardBatch) -> FlashMLADecodeMetadata | None:
        return self._verify if forward_batch.forward_mode.is_target_verify() else None

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
        tokens = metadata.query_tokens
        out, _ = flash_mla_with_kvcache(
            torch.cat([q, q_rope], -1).unflatten(0, (-1, tokens)),
            cache.unsqueeze(2),
            metadata.block_kv_indices,
            metadata.cache_seqlens,
            layer.v_head_dim,
            metadata.flashmla_metadata,
            metadata.num_splits,
            layer.scaling,
            causal=tokens > 1,
            implementation=self.implementation,
        )
        return out.flatten(0, 1)
