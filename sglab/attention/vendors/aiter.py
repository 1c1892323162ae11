"""aiter: AMD's kernels. MHA decode pages of one slot cut into partitions of 256; MLA with lengths of its own.

After SGLang 0.5.9 `aiter_backend.py`. The arrays are FlashInfer's, except that a prefill's slots are followed by 256
copies of the first one: its kernel reads 128 slots at a time, and slot 0 may hold NaN after a graph was captured.
Trees of drafts (n-grams') go to SGLang's own extend kernel, with the triton backend's arrays; MLA takes chains alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, GRAPH_MODES, MLA_CHAINS_SPREAD, Capabilities
from sglab.attention.flashinfer.indices import GraphBuffers, IndicesUpdater
from sglab.attention.flashinfer.wrapper import Shape, Wrapper
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import save_and_get_kv, scales_of, whole_query
from sglab.attention.triton_backend import TritonAttnBackend
from sglab.attention.workspace import Workspace
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, ModelRunner

PARTITION_SIZE = 256


@dataclass
class AiterMetadata:
    """SGLang's ForwardMetadata.

    Attributes:
        kv_indptr, kv_indices: int32, slots.
        qo_indptr, kv_last_page_len: int32, where the kernel takes them: MLA, and prefill.
        max_q_len, max_kv_len: on the host; None in decode.
        rows: what the arithmetic here attends over, the same arrays; None of a tree, whose kv_indptr and kv_indices are
            the prefixes'.
        custom_mask, mask_indptr, max_extend_len: of a tree.
    """

    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    qo_indptr: torch.Tensor | None
    kv_last_page_len: torch.Tensor | None
    max_q_len: int | None
    max_kv_len: int | None
    rows: PagedRows | None
    custom_mask: torch.Tensor | None = None
    mask_indptr: torch.Tensor | None = None
    max_extend_len: int | None = None


def workspace_bytes(max_bs: int, num_heads: int, max_context_len: int, head_dim: int) -> int:
    """Of MHA's paged attention: float32 partial outputs, and a maximum and a sum of exponentials per partition."""
    partitions = max_bs * num_heads * -(-max_context_len // PARTITION_SIZE)
    return partitions * head_dim * 4 + 2 * partitions * 4


class AiterAttnBackend(AttentionBackend):
    """SGLang's default on AMD GPUs for MHA."""

    name = "aiter"
    capabilities = Capabilities(
        kinds=("mha",),
        modes=(
            *CAUSAL_MODES,
            ForwardMode.TARGET_VERIFY,
            ForwardMode.DRAFT_EXTEND,
            ForwardMode.DRAFT_EXTEND_V2,
            ForwardMode.DLLM_EXTEND,
        ),
        drafts="tree",
        graph_modes=GRAPH_MODES,
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn",),
        logit_cap=True,
        sliding_window=True,
        sinks=True,
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        config, pool = model_runner.model_config, model_runner.req_to_token_pool
        tp_size = model_runner.tp_size
        heads, kv_heads = config.num_attention_heads // tp_size, config.get_num_kv_heads(tp_size)
        shape = Shape(heads, kv_heads, config.head_dim, config.v_head_dim, model_runner.device_core_count)
        self.updater = IndicesUpdater(model_runner, shape, use_tensor_cores=False)
        self.use_mla = config.kind == "mla"
        self.device, self.max_context_len = model_runner.device, pool.max_context_len
        self.implementation = model_runner.kernel_implementation
        self.workspace: Workspace | None = None
        if not self.use_mla:
            size = workspace_bytes(pool.size, heads, pool.max_context_len, config.head_dim)
            self.workspace = Workspace("aiter", size, model_runner.device)
        self.forward_metadata: AiterMetadata | None = None
        self._graph: GraphBuffers | None = None
        self._trees, self._trees_have_buffers = self._for_trees(model_runner), False

    def _for_trees(self, model_runner: ModelRunner) -> TritonAttnBackend:
        """Its operator has no implementation in PyTorch but the reference."""
        chosen = "cpu" if self.device.type == "cpu" else "triton"
        chosen = {"auto": chosen, "torch": "reference"}.get(self.implementation, self.implementation)
        return TritonAttnBackend(replace(model_runner, kernel_implementation=chosen, check_metadata=False))

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        mode = forward_batch.forward_mode
        if mode.is_idle():
            self.forward_metadata = None
        elif mode.is_decode():
            self.forward_metadata = self._metadata(self.updater.decode(forward_batch), decode=True)
        elif _is_tree(forward_batch):
            self._trees.prepare(forward_batch)
            self.forward_metadata = self._tree_metadata()
        elif mode.is_target_verify():
            self.forward_metadata = self._metadata(_without_mask(self.updater.verify(forward_batch)))
        else:
            wrapper = self.updater.prefill(forward_batch, use_ragged=False)
            indices, total = wrapper.kv_indices, sum(wrapper.kv_lens or ())
            indices[total:] = indices[:1]
            self.forward_metadata = self._metadata(wrapper)

    def _metadata(self, wrapper: Wrapper, decode: bool = False) -> AiterMetadata:
        takes_queries = self.use_mla or not decode
        return AiterMetadata(
            wrapper.kv_indptr,
            wrapper.kv_indices,
            wrapper.qo_indptr if takes_queries else None,
            wrapper.kv_last_page_len if self.use_mla else None,
            wrapper.max_q if takes_queries else None,
            max(wrapper.kv_lens, default=0) if wrapper.kv_lens is not None and not decode else None,
            wrapper.rows(),
        )

    def _tree_metadata(self) -> AiterMetadata:
        made = self._trees.forward_metadata
        assert made is not None
        return AiterMetadata(
            made.kv_indptr,
            made.kv_indices,
            made.qo_indptr,
            None,
            made.max_extend_len,
            None,
            rows=None,
            custom_mask=made.custom_mask,
            mask_indptr=made.mask_indptr,
            max_extend_len=made.max_extend_len,
        )

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        self._graph = GraphBuffers(max_bs, max_num_tokens, self.max_context_len, self.device)
        self._trees_have_buffers = False

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        if _is_tree(graph_batch):
            if not self._trees_have_buffers:
                assert self._graph_sizes is not None
                self._trees.init_graph(self._graph_sizes.max_bs, self._graph_sizes.max_num_tokens)
                self._trees_have_buffers = True
            self._trees.prepare_capture(graph_batch)
        self.forward_metadata = self._fill(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        if _is_tree(graph_batch):
            self._trees.prepare_replay(graph_batch)
        self.forward_metadata = self._fill(graph_batch)

    def _fill(self, batch: GraphBatch) -> AiterMetadata:
        if self._graph is None:
            raise RuntimeError("init_graph comes before a capture")
        if _is_tree(batch):
            return self._tree_metadata()
        if batch.forward_mode.is_target_verify():
            return self._metadata(_without_mask(self.updater.graph_verify(batch, self._graph)))
        if batch.forward_mode.is_draft_extend_v2():
            return self._metadata(self.updater.graph_extend(batch, self._graph))
        return self._metadata(self.updater.graph_decode(batch, self._graph), decode=True)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before forward")
        if self.forward_metadata.rows is None:
            return self._trees.attend(inputs)
        return self._paged(inputs)[0]

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        return self._paged(inputs)

    def _paged(self, inputs: AttentionInputs) -> Partial:
        assert self.forward_metadata is not None and self.forward_metadata.rows is not None
        keys, values = save_and_get_kv(inputs)
        k_scale, v_scale = scales_of(inputs)
        scoring = scoring_of(inputs.layer, inputs.sinks, k_scale)
        q, chosen = whole_query(inputs), self.implementation
        rows = replace(self.forward_metadata.rows, window=inputs.layer.sliding_window_size)
        return attend_rows(q, keys, values, rows, scoring, v_scale=v_scale, implementation=chosen)


class AiterMLAAttnBackend(AiterAttnBackend):
    """SGLang's default on AMD GPUs for MLA with 16 or 128 heads per rank."""

    capabilities = replace(
        AiterAttnBackend.capabilities,
        kinds=("mla",),
        drafts="chain",
        dcp=replace(MLA_CHAINS_SPREAD, kv_dtypes=("float8_e4m3fn",), head_dims=(), rope_apart=False),
    )


def _is_tree(batch: ForwardBatch | GraphBatch) -> bool:
    return batch.forward_mode.is_target_verify() and getattr(batch.spec_info, "topk", None) != 1


def _without_mask(wrapper: Wrapper) -> Wrapper:
    """A chain is causal; the kernel takes no mask."""
    wrapper.custom_mask = wrapper.mask_indptr = None
    return wrapper
