"""The CSR arrays of FlashInfer's wrappers, for a pass or in the buffers of a graph.

Source: SGLang 0.5.9 `flashinfer_backend.py`, FlashInferIndicesUpdaterDecode and …Prefill; `speculative/eagle_info.py`,
generate_attn_arg_prefill.
"""

from __future__ import annotations

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.flashinfer.wrapper import Shape, Wrapper
from sglab.attention.page_table.metadata import StepBuffers
from sglab.engine import ForwardBatch, GraphBatch, ModelRunner
from sglab.kernels import create_flashinfer_kv_indices

PREFILL_PADDING = 256
"""Entries after a prefill's last slot: FlashInfer's kernels read ahead."""


class GraphBuffers:
    """What graphs read, allocated once for the largest.

    Attributes:
        kv_indptr: int32 [max_bs + 1]; mask_indptr: int64 [max_bs + 1].
        kv_indices: int32, zeros at first: the dummy slot. custom_mask: uint8.
        qo_indptr: of any number of query rows per request.
    """

    def __init__(self, max_bs: int, max_num_tokens: int, max_context_len: int, device: torch.device) -> None:
        def zeros(length: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(length, dtype=dtype, device=device)

        size = max_num_tokens * max_context_len
        self.kv_indptr, self.mask_indptr = zeros(max_bs + 1, torch.int32), zeros(max_bs + 1, torch.int64)
        self.kv_indices, self.custom_mask = zeros(size, torch.int32), zeros(size, torch.uint8)
        self.qo_indptr = StepBuffers(max_bs, device)
        self._encoders: tuple[torch.Tensor, torch.Tensor] | None = None

    def encoders(self) -> tuple[torch.Tensor, torch.Tensor]:
        """kv_indptr and kv_indices of the encoders' tokens; a model without an encoder never has them."""
        if self._encoders is None:
            self._encoders = torch.zeros_like(self.kv_indptr), torch.zeros_like(self.kv_indices)
        return self._encoders


class IndicesUpdater:
    """Makes wrappers from batches.

    Args:
        fixed_split_sizes: tokens per split of a decode and of a prefill in deterministic mode; (−1, −1): searched.
    """

    def __init__(
        self, runner: ModelRunner, shape: Shape, use_tensor_cores: bool, fixed_split_sizes: tuple[int, int] = (-1, -1)
    ) -> None:
        self.req_to_token = runner.req_to_token_pool.req_to_token
        self.device = runner.device
        self.implementation = runner.kernel_implementation if runner.kernel_implementation == "triton" else "auto"
        self.shape, self.use_tensor_cores = shape, use_tensor_cores
        self.decode_split, self.prefill_split = fixed_split_sizes
        self.last_page_len = torch.ones(runner.req_to_token_pool.size, dtype=torch.int32, device=runner.device)

    def decode(self, batch: ForwardBatch, window: int = -1, starts: torch.Tensor | None = None) -> Wrapper:
        """The whole KV of each request, or its last window + 1 tokens.

        Args:
            starts: int [B], where each request's own tokens start in its row: an encoder's come before them.
        """
        lens, host = batch.seq_lens, _host(batch.seq_lens_cpu)
        if window >= 0:
            lens = lens.clamp(max=window + 1)
            host = None if host is None else [min(length, window + 1) for length in host]
            first = batch.seq_lens - lens
            starts = first if starts is None else starts + first
        return self._decode(batch.req_pool_indices, lens, starts, host)

    def cross_decode(self, batch: ForwardBatch) -> Wrapper:
        """The encoder's tokens alone."""
        assert batch.encoder_lens is not None
        return self._decode(batch.req_pool_indices, batch.encoder_lens, None, _encoders(batch))

    def graph_decode(self, batch: GraphBatch, graph: GraphBuffers) -> Wrapper:
        """As `decode`, into buffers of a graph; the plan reads the host's lengths."""
        starts = None if batch.encoder_lens is None else batch.encoder_lens[: batch.bs]
        stored = graph.kv_indptr, graph.kv_indices
        return self._graph_decode(batch, graph, batch.seq_lens, starts, _host(batch.seq_lens_cpu), stored)

    def graph_cross_decode(self, batch: GraphBatch, graph: GraphBuffers) -> Wrapper:
        """As `cross_decode`, into buffers of a graph."""
        assert batch.encoder_lens is not None
        return self._graph_decode(batch, graph, batch.encoder_lens, None, batch.encoder_lens_cpu, graph.encoders())

    def _graph_decode(
        self,
        batch: GraphBatch,
        graph: GraphBuffers,
        lens: torch.Tensor,
        starts: torch.Tensor | None,
        host: list[int] | None,
        stored: tuple[torch.Tensor, torch.Tensor],
    ) -> Wrapper:
        bs, (all_indptr, indices) = batch.bs, stored
        lens, indptr, rows = lens[:bs], all_indptr[: bs + 1], batch.req_pool_indices[:bs]
        indptr.copy_(indptr_of(lens))
        create_flashinfer_kv_indices(
            self.req_to_token, rows, lens, indptr, starts, indices, implementation=self.implementation
        )
        ones = graph.qo_indptr.of(bs, 1)
        made = self._wrapper(ones, indptr, indices, 1, [1] * bs, host)
        made.is_decode = made.is_cuda_graph_enabled = True
        made.use_tensor_cores = self.use_tensor_cores
        return made

    def prefill(
        self, batch: ForwardBatch, use_ragged: bool, window: int = -1, starts: torch.Tensor | None = None
    ) -> Wrapper:
        """The prefixes alone where the new tokens are attended to apart (ragged); else prefixes and new tokens."""
        prefixes, new = batch.extend_prefix_lens, batch.extend_seq_lens
        assert prefixes is not None
        assert new is not None
        assert batch.extend_seq_lens_cpu is not None
        assert batch.extend_prefix_lens_cpu is not None
        pairs = zip(batch.extend_prefix_lens_cpu, batch.extend_seq_lens_cpu, strict=True)
        lens, host = batch.seq_lens, [prefix + count for prefix, count in pairs]
        if use_ragged:
            lens, host = prefixes, list(batch.extend_prefix_lens_cpu)
        elif window >= 0:
            lens = torch.minimum(batch.seq_lens, new + window)
            host = [min(all_, count + window) for all_, count in zip(host, batch.extend_seq_lens_cpu, strict=True)]
            first = batch.seq_lens - lens
            starts = first if starts is None else starts + first
        made = self._paged(
            batch.req_pool_indices, lens, starts, host, new, list(batch.extend_seq_lens_cpu), window_left=window
        )
        made.causal = not use_ragged
        return made

    def cross_prefill(self, batch: ForwardBatch) -> Wrapper:
        """The encoder's tokens, seen whole by every new token."""
        assert batch.encoder_lens is not None
        assert batch.extend_seq_lens is not None
        assert batch.extend_seq_lens_cpu is not None
        host = _encoders(batch)
        lens, new = batch.encoder_lens, batch.extend_seq_lens
        return self._paged(batch.req_pool_indices, lens, None, host, new, list(batch.extend_seq_lens_cpu))

    def verify(self, batch: ForwardBatch) -> Wrapper:
        """Prefixes and drafts, under the tree's mask."""
        drafts, count = batch.spec_info.draft_token_num, batch.batch_size
        lens, host = batch.seq_lens + drafts, _host(batch.seq_lens_cpu)
        host = None if host is None else [length + drafts for length in host]
        new = torch.full((count,), drafts, dtype=torch.int32, device=self.device)
        made = self._paged(batch.req_pool_indices, lens, None, host, new, [drafts] * count, padding=0)
        made.causal, made.max_q = True, drafts
        made.custom_mask, made.mask_indptr = batch.spec_info.custom_mask, _mask_indptr(lens, drafts)
        return made

    def graph_verify(self, batch: GraphBatch, graph: GraphBuffers) -> Wrapper:
        """As `verify`, into buffers of a graph."""
        bs, spec = batch.bs, batch.spec_info
        drafts, lens = spec.draft_token_num, batch.seq_lens[:bs] + spec.draft_token_num
        indptr, mask_indptr = graph.kv_indptr[: bs + 1], graph.mask_indptr[: bs + 1]
        indptr.copy_(indptr_of(lens))
        mask_indptr.copy_(_mask_indptr(lens, drafts))
        rows, indices = batch.req_pool_indices[:bs], graph.kv_indices
        create_flashinfer_kv_indices(
            self.req_to_token, rows, lens, indptr, None, indices, implementation=self.implementation
        )
        graph.custom_mask[: len(spec.custom_mask)] = spec.custom_mask
        made = self._wrapper(graph.qo_indptr.of(bs, drafts), indptr, indices, drafts, [drafts] * bs, None)
        made.causal, made.is_cuda_graph_enabled = True, True
        made.custom_mask, made.mask_indptr = graph.custom_mask, mask_indptr
        return made

    def graph_extend(self, batch: GraphBatch, graph: GraphBuffers) -> Wrapper:
        """DRAFT_EXTEND_V2 into buffers of a graph: the last rows of each request, as many of every one."""
        bs, new = batch.bs, batch.tokens_per_request
        lens, indptr, indices = batch.seq_lens[:bs], graph.kv_indptr[: bs + 1], graph.kv_indices
        indptr.copy_(indptr_of(lens))
        create_flashinfer_kv_indices(
            self.req_to_token,
            batch.req_pool_indices[:bs],
            lens,
            indptr,
            None,
            indices,
            implementation=self.implementation,
        )
        made = self._wrapper(graph.qo_indptr.of(bs, new), indptr, indices, new, [new] * bs, _host(batch.seq_lens_cpu))
        made.causal = made.is_cuda_graph_enabled = True
        return made

    def _decode(
        self, rows: torch.Tensor, lens: torch.Tensor, starts: torch.Tensor | None, host: list[int] | None
    ) -> Wrapper:
        indptr, indices = self._slots(rows, lens, starts, host)
        made = self._wrapper(self._ones(len(rows)), indptr, indices, 1, [1] * len(rows), host)
        made.is_decode, made.use_tensor_cores = True, self.use_tensor_cores
        made.fixed_split_size = self.decode_split
        return made

    def _paged(
        self,
        rows: torch.Tensor,
        lens: torch.Tensor,
        starts: torch.Tensor | None,
        host: list[int] | None,
        new: torch.Tensor,
        new_host: list[int],
        *,
        padding: int = PREFILL_PADDING,
        window_left: int = -1,
    ) -> Wrapper:
        indptr, indices = self._slots(rows, lens, starts, host, padding)
        made = self._wrapper(indptr_of(new), indptr, indices, max(new_host, default=0), new_host, host)
        made.window_left, made.fixed_split_size = window_left, self.prefill_split
        return made

    def _slots(
        self,
        rows: torch.Tensor,
        lens: torch.Tensor,
        starts: torch.Tensor | None,
        host: list[int] | None,
        padding: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = len(rows) * self.req_to_token.shape[1] if host is None else sum(host)
        indptr = indptr_of(lens)
        indices = torch.zeros(total + padding, dtype=torch.int32, device=self.device)
        create_flashinfer_kv_indices(
            self.req_to_token, rows, lens, indptr, starts, indices, implementation=self.implementation
        )
        return indptr, indices

    def _wrapper(
        self,
        qo_indptr: torch.Tensor,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        max_q: int,
        q_lens: list[int],
        kv_lens: list[int] | None,
    ) -> Wrapper:
        ones = self.last_page_len[: len(indptr) - 1]
        return Wrapper(self.shape, qo_indptr, indptr, indices, ones, max_q, q_lens, kv_lens)

    def _ones(self, count: int) -> torch.Tensor:
        return torch.arange(count + 1, dtype=torch.int32, device=self.device)


def _host(lens: torch.Tensor | None) -> list[int] | None:
    return None if lens is None else lens.tolist()


def _mask_indptr(lens: torch.Tensor, drafts: int) -> torch.Tensor:
    return torch.nn.functional.pad(torch.cumsum(drafts * lens.to(torch.int64), 0), (1, 0))


def _encoders(batch: ForwardBatch) -> list[int]:
    """The encoders' lengths on the host; a batch made by hand may have them on the device alone."""
    assert batch.encoder_lens is not None
    return batch.encoder_lens.tolist() if batch.encoder_lens_cpu is None else batch.encoder_lens_cpu
