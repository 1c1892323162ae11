"""Lab 15: an MLA decode of one's own, ranked by its modelled time."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, HostExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .attention_marks import WRONG, batch, recognised_idea
from .kernel_marks import Report, clean, close, failure, marks, symptom, symptom_ideas

HEADS, LATENT, ROPE, PAGE, TOLERANCE = 16, 128, 32, 16, 5e-3
TARGET_US = 40.0
"""Modelled: what a decode that reads the cache once and uses a CTA per request and split stays well below."""


def _run(random: np.random.Generator, name: str, lens: list[int], timed: bool = False) -> Run:
    one = batch(random, lens, HEADS, LATENT + ROPE, PAGE, value_dim=LATENT)
    buffers = {
        "q": one.q,
        "kv": one.k,
        "page_table": one.page_table,
        "seq_lens": one.seq_lens,
        "out": np.full((len(lens), HEADS, LATENT), np.nan, np.float32),
    }
    options: dict[str, Any] = {"pages": {"kv": PAGE * (LATENT + ROPE) * 2}}
    if timed:
        options["timed"] = "sm_100a"
    return Run(name, buffers, ("out",), args=(*buffers, one.scale), options=options, truth=one)


def runs(random: np.random.Generator) -> list[Run]:
    """The first is ranked: its lengths are the same for all, its values are not."""
    return [
        _run(random, "ranked", [200, 77, 130, 16], timed=True),
        _run(random, "short", [1, int(random.integers(2, 40)), 17]),
    ]


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    right = [
        not failure(report) and close(report["buffers"]["out"], run.truth.output(), TOLERANCE)
        for run, report in zip(runs, reports, strict=True)
    ]
    used = int((-(-runs[0].truth.seq_lens // PAGE)).sum()) * PAGE * (LATENT + ROPE) * 2
    read = sum(sum(launch.get("pages", {}).get("kv", [])) for launch in reports[0]["launches"]) / used
    time = sum(float(launch.get("modelled_ns", float("inf"))) for launch in reports[0]["launches"]) / 1000
    earned: dict[str, bool | float] = {
        "right": right[0],
        "short": right[1],
        "clean": all(right) and clean(reports),
        "twice": all(right) and read <= 2.1,
        "time": all(right) and time <= TARGET_US,
    }
    idea = ""
    if not all(earned.values()):
        results = [report["buffers"]["out"] for report in reports if not failure(report)]
        idea = (
            recognised_idea(runs, reports, TOLERANCE)
            or recognised_idea(runs[:1], reports[:1], TOLERANCE)
            or symptom(reports, results)
        )
        idea = idea or ("per_head" if all(right) and read > 2.1 else "slow" if all(right) else "")
    texts = {"twice": f"The cache is read {read:.1f} times.", "time": f"{time:.1f} us modelled; at most {TARGET_US:g}."}
    return marks(exercise, earned, reports, idea, texts if all(right) else {})


EXERCISE = HostExercise(
    id="mla",
    title="MLA decode",
    file="mla_decode.py",
    function="decode",
    arch="sm_100a",
    runs=runs,
    judged=judged,
    ranked=True,
    criteria=(
        Criterion("right", 40, "the output, against float64"),
        Criterion("short", 20, "short requests"),
        Criterion("clean", 10, "no race, nothing out of bounds (sanitizers)"),
        Criterion("twice", 15, "the cache is read at most twice: keys and values are the same bytes, for all heads"),
        Criterion("time", 15, f"at most {TARGET_US:g} us, modelled on a B200"),
    ),
    ideas=(
        *(Idea(name, text) for name, (_, text) in WRONG.items()),
        Idea(
            "per_head",
            "The cache is read again for each head, or for the values: all heads share it, and v is a part of k.",
        ),
        Idea(
            "slow",
            "Right, but slow: more programs (splits), larger loads, tl.dot, fewer launches. The timeline shows where.",
        ),
        *symptom_ideas(),
    ),
    hints=(
        Hint(
            "Load the latent part (128) and the rope part (32) of a page apart: both make scores, the first is also v.",
            4,
        ),
        Hint("tl.dot on 16 heads × 16 tokens uses tensor cores; accumulate in float32.", 4),
    ),
)


def _bytes(random: Random) -> tuple[str, Question]:
    tokens = random.randrange(1000, 100_000)
    return (
        f"DeepSeek's MLA caches 576 bfloat16 per token and layer. How many bytes do {tokens} tokens take in one layer?",
        Question(lambda: tokens * 576 * 2, "{truth:,}.", "576 x 2 bytes per token, for all heads together."),
    )


def _per_head(random: Random) -> int:
    return random.randrange(1000, 100_000) * 576 * 2 * 128


LAB = Lab(
    id="15",
    name="capstone",
    title="Capstone: your own MLA decode",
    goal="Write an absorbed MLA decode, in Triton or in CUDA through sglab.cuda, and "
    "have it ranked by its modelled time.",
    minutes=240,
    exercises=(
        EXERCISE,
        AnswerExercise.of(
            "15", Asked("bytes", 5, _bytes, (("heads", "All heads share the latent cache.", _per_head),))
        ),
    ),
    needs=("triton", "torch"),
    reading=("notebooks/05_mla.ipynb", "notebooks/09_your_own_kernel.ipynb", "notebooks/12_sm100_mla.ipynb"),
    ranked=True,
)
