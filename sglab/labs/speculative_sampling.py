"""Notebook 18: drafts that are kept by chance, the distribution that comes out, and what is drawn after a rejection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sglab.engine.speculation import tree_of, tree_speculative_sampling_target_only

from .code_question import CodeQuestion
from .question import Question


def share(probs: Sequence[float], draft: int, threshold: float, runs: int = 4000, seed: int = 0) -> list[float]:
    """How often each token comes out of a chain of one draft, verified by chance.

    Args:
        probs: the target's distribution at the root; draft: the drafted token; threshold: `threshold_acc`.
    """
    random = torch.Generator().manual_seed(seed)
    tree, target = tree_of((-1, 0)), torch.tensor([list(probs), list(probs)], dtype=torch.float64)
    counts = [0] * len(probs)
    for coin, final in torch.rand(runs, 2, generator=random, dtype=torch.float64).tolist():
        kept = tree_speculative_sampling_target_only(
            tree, (0, draft), target, (coin, coin), final, threshold_acc=threshold
        )
        counts[kept.tokens[0]] += 1
    return [count / runs for count in counts]


def share_of_draft(probs: Sequence[float], draft: int, threshold: float) -> Question:
    """How often the drafted token comes out when a threshold lowers the bar."""
    right = min(probs[draft] / threshold, 1.0)
    return Question(
        truth=lambda: right,
        because="{truth}: kept more often than the target would say it; the rest shares what is left.",
        hint="The draft is kept if a coin, uniform in [0, 1), is below its probability divided by threshold_acc.",
        ideas=(
            (
                probs[draft],
                "So often the target says it. With a threshold it is no longer the distribution.",
            ),
            (probs[draft] * threshold, "The probability is divided by the threshold, not multiplied."),
        ),
    )


def chi_square(counts: torch.Tensor, probs: torch.Tensor) -> tuple[float, int]:
    """Pearson's statistic of counts against a distribution, and its degrees of freedom.

    About as large as these where the counts were drawn from the distribution. Outcomes that are expected fewer than
    five times are counted as one, for which the statistic's distribution would not hold.
    """
    expected, counts = probs.double() * counts.sum().double(), counts.double()
    rare = expected < 5
    if rare.any():
        expected = torch.cat((expected[~rare], expected[rare].sum()[None]))
        counts = torch.cat((counts[~rare], counts[rare].sum()[None]))
    live = expected > 0
    statistic = (counts[live] - expected[live]).square() / expected[live]
    return float(statistic.sum()), int(live.sum()) - 1


def _distributions(random: torch.Generator) -> list[list[Any]]:
    def draw(n: int) -> list[Any]:
        return [torch.rand(n, generator=random).softmax(-1), (torch.randn(n, generator=random) * 2).softmax(-1)]

    return [[torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.5, 0.3])], *(draw(n) for n in (2, 4, 16, 64))]


def _residual(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    rest = (p - q).clamp_min(0)
    return rest / rest.sum()


def residual() -> CodeQuestion:
    """The distribution to draw from after a draft was rejected."""
    return CodeQuestion(
        function="residual",
        cases=_distributions,
        truth=_residual,
        because="What the drafts brought too little of, and nothing of what they brought too much of.",
        ideas=(
            (
                lambda p, q: p,
                "Tokens that drafts favour then come too often: they had their chance.",
            ),
            (lambda p, q: (p - q).clamp_min(0), "Right up to a factor: a distribution adds up to 1."),
            (
                lambda p, q: (p - q).abs() / (p - q).abs().sum(),
                "Where q is larger nothing is missing: clamp at 0.",
            ),
            (lambda p, q: (q - p).clamp_min(0) / (q - p).clamp_min(0).sum(), "The other way round: p is the target's."),
        ),
        tolerance=1e-4,
    )


def sampled(p: torch.Tensor, q: torch.Tensor, rest: torch.Tensor, runs: int = 20_000, seed: int = 1) -> torch.Tensor:
    """How often each token comes out: drafted from q, kept with min(1, p / q), else drawn from `rest`.

    Returns:
        int64 [tokens].
    """
    random = torch.Generator().manual_seed(seed)
    drafts = q.multinomial(runs, replacement=True, generator=random)
    kept = torch.rand(runs, generator=random) < p[drafts] / q[drafts]
    instead = rest.multinomial(runs, replacement=True, generator=random)
    return torch.where(kept, drafts, instead).bincount(minlength=len(p))
