"""FlashMLASchedMeta: a plan that the first call makes, as FlashMLA's interface has it since 2026."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sglab.kernels.contract import Contract

Plan = tuple[torch.Tensor, torch.Tensor]
_CONFIG = ("batch", "query tokens", "heads", "page size", "causal")


@dataclass
class FlashMLASchedMeta:
    """What `get_mla_metadata()` returns: empty, until a call of flash_mla_with_kvcache plans for its lengths.

    Later calls, such as those of a step's other layers, take the same plan and must have the same shape. As in FlashMLA
    nothing compares the lengths: get a new one for every step. (With values checked, as on the CPU, a plan that does
    not cover the lengths is refused.)

    Attributes:
        config: batch, query tokens, heads, page size and causal of the first call.
        tile_scheduler_metadata, num_splits: as in the older form; None before the first call.
    """

    config: tuple[int | bool, ...] | None = None
    tile_scheduler_metadata: torch.Tensor | None = None
    num_splits: torch.Tensor | None = None

    def plan(self, q: torch.Tensor, k_cache: torch.Tensor, causal: bool, make: Callable[[], Plan]) -> Plan:
        """The plan, made now if this is the first call.

        Raises:
            ContractError: the first call had another shape.
        """
        config = (*q.shape[:3], k_cache.shape[1] if k_cache.ndim > 1 else 0, causal)
        if self.tile_scheduler_metadata is None or self.num_splits is None:
            self.tile_scheduler_metadata, self.num_splits = make()
            self.config = config
        elif self.config != config:
            pairs = zip(_CONFIG, self.config or (), config, strict=True)
            differ = next((name, was, now) for name, was, now in pairs if was != now)
            Contract("flash_mla_with_kvcache").fail(
                "tile_scheduler_metadata",
                f"of the first call's shape ({differ[0]} {differ[1]})",
                f"{differ[0]} {differ[2]}",
                "Call get_mla_metadata() for every step.",
            )
        return self.tile_scheduler_metadata, self.num_splits
