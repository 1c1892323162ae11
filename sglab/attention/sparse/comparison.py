"""Sparse attention beside dense: probability kept, error of the output, keys read, over a range of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sglab.attention.sparse.choices import RULES, Rows

STEPS = 24
"""Budgets at most: each is a bit of a number."""


@dataclass(frozen=True)
class Outcome:
    """One rule at one budget, float64.

    Attributes:
        mask: bool [heads, T, T], the chosen keys.
        mass: [heads, T], dense probability of the chosen keys.
        error: [heads, T], |sparse − dense| / |dense| of a query's output.
        keys: [heads, T], how many were chosen. rows: [T], rows of the pool that a query's heads read together.
    """

    mask: torch.Tensor
    mass: torch.Tensor
    error: torch.Tensor
    keys: torch.Tensor
    rows: torch.Tensor

    @property
    def total_error(self) -> float:
        """Of all outputs of the layer: the root of the mean of the squared errors of heads and queries."""
        return float(self.error.square().mean().sqrt())


def budgets(tokens: int) -> list[int]:
    """From a few keys to all of them, each about half as many again as the one before."""
    found: list[int] = []
    at = 4.0
    while at < tokens and len(found) < STEPS - 1:
        found.append(round(at))
        at *= 1.5 if at >= 6 else 2
    return [*dict.fromkeys(min(each, tokens) for each in found), tokens] if found else [tokens]


def outcome(
    rows: Rows, mask: torch.Tensor, probabilities: torch.Tensor | None = None, exact: torch.Tensor | None = None
) -> Outcome:
    """Attend to the chosen keys alone, and compare.

    Args:
        mask: bool [heads, T, T]; a query without any key gives zeros.
        probabilities, exact: of dense attention, and its output, where they are known.
    """
    dense = rows.probabilities() if probabilities is None else probabilities
    exact = attended(dense, rows) if exact is None else exact
    kept = dense * mask
    mass = kept.sum(-1)
    sparse = attended(kept, rows) / mass.clamp(min=1e-300)[..., None]
    error = (sparse - exact).norm(dim=-1) / exact.norm(dim=-1).clamp(min=1e-300)
    groups = rows.heads // rows.kv_heads
    read = mask.unflatten(0, (rows.kv_heads, groups)).any(1).sum(-1).sum(0) / rows.kv_heads
    return Outcome(mask, mass, error, mask.sum(-1), read)


def attended(weights: torch.Tensor, rows: Rows) -> torch.Tensor:
    """[heads, T, T] -> [heads, T, v_head_dim]: sums of values."""
    return torch.einsum("hqk,khd->hqd", weights, rows.v)


def compare(rows: Rows, rule: str, each: Sequence[int] | None = None) -> list[Outcome]:
    """A rule at every budget.

    Raises:
        KeyError: an unknown rule.
    """
    dense, chosen = rows.probabilities(), RULES[rule]
    scores, exact = chosen.score(rows), attended(dense, rows)
    return [outcome(rows, chosen.choose(rows, scores, budget), dense, exact) for budget in each or budgets(rows.tokens)]
