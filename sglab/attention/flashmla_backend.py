"""flashmla: MLA decode through FlashMLA's dense operator, page size 64; every other mode through a fallback backend.

After SGLang 0.5.9 `flashmla_backend.py`, whose fallback (and base class) is FlashInfer's MLA backend, as here. The
operator runs our own kernel for Hopper under FlashMLA's plan; for CPU tensors on an emulated H100. An FP8 cache is
attended to in Triton or PyTorch under the same table.

A chain of draft tokens (spec_info.topk = 1) is verified by the same operator, causally, and so a draft model catches up
by as many tokens in every request (DRAFT_EXTEND_V2); both also in CUDA graphs, as in SGLang 0.5.23. SGLang's backend
takes chains only; here trees, and requests that catch up by different counts, go to the fallback.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of, slots_of_table
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.capabilities import GRAPH_MODES, MLA_DECODES_SPREAD, Capabilities
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import steps
from sglab.attention.paged_mla import PagedMLABackend
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch
from sglab.kernels import flash_mla_with_kvcache, get_mla_metadata
from sglab.kernels.flash_mla import PAGE_SIZE
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM


@dataclass
class FlashMLADecodeMetadata:
    """`flashmla_metadata`: int32 [parts, 8]. `num_splits`: int32 [B + 1]. `block_kv_indices`: int32 [B, pages].
    `cache_seqlens`: int32 [B]. `query_tokens`: per request; several are masked causally."""

    flashmla_metadata: torch.Tensor
    num_splits: torch.Tensor
    block_kv_indices: torch.Tensor
    cache_seqlens: torch.Tensor
    query_tokens: int = 1


class FlashMLABackend(PagedMLABackend[FlashMLADecodeMetadata]):
    """SGLang runs this backend with page size 64 only, FlashMLA's own."""

    name = "flashmla"
    capabilities = Capabilities(
        kinds=("mla",),
        modes=(ForwardMode.DECODE, ForwardMode.IDLE, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND_V2),
        fallback="flashinfer",
        drafts="chain",
        graph_modes=GRAPH_MODES,
        page_sizes=(PAGE_SIZE,),
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn", "float8_e5m2"),
        head_dims=((HEAD_DIM, LATENT_DIM),),
        dcp=replace(MLA_DECODES_SPREAD, page_sizes=(PAGE_SIZE,), kv_dtypes=(), rope_apart=False),
    )
    tile = PAGE_SIZE

    def padding_page(self) -> int:
        """−1 as in SGLang: entries after the last page are not read."""
        return -1

    def new_metadata(
        self, table: torch.Tensor, seq_lens: torch.Tensor, query_tokens: int = 1
    ) -> FlashMLADecodeMetadata:
        plan = get_mla_metadata(seq_lens, query_tokens * self.num_q_heads, 1)
        return FlashMLADecodeMetadata(*plan, table, seq_lens, query_tokens)

    def _choose(self, batch: ForwardBatch | GraphBatch) -> None:
        super()._choose(batch)
        new = batch.extend_seq_lens_cpu if isinstance(batch, ForwardBatch) else None
        if batch.forward_mode.is_draft_extend_v2() and new and len(set(new)) > 1:
            self._serving = self.fallback

    def graph_metadata(
        self, graph: FlashMLADecodeMetadata, bs: int, seq_lens: torch.Tensor, query_tokens: int
    ) -> FlashMLADecodeMetadata:
        """The plan changes with the lengths, so a graph reads it from buffers that are filled before each replay; of
        several query tokens it has fewer parts than the buffer, which is a decode's."""
        graph.cache_seqlens[:bs] = seq_lens
        made, num_splits = get_mla_metadata(graph.cache_seqlens[:bs], query_tokens * self.num_q_heads, 1)
        metadata = graph.flashmla_metadata[: len(made)]
        metadata.copy_(made)
        graph.num_splits[: bs + 1] = num_splits
        table, lens = graph.block_kv_indices[:bs], graph.cache_seqlens[:bs]
        return FlashMLADecodeMetadata(metadata, graph.num_splits[: bs + 1], table, lens, query_tokens)

    def table_of(self, metadata: FlashMLADecodeMetadata) -> torch.Tensor:
        return metadata.block_kv_indices

    def run(self, inputs: AttentionInputs, metadata: FlashMLADecodeMetadata, cache: torch.Tensor) -> Partial:
        tokens = metadata.query_tokens
        if cache.dtype != self.q_data_type:
            return self._run_fp8(inputs, metadata, cache)
        out, lse = flash_mla_with_kvcache(
            inputs.q.to(self.q_data_type).unflatten(0, (-1, tokens)),
            cache.unsqueeze(2),
            metadata.block_kv_indices,
            metadata.cache_seqlens,
            inputs.layer.v_head_dim,
            metadata.flashmla_metadata,
            metadata.num_splits,
            inputs.layer.scaling,
            causal=tokens > 1,
            implementation=self.implementation,
        )
        return out.flatten(0, 1), lse.transpose(1, 2).flatten(0, 1)

    def _run_fp8(self, inputs: AttentionInputs, metadata: FlashMLADecodeMetadata, cache: torch.Tensor) -> Partial:
        """An FP8 cache under the same table and lengths: FlashMLA's kernel for it is not here."""
        tokens, lens = metadata.query_tokens, metadata.cache_seqlens
        indptr, indices = slots_of_table(metadata.block_kv_indices, lens, self.page_size)
        rows = PagedRows(steps(len(lens), tokens, self.device), indptr, indices, tokens)
        slots = cache.flatten(0, 1).unsqueeze(1)
        scoring, chosen = scoring_of(inputs.layer), self._arithmetic()
        values = slots[..., : inputs.layer.v_head_dim]
        return attend_rows(inputs.q, slots, values, rows, scoring, implementation=chosen)
