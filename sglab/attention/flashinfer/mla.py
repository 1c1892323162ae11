"""flashinfer for absorbed MLA: BatchMLAPagedAttentionWrapper's arrays; ragged where no request has a prefix.

After SGLang 0.5.9 `flashinfer_mla_backend.py`; also what cutlass_mla, flashmla and trtllm_mla leave other modes to.
SGLang's takes no mask, so it verifies chains alone; this one follows a tree's mask.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, GRAPH_MODES, MLA_DECODES_SPREAD, Capabilities
from sglab.attention.flashinfer.indices import GraphBuffers, IndicesUpdater
from sglab.attention.flashinfer.options import workspace_bytes
from sglab.attention.flashinfer.wrapper import CapturedPlans, Shape, Wrapper
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import kv_for, save_kv, whole_query
from sglab.attention.workspace import shared_workspace
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch, ModelRunner
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM


@dataclass
class DecodeMetadata:
    decode_wrapper: Wrapper

    @property
    def wrapper(self) -> Wrapper:
        return self.decode_wrapper


@dataclass
class PrefillMetadata:
    """`use_ragged`: no request has a prefix, so that new tokens attend to their own rows."""

    prefill_wrapper: Wrapper
    use_ragged: bool

    @property
    def wrapper(self) -> Wrapper:
        return self.prefill_wrapper


class FlashInferMLAAttnBackend(AttentionBackend):
    """SGLang's default for MLA on SM100 outside DeepSeek-V3's own rule."""

    name = "flashinfer"
    capabilities = Capabilities(
        kinds=("mla",),
        modes=(*CAUSAL_MODES, ForwardMode.TARGET_VERIFY, ForwardMode.DRAFT_EXTEND, ForwardMode.DRAFT_EXTEND_V2),
        drafts="tree",
        graph_modes=GRAPH_MODES,
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn", "float8_e5m2", "fp4_mx_block16"),
        head_dims=((HEAD_DIM, LATENT_DIM),),
        rope_apart=True,
        dcp=MLA_DECODES_SPREAD,
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        config = model_runner.model_config
        heads = config.num_attention_heads // model_runner.tp_size
        sms = model_runner.device_core_count
        shape = Shape(heads, 1, config.head_dim, config.v_head_dim, sms, mla=True)
        self.updater = IndicesUpdater(model_runner, shape, use_tensor_cores=True)
        self.workspace = shared_workspace("flashinfer", workspace_bytes(), model_runner.device)
        self.device = model_runner.device
        self.implementation = model_runner.kernel_implementation
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.forward_metadata: DecodeMetadata | PrefillMetadata | None = None
        self._graph: GraphBuffers | None = None
        self._graph_plans = CapturedPlans()

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        mode = forward_batch.forward_mode
        if mode.is_idle():
            self.forward_metadata = None
        elif mode.is_decode():
            self.forward_metadata = DecodeMetadata(self.updater.decode(forward_batch))
        elif mode.is_target_verify():
            self.forward_metadata = PrefillMetadata(self.updater.verify(forward_batch), use_ragged=False)
        else:
            assert forward_batch.extend_prefix_lens_cpu is not None
            draft = mode.is_draft_extend(include_v2=True)
            use_ragged = not draft and not any(forward_batch.extend_prefix_lens_cpu)
            self.forward_metadata = PrefillMetadata(self.updater.prefill(forward_batch, use_ragged), use_ragged)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        self._graph = GraphBuffers(max_bs, max_num_tokens, self.max_context_len, self.device)
        self._graph_plans = CapturedPlans()  # those before are over other buffers

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self._prepare_graph(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self._prepare_graph(graph_batch)

    def _prepare_graph(self, batch: GraphBatch) -> None:
        made = self.forward_metadata = self._fill(batch)
        if self.implementation == "flashinfer":
            self._graph_plans.plan(batch, [made.wrapper])

    def _fill(self, batch: GraphBatch) -> DecodeMetadata | PrefillMetadata:
        graph = self._graph
        if graph is None:
            raise RuntimeError("init_graph comes before a capture")
        if batch.forward_mode.is_target_verify():
            made = self.updater.graph_verify(batch, graph)
            return PrefillMetadata(made, use_ragged=False)
        if batch.forward_mode.is_draft_extend_v2():
            return PrefillMetadata(self.updater.graph_extend(batch, graph), use_ragged=False)
        return DecodeMetadata(self.updater.graph_decode(batch, graph))

    @property
    def verify_mask(self) -> torch.Tensor | None:
        return None if self._graph is None else self._graph.custom_mask

    def redo_verify_metadata(self, spec_info: object, graph_bs: int | None) -> None:
        """Nothing: no other metadata depends on the mask's contents."""

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        metadata = self.forward_metadata
        if metadata is None:
            raise RuntimeError("prepare comes before forward")
        if inputs.save_kv_cache:
            save_kv(inputs)
        if isinstance(metadata, DecodeMetadata):
            return self._paged(inputs, metadata.decode_wrapper.rows())
        if metadata.use_ragged:
            return self._ragged(inputs)
        return self._paged(inputs, metadata.prefill_wrapper.rows())

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        metadata = self.forward_metadata
        assert isinstance(metadata, DecodeMetadata)
        return self._run(inputs, metadata.decode_wrapper.rows())

    def _ragged(self, inputs: AttentionInputs) -> torch.Tensor:
        if inputs.k is None or inputs.v is None:
            raise BadArgumentError("k, v", "the new tokens' rows in an extend", None, "Pass them.")
        batch, layer = inputs.forward_batch, inputs.layer
        assert batch.extend_seq_lens is not None
        assert batch.extend_seq_lens_cpu is not None
        k = inputs.k if inputs.k_rope is None else torch.cat((inputs.k, inputs.k_rope), -1)
        indptr = indptr_of(batch.extend_seq_lens)
        own = PagedRows(indptr, indptr, torch.arange(len(k), device=self.device), max(batch.extend_seq_lens_cpu))
        v = k[..., : layer.v_head_dim]
        q, chosen = whole_query(inputs), self.implementation
        return attend_rows(q, k, v, own, scoring_of(layer), implementation=chosen)[0]

    def _paged(self, inputs: AttentionInputs, rows: PagedRows) -> torch.Tensor:
        return self._run(inputs, rows)[0]

    def _run(self, inputs: AttentionInputs, rows: PagedRows) -> Partial:
        keys, values, indices = kv_for(inputs, rows.kv_indptr, rows.kv_indices)
        if indices is not rows.kv_indices:  # made in the pass: no plan of a graph's own arrays fits them
            rows = replace(rows, kv_indices=indices, graph_plans=None)
        q, chosen = whole_query(inputs), self.implementation
        return attend_rows(q, keys, values, rows, scoring_of(inputs.layer), implementation=chosen)
