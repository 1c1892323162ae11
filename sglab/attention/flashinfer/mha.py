"""flashinfer for MHA: decode wrappers, and an extend that is ragged, paged, or both and merged.

After SGLang 0.5.9 `flashinfer_backend.py`. Where requests have prefixes, new tokens attend to themselves (ragged,
causal, from `k` and `v`) and to their prefix (paged, without causality), and FlashInfer's merge_state joins the two in
base 2. There keys are stored after attention; in the paged route before it, because it reads them from the pool.
Layers with a window always take the paged route here: the merged one has no window.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, merge_base2, scoring_of
from sglab.attention.arithmetic.draft_windows import with_window
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, DIFFUSION_GRAPH_MODES, Capabilities, UnsupportedError
from sglab.attention.flashinfer.indices import GraphBuffers, IndicesUpdater
from sglab.attention.flashinfer.multi_item import MultiItemScoringParams, multi_item_mask, multi_item_params
from sglab.attention.flashinfer.options import DETERMINISTIC_SPLITS, should_use_tensor_core, workspace_bytes
from sglab.attention.flashinfer.wrapper import CapturedPlans, Shape, Wrapper
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import check_encoder, kv_for, save_kv, scales_of
from sglab.attention.workspace import shared_workspace
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch, ModelRunner


@dataclass
class DecodeMetadata:
    """`decode_wrappers`: one; with an encoder the decoder's own tokens, then the encoder's."""

    decode_wrappers: list[Wrapper]

    @property
    def wrappers(self) -> list[Wrapper]:
        return self.decode_wrappers


@dataclass
class PrefillMetadata:
    """`use_ragged`: new tokens are attended to apart from the prefix. `extend_no_prefix`: there is no prefix at all."""

    prefill_wrappers: list[Wrapper]
    use_ragged: bool
    extend_no_prefix: bool
    multi_item_params: MultiItemScoringParams | None = None

    @property
    def wrappers(self) -> list[Wrapper]:
        return self.prefill_wrappers


class FlashInferAttnBackend(AttentionBackend):
    """SGLang's default on NVIDIA GPUs without rules of their own. Page size 1 to the kernels, whatever the pool's."""

    name = "flashinfer"
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
        graph_modes=DIFFUSION_GRAPH_MODES,
        deterministic=True,
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn", "float8_e5m2"),
        prompt_kv_dtypes=("nvfp4",),
        sliding_window=True,
        windows_in_trees=True,
        logit_cap=True,
        cross_attention=True,
        encoders_in_graphs=True,
        bidirectional=True,
        bidirectional_drafts=True,
    )

    def __init__(self, model_runner: ModelRunner, multi_item_scoring_delimiter: int | None = None) -> None:
        """
        Args:
            multi_item_scoring_delimiter: token id that separates items which must not see each other.
        """
        super().__init__(model_runner)
        config = model_runner.model_config
        tp_size = model_runner.tp_size
        heads, kv_heads = config.num_attention_heads // tp_size, config.get_num_kv_heads(tp_size)
        self.deterministic = model_runner.enable_deterministic_inference
        self.decode_use_tensor_cores = self.deterministic or should_use_tensor_core(
            model_runner.kv_cache_dtype, heads, kv_heads
        )
        shape = Shape(heads, kv_heads, config.head_dim, config.v_head_dim, model_runner.device_core_count)
        splits = DETERMINISTIC_SPLITS if self.deterministic else (-1, -1)
        self.updater = IndicesUpdater(model_runner, shape, self.decode_use_tensor_cores, splits)
        size = workspace_bytes(deterministic=self.deterministic)
        self.workspace = shared_workspace("flashinfer", size, model_runner.device)
        self.multi_item_scoring_delimiter = multi_item_scoring_delimiter
        self.device = model_runner.device
        self.implementation = model_runner.kernel_implementation
        if self.deterministic and self.implementation == "flashinfer":
            expected, remedy = (
                "another in deterministic mode, whose splits FlashInfer's plan would not get",
                "Leave it out.",
            )
            raise BadArgumentError("implementation", expected, "'flashinfer'", remedy)
        self.max_context_len = model_runner.req_to_token_pool.max_context_len
        self.forward_metadata: DecodeMetadata | PrefillMetadata | None = None
        self._graph: GraphBuffers | None = None
        self._captured: GraphBatch | None = None
        self._graph_plans = CapturedPlans()
        self._windows: dict[int, Wrapper] = {}
        self._new_tokens: PagedRows | None = None
        """The ragged part of an extend, the same for all its layers."""

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self._captured, self._windows, self._new_tokens = None, {}, None
        mode, updater = forward_batch.forward_mode, self.updater
        encoder = forward_batch.encoder_lens
        if mode.is_idle():
            self.forward_metadata = None
        elif mode.is_decode():
            wrappers = [updater.decode(forward_batch, starts=encoder)]
            if encoder is not None:
                wrappers.append(updater.cross_decode(forward_batch))
            self.forward_metadata = DecodeMetadata(wrappers)
        elif mode.is_target_verify():
            self.forward_metadata = PrefillMetadata([updater.verify(forward_batch)], False, False)
        else:
            self.forward_metadata = self._prefill(forward_batch)

    def _prefill(self, batch: ForwardBatch) -> PrefillMetadata:
        """Multi-item scoring, deterministic mode, encoders and a draft model's catching up take the paged route."""
        assert batch.extend_prefix_lens_cpu is not None
        items = None
        if self.multi_item_scoring_delimiter is not None:
            items = multi_item_params(batch, self.multi_item_scoring_delimiter)
        draft = batch.forward_mode.is_draft_extend(include_v2=True)
        paged = self.multi_item_scoring_delimiter is not None or draft or batch.encoder_lens is not None
        use_ragged = not (paged or self.deterministic)
        no_prefix = not paged and not any(batch.extend_prefix_lens_cpu)
        made = self.updater.prefill(batch, use_ragged, starts=batch.encoder_lens)
        if items is not None:
            made.custom_mask, made.mask_indptr = multi_item_mask(batch, items)
        wrappers = [made]
        if batch.encoder_lens is not None:
            wrappers.append(self.updater.cross_prefill(batch))
        return PrefillMetadata(wrappers, use_ragged, no_prefix, items)

    # CUDA graphs.

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        self._graph = GraphBuffers(max_bs, max_num_tokens, self.max_context_len, self.device)
        self._graph_plans = CapturedPlans()  # those before are over other buffers

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self._captured, self._windows = graph_batch, {}
        self.forward_metadata = self._fill(graph_batch)
        self._plan_graph(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self._captured, self._windows = graph_batch, {}
        self.forward_metadata = self._fill(graph_batch)
        self._plan_graph(graph_batch)

    def _plan_graph(self, batch: GraphBatch) -> None:
        """Where FlashInfer's kernels run: its plans for what the buffers hold now."""
        metadata = self.forward_metadata
        if self.implementation == "flashinfer" and metadata is not None:
            self._graph_plans.plan(batch, metadata.wrappers)

    def _fill(self, batch: GraphBatch) -> DecodeMetadata | PrefillMetadata:
        graph = self._graph
        if graph is None:
            raise RuntimeError("init_graph comes before a capture")
        if batch.forward_mode.is_target_verify():
            made = self.updater.graph_verify(batch, graph)
            return PrefillMetadata([made], False, False)
        if batch.extends:
            return PrefillMetadata([self.updater.graph_extend(batch, graph)], False, False)
        wrappers = [self.updater.graph_decode(batch, graph)]
        if batch.encoder_lens is not None:
            wrappers.append(self.updater.graph_cross_decode(batch, graph))
        for made in wrappers:
            made.disable_split_kv = self.deterministic
        return DecodeMetadata(wrappers)

    @property
    def verify_mask(self) -> torch.Tensor | None:
        return None if self._graph is None else self._graph.custom_mask

    def redo_verify_metadata(self, spec_info: object, graph_bs: int | None) -> None:
        """FlashInfer's own wrappers hold the mask's bits; no other metadata depends on its contents."""
        if self._captured is not None:
            self._plan_graph(self._captured)

    # One layer.

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        metadata, layer = self.forward_metadata, inputs.layer
        if layer.is_cross_attention:
            check_encoder(inputs)
        if metadata is None:
            raise RuntimeError("prepare comes before forward")
        if isinstance(metadata, PrefillMetadata):
            if metadata.use_ragged and layer.sliding_window_size < 0:
                return self._ragged(inputs, metadata)
            return self._paged(inputs, self._prefill_wrapper(inputs, metadata))
        return self._paged(inputs, self._decode_wrapper(inputs, metadata))

    def _decode_wrapper(self, inputs: AttentionInputs, metadata: DecodeMetadata) -> Wrapper:
        """The encoder's for a cross layer; a window's own; else the whole KV."""
        if inputs.layer.is_cross_attention:
            return metadata.decode_wrappers[1]
        window = inputs.layer.sliding_window_size
        if window < 0:
            return metadata.decode_wrappers[0]
        if self._captured is not None and metadata.decode_wrappers[0].graph_plans is not None:
            return replace(metadata.decode_wrappers[0], window_left=window)
        if self._captured is not None:  # made again by every replay, so never kept
            rows = metadata.decode_wrappers[0].rows(causal=False)
            kept = replace(rows, window=window).windowed()
            return replace(metadata.decode_wrappers[0], kv_indptr=kept.kv_indptr, kv_indices=kept.kv_indices)
        if window not in self._windows:
            batch = inputs.forward_batch
            self._windows[window] = self.updater.decode(batch, window, batch.encoder_lens)
        return self._windows[window]

    def _prefill_wrapper(self, inputs: AttentionInputs, metadata: PrefillMetadata) -> Wrapper:
        if inputs.layer.is_cross_attention:
            return metadata.prefill_wrappers[1]
        wrapper, window, batch = metadata.prefill_wrappers[0], inputs.layer.sliding_window_size, inputs.forward_batch
        if metadata.multi_item_params is not None and not inputs.layer.is_causal:
            expected = "AttentionType.DECODER where items are scored apart"
            raise UnsupportedError("layer.attn_type", expected, str(inputs.layer.attn_type), "Score items one by one.")
        if batch.forward_mode.is_target_verify() and not inputs.layer.is_causal:  # a block's drafts see each other
            return replace(wrapper, custom_mask=None, mask_indptr=None, graph_plans=None)
        if window < 0 or metadata.multi_item_params is not None:  # items take the window's place
            return wrapper
        if batch.forward_mode.is_target_verify() and getattr(batch.spec_info, "topk", None) != 1:
            return self._tree_with_window(wrapper, window)
        if batch.forward_mode.is_target_verify() or self._captured is not None:
            return replace(wrapper, window_left=window)
        if window not in self._windows:
            self._windows[window] = self.updater.prefill(batch, False, window, batch.encoder_lens)
        return self._windows[window]

    def _tree_with_window(self, wrapper: Wrapper, window: int) -> Wrapper:
        """The window as part of the mask, along each draft's path; in a graph made again by every replay."""
        if self._captured is not None or window not in self._windows:
            assert wrapper.custom_mask is not None
            assert wrapper.mask_indptr is not None
            mask = with_window(wrapper.custom_mask, wrapper.mask_indptr, wrapper.max_q, window)
            self._windows[window] = replace(wrapper, custom_mask=mask, graph_plans=None)
        return self._windows[window]

    def _paged(self, inputs: AttentionInputs, wrapper: Wrapper) -> torch.Tensor:
        if inputs.save_kv_cache:
            save_kv(inputs)
        return self._run(inputs, wrapper.rows(wrapper.causal and inputs.layer.is_causal))[0]

    def _ragged(self, inputs: AttentionInputs, metadata: PrefillMetadata) -> torch.Tensor:
        if inputs.k is None or inputs.v is None:
            raise BadArgumentError("k, v", "the new tokens' rows in an extend", None, "Pass them.")
        batch, layer = inputs.forward_batch, inputs.layer
        if self._new_tokens is None:
            assert batch.extend_seq_lens is not None
            assert batch.extend_seq_lens_cpu is not None
            indptr = indptr_of(batch.extend_seq_lens)
            order = torch.arange(len(inputs.q), device=self.device)
            self._new_tokens = PagedRows(indptr, indptr, order, max(batch.extend_seq_lens_cpu))
        own = replace(self._new_tokens, causal=layer.is_causal)
        k, v, chosen = inputs.k, inputs.v, self.implementation
        part = attend_rows(inputs.q, k, v, own, scoring_of(layer), implementation=chosen)
        if not metadata.extend_no_prefix:
            part = merge_base2(part, self._run(inputs, metadata.prefill_wrappers[0].rows(causal=False)), chosen)
        if inputs.save_kv_cache:
            save_kv(inputs)
        return part[0]

    def _run(self, inputs: AttentionInputs, rows: PagedRows) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values, indices = kv_for(inputs, rows.kv_indptr, rows.kv_indices)
        if indices is not rows.kv_indices:  # made in the pass: no plan of a graph's own arrays fits them
            rows = replace(rows, kv_indices=indices, graph_plans=None)
        k_scale, v_scale = scales_of(inputs)
        scoring, chosen = scoring_of(inputs.layer, k_scale=k_scale), self.implementation
        return attend_rows(inputs.q, keys, values, rows, scoring, v_scale=v_scale, implementation=chosen)
