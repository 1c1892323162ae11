"""double_sparsity: a few heavy channels score the tokens, the best of which are attended to in full.

After SGLang 0.5.9 `double_sparsity_backend.py` (gone in 0.5.23). A decode is sparse when every request has at least
`heavy_token_num` tokens and the longest reaches the threshold; each query head chooses for itself. Source of the
algorithm: arXiv 2408.07092.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.attention.arithmetic import attend_rows, scoring_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import CAUSAL_MODES, Capabilities
from sglab.attention.inputs import AttentionInputs
from sglab.attention.page_table.metadata import longest
from sglab.attention.rows import save_and_get_kv
from sglab.attention.vendors.intel_amx import token_rows
from sglab.engine import BadArgumentError, ForwardBatch, ModelRunner

BLOCK_SEQ = 128
"""Chosen tokens of one partial result."""


@dataclass(frozen=True)
class DoubleSparsityConfig:
    """SGLang's server arguments, with their defaults.

    Attributes:
        sorted_channels: int64 [layers, kv_heads, channels], the heavy channels, from a calibration; None: the first
            `heavy_channel_num` of every head.
    """

    heavy_channel_num: int = 32
    heavy_token_num: int = 256
    sparse_decode_threshold: int = 4096
    sorted_channels: torch.Tensor | None = None


@dataclass
class DoubleSparsityMetadata:
    """SGLang's tuple. Decode has all but `max_extend_len`, the other modes that alone.

    Attributes:
        start_loc: int32 [B], where each request's logits start.
        attn_logits_shape: (heads, all tokens), of the dense kernel's scratch.
        ds_req_to_token: int32 [B, row], the requests' rows, in order.
        att_out_approx_shape: (heads, B, longest), the scores of the heavy channels.
        mid_out_shape: (B, heads, blocks of chosen tokens, head_dim), float32 partial outputs.
    """

    start_loc: torch.Tensor | None = None
    attn_logits_shape: tuple[int, ...] = ()
    max_seq_len: int | None = None
    min_seq_len: int | None = None
    max_extend_len: int | None = None
    ds_req_to_token: torch.Tensor | None = None
    att_out_approx_shape: tuple[int, ...] = ()
    mid_out_shape: tuple[int, ...] = ()


class DoubleSparseAttnBackend(AttentionBackend):
    """Prompts and short requests are attended to in full."""

    name = "double_sparsity"
    capabilities = Capabilities(
        kinds=("mha",), modes=CAUSAL_MODES, page_sizes=(1,), dtypes=("float16", "bfloat16", "float32"), logit_cap=True
    )

    def __init__(self, model_runner: ModelRunner, config: DoubleSparsityConfig | None = None) -> None:
        super().__init__(model_runner)
        self.config = config or DoubleSparsityConfig()
        self.num_head = model_runner.model_config.num_attention_heads // model_runner.tp_size
        self.head_dim = model_runner.model_config.v_head_dim
        self.req_to_token = model_runner.req_to_token_pool.req_to_token
        self.device, self.implementation = model_runner.device, model_runner.kernel_implementation
        self.forward_metadata: DoubleSparsityMetadata | None = None

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        mode = forward_batch.forward_mode
        if mode.is_idle():
            self.forward_metadata = None
        elif mode.is_decode():
            self.forward_metadata = self._decode_metadata(forward_batch)
        else:
            new = forward_batch.extend_seq_lens_cpu or [0]
            self.forward_metadata = DoubleSparsityMetadata(max_extend_len=max(new))

    def _decode_metadata(self, batch: ForwardBatch) -> DoubleSparsityMetadata:
        lens = batch.seq_lens if batch.seq_lens_cpu is None else batch.seq_lens_cpu
        count, most = batch.batch_size, int(lens.max())
        blocks = -(-self.config.heavy_token_num // BLOCK_SEQ)
        ends = torch.cumsum(batch.seq_lens, 0)
        return DoubleSparsityMetadata(
            start_loc=(ends - batch.seq_lens).to(torch.int32),
            attn_logits_shape=(self.num_head, int(lens.sum())),
            max_seq_len=most,
            min_seq_len=int(lens.min()),
            ds_req_to_token=self.req_to_token[batch.req_pool_indices],
            att_out_approx_shape=(self.num_head, count, most),
            mid_out_shape=(count, self.num_head, blocks, self.head_dim),
        )

    @property
    def is_sparse(self) -> bool:
        """Whether the pass last prepared chooses tokens."""
        made = self.forward_metadata
        if made is None or made.min_seq_len is None or made.max_seq_len is None:
            return False
        config = self.config
        return made.min_seq_len >= config.heavy_token_num and made.max_seq_len >= config.sparse_decode_threshold

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        made = self.forward_metadata
        if made is None:
            raise RuntimeError("prepare comes before forward")
        keys, values = save_and_get_kv(inputs)
        if self.is_sparse:
            return self._sparse(inputs, keys, values)
        rows = token_rows(inputs.forward_batch, self.req_to_token, made.max_extend_len)
        scoring, chosen = scoring_of(inputs.layer), self.implementation
        return attend_rows(inputs.q, keys, values, rows, scoring, implementation=chosen)[0]

    def channels(self, layer_id: int, kv_heads: int, head_dim: int) -> torch.Tensor:
        """int64 [kv_heads, channels]: of this layer."""
        given = self.config.sorted_channels
        if given is None:
            return torch.arange(min(self.config.heavy_channel_num, head_dim), device=self.device).expand(kv_heads, -1)
        if given.dim() != 3 or given.shape[1] != kv_heads or layer_id >= len(given):
            expected = f"[layers, {kv_heads}, channels] with layer {layer_id}"
            remedy = "Take them from the model's calibration."
            raise BadArgumentError("sorted_channels", expected, tuple(given.shape), remedy)
        return given[layer_id].to(self.device)

    def _sparse(self, inputs: AttentionInputs, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Three steps: scores of the heavy channels, the best tokens per head, attention over those."""
        layer, batch, made = inputs.layer, inputs.forward_batch, self.forward_metadata
        assert made is not None
        assert made.ds_req_to_token is not None
        width = longest(batch, self.req_to_token.shape[1])
        slots = made.ds_req_to_token[:, :width].long()
        q = inputs.q.float().unflatten(1, (layer.tp_k_head_num, -1))
        heavy = self.channels(layer.layer_id, layer.tp_k_head_num, layer.head_dim)
        q_label = q.gather(3, heavy[None, :, None].expand(*q.shape[:3], -1))
        k_label = keys[slots].float().gather(3, heavy[None, None].expand(*slots.shape, -1, -1))
        approx = torch.einsum("bkgc,bskc->bkgs", q_label, k_label)
        past = torch.arange(width, device=self.device) >= batch.seq_lens[:, None]
        approx = approx.masked_fill(past[:, None, None], -math.inf)
        best = approx.topk(self.config.heavy_token_num, -1).indices
        kv_head = torch.arange(layer.tp_k_head_num, device=self.device)[None, :, None, None]
        taken = slots[torch.arange(len(slots), device=self.device)[:, None, None, None], best]
        logits = torch.einsum("bkgd,bkgtd->bkgt", q, keys[taken, kv_head].float()) * layer.scaling
        if layer.logit_cap > 0:
            logits = layer.logit_cap * torch.tanh(logits / layer.logit_cap)
        out = torch.einsum("bkgt,bkgtd->bkgd", logits.softmax(-1), values[taken, kv_head].float())
        return out.flatten(1, 2).to(inputs.q.dtype)
