"""GraphBatch: what an attention backend reads of a batch that a CUDA graph runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from sglab.engine.batch.forward_batch import ForwardBatch
from sglab.engine.batch.forward_mode import ForwardMode


@dataclass(frozen=True)
class GraphBatch:
    """One captured size of a graph: at a capture its static inputs, at a replay the real batch, padded to that size.

    SGLang 0.5.9 passes these fields one by one to its capture and replay methods; the names are its own.
    """

    bs: int
    """Requests of the captured size; the rows after the real ones are padding."""
    num_tokens: int
    forward_mode: ForwardMode
    req_pool_indices: torch.Tensor
    """int64 [bs], rows of req_to_token."""
    seq_lens: torch.Tensor
    """int64 [bs]: KV lengths, with the new tokens in decode, DRAFT_EXTEND_V2 and DLLM_EXTEND, without the drafts in
    TARGET_VERIFY; padded rows have the backend's `graph_seq_len_fill_value`."""
    seq_lens_sum: int | None = None
    """None: not known on the host."""
    seq_lens_cpu: torch.Tensor | None = None
    """The same lengths on the CPU, so that planning does not wait for the device; None at a capture."""
    encoder_lens: torch.Tensor | None = None
    """int64 [bs], of padded rows 1; None: the model has no encoder."""
    encoder_lens_cpu: list[int] | None = None
    """The same on the CPU; None at a capture."""
    spec_info: Any = None
    """As in ForwardBatch."""

    @property
    def tokens_per_request(self) -> int:
        """Query rows of each request: 1 in decode, the drafts, those that a draft model catches up with, or a block."""
        return self.num_tokens // self.bs if self.bs else 0

    @property
    def extends(self) -> bool:
        """Whether the query rows are the last of each request's keys: a draft model catches up, or a diffusion model
        computes a block."""
        return self.forward_mode.is_draft_extend_v2() or self.forward_mode.is_dllm_extend()

    @classmethod
    def of(cls, batch: ForwardBatch) -> GraphBatch:
        """The graph batch of a forward batch that has the captured size."""
        return cls(
            bs=batch.batch_size,
            num_tokens=len(batch.input_ids),
            forward_mode=batch.forward_mode,
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            seq_lens_sum=batch.seq_lens_sum,
            seq_lens_cpu=batch.seq_lens_cpu,
            encoder_lens=batch.encoder_lens,
            encoder_lens_cpu=batch.encoder_lens_cpu,
            spec_info=batch.spec_info,
        )
