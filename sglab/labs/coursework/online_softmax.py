"""Lab 05: online softmax, and the merge of partial results."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CaseGroup, FunctionExercise
from sglab.labs.lab import Criterion, Hint, Idea, Lab
from sglab.labs.question import Question

Array = Any
LOG2E = math.log2(math.e)


def exp2(x: Array) -> Array:
    return np.exp2(np.asarray(x, np.float64))


def update(m: float, d: float, o: Array, scores: Array, values: Array) -> list[Any]:
    """The truth: the state after a tile, in float64."""
    if (top := max(float(m), float(np.max(scores, initial=-math.inf)))) == -math.inf:
        return [m, d, o]
    factor = 0.0 if m == -math.inf else float(exp2(m - top))
    p = exp2(scores - top)
    return [top, d * factor + float(p.sum()), o * factor + p @ values]


def finish(m: float, d: float, o: Array) -> list[Any]:
    if d == 0:
        return [np.zeros_like(o), -math.inf]
    return [o / d, m + math.log2(d)]


def merge(o_a: Array, lse_a: float, o_b: Array, lse_b: float) -> list[Any]:
    top = max(lse_a, lse_b)
    if top == -math.inf:
        return [np.zeros_like(o_a), -math.inf]
    a, b = float(exp2(lse_a - top)), float(exp2(lse_b - top))
    return [(a * o_a + b * o_b) / (a + b), top + math.log2(a + b)]


def _plain(m: float, top: float) -> float:
    return float(exp2(m - top))


def variant(
    top: Callable[[float, Array], float] = lambda m, s: max(m, float(np.max(s))),
    factor: Callable[[float, float], float] = lambda m, top: 0.0 if m == -math.inf else float(exp2(m - top)),
    for_d: Callable[[float], float] = lambda factor: factor,
    for_o: Callable[[float], float] = lambda factor: factor,
    power: Callable[[Array], Array] = exp2,
    empty: bool = True,
    normalised: bool = False,
) -> Callable[..., list[Any]]:
    """`update` with something different in it: a wrong idea."""

    def wrong(m: float, d: float, o: Array, scores: Array, values: Array) -> list[Any]:
        with np.errstate(all="ignore"):
            new = top(m, scores)
            if new == -math.inf and empty:
                return [m, d, o]
            old = factor(m, new)
            p = power(scores - new)
            total, out = d * for_d(old) + p.sum(), o * for_o(old) + p @ values
            return [new, float(total), out / total if normalised else out]

    return wrong


UPDATE_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "no_rescale": (
        variant(factor=lambda m, top: 0.0 if m == -math.inf else 1.0),
        "The maximum has changed, and what was summed with the old one must be rescaled by 2^(m_old - m_new).",
    ),
    "d_alone": (variant(for_o=lambda f: 1.0 if f else 0.0), "You rescale d, but not o: both are sums of 2^(s - m)."),
    "o_alone": (variant(for_d=lambda f: 1.0 if f else 0.0), "You rescale o, but not d: both are sums of 2^(s - m)."),
    "upside_down": (
        variant(factor=lambda m, top: 0.0 if m == -math.inf else float(exp2(top - m))),
        "The factor is 2^(m_old - m_new), at most 1; you have it the other way round.",
    ),
    "e": (
        variant(factor=lambda m, top: 0.0 if m == -math.inf else math.exp(m - top), power=lambda x: np.exp(x)),
        "The scores are in base 2 (log2(e) is in their scale already): use exp2, not exp.",
    ),
    "no_max": (
        variant(top=lambda m, s: 0.0, factor=lambda m, top: 1.0),
        "Without subtracting the maximum large scores overflow, and small ones vanish.",
    ),
    "tile_max": (
        variant(top=lambda m, s: float(np.max(s))),
        "The maximum never goes down: it is that of the state and of the tile.",
    ),
    "old_max": (
        variant(top=lambda m, s: m if m > -math.inf else float(np.max(s))),
        "You keep the first tile's maximum: larger scores that come later overflow.",
    ),
    "nan": (
        variant(factor=_plain, empty=False),
        "-inf - (-inf) is NaN: a tile without any key must leave the state alone, and an empty state has no weight.",
    ),
    "normalised": (
        variant(normalised=True),
        "o is divided by d once, at the end; here it stays a sum.",
    ),
    "mean": (
        variant(top=lambda m, s: max(m, float(np.mean(s[np.isfinite(s)])) if np.isfinite(s).any() else -math.inf)),
        "It must be the maximum that is subtracted, not the mean: 2^(s - m) must not exceed 1.",
    ),
}


def _wrong_merge(kind: str) -> Callable[..., list[Any]]:
    def wrong(o_a: Array, lse_a: float, o_b: Array, lse_b: float) -> list[Any]:
        with np.errstate(all="ignore"):
            top = np.float64(max(lse_a, lse_b))
            if top == -math.inf and kind != "nan":
                return [np.zeros_like(o_a), -math.inf]
            x, y = np.exp2(np.float64(lse_a) - top), np.exp2(np.float64(lse_b) - top)
            total, lse = x + y, top + np.log2(x + y)
            if kind == "average":
                x = y = total / 2
            elif kind == "by_max":
                total = np.float64(1)
            elif kind == "no_log":
                lse = np.float64(lse_a) + lse_b
            elif kind == "max_lse":
                lse = top
            elif kind == "e":
                x, y = np.exp(lse_a - top), np.exp(lse_b - top)
                total, lse = x + y, top + np.log(x + y)
            elif kind == "lse_weights":
                x, y, total = np.float64(lse_a), np.float64(lse_b), np.float64(lse_a) + lse_b
            elif kind == "ln":
                lse = top + np.log(total)
            elif kind == "swapped":
                x, y = y, x
            elif kind == "overflow":
                x, y = np.exp2(np.float32(lse_a)), np.exp2(np.float32(lse_b))
                total, lse = x + y, np.log2(x + y)
            return [(x * o_a + y * o_b) / total, float(lse)]

    return wrong


MERGE_IDEAS = {
    "average": "Each partial counts by how much probability it saw, 2^lse, not by half.",
    "by_max": "The weights must add up to 1: divide by the sum of 2^(lse - max), not by the largest of them.",
    "no_log": "LSEs are logarithms: what adds up is 2^lse, and the result is the logarithm of that.",
    "max_lse": "The merged LSE is log2 of the sum of 2^lse, which is more than the larger of the two.",
    "e": "These LSEs are in base 2: use exp2 and log2.",
    "lse_weights": "The weights are 2^lse, not the LSEs themselves.",
    "ln": "The logarithm must have the base of the LSEs, 2.",
    "swapped": "The weights are the wrong way round: o_a goes with lse_a.",
    "overflow": "2^lse overflows: subtract the larger LSE first.",
    "nan": "If both saw no key, -inf - (-inf) is NaN: the result is zeros with an LSE of -inf.",
}


def tile(random: np.random.Generator, scale: float = 4.0, shift: float = 0.0, first: bool = False) -> list[Any]:
    keys, dim = int(random.integers(3, 9)), 4
    scores = random.standard_normal(keys) * scale + shift
    values = random.standard_normal((keys, dim))
    if first:
        return [-math.inf, 0.0, np.zeros(dim), scores, values]
    before = random.standard_normal(6) * scale + shift + random.choice([-8.0, 0.0, 8.0])
    state = update(-math.inf, 0.0, np.zeros(dim), before, random.standard_normal((6, dim)))
    return [*state, scores, values]


def masked(random: np.random.Generator, first: bool, whole: bool) -> list[Any]:
    m, d, o, scores, values = tile(random, first=first)
    scores[random.permutation(len(scores))[: len(scores) // 2]] = -math.inf
    if whole:
        scores[:] = -math.inf
    return [m, d, o, scores, values]


def partials(random: np.random.Generator, shift: float = 0.0, spread: float = 3.0) -> list[Any]:
    a, b = random.standard_normal(2) * spread + shift
    return [random.standard_normal(4), float(a), random.standard_normal(4), float(b)]


def none_seen(random: np.random.Generator, left: bool, right: bool) -> list[Any]:
    o_a, lse_a, o_b, lse_b = partials(random)
    if left:
        o_a, lse_a = np.zeros(4), -math.inf
    if right:
        o_b, lse_b = np.zeros(4), -math.inf
    return [o_a, lse_a, o_b, lse_b]


UPDATE = FunctionExercise(
    id="update",
    title="One tile further",
    file="online_softmax.py",
    function="update",
    truth=update,
    tolerance=1e-6,
    criteria=(
        Criterion("first", 5, "the first tile"),
        Criterion("further", 20, "further tiles, the maximum rising or not"),
        Criterion("large", 10, "scores of some thousands, no overflow"),
        Criterion("masked", 10, "keys, and whole tiles, that are masked with -inf"),
    ),
    groups=(
        CaseGroup("first", lambda r: tile(r, first=True), 4),
        CaseGroup("further", tile, 10),
        CaseGroup("large", lambda r: tile(r, 300.0, float(r.choice([-3000.0, 3000.0]))), 6),
        *(  # each kind every time: an empty first tile is what a slip makes NaN of
            CaseGroup("masked", lambda r, first=first, whole=whole: masked(r, first, whole), 2)  # type: ignore[misc]
            for first in (False, True)
            for whole in (False, True)
        ),
    ),
    ideas=tuple(Idea(name, text) for name, (_, text) in UPDATE_WRONG.items()),
    wrong={name: function for name, (function, _) in UPDATE_WRONG.items()},
    hints=(
        Hint("m_new = max(m, max(scores)); what was summed so far is worth 2^(m - m_new) of what it was.", 3),
        Hint("If m_new is -inf nothing has been seen: return the state as it is.", 2),
    ),
)
FINISH = FunctionExercise(
    id="finish",
    title="The result of a state",
    file="online_softmax.py",
    function="finish",
    truth=finish,
    criteria=(Criterion("finish", 10, "output and LSE, of an empty state, too"),),
    groups=(
        CaseGroup("finish", lambda r: update(*tile(r))),
        CaseGroup("finish", lambda r: [-math.inf, 0.0, np.zeros(4)], 1),
    ),
    ideas=(
        Idea("no_m", "The LSE is m + log2(d): without m it is that of shifted scores."),
        Idea("times", "log2(d) is added to m, not multiplied with it."),
        Idea("natural", "The LSE is in base 2: log2, not log."),
        Idea("not_divided", "The output is o / d."),
    ),
    wrong={
        "no_m": lambda m, d, o: [finish(m, d, o)[0], math.log2(d) if d else -math.inf],
        "times": lambda m, d, o: [finish(m, d, o)[0], m * math.log2(d) if d else -math.inf],
        "natural": lambda m, d, o: [finish(m, d, o)[0], m + math.log(d) if d else -math.inf],
        "not_divided": lambda m, d, o: [o, finish(m, d, o)[1]],
    },
    hints=(Hint("sum of 2^s = 2^m · d, so its logarithm is m + log2(d).", 2),),
)
MERGE = FunctionExercise(
    id="merge",
    title="Two partial results",
    file="online_softmax.py",
    function="merge",
    truth=merge,
    tolerance=1e-6,
    criteria=(
        Criterion("merge", 20, "output and LSE of both together"),
        Criterion("far", 10, "LSEs of some thousands"),
        Criterion("none", 10, "one or both saw no key"),
    ),
    groups=(
        CaseGroup("merge", partials, 8),
        CaseGroup("far", lambda r: partials(r, float(r.choice([-4000.0, 4000.0])), 5.0), 4),
        CaseGroup("none", lambda r: none_seen(r, True, False), 3),
        CaseGroup("none", lambda r: none_seen(r, False, True), 3),
        CaseGroup("none", lambda r: none_seen(r, True, True), 2),
    ),
    ideas=tuple(Idea(name, text) for name, text in MERGE_IDEAS.items()),
    wrong={name: _wrong_merge(name) for name in MERGE_IDEAS},
    hints=(Hint("Weights 2^(lse - max), divided by their sum; the LSE is max + log2 of that sum.", 3),),
)


def _inflated(random: Random) -> tuple[str, Question]:
    a, b = round(random.uniform(1, 3), 1), round(random.uniform(1, 3), 1)
    return (
        f"Two partials have base-2 LSEs of {a} and {b}. What is the LSE of both together?",
        Question(lambda: math.log2(2**a + 2**b), "{truth:.4f}.", "log2(2^a + 2^b)."),
    )


def _added(random: Random) -> float:
    return round(random.uniform(1, 3), 1) + round(random.uniform(1, 3), 1)


LAB = Lab(
    id="05",
    name="online_softmax",
    title="Online softmax and merge",
    goal="Compute softmax(scores) · values tile by tile, and put the results of two splits together.",
    minutes=45,
    exercises=(
        UPDATE,
        FINISH,
        MERGE,
        AnswerExercise.of(
            "05",
            Asked("lse", 5, _inflated, (("sum", "LSEs do not add: they are logarithms.", _added),)),
        ),
    ),
    reading=("notebooks/03_online_softmax.ipynb",),
)
