"""ascend: Huawei's NPU kernels over block tables, lengths on the host beside those on the device.

After SGLang 0.5.9 `hardware_backend/npu/attention/ascend_backend.py`. NPU kernels take lengths as Python lists, so the
metadata hold both; MLA with cached prefixes adds the prefixes' blocks one after the other, and attends to the tokens
that an indexer chose. ALiBi (Baichuan) runs in PyTorch, request by request, as in 0.5.23.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of, slots_of_table
from sglab.attention.arithmetic.chosen import IndexRows, check_chosen, rows_of_chosen
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.arithmetic.score_functions import alibi
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import (
    CAUSAL_MODES,
    DIFFUSION_GRAPH_MODES,
    MLA_CHAINS_SPREAD,
    PROMPTS_SPREAD,
    Capabilities,
)
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import longest, page_table_of, steps, token_table
from sglab.attention.rows import check_encoder, save_and_get_kv, whole_query
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, ModelRunner


@dataclass
class AscendMetadata:
    """SGLang's ForwardMetadata.

    Attributes:
        block_tables: int32 [B, blocks]; for verification wide enough for the drafts.
        seq_lens: int32 [B], without the drafts; seq_lens_cpu_int: int32 [B] on the host, with them.
        extend_seq_lens_cpu_int: int32 [B], new tokens; seq_lens_list_cumsum: where each request's end.
        flatten_prefix_block_tables: int32, MLA's cached blocks, request after request.
        query_tokens: rows of every request: in verification, and where a captured draft model catches up.
        captured: a graph's, whose lengths the batch does not know.
    """

    block_tables: torch.Tensor
    seq_lens: torch.Tensor
    seq_lens_cpu_int: torch.Tensor | None = None
    extend_seq_lens_cpu_int: torch.Tensor | None = None
    seq_lens_list_cumsum: list[int] | None = None
    prefix_lens: torch.Tensor | None = None
    flatten_prefix_block_tables: torch.Tensor | None = None
    query_tokens: int = 1
    captured: bool = False


class AscendAttnBackend(AttentionBackend):
    """SGLang's only backend on NPUs; page size 128 unless another was asked for. MHA here, MLA below."""

    name = "ascend"
    capabilities = Capabilities(
        kinds=("mha",),
        deterministic=True,
        modes=(
            *CAUSAL_MODES,
            ForwardMode.TARGET_VERIFY,
            ForwardMode.DRAFT_EXTEND,
            ForwardMode.DRAFT_EXTEND_V2,
            ForwardMode.DLLM_EXTEND,
        ),
        drafts="chain",
        graph_modes=DIFFUSION_GRAPH_MODES,
        dtypes=("float16", "bfloat16"),
        sliding_window=True,
        logit_cap=True,
        cross_attention=True,
        sinks=True,
        bidirectional=True,
        bidirectional_drafts=True,
        alibi=True,
        triton_helpers=False,
        cp=replace(PROMPTS_SPREAD, kinds=("mha",)),
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        self.page_size, self.device = model_runner.page_size, model_runner.device
        self.use_mla = model_runner.model_config.kind == "mla"
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.implementation = model_runner.kernel_implementation
        self.forward_metadata: AscendMetadata | None = None
        self._tables: torch.Tensor | None = None
        self._lens: torch.Tensor | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        idle = forward_batch.forward_mode.is_idle()
        self.forward_metadata = None if idle else self._metadata(forward_batch)

    def _metadata(self, batch: ForwardBatch) -> AscendMetadata:
        mode, rows = batch.forward_mode, batch.req_pool_indices
        drafts = batch.spec_info.draft_token_num if mode.is_target_verify() else 0
        width = min(longest(batch, self.max_context_len) + drafts, self.max_context_len)
        made = AscendMetadata(
            page_table_of(token_table(self.req_to_token, rows, width), self.page_size),
            batch.seq_lens.to(torch.int32),
            query_tokens=drafts or 1,
        )
        if batch.seq_lens_cpu is not None:
            made.seq_lens_cpu_int = batch.seq_lens_cpu.to(torch.int32) + drafts
        if batch.extend_seq_lens_cpu is not None and not drafts:
            made.extend_seq_lens_cpu_int = torch.tensor(batch.extend_seq_lens_cpu, dtype=torch.int32)
            if not mode.is_draft_extend(include_v2=True):
                made.seq_lens_list_cumsum = made.extend_seq_lens_cpu_int.cumsum(0).tolist()
                self._add_prefixes(made, batch)
        return made

    def _add_prefixes(self, made: AscendMetadata, batch: ForwardBatch) -> None:
        prefixes = batch.extend_prefix_lens_cpu or []
        if not self.use_mla or not sum(prefixes):
            return
        made.prefix_lens = torch.tensor(prefixes, dtype=torch.int32)
        tables = [
            page_table_of(self.req_to_token[row : row + 1, :prefix], self.page_size).flatten()
            for row, prefix in zip(batch.req_pool_indices.tolist(), prefixes, strict=True)
        ]
        made.flatten_prefix_block_tables = torch.cat(tables)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        blocks = -(-self.max_context_len // self.page_size)
        self._tables = torch.zeros((max_bs, blocks), dtype=torch.int32, device=self.device)
        self._lens = torch.zeros(max_bs, dtype=torch.int32, device=self.device)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self.forward_metadata = self._fill(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self.forward_metadata = self._fill(graph_batch)

    def _fill(self, batch: GraphBatch) -> AscendMetadata:
        if self._tables is None or self._lens is None:
            raise RuntimeError("init_graph comes before a capture")
        tables, lens = self._tables[: batch.bs], self._lens[: batch.bs]
        tables.copy_(self.req_to_token[batch.req_pool_indices[: batch.bs], :: self.page_size] // self.page_size)
        lens.copy_(batch.seq_lens[: batch.bs])
        return AscendMetadata(tables, lens, query_tokens=batch.tokens_per_request, captured=True)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        return self.attend_partial(inputs)[0]

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        made, layer, batch = self.forward_metadata, inputs.layer, inputs.forward_batch
        if layer.is_cross_attention:
            check_encoder(inputs)
        if made is None:
            raise RuntimeError("prepare comes before forward")
        if inputs.topk_indices is not None:
            check_chosen(inputs.topk_indices, len(inputs.q), self.max_context_len)
        keys, values = save_and_get_kv(inputs)
        mode, count = batch.forward_mode, len(made.seq_lens)
        lens, most = made.seq_lens, made.query_tokens
        qo_indptr = steps(count, most, self.device)
        if mode.is_target_verify():
            lens = lens + most
        elif not mode.is_decode() and not made.captured:
            assert batch.extend_seq_lens is not None
            assert batch.extend_seq_lens_cpu is not None
            qo_indptr, most = indptr_of(batch.extend_seq_lens), max(batch.extend_seq_lens_cpu)
        if batch.encoder_lens is not None:
            indptr, indices = self._slots_beside_encoder(batch, batch.encoder_lens, lens, layer.is_cross_attention)
        else:
            indptr, indices = slots_of_table(made.block_tables, lens, self.page_size)
        window = -1 if layer.is_cross_attention else layer.sliding_window_size
        rows = PagedRows(qo_indptr, indptr, indices, most, layer.is_causal, window)
        if inputs.topk_indices is not None:
            rows = rows_of_chosen(self._slots(made, inputs.topk_indices, qo_indptr))
        scoring, chosen = scoring_of(layer, inputs.sinks), self.implementation
        falls = None if inputs.slopes is None else alibi(inputs.slopes)
        q = whole_query(inputs)
        return attend_rows(q, keys, values, rows, scoring, implementation=chosen, score_mod=falls)

    def _slots(self, made: AscendMetadata, positions: torch.Tensor, qo_indptr: torch.Tensor) -> torch.Tensor:
        """Of the positions that an indexer chose, through the block tables; −1 stays −1."""
        token = torch.arange(len(positions), device=self.device)
        request = torch.searchsorted(qo_indptr[1:].to(torch.int64), token, right=True).clamp(max=len(qo_indptr) - 2)
        at = positions.clamp(0, made.block_tables.shape[1] * self.page_size - 1).to(torch.int64)
        blocks = made.block_tables[request[:, None], at // self.page_size]
        return torch.where(positions >= 0, blocks * self.page_size + at % self.page_size, -1)

    def _slots_beside_encoder(
        self, batch: ForwardBatch, encoded: torch.Tensor, lens: torch.Tensor, cross: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The encoder's slots, which come first in a request's row, or the decoder's: SGLang leaves models with an
        encoder to PyTorch, which reads req_to_token instead of blocks."""
        table = self.req_to_token[batch.req_pool_indices]
        if cross:
            return slots_of_table(table, encoded, 1)
        at = encoded.to(torch.int64)[:, None] + torch.arange(table.shape[1], device=self.device)
        return slots_of_table(table.gather(1, at.clamp(max=table.shape[1] - 1)), lens, 1)


class AscendMLAAttnBackend(AscendAttnBackend):
    """MLA, with the tokens of DeepSeek-V3.2's indexer where a layer has one."""

    capabilities = replace(
        AscendAttnBackend.capabilities,
        kinds=("mla",),
        alibi=False,
        topk_indices=True,
        rope_apart=True,
        cp=None,
        dcp=replace(
            MLA_CHAINS_SPREAD,
            kv_dtypes=(),
            head_dims=(),
            topk_indices=True,
            gathers_prefix=False,
            tokens_apart=True,
            pages_apart=True,
        ),
    )

    def index_rows(self, forward_batch: ForwardBatch) -> IndexRows:
        """Of a verification and of a captured pass by device work alone."""
        made, mode = self.forward_metadata, forward_batch.forward_mode
        if made is None or not (made.captured or mode.is_target_verify()):
            return super().index_rows(forward_batch)
        per_request = made.query_tokens
        lens = made.seq_lens + (per_request if mode.is_target_verify() else 0)
        back = torch.arange(per_request - 1, -1, -1, device=self.device)
        seen = (lens[:, None] - back).clamp(min=1).flatten()  # a padded row is shorter than its drafts
        widest = made.block_tables.shape[1] * self.page_size
        table = self.req_to_token[forward_batch.req_pool_indices[: len(lens)], :widest]
        owner = torch.arange(len(lens), dtype=torch.int32, device=self.device).repeat_interleave(per_request)
        return IndexRows(seen.int(), table, table.shape[1], owner)
