"""DelegatingBackend: a backend whose every pass is served by another one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NoReturn

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.inputs import AttentionInputs
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch


class DelegatingBackend(AttentionBackend):
    """Refusals are the serving backend's own: it checks what it is given."""

    def __init__(self, first: AttentionBackend) -> None:
        self._serving = first

    @abstractmethod
    def select(self, forward_mode: ForwardMode) -> AttentionBackend:
        """Who serves passes of this mode."""

    @property
    def serving(self) -> AttentionBackend:
        return self._serving.serving

    def prepare(self, forward_batch: ForwardBatch) -> None:
        self._serving = self.select(forward_batch.forward_mode)
        self._serving.prepare(forward_batch)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        self.select(ForwardMode.DECODE).init_graph(max_bs, max_num_tokens)

    def prepare_capture(self, graph_batch: GraphBatch) -> None:
        self._serving = self.select(graph_batch.forward_mode)
        self._serving.prepare_capture(graph_batch)

    def prepare_replay(self, graph_batch: GraphBatch) -> None:
        self._serving = self.select(graph_batch.forward_mode)
        self._serving.prepare_replay(graph_batch)

    @property
    def verify_mask(self) -> torch.Tensor | None:
        return self.select(ForwardMode.TARGET_VERIFY).verify_mask

    def redo_verify_metadata(self, spec_info: Any, graph_bs: int | None) -> None:
        self.select(ForwardMode.TARGET_VERIFY).redo_verify_metadata(spec_info, graph_bs)

    def attend(self, inputs: AttentionInputs) -> NoReturn:
        """`forward` calls the serving backend's."""
        raise RuntimeError(f"{self.name} attends through {self.serving.name}")
