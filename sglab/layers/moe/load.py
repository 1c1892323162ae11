"""ExpertLoad: how many tokens each expert of a model gets, which is what EPLB balances."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sglab.layers.moe.experts import FusedMoE


class ExpertLoad:
    """Counts from when it is made until `close`.

    Attributes:
        counts: int64 [mixtures of the model, experts].
    """

    def __init__(self, model: nn.Module) -> None:
        mixtures = [one for one in model.modules() if isinstance(one, FusedMoE)]
        self.counts = torch.zeros(
            len(mixtures), max((one.num_experts for one in mixtures), default=0), dtype=torch.int64
        )
        self._hooks = [one.register_forward_hook(self._hook(layer)) for layer, one in enumerate(mixtures)]

    def _hook(self, layer: int) -> Any:
        def count(module: FusedMoE, args: Any, output: torch.Tensor) -> None:
            assert module.routing is not None
            ids = module.routing.ids.flatten().cpu()
            self.counts[layer] += torch.bincount(ids[ids >= 0], minlength=self.counts.shape[1])

        return count

    def close(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()
