"""Stores like one that was checked: their tensors put into its arguments, heads joined, and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from sglab.kernels.known_calls import Served
from sglab.kernels.store_cache.contract import StoreArguments


class StoreServer(Served[StoreArguments]):
    """How calls of store_cache like one are served from then on.

    Args:
        call: the one that was checked; of its tensors none is kept.
        run: its implementation.
        given: its k, v, k_cache and v_cache as they were passed.
    """

    def __init__(self, call: StoreArguments, run: Callable[[Any], object], given: Sequence[torch.Tensor]) -> None:
        super().__init__(call, run, "k", "v", "k_cache", "v_cache", "indices")
        rows = (call.k, call.v, call.k_cache, call.v_cache)
        self._rows = [(each.shape, each.stride()) for each in rows]
        self._joined = any(each.ndim > 2 for each in given)

    def __call__(
        self,
        k: torch.Tensor,
        v: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        indices: torch.Tensor,
        **_: Any,
    ) -> None:
        """As store_cache."""
        if self._joined:
            k, v, k_cache, v_cache = (
                each.as_strided(*rows) for each, rows in zip((k, v, k_cache, v_cache), self._rows, strict=True)
            )
        self._serve({"k": k, "v": v, "k_cache": k_cache, "v_cache": v_cache, "indices": indices})
