"""intel_amx: SGLang's CPU kernels, which read req_to_token themselves; eight splits of a request's KV in decode.

After SGLang's `intel_amx_backend.py`: metadata of 0.5.9, with the windows, sinks, cross-attention, trees of drafts, FP8
pools and captured decodes (there PyTorch's compiled graphs) that 0.5.23 has. Decode writes the new rows itself, as
there, unless the pool is FP8. On a host the operators of `sglab.kernels.cpu_attention` run, on AMX's tiles where the
chip has them; elsewhere, or by another implementation's name, the attention that all backends share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.arithmetic import PagedRows, attend_rows, scoring_of, slots_of_table
from sglab.attention.arithmetic.draft_windows import with_window
from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, Capabilities
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import longest, steps
from sglab.attention.rows import check_encoder, save_and_get_kv, save_kv, scales_of, whole_query
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch, ModelRunner
from sglab.kernels.cpu_attention import decode_attention_cpu, extend_attention_cpu

NUM_KV_SPLITS = 8


@dataclass
class AMXMetadata:
    """`attn_logits`: float32 [B, heads, 8 splits, v_head_dim + 1], a partial output and its LSE. `max_extend_len`: most
    new tokens of a request; None in decode. `seq_lens`, `extend_seq_lens`: [B], in verification with the drafts, which
    are its new tokens. `tree_mask`: the drafts' mask, unless they are a chain, which causality alone serves."""

    attn_logits: torch.Tensor
    max_extend_len: int | None
    seq_lens: torch.Tensor
    extend_seq_lens: torch.Tensor | None = None
    tree_mask: torch.Tensor | None = None


