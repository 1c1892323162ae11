"""ForwardBatch: the tensors of one forward pass. Source: SGLang 0.5.9 `model_executor/forward_batch_info.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from sglab.engine.batch.forward_mode import ForwardMode
from sglab.engine.batch.schedule_batch import ModelWorkerBatch
from sglab.engine.cache.kv_pool import KVCache
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.cache.state_pool import LinearStatePool
from sglab.engine.layer import RadixAttention, ScoreMod
from sglab.engine.model_runner import ModelRunner


class AttnBackend(Protocol):
    """What a model's layers call of an attention backend; `sglab.attention.AttentionBackend` is one."""

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        *,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        topk_indices: torch.Tensor | None = None,
        slopes: torch.Tensor | None = None,
        score_mod: ScoreMod | None = None,
    ) -> torch.Tensor: ...


@runtime_checkable
class ChoosingBackend(AttnBackend, Protocol):
    """What a layer with an indexer calls besides."""

    @property
    def takes_chosen(self) -> bool: ...

    def choose_tokens(
        self, q: torch.Tensor, keys: torch.Tensor, weights: torch.Tensor, topk: int, forward_batch: ForwardBatch
    ) -> torch.Tensor | None: ...


@dataclass
class ForwardBatch:
    """All inputs of a forward pass. Unless noted, `init_new` fills a field from the ModelWorkerBatch."""

    forward_mode: ForwardMode
    batch_size: int
    """Requests, B. Under a CUDA graph the runner sets the captured size, and the rows beyond are padding."""
    input_ids: torch.Tensor
    """int64 [tokens]."""
    req_pool_indices: torch.Tensor
    """int64 [B], rows of `req_to_token_pool`."""
    seq_lens: torch.Tensor
    """int64 [B], KV lengths with this pass's tokens."""
    out_cache_loc: torch.Tensor
    """int64 [tokens], slots the new tokens' KV is written to; padded rows of a graph have slot 0."""
    seq_lens_sum: int
    seq_lens_cpu: torch.Tensor | None = None
    orig_seq_lens: torch.Tensor | None = None
    """int32 [B], lengths before chunking."""
    rids: list[str] | None = None
    """The requests' names; None: not known. A graph's padded rows have none."""

    positions: torch.Tensor | None = None
    """int64 [tokens], computed by `init_new`: seq_len - 1 in decode, prefix .. seq_len - 1 in extend."""

    extend_num_tokens: int | None = None
    """Extend only, as all extend_* fields."""
    extend_seq_lens: torch.Tensor | None = None
    """int32 [B], new tokens per request."""
    extend_prefix_lens: torch.Tensor | None = None
    """int32 [B], tokens already in the pool."""
    extend_start_loc: torch.Tensor | None = None
    """int32 [B], where each request's tokens start in `input_ids`; computed by `init_new`."""
    extend_prefix_lens_cpu: list[int] | None = None
    extend_seq_lens_cpu: list[int] | None = None

    req_to_token_pool: ReqToTokenPool | None = None
    """From the model runner, as the one below."""
    token_to_kv_pool: KVCache | None = None
    state_pool: LinearStatePool | None = None
    """From the model runner; of a model with linear attention."""
    state_indices: torch.Tensor | None = None
    """int64 [B], rows of `state_pool`; None: `req_pool_indices`. A graph's padded rows have its dummy row, `size`."""
    attn_backend: AttnBackend | None = None
    """What the layers of a model attend through; whoever runs the model sets it, after the backend's `prepare`."""

    encoder_lens: torch.Tensor | None = None
    """Encoder-decoder models: int64 [B], tokens of each request's encoder, whose slots come first in its row of
    req_to_token; the other lengths and positions are the decoder's. Filled by the scheduler, as the three below."""
    encoder_lens_cpu: list[int] | None = None
    encoder_out_cache_loc: torch.Tensor | None = None
    """int64 [encoder tokens], slots of the encoders that this pass runs; None: of none."""
    encoder_input_ids: list[torch.Tensor] | None = None
    """int64, per request whose encoder this pass runs, in their order."""
    llada_image_conditioning_text_lens_cpu: list[int] | None = None
    """LLaDA-Image's conditioning pass: text tokens of each request, before its query tokens; None: another pass."""
    image_spans: list[list[tuple[int, int]]] | None = None
    """Multimodal prompts: first and last position of each image's tokens, per request; those of an image see each other
    (Gemma 3). None: no image in this pass. Filled by the model."""
    spec_info: Any = None
    """Speculative decoding: draft tokens and their mask; filled by the draft worker."""

    dp: Any = None
    """Data-parallel attention: what the other groups of ranks run (`sglab.layers.dp_attention.DpBatch`)."""

    expands_prefix: bool = False
    """MLA: this extend attends with keys and values of every head (`ModelRunner.chunked_prefix_threshold`)."""
    spread: bool = False
    """Slots are those of ranks that share a context (`ModelRunner.dcp`): only the backend knows this rank's rows."""
    attn_cp_metadata: Any = None
    """Which of the new tokens each rank has, where they are spread over ranks (`ModelRunner.attn_cp`): a
    `sglab.attention.cp.layout.PromptShares`, which the backend's `prepare` sets."""
    num_token_non_padded_cpu: int = 0
    """Real tokens, before a graph's padding."""

    @classmethod
    def init_new(cls, batch: ModelWorkerBatch, model_runner: ModelRunner, positions: bool = True) -> ForwardBatch:
        """Take a worker batch to the runner's device and compute positions and extend offsets.

        Args:
            positions: False: leave those of a decode out, for a graph that computes them.
        """
        device = model_runner.device
        self = cls(
            forward_mode=batch.forward_mode,
            batch_size=len(batch.seq_lens),
            input_ids=batch.input_ids.to(device),
            req_pool_indices=batch.req_pool_indices.to(device),
            seq_lens=batch.seq_lens.to(device),
            out_cache_loc=batch.out_cache_loc.to(device),
            seq_lens_sum=batch.seq_lens_sum,
            seq_lens_cpu=batch.seq_lens_cpu,
            orig_seq_lens=None if batch.orig_seq_lens is None else batch.orig_seq_lens.to(device),
            rids=batch.rids,
            req_to_token_pool=model_runner.req_to_token_pool,
            token_to_kv_pool=model_runner.token_to_kv_pool,
            state_pool=model_runner.state_pool,
            spec_info=batch.spec_info,
            encoder_lens_cpu=batch.encoder_lens_cpu,
            num_token_non_padded_cpu=len(batch.input_ids),
            spread=model_runner.dcp is not None,
        )
        if batch.encoder_lens is not None:
            self._init_encoders(batch, device)
        if self.forward_mode.is_idle():
            self.positions = torch.empty(0, dtype=torch.int64, device=device)
        elif self.forward_mode.is_decode() or self.forward_mode.is_target_verify():
            self.positions = clamp_position(self.seq_lens) if positions else None
        else:
            self._init_extend(batch, device)
            self.expands_prefix = self._may_expand(model_runner.chunked_prefix_threshold)
        return self

    def _may_expand(self, threshold: int | None) -> bool:
        if threshold is None or self.forward_mode not in (ForwardMode.EXTEND, ForwardMode.MIXED):
            return False
        cached = sum(self.extend_prefix_lens_cpu or ())
        return cached == 0 or cached >= threshold

    def _init_encoders(self, batch: ModelWorkerBatch, device: torch.device) -> None:
        assert batch.encoder_lens is not None
        self.encoder_lens = batch.encoder_lens.to(device)
        if batch.encoder_input_ids is not None and batch.encoder_out_cache_loc is not None:
            self.encoder_input_ids = [tokens.to(device) for tokens in batch.encoder_input_ids]
            self.encoder_out_cache_loc = batch.encoder_out_cache_loc.to(device)

    def _init_extend(self, batch: ModelWorkerBatch, device: torch.device) -> None:
        assert batch.extend_prefix_lens is not None
        assert batch.extend_seq_lens is not None
        self.extend_prefix_lens_cpu = batch.extend_prefix_lens
        self.extend_seq_lens_cpu = batch.extend_seq_lens
        self.extend_num_tokens = batch.extend_num_tokens
        self.extend_prefix_lens = torch.tensor(batch.extend_prefix_lens, dtype=torch.int32, device=device)
        self.extend_seq_lens = torch.tensor(batch.extend_seq_lens, dtype=torch.int32, device=device)
        self.positions, self.extend_start_loc = compute_position(self.extend_prefix_lens, self.extend_seq_lens)


def clamp_position(seq_lens: torch.Tensor) -> torch.Tensor:
    """Position of the last token, int64 [B]; 0 for an empty row."""
    return (seq_lens - 1).clamp(min=0).to(torch.int64)


def compute_position(
    extend_prefix_lens: torch.Tensor, extend_seq_lens: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions int64 [tokens] of the new tokens, and int32 [B] where each request's start."""
    lens = extend_seq_lens.to(torch.int64)
    ends = torch.cumsum(lens, 0)
    starts = ends - lens
    total = int(ends[-1]) if len(ends) else 0
    offset = torch.repeat_interleave(extend_prefix_lens.to(torch.int64) - starts, lens)
    return torch.arange(total, device=lens.device) + offset, starts.to(torch.int32)
