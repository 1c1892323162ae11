"""HybridLinearAttnBackend: layers with softmax attention to one backend, layers with linear attention to another.

Source: SGLang 0.5.9 `hybrid_linear_attn_backend.py`. Here a linear layer computes itself, over the request's row of the
state pool; what it reads of the pass are the arrays that `LinearAttnBackend` makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sglab.attention.arithmetic.paged_rows import indptr_of
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import UnsupportedError
from sglab.attention.combined.delegating import DelegatingBackend
from sglab.attention.page_table.metadata import steps
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch, ModelRunner, RadixAttention


@dataclass
class LinearMetadata:
    """SGLang's ForwardMetadata of linear layers.

    Attributes:
        query_start_loc: int32 [B + 1], where each request's tokens start.
        mamba_cache_indices: int32 [B], rows of the state pool.
        has_initial_states: bool [B]: a row that holds this request's own state, not its former owner's.
        retrieve_parent_token: int64 [B, drafts], of a tree: whose state a draft continues; None for a chain.
    """

    query_start_loc: torch.Tensor
    mamba_cache_indices: torch.Tensor
    has_initial_states: torch.Tensor
    retrieve_parent_token: torch.Tensor | None = None


class LinearAttnBackend:
    """The arrays of a pass for Gated DeltaNet, KDA, Mamba2 and short convolutions alike."""

    def __init__(self, model_runner: ModelRunner) -> None:
        self.device = model_runner.device
        self.forward_metadata: LinearMetadata | None = None

    def prepare(self, batch: ForwardBatch | GraphBatch) -> None:
        mode, rows = batch.forward_mode, batch.req_pool_indices
        count = len(rows)
        drafts = batch.spec_info.draft_token_num if mode.is_target_verify() else 1
        begins, started = steps(count, drafts, self.device), torch.ones(count, dtype=torch.bool, device=self.device)
        if isinstance(batch, ForwardBatch) and batch.extend_seq_lens is not None and not mode.is_target_verify():
            assert batch.extend_prefix_lens is not None
            begins, started = indptr_of(batch.extend_seq_lens), batch.extend_prefix_lens > 0
        parents = getattr(batch.spec_info, "retrieve_parent_token", None) if mode.is_target_verify() else None
        given = batch.state_indices if isinstance(batch, ForwardBatch) else None
        indices = (rows if given is None else given).to(torch.int32)
        self.forward_metadata = LinearMetadata(begins, indices, started, parents)


class HybridLinearAttnBackend(DelegatingBackend):
    """For models of which only some layers attend over the KV pool.

    Args:
        full: serves the layers with softmax attention.
        full_attn_layers: their ids.
    """

    name = "hybrid_linear_attn"

    def __init__(self, full: AttentionBackend, linear: LinearAttnBackend, full_attn_layers: Sequence[int]) -> None:
        super().__init__(full)
        self.full_attn_backend, self.linear_attn_backend = full, linear
        self.full_attn_layers = tuple(full_attn_layers)
        self.capabilities = full.capabilities  # type: ignore[misc]
        self.graph_seq_len_fill_value = full.graph_seq_len_fill_value  # type: ignore[misc]

    def select(self, forward_mode: ForwardMode) -> AttentionBackend:
        return self.full_attn_backend

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        if not forward_batch.forward_mode.is_idle():
            self.linear_attn_backend.prepare(forward_batch)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        super().prepare_capture(graph_batch)
        self.linear_attn_backend.prepare(graph_batch)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        layer: RadixAttention,
        forward_batch: ForwardBatch,
        **options: Any,
    ) -> torch.Tensor:
        """As every backend's, for the layers with softmax attention.

        Raises:
            UnsupportedError: a linear layer.
        """
        if layer.layer_id not in self.full_attn_layers:
            expected = f"one of {list(self.full_attn_layers)}, the layers with softmax attention"
            remedy = "A linear layer runs over the state pool itself; its arrays are linear_attn_backend's."
            raise UnsupportedError("layer.layer_id", expected, str(layer.layer_id), remedy)
        return super().forward(q, k, v, layer, forward_batch, **options)
