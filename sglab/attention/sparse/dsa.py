"""dsa, once nsa: DeepSeek Sparse Attention, absorbed MLA over the tokens that an indexer chose.

After SGLang 0.5.9 `nsa_backend.py` (0.5.23 `dsa_backend.py`). Every query token is a request of its own to the sparse
kernels, with at most topk slots. Without `topk_indices` a pass is dense, which is the same while no request has more
than topk tokens.

Over rows the arithmetic is that of the other backends. Over 656-byte records (`MLARecordTokenToKVPool`), which new rows
are quantised into, FlashMLA's sparse operators run: see `records`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of, slots_of_table
from sglab.attention.arithmetic.chosen import IndexRows, check_chosen, rows_of_chosen
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import (
    CAUSAL_MODES,
    GRAPH_MODES,
    MLA_CHAINS_SPREAD,
    PROMPTS_SPREAD,
    Capabilities,
    UnsupportedError,
)
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import StepBuffers, steps
from sglab.attention.rows import save_and_get_kv, save_kv, whole_query
from sglab.attention.sparse.dsa_metadata import DSAMetadata, TopkTransformMethod, dsa_metadata
from sglab.attention.sparse.indexer_metadata import IndexerMetadata
from sglab.attention.sparse.records import check_prefill_backend, method_of, over_records, over_widened
from sglab.engine import (
    ForwardBatch,
    ForwardMode,
    GraphBatch,
    MLARecordTokenToKVPool,
    ModelRunner,
)
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM

INDEX_TOPK = 2048
"""DeepSeek-V3.2's."""


@dataclass
class GraphBuffers:
    """`page_table_1`: int32 [max tokens, longest]; `real_page_table`: in pages of the pool. `seqlens`, `kept`: int32
    [max tokens]. `cache_seqlens`: int32 of requests. `cu_seqlens_k`, `kept_indptr`: int32, one longer. `rows`: 0, 1, 2
    …"""

    page_table_1: torch.Tensor
    real_page_table: torch.Tensor
    seqlens: torch.Tensor
    kept: torch.Tensor
    kept_indptr: torch.Tensor
    cache_seqlens: torch.Tensor
    cu_seqlens_k: torch.Tensor
    rows: StepBuffers


