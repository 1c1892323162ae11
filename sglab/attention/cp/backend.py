"""PromptParallelBackend: any backend's own arrays and arithmetic over one rank's new tokens of a prompt.

Every rank keeps all keys. In a prompt's pass each computes those of its own tokens, gathers the others' into its pool,
and attends with its own queries, whose pieces are requests of their own to the backend. All other passes are the
backend's as it is: every rank has all of their tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from sglab.attention.arithmetic.chosen import IndexRows
from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import Capabilities
from sglab.attention.cp.layout import PromptShares
from sglab.attention.inputs import AttentionInputs
from sglab.attention.registry import Factory
from sglab.attention.rows import save_kv
from sglab.engine import ForwardBatch, GraphBatch, MLATokenToKVPool, ModelRunner
from sglab.engine.rank_group import RankGroup


class PromptParallelBackend(AttentionBackend):
    """One rank's part of a backend. All ranks of its group must run the same passes in the same order.

    In a pass that is shared, `forward` takes and returns this rank's rows (`ForwardBatch.attn_cp_metadata.shard`).

    Attributes:
        inner: that backend; in a shared pass its `forward_metadata` are those of this rank's pieces.
        shares: of the pass last prepared who has what; None: every rank has all of it.
    """

    def __init__(self, name: str, factory: Factory, model_runner: ModelRunner, group: RankGroup) -> None:
        self.name = name  # type: ignore[misc]
        self.capabilities = getattr(factory, "capabilities", Capabilities())  # type: ignore[misc]
        super().__init__(model_runner)
        self.group = group
        served = self.capabilities.cp
        self.interleaves = served is not None and served.interleaves
        self.inner: AttentionBackend = factory(replace(model_runner, attn_cp=None, check_metadata=False))
        self.shares: PromptShares | None = None
        self._pieces: ForwardBatch | None = None

    @property
    def serving(self) -> AttentionBackend:
        return self.inner.serving if self.shares is None else self

    def prepare(self, forward_batch: ForwardBatch) -> None:
        """Besides, says in `forward_batch.attn_cp_metadata` who has which rows."""
        self.shares = self._pieces = None
        shares = PromptShares.of(forward_batch, self.group, self.interleaves)
        forward_batch.attn_cp_metadata = shares
        if shares is None:
            self._check_metadata(forward_batch)
            self.inner.prepare(forward_batch)
            return
        super().prepare(forward_batch)
        if self._pass is not None:
            self._pass = replace(self._pass, tokens=len(shares.own))
        self._pieces = shares.pieces(forward_batch)
        self.inner.prepare(self._pieces)
        self.shares = shares

    @property
    def pieces(self) -> ForwardBatch | None:
        """What this rank's queries attend to in the pass last prepared; None: as without other ranks."""
        return self._pieces

    def index_rows(self, forward_batch: ForwardBatch) -> IndexRows:
        """Of a shared pass those of this rank's queries; an indexer's keys must be gathered before."""
        assert self._pieces is not None
        return self.inner.index_rows(self._pieces)

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        assert self.shares is not None and self._pieces is not None
        self.inner.refuse_layer(inputs.layer)
        if inputs.save_kv_cache:
            save_kv(self._everyones(inputs, self.shares))
        own = replace(inputs, k=None, v=None, k_rope=None, save_kv_cache=False, forward_batch=self._pieces)
        return self.inner.attend(own)

    @staticmethod
    def _everyones(inputs: AttentionInputs, shares: PromptShares) -> AttentionInputs:
        """The new tokens' keys and values from all ranks, in one message; MLA's values are part of its keys."""
        k, v, k_rope = inputs.k, inputs.v, inputs.k_rope
        assert k is not None and v is not None
        latent = isinstance(inputs.forward_batch.token_to_kv_pool, MLATokenToKVPool)
        parts = [k, k_rope] if k_rope is not None else [k] if latent else [k, v]
        came = shares.gather(torch.cat(parts, -1)).split([part.shape[-1] for part in parts], -1)
        k, rest = came[0].contiguous(), came[-1].contiguous()
        if k_rope is not None:
            return replace(inputs, k=k, v=k, k_rope=rest)
        return replace(inputs, k=k, v=k[..., : v.shape[-1]] if latent else rest)

    # Graphs, of decodes and verifications, are the backend's.

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        self.inner.init_graph(max_bs, max_num_tokens)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        self.shares = None
        self._check_metadata(graph_batch, before_capture=True)
        self.inner.prepare_capture(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        self.shares = None
        self._check_metadata(graph_batch)
        self.inner.prepare_replay(graph_batch)

    def fill_in_graph(self, graph_batch: GraphBatch) -> bool:
        return self.inner.fill_in_graph(graph_batch)

    @property
    def verify_mask(self) -> torch.Tensor | None:
        return self.inner.verify_mask

    def redo_verify_metadata(self, spec_info: Any, graph_bs: int | None) -> None:
        self.inner.redo_verify_metadata(spec_info, graph_bs)
