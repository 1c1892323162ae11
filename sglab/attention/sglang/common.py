"""What SGLang 0.5.9 and 0.5.23 give the same names."""

from __future__ import annotations

from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import UnsupportedError
from sglab.engine import ForwardBatch, RadixAttention


class SGLangInterface:
    """A backend of ours under SGLang's names.

    `forward_decode` and `forward_extend` are both its `forward`, which goes by the batch's own mode.
    """

    def __init__(self, backend: AttentionBackend) -> None:
        self.backend = backend

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        self.backend.prepare(forward_batch)

    def init_cuda_graph_state(self, max_bs: int, max_num_tokens: int) -> None:
        self.backend.init_graph(max_bs, max_num_tokens)

    def get_cuda_graph_seq_len_fill_value(self) -> int:
        """Raises UnsupportedError where there are no CUDA graphs."""
        if not self.backend.capabilities.graph_modes:
            self.backend.init_graph(1, 1)
        return self.backend.graph_seq_len_fill_value

    def update_verify_buffers_to_fill_after_draft(self, spec_info: Any, cuda_graph_bs: int | None) -> None:
        self.backend.redo_verify_metadata(spec_info, cuda_graph_bs)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
        **kwargs: Any,
    ) -> torch.Tensor:
        """kwargs: those of `AttentionBackend.forward` after save_kv_cache; any other is a TypeError."""
        return self.backend.forward(q, k, v, layer, forward_batch, save_kv_cache=save_kv_cache, **kwargs)

    def forward_mixed(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        save_kv_cache: bool = True,
    ) -> torch.Tensor:
        """A kernel of its own for MIXED; SGLang calls it on Ascend NPUs only, `forward` takes MIXED elsewhere."""
        remedy = "Call forward, which serves MIXED as an extend."
        raise UnsupportedError("forward_mixed", "an Ascend NPU", self.backend.name, remedy)

    def support_triton(self) -> bool:
        return self.backend.capabilities.triton_helpers

    def get_indexer_metadata(self, layer_id: int, forward_batch: ForwardBatch) -> Any:
        """Sparse attention's indexer metadata of the pass last prepared; None: no indexer."""
        made = getattr(self.backend.serving, "indexer_metadata", None)
        return None if made is None else made()