class IntelAMXAttnBackend(AttentionBackend):
    """SGLang's default on a CPU with AMX."""

    name = "intel_amx"
    capabilities = Capabilities(
        modes=(
            *CAUSAL_MODES,
            ForwardMode.TARGET_VERIFY,
            ForwardMode.DRAFT_EXTEND,
            ForwardMode.DRAFT_EXTEND_V2,
            ForwardMode.DLLM_EXTEND,
        ),
        drafts="tree",
        graph_modes=(ForwardMode.DECODE, ForwardMode.IDLE),
        dtypes=("float16", "bfloat16"),
        kv_dtypes=("float8_e4m3fn",),
        sliding_window=True,
        windows_in_trees=True,
        logit_cap=True,
        sinks=True,
        cross_attention=True,
        encoders_in_graphs=True,
        bidirectional=True,
        triton_helpers=False,
    )

    def __init__(self, model_runner: ModelRunner) -> None:
        super().__init__(model_runner)
        config = model_runner.model_config
        self.num_head = config.num_attention_heads // model_runner.tp_size
        self.v_head_dim = config.v_head_dim
        self.device = model_runner.device
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.implementation = model_runner.kernel_implementation
        self.forward_metadata: AMXMetadata | None = None
        self._graph: AMXMetadata | None = None
        """Of the largest graph."""

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        mode, new = forward_batch.forward_mode, forward_batch.extend_seq_lens_cpu
        logits = self._logits(forward_batch.batch_size)
        lens, spec = forward_batch.seq_lens, forward_batch.spec_info
        if mode.is_target_verify():
            count, tree = spec.draft_token_num, getattr(spec, "topk", None) != 1
            drafts, mask = torch.full_like(lens, count), spec.custom_mask if tree else None
            self.forward_metadata = AMXMetadata(logits, count, lens + count, drafts, mask)
            return
        most = None if mode.is_decode_or_idle() or not new else max(new)
        self.forward_metadata = AMXMetadata(logits, most, lens, forward_batch.extend_seq_lens)

    def _logits(self, requests: int) -> torch.Tensor:
        shape = (requests, self.num_head, NUM_KV_SPLITS, self.v_head_dim + 1)
        return torch.zeros(shape, dtype=torch.float32, device=self.device)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        super().init_graph(max_bs, max_num_tokens)
        lens = torch.zeros(max_bs, dtype=torch.int64, device=self.device)
        self._graph = AMXMetadata(self._logits(max_bs), None, lens)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self.forward_metadata = self._captured(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        super().prepare_replay(graph_batch)
        self.forward_metadata = self._captured(graph_batch)

    def _captured(self, batch: GraphBatch) -> AMXMetadata:
        graph, bs = self._graph, batch.bs
        if graph is None:
            raise RuntimeError("init_graph comes before a capture")
        graph.seq_lens[:bs] = batch.seq_lens[:bs]
        return AMXMetadata(graph.attn_logits[:bs], None, graph.seq_lens[:bs])

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        if inputs.layer.is_cross_attention:
            check_encoder(inputs)
        if self.forward_metadata is None:
            raise RuntimeError("prepare comes before forward")
        if self.device.type != "cpu" or self.implementation not in ("auto", "cpu", "reference"):
            return self._attend_rows(inputs)
        if self.forward_metadata.max_extend_len is None:
            return self._decode(inputs, self.forward_metadata.attn_logits)
        return self._extend(inputs, self.forward_metadata, self.forward_metadata.max_extend_len)

    def _decode(self, inputs: AttentionInputs, attn_logits: torch.Tensor) -> torch.Tensor:
        layer, batch = inputs.layer, inputs.forward_batch
        assert batch.token_to_kv_pool is not None
        keys, values = batch.token_to_kv_pool.get_kv_buffer(layer.layer_id)
        cross = layer.is_cross_attention
        rounded = keys.dtype != inputs.q.dtype
        apart = cross or rounded or not inputs.save_kv_cache  # an encoder's rows are not one per request
        if (cross or rounded) and inputs.save_kv_cache:
            save_kv(inputs)
        k_scale, v_scale = scales_of(inputs)
        q = whole_query(inputs)
        out = q.new_empty((*q.shape[:2], layer.v_head_dim))
        new = None if apart else inputs.k, None if apart else inputs.v, None if apart else batch.out_cache_loc
        decode_attention_cpu(
            q,
            keys,
            values,
            out,
            *new,
            attn_logits,
            self.req_to_token,
            batch.req_pool_indices,
            batch.seq_lens,
            layer.scaling,
            layer.logit_cap,
            is_cross_attn=cross,
            sliding_window=layer.sliding_window_size + 1,
            encoder_lens=batch.encoder_lens,
            sinks=inputs.sinks,
            k_scale=k_scale,
            v_scale=v_scale,
            implementation=self.implementation,
            check_values=False,
        )
        return out

    def _extend(self, inputs: AttentionInputs, made: AMXMetadata, max_extend_len: int) -> torch.Tensor:
        layer, batch = inputs.layer, inputs.forward_batch
        keys, values = save_and_get_kv(inputs)
        q = whole_query(inputs)
        out = q.new_empty((*q.shape[:2], layer.v_head_dim))
        assert made.extend_seq_lens is not None
        k_scale, v_scale = scales_of(inputs)
        mask, window = _windowed(made, layer.sliding_window_size)
        extend_attention_cpu(
            q,
            inputs.k,
            inputs.v,
            out,
            keys,
            values,
            self.req_to_token,
            batch.req_pool_indices,
            made.seq_lens,
            made.extend_seq_lens,
            indptr_of(made.extend_seq_lens)[:-1],
            max_extend_len,
            layer.scaling,
            layer.logit_cap,
            is_cross_attn=layer.is_cross_attention,
            sliding_window=window + 1,
            encoder_lens=batch.encoder_lens,
            sinks=inputs.sinks,
            k_scale=k_scale,
            v_scale=v_scale,
            tree_mask=mask,
            is_causal=layer.is_causal,
            implementation=self.implementation,
            check_values=False,
        )
        return out

    def _attend_rows(self, inputs: AttentionInputs) -> torch.Tensor:
        layer, batch, made = inputs.layer, inputs.forward_batch, self.forward_metadata
        assert made is not None
        if batch.encoder_lens is not None:
            remedy = "Leave the implementation out, or use torch_native."
            raise BadArgumentError(
                "implementation", "'auto', 'cpu' or 'reference' with an encoder", self.implementation, remedy
            )
        keys, values = save_and_get_kv(inputs)
        if made.extend_seq_lens is not None:
            batch = replace(batch, seq_lens=made.seq_lens, extend_seq_lens=made.extend_seq_lens, seq_lens_cpu=None)
        rows = token_rows(batch, self.req_to_token, made.max_extend_len)
        mask, window = _windowed(made, layer.sliding_window_size)
        rows = replace(rows, causal=layer.is_causal, window=window)
        if mask is not None:
            rows = replace(rows, custom_mask=mask, mask_indptr=_mask_starts(made))
        k_scale, v_scale = scales_of(inputs)
        scoring, chosen = scoring_of(layer, inputs.sinks, k_scale), self.implementation
        return attend_rows(whole_query(inputs), keys, values, rows, scoring, v_scale=v_scale, implementation=chosen)[0]


def _mask_starts(made: AMXMetadata) -> torch.Tensor:
    """int64 [B + 1]: where each request's part of the flat mask begins."""
    assert made.extend_seq_lens is not None
    return torch.nn.functional.pad((made.extend_seq_lens * made.seq_lens).cumsum(0), (1, 0))


def _windowed(made: AMXMetadata, window: int) -> tuple[torch.Tensor | None, int]:
    """A tree's mask and the layer's window; both as one mask, along each draft's path, where there are both."""
    mask, drafts = made.tree_mask, made.max_extend_len
    if mask is None or drafts is None or window < 0:
        return mask, window
    return with_window(mask, _mask_starts(made), drafts, window), -1


def token_rows(batch: ForwardBatch, req_to_token: torch.Tensor, max_extend_len: int | None) -> PagedRows:
    """What kernels attend over that look slots up in req_to_token; None: one query row per request."""
    width = longest(batch, req_to_token.shape[1])
    total = batch.seq_lens_sum if batch.seq_lens_cpu is not None else None
    indptr, indices = slots_of_table(req_to_token[batch.req_pool_indices, :width], batch.seq_lens, 1, total)
    if max_extend_len is None:
        return PagedRows(steps(batch.batch_size, 1, indptr.device), indptr, indices, 1)
    assert batch.extend_seq_lens is not None
    return PagedRows(indptr_of(batch.extend_seq_lens), indptr, indices, max_extend_len)
