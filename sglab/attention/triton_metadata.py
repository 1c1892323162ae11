"""The index arrays and scratch of the triton backend, for one pass or in the buffers of a CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from sglab.attention.image_masks import mask_of_ranges, token_ranges
from sglab.engine import ForwardBatch, GraphBatch, ModelRunner
from sglab.kernels import create_flashinfer_kv_indices, get_num_kv_splits

SPLIT_TILE_SIZE = 256
"""Tokens per split in deterministic mode, so that a request splits the same way in every batch."""


@dataclass
class ForwardMetadata:
    """What all layers of a pass share. Decode fills the first five, extend the indices and those after them."""

    kv_indptr: torch.Tensor
    """int32 [B + 1]: where each request's slots start in `kv_indices`; its whole KV in decode, else its prefix."""
    kv_indices: torch.Tensor
    """int64, token slots, request after request."""
    attn_logits: torch.Tensor | None = None
    """float32 [B, heads, max_kv_splits, v_head_dim]: each split's partial output."""
    attn_lse: torch.Tensor | None = None
    """float32 [B, heads, max_kv_splits], natural."""
    num_kv_splits: torch.Tensor | None = None
    """int32 [B]."""
    qo_indptr: torch.Tensor | None = None
    """int32 [B + 1]: where each request's new tokens start."""
    custom_mask: torch.Tensor | None = None
    """bool or uint8, flat: per request (draft tokens, prefix + draft tokens), what each draft token sees."""
    mask_indptr: torch.Tensor | None = None
    """int64 [B + 1]: where each request's mask starts."""
    max_extend_len: int = 0
    encoder: ForwardMetadata | None = None
    """What cross-attention layers read: the encoder's tokens, which come first in a request's row."""
    starts: torch.Tensor | None = None
    """int64 [B], where a request's own tokens start in its row; None: at 0."""


@dataclass
class TritonGraphState:
    """Buffers a graph reads, allocated once for the largest: shapes as in ForwardMetadata, for `max_num_tokens` rows.

    `kv_indices` starts as zeros (the dummy slot), `num_kv_splits` as the maximum, which a capture runs with.
    """

    attn_logits: torch.Tensor
    attn_lse: torch.Tensor
    num_kv_splits: torch.Tensor
    kv_indices: torch.Tensor
    custom_mask: torch.Tensor
    qo_indptr: torch.Tensor
    mask_indptr: torch.Tensor
    _encoders: EncoderBuffers | None = None

    def encoders(self) -> EncoderBuffers:
        """Of the encoders' tokens; a model without an encoder never has them."""
        if self._encoders is None:
            indptr = torch.zeros_like(self.qo_indptr)
            self._encoders = EncoderBuffers(indptr, torch.zeros_like(self.kv_indices), self.num_kv_splits.clone())
        return self._encoders


@dataclass
class EncoderBuffers:
    """A graph's arrays of the encoders' tokens, as ForwardMetadata has them."""

    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    num_kv_splits: torch.Tensor


