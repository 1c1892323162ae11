"""The recurrence of online softmax, right and wrong in several ways, in float32 and base 2.

Every formula sees the same tiles. Running values before a split's first tile: m = −inf, d = 0 (or 1), O = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Formula:
    """What one version of the recurrence does with a tile.

    Attributes:
        first_total: d before the first tile.
        shifts: subtracts the running maximum before exponentiating.
        rescales: multiplies d and O by exp2(m_old − m_new) when the maximum grows.
        guards: gives what has seen no key, or only masked ones, the weight 0; without, exp2(−inf − (−inf)) is NaN.
        divides: what it divides the weights by too early: nothing, the running d, or a full softmax on top of the
            weights.
    """

    first_total: float = 0.0
    shifts: bool = True
    rescales: bool = True
    guards: bool = False
    divides: str = ""


FORMULAS = {
    "online": Formula(),
    "d_starts_at_1": Formula(first_total=1.0),
    "guarded": Formula(guards=True),
    "no_rescale": Formula(rescales=False),
    "unshifted": Formula(shifts=False),
    "divides_each_tile": Formula(divides="running d"),
    "softmax_times_exp": Formula(divides="softmax"),
}
"""`online` and `d_starts_at_1` (FlashInfer's state_t) are right where every split sees a key; `guarded` everywhere."""


@dataclass(frozen=True)
class States:
    """Values after each step, float32, all (steps,) but o (steps, v_dim), the accumulator before any division.

    Attributes:
        tile_top: the tile's largest logit.
        top: m.
        rescale: what d and O were multiplied by.
        tile_total: the sum that the tile added.
        total: d.
        error: ‖O / d − truth‖ / ‖truth‖, truth being float64 attention over the split's keys so far.
    """

    tile_top: torch.Tensor
    top: torch.Tensor
    rescale: torch.Tensor
    tile_total: torch.Tensor
    total: torch.Tensor
    error: torch.Tensor
    o: torch.Tensor

    def columns(self) -> torch.Tensor:
        """(steps, 6), without o."""
        return torch.stack([self.tile_top, self.top, self.rescale, self.tile_total, self.total, self.error], 1)


def follow(
    formula: Formula,
    scores: torch.Tensor,
    exact: torch.Tensor,
    v: torch.Tensor,
    tiles: Sequence[tuple[int, int, int]],
    weight: Callable[[torch.Tensor], torch.Tensor],
) -> States:
    """Run one formula over all tiles.

    Args:
        scores, exact: (tokens,) base-2 logits in float32, and in float64 for the truth.
        v: (tokens, v_dim).
        tiles: (split, first token, end token).
        weight: how weights are rounded before they meet V.
    """
    rows, accumulators = [], []
    split = -1
    for this_split, first, end in tiles:
        if this_split != split:
            split, begin = this_split, first
            top, total = torch.tensor(-math.inf), torch.tensor(formula.first_total)
            o = torch.zeros(v.shape[-1])
        tile = scores[first:end]
        new_top = torch.maximum(top, tile.max()) if formula.shifts else torch.tensor(0.0)
        rescale = torch.exp2(top - new_top) if formula.rescales and formula.shifts else torch.tensor(1.0)
        p = torch.exp2(tile - new_top)
        if formula.guards:
            rescale, p = (torch.where(seen > -math.inf, value, 0.0) for seen, value in ((top, rescale), (tile, p)))
        total = total * rescale + p.sum()
        o = o * rescale + _divided(formula, p, tile, total, weight) @ v[first:end].float()
        top = new_top
        error = _error(o, total, exact[begin:end], v[begin:end], formula.guards)
        rows.append(torch.stack([tile.max(), top, rescale, p.sum(), total, error.float()]))
        accumulators.append(o)
    tile_top, tops, rescales, tile_total, totals, errors = torch.stack(rows, 1)
    return States(tile_top, tops, rescales, tile_total, totals, errors, torch.stack(accumulators))


def _error(o: torch.Tensor, total: torch.Tensor, exact: torch.Tensor, v: torch.Tensor, guards: bool) -> torch.Tensor:
    """Relative to float64's O over these keys; over none but masked ones, whose O is 0, the absolute error."""
    masked = bool(exact.max() == -math.inf)
    truth = torch.zeros_like(o).double() if masked else torch.softmax(exact * math.log(2), 0) @ v.double()
    normal = o.double() if guards and total == 0 else o.double() / total.double()
    return (normal - truth).norm() / (1.0 if masked else truth.norm())


def _divided(
    formula: Formula,
    p: torch.Tensor,
    tile: torch.Tensor,
    total: torch.Tensor,
    weight: Callable[[torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    if formula.divides == "running d":
        return weight(p / total)
    if formula.divides == "softmax":
        return weight(torch.softmax(tile * math.log(2), 0) * p)
    return weight(p)