class DeepseekSparseAttnBackend(AttentionBackend):
    """Page size 64, that of the indexer's keys; 1 on AMD GPUs."""

    name = "dsa"
    capabilities = Capabilities(
        kinds=("mla",),
        modes=(*CAUSAL_MODES, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND, ForwardMode.DRAFT_EXTEND_V2),
        drafts="chain",
        graph_modes=GRAPH_MODES,
        page_sizes=(1, 64),
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn",),
        kv_records=True,
        head_dims=((HEAD_DIM, LATENT_DIM),),
        topk_indices=True,
        logit_cap=True,
        sinks=True,
        rope_apart=True,
        dcp=replace(
            MLA_CHAINS_SPREAD,
            page_sizes=(1, 64),
            kv_dtypes=("float8_e4m3fn",),
            topk_indices=True,
            gathers_prefix=False,
            tokens_apart=True,
        ),
        cp=replace(
            PROMPTS_SPREAD,
            kinds=("mla",),
            page_sizes=(1, 64),
            kv_dtypes=("float8_e4m3fn",),
            head_dims=((HEAD_DIM, LATENT_DIM),),
            topk_indices=True,
            rope_apart=True,
            interleaves=True,
        ),
    )

    def __init__(
        self, model_runner: ModelRunner, index_topk: int | None = None, dsa_prefill_backend: str = "flashmla_auto"
    ) -> None:
        """
        Args:
            index_topk: tokens that a query attends to, at most; None: the model's, or DeepSeek-V3.2's.
            dsa_prefill_backend: of prompts over records: "flashmla_kv" reads them where they lie, "flashmla_sparse"
                widens them first, "flashmla_auto" does so on Blackwell where keys are fewer than 512 per new token.

        Raises:
            BadArgumentError: another dsa_prefill_backend. UnsupportedError: as `AttentionBackend`.
        """
        super().__init__(model_runner)
        self.dsa_prefill_backend = check_prefill_backend(dsa_prefill_backend)
        self.real_page_size = model_runner.page_size
        self.index_topk = index_topk or model_runner.model_config.index_topk or INDEX_TOPK
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.device, self.implementation = model_runner.device, model_runner.kernel_implementation
        self.forward_metadata: DSAMetadata | None = None
        self._graph: GraphBuffers | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.forward_metadata = None
        if not forward_batch.forward_mode.is_idle():
            method = TopkTransformMethod.PAGED
            if self._kv_records:
                method = method_of(forward_batch, self.dsa_prefill_backend)
            made_for = self.req_to_token, self.real_page_size, self.index_topk
            self.forward_metadata = dsa_metadata(forward_batch, *made_for, method)

    def indexer_metadata(self) -> IndexerMetadata:
        """What a layer's indexer reads of the pass last prepared."""
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before the indexer")
        ragged = self.forward_metadata.topk_indices_offset is not None
        method = TopkTransformMethod.RAGGED if ragged else TopkTransformMethod.PAGED
        return IndexerMetadata(self.forward_metadata, method)

    def index_rows(self, forward_batch: ForwardBatch) -> IndexRows:
        made = self.forward_metadata
        if made is None:
            raise RuntimeError("prepare comes before the indexer")
        owner = None if len(made.page_table_1) == len(made.seqlens_expanded) else made.token_to_batch_idx
        return IndexRows(made.seqlens_expanded, made.page_table_1, made.max_seq_len_k, owner)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=self.device)

        count = max_num_tokens
        self._graph = GraphBuffers(
            page_table_1=zeros(count, self.max_context_len),
            real_page_table=zeros(count, -(-self.max_context_len // self.real_page_size)),
            seqlens=zeros(count),
            kept=zeros(count),
            kept_indptr=zeros(count + 1),
            cache_seqlens=zeros(max_bs),
            cu_seqlens_k=zeros(max_bs + 1),
            rows=StepBuffers(count, self.device),
        )

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self.forward_metadata = self._fill(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self.forward_metadata = self._fill(graph_batch)

    def _fill(self, batch: GraphBatch) -> DSAMetadata:
        """One row per query token."""
        graph, bs = self._graph, batch.bs
        if graph is None:
            raise RuntimeError("init_graph comes before a capture")
        verify, drafts = batch.forward_mode.is_target_verify(), batch.tokens_per_request
        lens, tokens = batch.seq_lens[:bs] + (drafts if verify else 0), bs * drafts
        back = torch.arange(1 - drafts, 1, device=self.device)
        table, seen = graph.page_table_1[:tokens], graph.seqlens[:tokens]
        table.copy_(self.req_to_token[batch.req_pool_indices[:bs]].repeat_interleave(drafts, 0))
        pages = graph.real_page_table[:tokens]
        pages.copy_(table[:, :: self.real_page_size] // self.real_page_size)
        seen.copy_((lens[:, None] + back).clamp(min=1).flatten())  # a padded row is shorter than its drafts
        kept, per_request = graph.kept[:tokens], graph.cache_seqlens[:bs]
        kept.copy_(seen.clamp(max=self.index_topk))
        graph.kept_indptr[: tokens + 1] = indptr_of(kept)
        per_request.copy_(lens)
        graph.cu_seqlens_k[: bs + 1] = indptr_of(per_request)
        return DSAMetadata(
            page_size=self.real_page_size,
            cache_seqlens_int32=per_request,
            max_seq_len_q=1,
            max_seq_len_k=self.max_context_len,
            cu_seqlens_q=graph.rows.of(tokens, 1),
            cu_seqlens_k=graph.cu_seqlens_k[: bs + 1],
            page_table_1=table,
            real_page_table=pages,
            seqlens_expanded=seen,
            dsa_cache_seqlens_int32=kept,
            dsa_cu_seqlens_q=graph.rows.of(tokens, 1),
            dsa_cu_seqlens_k=graph.kept_indptr[: tokens + 1],
            extend_seq_lens=[drafts] * bs,
        )

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before forward")
        if inputs.topk_indices is not None:
            check_chosen(inputs.topk_indices, len(inputs.q), self.index_topk)
        pool = inputs.forward_batch.token_to_kv_pool
        if isinstance(pool, MLARecordTokenToKVPool):
            return self._attend_records(inputs, pool)
        return self.attend_partial(inputs)[0]

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        keys, values = save_and_get_kv(inputs)
        rows = self._dense() if inputs.topk_indices is None else self._chosen(inputs.topk_indices)
        scoring, chosen = scoring_of(inputs.layer, inputs.sinks), self.implementation
        return attend_rows(whole_query(inputs), keys, values, rows, scoring, implementation=chosen)

    def _dense(self) -> PagedRows:
        """Every key that a token may see: a row per token where the table has one, else one per request."""
        made = self.forward_metadata
        assert made is not None
        if len(made.page_table_1) == len(made.seqlens_expanded):
            indptr, indices = slots_of_table(made.page_table_1, made.seqlens_expanded, 1)
            return PagedRows(steps(len(made.page_table_1), 1, self.device), indptr, indices, 1)
        indptr, indices = slots_of_table(made.page_table_1, made.cache_seqlens_int32, 1)
        most = max(made.extend_seq_lens, default=0)
        new = torch.tensor(made.extend_seq_lens, device=self.device)
        return PagedRows(indptr_of(new), indptr, indices, most)

    def _attend_records(self, inputs: AttentionInputs, pool: MLARecordTokenToKVPool) -> torch.Tensor:
        made, positions = self.forward_metadata, inputs.topk_indices
        assert made is not None
        if inputs.layer.logit_cap:
            got, remedy = str(inputs.layer.logit_cap), "Keep the keys as rows: kv_cache_dtype='auto'."
            raise UnsupportedError("layer.logit_cap", f"0 for {self.name} over records", got, remedy)
        if inputs.save_kv_cache:
            save_kv(inputs)
        q, records = whole_query(inputs), pool.get_records(inputs.layer.layer_id)
        if made.topk_indices_offset is not None:
            return over_widened(inputs, q, records, made, positions, self.implementation)
        slots = None if positions is None else self.indexer_metadata().slots(positions)
        return over_records(inputs, q, records, made, slots, self.implementation)

    def _chosen(self, positions: torch.Tensor) -> PagedRows:
        return rows_of_chosen(self.indexer_metadata().slots(positions))


class NativeSparseAttnBackend(DeepseekSparseAttnBackend):
    """The name until 0.5.9; 0.5.23 keeps it as an alias with a warning."""

    name = "nsa"
