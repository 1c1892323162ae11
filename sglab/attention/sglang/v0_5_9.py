"""SGLang 0.5.9's AttentionBackend over a backend of ours."""

from __future__ import annotations

from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.sglang.common import SGLangInterface
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, RadixAttention


class SGLang059(SGLangInterface):
    """Captures and replays take the batch's fields one by one."""

    def __init__(self, backend: AttentionBackend) -> None:
        super().__init__(backend)
        self._captured_tokens: dict[tuple[ForwardMode, int], int] = {}

    def init_forward_metadata_capture_cuda_graph(
        self,
        bs: int,
        num_tokens: int,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        encoder_lens: torch.Tensor | None,
        forward_mode: ForwardMode,
        spec_info: Any,
    ) -> None:
        self._captured_tokens[forward_mode, bs] = num_tokens
        batch = GraphBatch(
            bs, num_tokens, forward_mode, req_pool_indices, seq_lens, encoder_lens=encoder_lens, spec_info=spec_info
        )
        self.backend.prepare_capture(batch)

    def init_forward_metadata_replay_cuda_graph(
        self,
        bs: int,
        req_pool_indices: torch.Tensor,
        seq_lens: torch.Tensor,
        seq_lens_sum: int,
        encoder_lens: torch.Tensor | None,
        forward_mode: ForwardMode,
        spec_info: Any,
        seq_lens_cpu: torch.Tensor | None,
    ) -> None:
        """Raises RuntimeError where no graph of this mode and size was captured: its tokens are not known."""
        num_tokens = self._captured_tokens.get((forward_mode, bs))
        if num_tokens is None:
            raise RuntimeError(f"no graph of {forward_mode.name} with bs {bs} was captured")
        batch = GraphBatch(
            bs,
            num_tokens,
            forward_mode,
            req_pool_indices,
            seq_lens,
            seq_lens_sum=seq_lens_sum,
            seq_lens_cpu=seq_lens_cpu,
            encoder_lens=encoder_lens,
            spec_info=spec_info,
        )
        self.backend.prepare_replay(batch)

    def get_verify_buffers_to_fill_after_draft(self) -> list[torch.Tensor | None]:
        """The tree mask and the positions that drafting fills; None for those not used."""
        return [self.backend.verify_mask, None]

    def forward_decode(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
    ) -> torch.Tensor:
        return self.forward(q, k, v, layer, forward_batch, save_kv_cache)

    def forward_extend(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
    ) -> torch.Tensor:
        return self.forward(q, k, v, layer, forward_batch, save_kv_cache)
