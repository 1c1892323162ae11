"""Lab 12: the rescale of online softmax, fused into the accumulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CudaExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .kernel_marks import Report, clean, close, failure, marks, symptom, symptom_ideas, total, unwritten

DIM, TILE = 64, 32
FEWER = 0.8


def _run(random: np.random.Generator, keys: int, rising: bool = False) -> Run:
    q, k, v = (random.standard_normal((n, DIM)).astype(np.float32) for n in (1, keys, keys))
    if rising:  # the maximum rises in every tile
        q = np.abs(q)
        k = np.abs(k) * np.linspace(0.1, 6, keys, dtype=np.float32)[:, None]
    scale = float(np.float32(math.log2(math.e) / math.sqrt(DIM)))
    buffers = {"q": q, "k": k, "v": v, "out": np.full(DIM, np.nan, np.float32), "lse": np.full(1, np.nan, np.float32)}
    args = [*({"buffer": name} for name in buffers), keys, scale]
    launch = {"entry": "decode", "grid": [1], "block": [DIM], "args": args}
    return Run(f"{keys} keys", buffers, ("out", "lse"), launch, truth=online(q[0], k, v, scale))


def online(
    q: Any, k: Any, v: Any, scale: float, for_o: int = 1, for_d: int = 1, keys: int | None = None, divide: bool = True
) -> tuple[Any, float]:
    """float64, tile by tile; `for_o` and `for_d` say how often a sum is rescaled when the maximum rises."""
    s = (k.astype(float) @ q.astype(float) * scale)[:keys]
    m, d, o = -math.inf, 0.0, np.zeros(DIM)
    for start in range(0, len(s), TILE):
        part = s[start : start + TILE]
        top = max(m, float(part.max()))
        factor, p = 2.0 ** (m - top), np.exp2(part - top)
        o = o * (factor**for_o if m > -math.inf else 0) + p @ v[start : start + TILE][: len(part)].astype(float)
        d = d * (factor**for_d if m > -math.inf else 0) + float(p.sum())
        m = top
    return (o / d if divide else o), m + math.log2(d)


def runs(random: np.random.Generator) -> list[Run]:
    return [_run(random, 200), _run(random, 160, rising=True), _run(random, int(random.integers(1, 31)))]


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    pairs = list(zip(runs, reports, strict=True))
    out = [not failure(r) and close(r["buffers"]["out"], one.truth[0], 1e-4) for one, r in pairs]
    lse = [not failure(r) and close(r["buffers"]["lse"], [one.truth[1]], 1e-4) for one, r in pairs]
    right = all(out)
    given, tiles = reports[0]["given"], -(-200 // TILE)
    barriers = total(reports[0], "cta_barriers")
    written = total(reports[0], "shared_written") / max(1.0, total(given, "shared_written"))
    instructions = total(reports[0], "warp_instructions") / max(1.0, total(given, "warp_instructions"))
    earned: dict[str, bool | float] = {
        "out": sum(out) / 3,
        "lse": sum(lse) / 3,
        "clean": right and clean(reports),
        "registers": right and written <= 0.5,
        "barriers": right and barriers <= 2 * tiles + 2,
        "fewer": right and instructions <= FEWER,
    }
    idea = ""
    if not all(share == 1 for share in earned.values()):
        idea = "nothing" if unwritten(runs, reports) else _wrong(pairs)
        idea = idea or symptom(reports, [r["buffers"]["out"] for r in reports if not failure(r)])
        if right and not idea:
            idea = "in_shared" if written > 0.5 else "barriers" if not earned["barriers"] else "slow"
    texts = {
        "registers": f"{written:.0%} of the given kernel's bytes are stored to shared memory; at most 50 %.",
        "barriers": f"{barriers:.0f} barriers over {tiles} tiles; at most {2 * tiles + 2}.",
        "fewer": f"{instructions:.0%} of the given kernel's warp-instructions; at most {FEWER:.0%}.",
    }
    return marks(exercise, earned, reports, idea, texts if right else {})


def _wrong(pairs: Sequence[tuple[Run, Report]]) -> str:
    """The idea whose results these are, in every run."""
    if any(failure(report) for _, report in pairs):
        return ""
    for name, matches in _RESULTS.items():
        if all(
            matches(_inputs(one), report["buffers"]["out"], float(report["buffers"]["lse"][0])) for one, report in pairs
        ):
            return name
    return ""


def _inputs(one: Run) -> tuple[Any, Any, Any, float]:
    b = one.buffers
    return b["q"][0], b["k"], b["v"], one.launch["args"][-1]


def _alike(a: Any, b: Any) -> bool:
    return close(a, b, 1e-4)


def _out_is(**options: Any) -> Any:
    return lambda inputs, out, lse: _alike(out, partial(online, **options)(*inputs)[0])


def _lse_is(make: Any) -> Any:
    def matches(inputs: Any, out: Any, lse: float) -> bool:
        right = online(*inputs)
        return _alike(out, right[0]) and _alike([lse], [make(inputs, right[1])])

    return matches


def _max(inputs: Any) -> float:
    q, k, _, scale = inputs
    return float((k.astype(float) @ q.astype(float)).max() * scale)


_RESULTS = {
    "no_rescale": _out_is(for_o=0),
    "both_unscaled": _out_is(for_o=0, for_d=0),
    "twice": _out_is(for_o=2),
    "d_forgotten": _out_is(for_d=0),
    "not_divided": _out_is(divide=False),
    "natural_lse": _lse_is(lambda i, lse: lse / math.log2(math.e)),
    "mixed_lse": _lse_is(lambda i, lse: _max(i) + (lse - _max(i)) * math.log(2)),
    "lse_without_m": _lse_is(lambda i, lse: lse - _max(i)),
    "lse_is_m": _lse_is(lambda i, lse: _max(i)),
}

EXERCISE = CudaExercise(
    id="decode",
    title="Decode attention of one head",
    file="fused_rescale.cu",
    given="12_fused_rescale/given.cu",
    arch="sm_90a",
    runs=runs,
    judged=judged,
    criteria=(
        Criterion("out", 15, "the output, of 1 to 200 keys, the maximum rising or not"),
        Criterion("lse", 5, "the LSE, base 2"),
        Criterion("clean", 10, "no race, nothing out of bounds (sanitizers)"),
        Criterion("registers", 10, "the accumulator lives in registers: at most half the stores to shared memory"),
        Criterion("barriers", 10, "at most two barriers per tile"),
        Criterion("fewer", 10, f"at most {FEWER:.0%} of the given kernel's warp-instructions"),
    ),
    ideas=(
        Idea("no_rescale", "When the maximum rises, the accumulator must be rescaled, too, not the sum d alone."),
        Idea("both_unscaled", "When the maximum rises, what was summed before must be rescaled by 2^(m_old - m_new)."),
        Idea("twice", "The accumulator is rescaled twice: once in a place of its own, and once in the sum."),
        Idea("d_forgotten", "d is a sum of 2^(s - m), too: rescale it as the accumulator."),
        Idea("not_divided", "At the end the accumulator is divided by d."),
        Idea("natural_lse", "The LSE is in base 2."),
        Idea("mixed_lse", "m is in base 2, so the logarithm of d must be: log2f."),
        Idea("lse_without_m", "The LSE is m + log2(d); m is missing."),
        Idea("lse_is_m", "The LSE is m + log2(d); d is missing."),
        Idea(
            "in_shared", "The accumulator still goes through shared memory: thread t can keep element t in a register."
        ),
        Idea(
            "barriers",
            "Two barriers per tile are enough: when the probabilities are there, and before they are overwritten.",
        ),
        Idea(
            "slow",
            "Still too many instructions: maximum and sum are one warp's work, and short loops cost a test and an "
            "address each time: #pragma unroll.",
        ),
        *symptom_ideas(),
    ),
    hints=(
        Hint("Thread t owns o[t] in a register: o = o * factor + sum of p[j] * v[j][t].", 3),
        Hint(
            "Warp 0 has a score per lane: maximum and sum by __shfl_xor_sync, no "
            "barrier; factor and p go to shared memory.",
            5,
        ),
    ),
)


def _factor(random: Random) -> tuple[str, Question]:
    old, rise = random.randrange(2, 8), random.randrange(2, 7)
    return (
        f"The maximum, base 2, was {old} and is now {old + rise}. By what is the accumulator multiplied?",
        Question(lambda: 2.0**-rise, "{truth}.", "2^(m_old - m_new)."),
    )


def _up(random: Random) -> float:
    random.randrange(2, 8)
    return 2.0 ** random.randrange(2, 7)


LAB = Lab(
    id="12",
    name="fused_rescale",
    title="Fuse the rescale",
    goal="Take a kernel that rescales its accumulator in a pass of its own, and fuse that into the sum, in registers.",
    minutes=60,
    exercises=(
        EXERCISE,
        AnswerExercise.of(
            "12", Asked("factor", 5, _factor, (("up", "It never exceeds 1: the maximum has risen.", _up),))
        ),
    ),
    needs=("nvcc",),
    reading=("notebooks/03_online_softmax.ipynb", "notebooks/08_debugger.ipynb"),
)
