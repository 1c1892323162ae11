"""Lab 09: decode attention in two stages, in Triton."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, HostExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .attention_marks import WRONG, batch, recognised_idea
from .kernel_marks import Report, clean, close, failure, marks, symptom, symptom_ideas

HEADS, DIM, PAGE, SPLITS, TOLERANCE = 4, 32, 16, 4, 5e-3


def _run(random: np.random.Generator, name: str, lens: list[int]) -> Run:
    one = batch(random, lens, HEADS, DIM, PAGE)
    buffers = {
        "q": one.q,
        "k": one.k,
        "v": one.v,
        "page_table": one.page_table,
        "seq_lens": one.seq_lens,
        "out": np.full(one.q.shape, np.nan, np.float32),
    }
    options = {"pages": {"k": PAGE * DIM * 2, "v": PAGE * DIM * 2}}
    return Run(name, buffers, ("out",), args=(*buffers, one.scale, SPLITS), options=options, truth=one)


def runs(random: np.random.Generator) -> list[Run]:
    return [
        _run(random, "long", [int(random.integers(200, 250)), int(random.integers(100, 140))]),
        _run(random, "short, with splits that are empty", [int(random.integers(17, 30)), 1, 33]),
    ]


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    right = [
        not failure(report) and close(report["buffers"]["out"], run.truth.output(), TOLERANCE)
        for run, report in zip(runs, reports, strict=True)
    ]
    launches = reports[0]["launches"]
    readers = [launch for launch in launches if any(launch.get("pages", {}).get("k", []))]
    grid = max((int(np.prod(launch["grid"])) for launch in readers), default=0)
    split = all(right) and len(launches) >= 2 and grid >= 2 * SPLITS
    times = _times_read(runs[0], reports[0])
    earned: dict[str, bool | float] = {
        "long": right[0],
        "short": right[1],
        "clean": all(right) and clean(reports),
        "split": split,
        "once": split and times <= 1.1,
    }
    idea = ""
    if not all(earned.values()):
        results = [report["buffers"]["out"] for report in reports if not failure(report)]
        idea = (
            recognised_idea(runs, reports, TOLERANCE)
            or recognised_idea(runs[:1], reports[:1], TOLERANCE)
            or symptom(reports, results)
        )
        idea = idea or ("empty_splits" if right == [True, False] else "")
        if all(right) and not idea:
            idea = "one_launch" if len(launches) < 2 else "no_splits" if not split else "per_head"
    texts = {"once": f"Each byte of K and V is read {times:.1f} times." if all(right) else ""}
    return marks(exercise, earned, reports, idea, texts)


def _times_read(run: Run, report: Report) -> float:
    """How often the request's pages are read, on average: loads of one launch by all its CTAs."""
    used = int((-(-run.truth.seq_lens // PAGE)).sum()) * PAGE * DIM * 2
    read = sum(sum(launch.get("pages", {}).get(name, [])) for launch in report["launches"] for name in "kv")
    return float(read / (2 * used))


EXERCISE = HostExercise(
    id="decode",
    title="Two kernels and their launches",
    file="two_stage_decode.py",
    function="decode",
    arch="sm_100a",
    runs=runs,
    judged=judged,
    criteria=(
        Criterion("long", 25, "requests of some hundred tokens"),
        Criterion("short", 15, "requests so short that some of their splits are empty"),
        Criterion("clean", 10, "no race between stages, nothing out of bounds (sanitizers)"),
        Criterion("split", 15, "two launches; the first has a program per request and split"),
        Criterion("once", 15, "K and V are read once for all heads (bytes on the emulator)"),
    ),
    ideas=(
        *(Idea(name, text) for name, (_, text) in WRONG.items() if name != "no_rope"),
        Idea("empty_splits", "A split without tokens must count nothing: its LSE is -inf, and 0 times NaN is NaN."),
        Idea("one_launch", "Two stages are two launches: partial results of all splits, then their merge."),
        Idea("no_splits", "The first stage has too few programs: one for each request and split."),
        Idea("per_head", "Every head reads K and V again: all heads share them, so load a tile once, for all heads."),
        *symptom_ideas(),
    ),
    hints=(
        Hint(
            "Stage 1: grid (requests, splits); each program has all heads: q is "
            "(HEADS, DIM), a tile of K (BLOCK, DIM).",
            4,
        ),
        Hint(
            "Stage 2 loads all splits' LSEs of a request, subtracts their maximum, and weighs the partial outputs.", 4
        ),
        Hint(
            "Mask with other=0.0 for K and V, float('-inf') for scores; where a split is empty its maximum is -inf.", 4
        ),
    ),
)


def _bytes(random: Random) -> tuple[str, Question]:
    requests, splits = random.randrange(2, 20), random.choice([4, 8, 16])
    return (
        f"{requests} requests, 16 heads of 128 dims, {splits} splits: how many bytes of "
        f"float32 partial outputs, without LSEs?",
        Question(lambda: requests * splits * 16 * 128 * 4, "{truth:,}.", "requests x splits x heads x dims x 4."),
    )


def _one_split(random: Random) -> int:
    return random.randrange(2, 20) * 16 * 128 * 4


LAB = Lab(
    id="09",
    name="two_stage_decode",
    title="A two-stage decode in Triton",
    goal="Split each request's KV over several programs, and merge their partial results in a second kernel.",
    minutes=90,
    exercises=(
        EXERCISE,
        AnswerExercise.of("09", Asked("partial_bytes", 5, _bytes, (("one", "Each split has a partial.", _one_split),))),
    ),
    needs=("triton", "torch"),
    reading=("notebooks/04_split_kv.ipynb", "notebooks/09_your_own_kernel.ipynb"),
)
