"""trtllm_mla and cutedsl_mla: MLA on SM100 over a page table padded for two kernels at once.

After SGLang 0.5.9 `trtllm_mla_backend.py` (cutedsl_mla: 0.5.23). A row of the table is a multiple of what TensorRT-LLM
reads at a time (128 tokens) and of what the index kernel writes (4,096 tokens), filled up with −1. Decode, chains of
drafts and a draft model's catching up run here; prompts go to FlashInfer's MLA backend.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of, slots_of_table
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.capabilities import GRAPH_MODES, MLA_CHAINS_SPREAD, MLA_DECODES_SPREAD, Capabilities
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import steps
from sglab.attention.paged_mla import PagedMLABackend
from sglab.attention.rows import whole_query
from sglab.attention.workspace import shared_workspace
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, ModelRunner
from sglab.kernels import cutlass_mla_decode, cutlass_mla_get_workspace_size
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM

TRTLLM_BLOCK_CONSTRAINT = 128
"""Tokens: the kernel takes page numbers of so many at a time."""
INDEX_KERNEL_TOKENS = 4096
WORKSPACE_BYTES = 150 << 20
FLASHINFER = ("flashinfer", "flashinfer_cute")
"""Names of `implementation` that mean FlashInfer's own kernel."""


@dataclass
class TRTLLMMLADecodeMetadata:
    """Fields as SGLang's.

    Attributes:
        block_kv_indices: int32 [B, padded pages].
        seq_lens_k: int32 [B], keys of each request, drafts included.
        max_seq_len_q: query rows of a request: 1, the drafts, or the longest catching up.
        cu_seqlens_q, seq_lens_q: of a draft model that catches up: how many of the rows are real.
    """

    block_kv_indices: torch.Tensor
    seq_lens_k: torch.Tensor
    max_seq_len_q: int = 1
    cu_seqlens_q: torch.Tensor | None = None
    seq_lens_q: torch.Tensor | None = None


@dataclass
class TRTLLMMLAPrefillMetadata:
    """`cum_seq_lens`: int32 [B + 1] of the new tokens; `seq_lens`: int64 [B], their counts."""

    max_seq_len: int
    cum_seq_lens: torch.Tensor
    seq_lens: torch.Tensor


