"""RankGroup: the ranks that a request's context is spread over, as attention sees them.

`sglab.layers.TensorParallel` is one over torch.distributed.
"""

from __future__ import annotations

from typing import Protocol

import torch


class RankGroup(Protocol):
    """Rank `rank` of `size`, and collectives in which all of them take part."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...

    def all_gather(self, x: torch.Tensor, dim: int = -1) -> torch.Tensor:
        """The ranks' parts along `dim`, one after another."""

    def reduce_scatter(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's share of the sum over ranks, cut along the first dimension."""

    def all_to_all(self, x: torch.Tensor) -> torch.Tensor:
        """[size, ...]: row r goes to rank r; what comes back lies by where it came from."""
