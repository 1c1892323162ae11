"""The recurrence of online softmax, right and wrong in several ways, in float32 and base 2.

Every formula sees the same tiles. Running values before a split's first tile: m = −inf, d = 0 (or 1), O = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

ELEMENTS_AT_ONCE = 32_768
"""That are copied to float64: the copies fit a cache, their memory is used again, torch waits for no other thread."""
Tile = tuple[int, int, int]
"""split, first token, end token"""


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


@dataclass(frozen=True)
class Truth:
    """Attention in float64 over a split's keys, after each tile; made once, for every formula.

    Attributes:
        o: (steps, v_dim) float64; 0 over none but masked keys.
        masked: (steps,) whether all keys so far are masked.
    """

    o: torch.Tensor
    masked: torch.Tensor

    @staticmethod
    def of(exact: torch.Tensor, v: torch.Tensor, tiles: Sequence[Tile]) -> Truth:
        """The guarded recurrence in float64, whose rounding is 1e-16 per tile: linear in the keys.

        Args:
            exact: (tokens,) base-2 logits in float64.
            v: (tokens, v_dim) float32.
            tiles: (split, first token, end token).
        """
        outputs, masked = [], []
        at_once = max(1, ELEMENTS_AT_ONCE // v.shape[-1])
        values = torch.empty(at_once, v.shape[-1], dtype=torch.float64)
        split = -1
        for this_split, first, end in tiles:
            if this_split != split:
                split, top, total = this_split, -math.inf, 0.0
                o = torch.zeros(v.shape[-1], dtype=torch.float64)
            new_top = max(top, float(exact[first:end].max()))
            if new_top > -math.inf:
                rescale = 2.0 ** (top - new_top)
                p = torch.exp2(exact[first:end] - new_top)
                total = total * rescale + float(p.sum())
                o = o * rescale
                for part, weights in zip(v[first:end].split(at_once), p.split(at_once), strict=True):
                    o += weights @ values[: len(part)].copy_(part)
            top = new_top
            outputs.append(o / total if total else torch.zeros_like(o))
            masked.append(top == -math.inf)
        return Truth(torch.stack(outputs), torch.tensor(masked))


def follow(
    formula: Formula,
    scores: torch.Tensor,
    truth: Truth,
    v: torch.Tensor,
    tiles: Sequence[Tile],
    weight: Callable[[torch.Tensor], torch.Tensor],
) -> States:
    """Run one formula over all tiles.

    Args:
        scores: (tokens,) base-2 logits in float32.
        truth: of the same tiles.
        v: (tokens, v_dim) float32.
        tiles: (split, first token, end token).
        weight: how weights are rounded before they meet V.
    """
    rows, accumulators = [], []
    split = -1
    for this_split, first, end in tiles:
        if this_split != split:
            split = this_split
            top, total = torch.tensor(-math.inf), torch.tensor(formula.first_total)
            o = torch.zeros(v.shape[-1])
        tile = scores[first:end]
        new_top = torch.maximum(top, tile.max()) if formula.shifts else torch.tensor(0.0)
        rescale = torch.exp2(top - new_top) if formula.rescales and formula.shifts else torch.tensor(1.0)
        p = torch.exp2(tile - new_top)
        if formula.guards:
            rescale, p = (torch.where(seen > -math.inf, value, 0.0) for seen, value in ((top, rescale), (tile, p)))
        total = total * rescale + p.sum()
        o = o * rescale + _divided(formula, p, tile, total, weight) @ v[first:end]
        top = new_top
        rows.append(torch.stack([tile.max(), top, rescale, p.sum(), total]))
        accumulators.append(o)
    tile_top, tops, rescales, tile_total, totals = torch.stack(rows, 1)
    o = torch.stack(accumulators)
    return States(tile_top, tops, rescales, tile_total, totals, _errors(o, totals, truth, formula.guards), o)


def _errors(o: torch.Tensor, total: torch.Tensor, truth: Truth, guards: bool) -> torch.Tensor:
    """Relative to float64's O over these keys; over none but masked ones, whose O is 0, the absolute error."""
    divisor = total.double()
    if guards:
        divisor = torch.where(total == 0, 1.0, divisor)
    difference = (o.double() / divisor[:, None] - truth.o).norm(dim=1)
    return (difference / torch.where(truth.masked, 1.0, truth.o.norm(dim=1))).float()


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