class TritonMetadata:
    """Fills metadata from a batch. `kv_indptr` is one buffer for all passes: a graph has its address."""

    graph_index = torch.int64
    """Of a graph's `kv_indices`."""

    def __init__(self, model_runner: ModelRunner, implementation: str) -> None:
        config, pool = model_runner.model_config, model_runner.req_to_token_pool
        self.device = model_runner.device
        self.implementation = implementation
        self.req_to_token = pool.req_to_token
        self.max_context_len = pool.max_context_len
        self.num_head = config.num_attention_heads // model_runner.tp_size
        self.num_kv_head = config.get_num_kv_heads(model_runner.tp_size)
        self.v_head_dim = config.v_head_dim
        self.device_core_count = model_runner.device_core_count
        self.deterministic = model_runner.enable_deterministic_inference
        self.holds_share = model_runner.holds_share
        self.max_kv_splits = model_runner.triton_attention_num_kv_splits
        if self.deterministic:
            self.max_kv_splits = -(-self.max_context_len // SPLIT_TILE_SIZE)
        self.kv_indptr = self._integers(pool.size + 1, torch.int32)

    def decode(self, batch: ForwardBatch) -> ForwardMetadata:
        bs = batch.batch_size
        kv_indices = self._indices(batch.seq_lens_sum)
        starts = batch.encoder_lens
        indptr = self._fill(bs, batch.req_pool_indices, batch.seq_lens, kv_indices, starts=starts)
        shape = (bs, self.num_head, self.max_kv_splits)
        logits = torch.empty((*shape, self.v_head_dim), dtype=torch.float32, device=self.device)
        lse = torch.empty(shape, dtype=torch.float32, device=self.device)
        made = ForwardMetadata(indptr, kv_indices, logits, lse, self._splits(batch.seq_lens), starts=starts)
        if starts is not None:
            encoder = self._encoder(batch)
            made.encoder = replace(encoder, attn_logits=logits, attn_lse=lse, num_kv_splits=self._splits(starts))
        return made

    def _splits(self, lens: torch.Tensor) -> torch.Tensor:
        num_kv_splits = self._integers(len(lens), torch.int32)
        self.get_num_kv_splits(num_kv_splits, lens)
        return num_kv_splits

    def _encoder(self, batch: ForwardBatch) -> ForwardMetadata:
        """The slots of the encoders' tokens."""
        lens = batch.encoder_lens
        assert lens is not None
        host = lens.tolist() if batch.encoder_lens_cpu is None else batch.encoder_lens_cpu
        kv_indices, indptr = self._indices(sum(host)), self._integers(batch.batch_size + 1, torch.int32)
        self._fill(batch.batch_size, batch.req_pool_indices, lens, kv_indices, indptr)
        return ForwardMetadata(indptr, kv_indices)

    def extend(self, batch: ForwardBatch) -> ForwardMetadata:
        prefixes, new = batch.extend_prefix_lens, batch.extend_seq_lens
        assert prefixes is not None
        assert new is not None
        assert batch.extend_prefix_lens_cpu is not None
        assert batch.extend_seq_lens_cpu is not None
        kv_indices = self._indices(sum(batch.extend_prefix_lens_cpu))
        starts, rows = batch.encoder_lens, batch.req_pool_indices
        indptr = self._fill(batch.batch_size, rows, prefixes, kv_indices, starts=starts)
        qo_indptr = self._integers(batch.batch_size + 1, torch.int32)
        qo_indptr[1:] = torch.cumsum(new, 0)
        most = max(batch.extend_seq_lens_cpu)
        made = ForwardMetadata(indptr, kv_indices, qo_indptr=qo_indptr, max_extend_len=most, starts=starts)
        if batch.image_spans is not None:
            made.custom_mask, made.mask_indptr = mask_of_ranges(token_ranges(batch).to(self.device), batch)
        if starts is not None:
            made.encoder = self._cross_extend(batch, qo_indptr, most)
        return made

    def _cross_extend(self, batch: ForwardBatch, qo_indptr: torch.Tensor, most: int) -> ForwardMetadata:
        """The encoder's tokens as a prefix that every new token sees; the mask, of which the kernel reads nothing for a
        prefix, hides the new tokens from each other and from themselves."""
        made, new = self._encoder(batch), batch.extend_seq_lens
        assert new is not None and batch.encoder_lens is not None and batch.extend_seq_lens_cpu is not None
        host = batch.encoder_lens.tolist() if batch.encoder_lens_cpu is None else batch.encoder_lens_cpu
        pairs = zip(batch.extend_seq_lens_cpu, host, strict=True)
        mask = self._integers(sum(count * (encoded + count) for count, encoded in pairs), torch.uint8)
        mask_indptr = self._integers(batch.batch_size + 1, torch.int64)
        mask_indptr[1:] = torch.cumsum(new * (batch.encoder_lens + new), 0)
        return replace(made, qo_indptr=qo_indptr, custom_mask=mask, mask_indptr=mask_indptr, max_extend_len=most)

    def verify(self, batch: ForwardBatch) -> ForwardMetadata:
        """TARGET_VERIFY: `seq_lens` are the prefixes; each request adds the same number of draft tokens."""
        spec, bs = batch.spec_info, batch.batch_size
        kv_indices = self._indices(batch.seq_lens_sum)
        indptr = self._fill(bs, batch.req_pool_indices, batch.seq_lens, kv_indices)
        qo_indptr, mask_indptr = self._integers(bs + 1, torch.int32), self._integers(bs + 1, torch.int64)
        self._fill_tree(bs, batch.seq_lens, spec.draft_token_num, qo_indptr, mask_indptr)
        return ForwardMetadata(
            indptr,
            kv_indices,
            qo_indptr=qo_indptr,
            custom_mask=spec.custom_mask,
            mask_indptr=mask_indptr,
            max_extend_len=spec.draft_token_num,
        )

    def window(self, batch: ForwardBatch, meta: ForwardMetadata, window: int) -> tuple[torch.Tensor, torch.Tensor]:
        """kv_indptr and kv_indices of each request's last window + 1 tokens, for a decode.

        Made from the full indices by device work alone, so that a graph's replay makes them again.
        """
        bs = len(meta.kv_indptr) - 1
        lens = meta.kv_indptr.diff()
        kept = lens.clamp(max=window + 1)
        indptr = torch.nn.functional.pad(torch.cumsum(kept, 0, dtype=torch.int32), (1, 0))
        kv_indices = self._indices(bs * (window + 1))
        rows, first = batch.req_pool_indices[:bs], lens - kept
        if meta.starts is not None:
            first = first + meta.starts[:bs].to(first.dtype)
        create_flashinfer_kv_indices(
            self.req_to_token, rows, kept, indptr, first, kv_indices, implementation=self.implementation
        )
        return indptr, kv_indices

    def graph_state(self, max_num_tokens: int) -> TritonGraphState:
        shape, rows = (max_num_tokens, self.num_head, self.max_kv_splits), len(self.kv_indptr)
        splits = torch.full((max_num_tokens,), self.max_kv_splits, dtype=torch.int32, device=self.device)
        return TritonGraphState(
            attn_logits=torch.zeros((*shape, self.v_head_dim), dtype=torch.float32, device=self.device),
            attn_lse=torch.zeros(shape, dtype=torch.float32, device=self.device),
            num_kv_splits=splits,
            kv_indices=self._integers(max_num_tokens * self.max_context_len, self.graph_index),
            custom_mask=self._integers(max_num_tokens * self.max_context_len, torch.uint8),
            qo_indptr=self._integers(rows, torch.int32),
            mask_indptr=self._integers(rows, torch.int64),
        )

    def fill_decode(self, graph: TritonGraphState, batch: GraphBatch) -> ForwardMetadata:
        """Fill the graph's buffers in place, for a capture or a replay."""
        rows, starts = batch.req_pool_indices, batch.encoder_lens
        indptr = self._fill(batch.bs, rows, batch.seq_lens, graph.kv_indices, starts=starts)
        scratch = graph.attn_logits, graph.attn_lse
        made = ForwardMetadata(indptr, graph.kv_indices, *scratch, graph.num_kv_splits, starts=starts)
        if starts is not None:
            stored = graph.encoders()
            theirs = self._fill(batch.bs, rows, starts, stored.kv_indices, stored.kv_indptr)
            made.encoder = ForwardMetadata(theirs, stored.kv_indices, *scratch, stored.num_kv_splits)
        return made

    def fill_verify(self, graph: TritonGraphState, batch: GraphBatch) -> ForwardMetadata:
        """As `fill_decode`, for TARGET_VERIFY; the mask is copied into the graph's buffer."""
        bs, spec = batch.bs, batch.spec_info
        indptr = self._fill(bs, batch.req_pool_indices, batch.seq_lens, graph.kv_indices)
        qo_indptr, mask_indptr = graph.qo_indptr[: bs + 1], graph.mask_indptr[: bs + 1]
        self._fill_tree(bs, batch.seq_lens, spec.draft_token_num, qo_indptr, mask_indptr)
        graph.custom_mask[: len(spec.custom_mask)] = spec.custom_mask
        return ForwardMetadata(
            indptr,
            graph.kv_indices,
            qo_indptr=qo_indptr,
            custom_mask=graph.custom_mask,
            mask_indptr=mask_indptr,
            max_extend_len=spec.draft_token_num,
        )

    def fill_extend(self, graph: TritonGraphState, batch: GraphBatch) -> ForwardMetadata:
        """As `fill_decode`, for DRAFT_EXTEND_V2: the indices are the prefixes', none of a padded row."""
        bs, new = batch.bs, batch.tokens_per_request
        prefixes, qo_indptr = (batch.seq_lens[:bs] - new).clamp(min=0), graph.qo_indptr[: bs + 1]
        indptr = self._fill(bs, batch.req_pool_indices, prefixes, graph.kv_indices)
        qo_indptr[:] = torch.arange(0, (bs + 1) * new, new, device=self.device)
        return ForwardMetadata(indptr, graph.kv_indices, qo_indptr=qo_indptr, max_extend_len=new)

    def get_num_kv_splits(self, num_kv_splits: torch.Tensor, seq_lens: torch.Tensor) -> None:
        """Fill `num_kv_splits`: by length alone in deterministic mode, else by SGLang's rule for this device."""
        if self.deterministic:
            num_kv_splits[:] = (seq_lens + SPLIT_TILE_SIZE - 1) // SPLIT_TILE_SIZE
            return
        get_num_kv_splits(
            num_kv_splits,
            seq_lens.clamp(min=1) if self.holds_share else seq_lens,
            self.num_head,
            self.num_kv_head,
            self.max_kv_splits,
            self.device_core_count,
            implementation=self.implementation,
        )

    def _fill(
        self,
        bs: int,
        rows: torch.Tensor,
        lens: torch.Tensor,
        kv_indices: torch.Tensor,
        kv_indptr: torch.Tensor | None = None,
        starts: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Slots of `lens` tokens of each row from `starts` on. Returns the pointers, of the buffer that they are in."""
        indptr = (self.kv_indptr if kv_indptr is None else kv_indptr)[: bs + 1]
        indptr[1:] = torch.cumsum(lens[:bs], 0)
        first = None if starts is None else starts[:bs]
        create_flashinfer_kv_indices(
            self.req_to_token, rows[:bs], lens[:bs], indptr, first, kv_indices, implementation=self.implementation
        )
        return indptr

    def _fill_tree(
        self, bs: int, prefixes: torch.Tensor, drafts: int, qo_indptr: torch.Tensor, mask_indptr: torch.Tensor
    ) -> None:
        qo_indptr[:] = torch.arange(0, (bs + 1) * drafts, drafts, device=self.device)
        mask_indptr[1:] = torch.cumsum(drafts * (prefixes[:bs] + drafts), 0)

    def _indices(self, length: int) -> torch.Tensor:
        return self._integers(length, torch.int64)

    def _integers(self, length: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(length, dtype=dtype, device=self.device)
