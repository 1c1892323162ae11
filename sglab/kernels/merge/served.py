"""Merges of two states like one that was checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sglab.kernels.known_calls import Served
from sglab.kernels.merge.contract import PairArguments

State = tuple[torch.Tensor, torch.Tensor]


class PairServer(Served[PairArguments]):
    """Runs merges like one, whose outputs are, or are not, its inputs as they were there.

    Args:
        call: the one that was checked, without a mask; of its tensors none is kept.
        run: its implementation.
    """

    def __init__(self, call: PairArguments, run: Callable[[Any], object]) -> None:
        super().__init__(call, run, "v_a", "s_a", "v_b", "s_b", "v_merged", "s_merged")

    def __call__(
        self,
        v_a: torch.Tensor,
        s_a: torch.Tensor,
        v_b: torch.Tensor,
        s_b: torch.Tensor,
        v_merged: torch.Tensor,
        s_merged: torch.Tensor,
    ) -> None:
        """Merge into the outputs."""
        self._serve({"v_a": v_a, "s_a": s_a, "v_b": v_b, "s_b": s_b, "v_merged": v_merged, "s_merged": s_merged})

    def into_new(
        self, v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor, *_: None, **__: Any
    ) -> State:
        """As merge_state and merge_state_v2 without outputs, which are made and so overlap nothing."""
        v_merged, s_merged = torch.empty_like(v_a), torch.empty_like(s_a)
        self(v_a, s_a, v_b, s_b, v_merged, s_merged)
        return v_merged, s_merged