def padded_blocks(max_seq_len: int, page_size: int) -> int:
    """Pages of a table row: a multiple of both constraints."""
    blocks = -(-max_seq_len // page_size)
    unit = math.lcm(TRTLLM_BLOCK_CONSTRAINT // page_size, INDEX_KERNEL_TOKENS // page_size)
    return -(-blocks // unit) * unit


class TRTLLMMLABackend(PagedMLABackend[TRTLLMMLADecodeMetadata]):
    """DeepSeek-V3's default on B200 and B300."""

    name = "trtllm_mla"
    capabilities = Capabilities(
        kinds=("mla",),
        modes=(
            ForwardMode.DECODE,
            ForwardMode.IDLE,
            ForwardMode.TARGET_VERIFY,
            ForwardMode.DRAFT_EXTEND,
            ForwardMode.DRAFT_EXTEND_V2,
        ),
        fallback="flashinfer",
        drafts="chain",
        graph_modes=GRAPH_MODES,
        page_sizes=(32, 64),
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn", "fp4_mx_block16"),
        head_dims=((HEAD_DIM, LATENT_DIM),),
        rope_apart=True,
        dcp=replace(MLA_DECODES_SPREAD, page_sizes=(32, 64), kv_dtypes=("float8_e4m3fn",)),
    )
    tile = INDEX_KERNEL_TOKENS

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self.workspace = shared_workspace("trtllm", WORKSPACE_BYTES, model_runner.device, zeros=True)
        self.forward_prefill_metadata: TRTLLMMLAPrefillMetadata | None = None

    def padding_page(self) -> int:
        return -1

    def new_table(self, rows: int, longest: int, fill: int) -> torch.Tensor:
        """At least one unit wide, also for an empty batch."""
        shape = (rows, padded_blocks(max(longest, 1), self.page_size))
        return torch.full(shape, fill, dtype=torch.int32, device=self.device)

    def prepare(self, forward_batch: ForwardBatch) -> None:
        mode = forward_batch.forward_mode
        self.forward_prefill_metadata = None
        if mode.is_draft_extend(include_v2=True):
            self._serving = self
            self._check_metadata(forward_batch)
            self.forward_metadata = self._catching_up(forward_batch)
            return
        super().prepare(forward_batch)
        if self._serving is not self and forward_batch.extend_seq_lens is not None:
            assert forward_batch.extend_seq_lens_cpu is not None
            new = forward_batch.extend_seq_lens
            longest = max(forward_batch.extend_seq_lens_cpu, default=0)
            self.forward_prefill_metadata = TRTLLMMLAPrefillMetadata(longest, indptr_of(new), new.to(torch.int64))

    def _catching_up(self, batch: ForwardBatch) -> TRTLLMMLADecodeMetadata:
        """Every request gets as many query rows as the longest; lengths count them, so that the real rows, which come
        first, stay aligned with their keys."""
        new = batch.extend_seq_lens
        assert new is not None
        assert batch.extend_seq_lens_cpu is not None
        most = max(batch.extend_seq_lens_cpu, default=1)
        lens = (batch.seq_lens - new + most).clamp(max=self.max_context_len)
        longest = min(self._longest(batch) + most, self.max_context_len)
        table = self.new_table(batch.batch_size, longest, self.padding_page())
        self._fill(table, batch.req_pool_indices, lens)
        return TRTLLMMLADecodeMetadata(table, lens.to(torch.int32), most, indptr_of(new), new)

    def new_metadata(
        self, table: torch.Tensor, seq_lens: torch.Tensor, query_tokens: int = 1
    ) -> TRTLLMMLADecodeMetadata:
        return TRTLLMMLADecodeMetadata(table, seq_lens, query_tokens)

    def new_graph_table(self, rows: int) -> torch.Tensor:
        return self.new_table(rows, self.max_context_len, -1)

    def graph_metadata(
        self, graph: TRTLLMMLADecodeMetadata, bs: int, seq_lens: torch.Tensor, query_tokens: int
    ) -> TRTLLMMLADecodeMetadata:
        graph.seq_lens_k[:bs] = seq_lens
        return TRTLLMMLADecodeMetadata(graph.block_kv_indices[:bs], graph.seq_lens_k[:bs], query_tokens)

    def table_of(self, metadata: TRTLLMMLADecodeMetadata) -> torch.Tensor:
        return metadata.block_kv_indices

    def run(self, inputs: AttentionInputs, metadata: TRTLLMMLADecodeMetadata, cache: torch.Tensor) -> Partial:
        if self.implementation in FLASHINFER:
            return self._by_flashinfer(inputs, metadata, cache)
        q, tokens = whole_query(inputs), metadata.max_seq_len_q
        real = None
        if metadata.seq_lens_q is not None:
            q, real = pad_draft_extend_query(q, metadata.seq_lens_q, tokens)
        batch = len(metadata.seq_lens_k)
        indptr, indices = slots_of_table(metadata.block_kv_indices, metadata.seq_lens_k, self.page_size)
        rows = PagedRows(steps(batch, tokens, self.device), indptr, indices, tokens)
        slots = cache.flatten(0, 1).unsqueeze(1)
        values, scoring = slots[..., :LATENT_DIM], scoring_of(inputs.layer)
        o, lse = attend_rows(q, slots, values, rows, scoring, implementation=self._arithmetic())
        return (o, lse) if real is None else (o[real], lse[real])

    def _by_flashinfer(
        self, inputs: AttentionInputs, metadata: TRTLLMMLADecodeMetadata, cache: torch.Tensor
    ) -> Partial:
        """FlashInfer's CuTe DSL kernel, which 0.5.23 calls for cutedsl_mla: one query token a request, 16 bits."""
        assert inputs.q_rope is not None
        if metadata.max_seq_len_q != 1 or cache.element_size() == 1:
            kind = f"{metadata.max_seq_len_q} query tokens of a request, a cache of {cache.dtype}"
            remedy = "Leave the implementation out: then the rows are attended to as on any machine."
            raise BadArgumentError("implementation", "for one query token and a 16-bit cache", kind, remedy)
        rows, width = metadata.block_kv_indices.shape
        size = cutlass_mla_get_workspace_size(width * self.page_size, rows, num_kv_splits=1)
        lse = torch.empty(inputs.q.shape[:2], dtype=torch.float32, device=self.device)
        o = cutlass_mla_decode(
            inputs.q.to(self.q_data_type),
            inputs.q_rope.to(self.q_data_type),
            cache,
            metadata.seq_lens_k,
            metadata.block_kv_indices.clamp(min=0),
            torch.empty(size, dtype=torch.uint8, device=self.device),
            inputs.layer.scaling,
            num_kv_splits=1,
            lse=lse,
            implementation="flashinfer_cute",
        )
        return o, lse


class CuteDslMLABackend(TRTLLMMLABackend):
    """The same arrays for FlashInfer's CuTe DSL kernel, which also returns the LSE of a rank's share of the context."""

    name = "cutedsl_mla"
    capabilities = replace(
        TRTLLMMLABackend.capabilities,
        kv_dtypes=("float8_e4m3fn",),
        dcp=replace(MLA_CHAINS_SPREAD, page_sizes=(32, 64), kv_dtypes=("float8_e4m3fn",)),
    )


def pad_draft_extend_query(q: torch.Tensor, seq_lens_q: torch.Tensor, most: int) -> tuple[torch.Tensor, torch.Tensor]:
    """q [tokens, heads, dim] with every request's rows filled up to `most` with zeros, and where the real rows are."""
    lens = seq_lens_q.to(torch.int64)
    request = torch.repeat_interleave(torch.arange(len(lens), device=q.device), lens, output_size=len(q))
    within = torch.arange(len(q), device=q.device) - (torch.cumsum(lens, 0) - lens)[request]
    real = request * most + within
    padded = q.new_zeros((len(lens) * most, *q.shape[1:]))
    padded[real] = q
    return padded, real
