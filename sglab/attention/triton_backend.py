"""triton: two-stage decode attention and extend attention over CSR index arrays; any page size, MHA and MLA.

After SGLang 0.5.9 `triton_backend.py`. The operators are those of `sglab.kernels`; unless another implementation is
asked for they run as Triton kernels, on a GPU or, for CPU tensors, on the emulator or under Triton's interpreter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of
from sglab.attention.arithmetic.draft_windows import with_window
from sglab.attention.arithmetic.merging import Partial
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, DIFFUSION_GRAPH_MODES, Capabilities, UnsupportedError
from sglab.attention.inputs import AttentionInputs
from sglab.attention.rows import check_encoder, kv_for, request_rows, save_kv, scales_of
from sglab.attention.triton_metadata import ForwardMetadata, TritonGraphState, TritonMetadata
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch, ModelRunner, RadixAttention
from sglab.kernels import decode_attention_fwd, extend_attention_fwd


class TritonAttnBackend(AttentionBackend):
    """SGLang's default where neither Hopper nor Blackwell kernels apply: decode, extend, tree verification.

    A window of w is w + 1 keys here, as for every backend; SGLang's triton takes w.
    """

    name = "triton"
    capabilities = Capabilities(
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
        sliding_window=True,
        windows_in_trees=True,
        kv_dtypes=("float8_e4m3fn", "float8_e5m2", "fp4_mx_block16"),
        logit_cap=True,
        xai_temperature=True,
        sinks=True,
        cross_attention=True,
        encoders_in_graphs=True,
        bidirectional=True,
        bidirectional_window=True,
        bidirectional_drafts=True,
        image_masks=True,
        score_mod=True,
        dcp=Capabilities(
            graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE),
            kv_dtypes=("float8_e4m3fn", "float8_e5m2"),
            logit_cap=True,
        ),
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        asked = model_runner.kernel_implementation
        self.implementation = "triton" if asked == "auto" else asked
        # Index kernels have no implementation for the host's vector units.
        self.metadata = TritonMetadata(model_runner, "reference" if asked == "cpu" else self.implementation)
        self.forward_metadata: ForwardMetadata | None = None
        self._graph: TritonGraphState | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        mode = forward_batch.forward_mode
        if mode.is_idle():
            self.forward_metadata = None
        elif mode.is_decode():
            self.forward_metadata = self.metadata.decode(forward_batch)
        elif mode.is_target_verify():
            self.forward_metadata = self.metadata.verify(forward_batch)
        else:
            self.forward_metadata = self.metadata.extend(forward_batch)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        self._graph = self.metadata.graph_state(max_num_tokens)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self.forward_metadata = self._fill_graph(self._graph_state(), graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self.forward_metadata = self._fill_graph(self._graph_state(), graph_batch)
        self._split_graph(graph_batch)

    def fill_in_graph(self, graph_batch: GraphBatch) -> bool:
        """A decode's metadata depend on the graph's inputs alone; a verification's mask comes from outside."""
        if not graph_batch.forward_mode.is_decode() or self.implementation != "triton":
            return False
        if graph_batch.seq_lens.device.type != "cuda":
            return False  # there contents are checked, which the host reads: no recorded graph can do it again
        self.forward_metadata = self._fill_graph(self._graph_state(), graph_batch)
        self._split_graph(graph_batch)
        return True

    @property
    def verify_mask(self) -> torch.Tensor | None:
        return None if self._graph is None else self._graph.custom_mask

    def redo_verify_metadata(self, spec_info: Any, graph_bs: int | None) -> None:
        """Nothing: no other metadata depends on the mask's contents."""

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        if inputs.layer.is_cross_attention:
            check_encoder(inputs)
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before forward")
        self.refuse_layer(inputs.layer)
        meta = self.forward_metadata
        if inputs.layer.is_cross_attention:
            assert meta.encoder is not None
            meta = meta.encoder
        if inputs.score_mod is not None:
            return self._scored(inputs)
        run = self._decode if inputs.forward_batch.forward_mode.is_decode() else self._extend
        o = inputs.q.new_empty((*inputs.q.shape[:2], inputs.layer.v_head_dim))
        run(inputs, o, meta)
        return o

    def attend_partial(self, inputs: AttentionInputs) -> Partial:
        meta = self.forward_metadata
        assert meta is not None
        if inputs.forward_batch.forward_mode.is_decode():
            o = inputs.q.new_empty((*inputs.q.shape[:2], inputs.layer.v_head_dim))
            lse = torch.empty(o.shape[:2], dtype=torch.float32, device=o.device)
            self._decode(inputs, o, meta, lse)
            return o, lse
        keys, values, indices = kv_for(inputs, meta.kv_indptr, meta.kv_indices)
        assert meta.qo_indptr is not None
        rows = PagedRows(meta.qo_indptr, meta.kv_indptr, indices, meta.max_extend_len, causal=False)
        k_scale, v_scale = scales_of(inputs)
        scoring, chosen = scoring_of(inputs.layer, k_scale=k_scale), self.implementation
        return attend_rows(inputs.q, keys, values, rows, scoring, v_scale=v_scale, implementation=chosen)

    def _scored(self, inputs: AttentionInputs) -> torch.Tensor:
        """With a function on the logits, which our kernels do not call: in PyTorch, request by request."""
        layer = inputs.layer
        if inputs.save_kv_cache:
            save_kv(inputs)
        rows = request_rows(inputs.forward_batch, layer.is_causal, layer.sliding_window_size)
        keys, values, indices = kv_for(inputs, rows.kv_indptr, rows.kv_indices)
        k_scale, v_scale = scales_of(inputs)
        scoring = scoring_of(layer, inputs.sinks, k_scale)
        chosen = {"triton": "auto", "cpu": "auto"}.get(self.implementation, self.implementation)
        read, added = replace(rows, kv_indices=indices), inputs.score_mod
        return attend_rows(
            inputs.q, keys, values, read, scoring, v_scale=v_scale, implementation=chosen, score_mod=added
        )[0]

    def refuse_layer(self, layer: RadixAttention) -> None:
        """A window of 0 means none to the kernels, and a temperature counts positions from the window's start."""
        if layer.sliding_window_size == 0 or (layer.sliding_window_size > 0 and layer.xai_temperature_len > 0):
            got = f"{layer.sliding_window_size} with xai_temperature_len {layer.xai_temperature_len}"
            expected = f"-1 for {self.name}, or at least 1 without a temperature"
            raise UnsupportedError("layer.sliding_window_size", expected, got, "Use flex_attention.")

    def _decode(
        self, inputs: AttentionInputs, o: torch.Tensor, meta: ForwardMetadata, lse: torch.Tensor | None = None
    ) -> None:
        layer = inputs.layer
        k_scale, v_scale = scales_of(inputs)
        assert meta.attn_logits is not None
        assert meta.attn_lse is not None
        assert meta.num_kv_splits is not None
        kv_indptr, kv_indices = meta.kv_indptr, meta.kv_indices
        if layer.sliding_window_size >= 0:
            kv_indptr, kv_indices = self.metadata.window(inputs.forward_batch, meta, layer.sliding_window_size)
        keys, values, kv_indices = kv_for(inputs, kv_indptr, kv_indices, save=True)
        decode_attention_fwd(
            inputs.q,
            keys,
            values,
            o,
            kv_indptr,
            kv_indices,
            meta.attn_logits,
            meta.attn_lse,
            meta.num_kv_splits,
            self.metadata.max_kv_splits,
            layer.scaling,
            logit_cap=layer.logit_cap,
            sinks=inputs.sinks,
            xai_temperature_len=layer.xai_temperature_len,
            k_scale=k_scale,
            v_scale=v_scale,
            lse=lse,
            implementation=self.implementation,
        )

    def _extend(self, inputs: AttentionInputs, o: torch.Tensor, meta: ForwardMetadata) -> None:
        """The new tokens' keys come from `k`, only the prefix from the pool; all of an encoder's come from there."""
        layer, new_k, new_v = inputs.layer, inputs.k, inputs.v
        if not layer.is_cross_attention and (new_k is None or new_v is None):
            raise BadArgumentError("k, v", "the new tokens' rows in an extend", None, "Pass them.")
        keys, values, kv_indices = kv_for(inputs, meta.kv_indptr, meta.kv_indices, save=True)
        if (
            layer.is_cross_attention or new_k is None or new_v is None
        ):  # all that is seen is the prefix; a mask hides these
            new_k = inputs.q.new_zeros((len(inputs.q), *keys.shape[1:]))
            new_v = inputs.q.new_zeros((len(inputs.q), *values.shape[1:]))
        k_scale, v_scale = scales_of(inputs)
        assert meta.qo_indptr is not None
        verifies = inputs.forward_batch.forward_mode.is_target_verify()
        # A block's drafts see each other, and in an encoder's layer all tokens do, whatever images there are.
        unmasked = not layer.is_causal and not layer.is_cross_attention
        mask, window, masks_prefix = None if unmasked else meta.custom_mask, layer.sliding_window_size, False
        is_tree = verifies and getattr(inputs.forward_batch.spec_info, "topk", None) != 1
        if window >= 0 and is_tree and mask is not None and meta.mask_indptr is not None:
            mask = with_window(mask, meta.mask_indptr, meta.max_extend_len, window)
            window, masks_prefix = -1, True
        extend_attention_fwd(
            inputs.q,
            new_k,
            new_v,
            o,
            keys,
            values,
            meta.qo_indptr,
            meta.kv_indptr,
            kv_indices,
            mask,
            layer.is_causal,
            meta.mask_indptr,
            meta.max_extend_len,
            layer.scaling,
            skip_prefix_custom_mask=not masks_prefix,
            logit_cap=layer.logit_cap,
            sliding_window_size=window,
            sinks=inputs.sinks,
            xai_temperature_len=layer.xai_temperature_len,
            k_scale=k_scale,
            v_scale=v_scale,
            implementation=self.implementation,
        )

    def _fill_graph(self, graph: TritonGraphState, batch: GraphBatch) -> ForwardMetadata:
        if batch.forward_mode.is_target_verify():
            return self.metadata.fill_verify(graph, batch)
        if batch.extends:
            return self.metadata.fill_extend(graph, batch)
        return self.metadata.fill_decode(graph, batch)

    def _split_graph(self, batch: GraphBatch) -> None:
        if not batch.forward_mode.is_decode_or_idle():
            return
        graph, bs = self._graph_state(), batch.bs
        self.metadata.get_num_kv_splits(graph.num_kv_splits[:bs], batch.seq_lens[:bs])
        if batch.encoder_lens is not None:
            self.metadata.get_num_kv_splits(graph.encoders().num_kv_splits[:bs], batch.encoder_lens[:bs])

    def _graph_state(self) -> TritonGraphState:
        if self._graph is None:
            raise RuntimeError("init_graph comes before a capture")
        return self._graph
