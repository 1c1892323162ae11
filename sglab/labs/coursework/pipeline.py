"""Lab 11: a pipeline of copies, first with cp.async, then with TMA and mbarriers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CudaExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .kernel_marks import Report, clean, close, executed, failure, marks, symptom, symptom_ideas, total, unwritten

ROWS, COLUMNS, TILES, FASTER = 16, 64, 24, 0.75


def _run(random: np.random.Generator, entry: str, tiles: int, threads: int, by_map: bool) -> Run:
    x = random.standard_normal((tiles * ROWS, COLUMNS)).astype(np.float32)
    source: dict[str, Any] = {"map": "x", "box": [ROWS, COLUMNS]} if by_map else {"buffer": "x"}
    args = [source, {"buffer": "out"}, tiles]
    launch = {"entry": entry, "grid": [1], "block": [threads], "args": args}
    buffers = {"x": x, "out": np.zeros(COLUMNS, np.float32)}
    return Run(f"{tiles} tiles", buffers, ("out",), launch, options={"timed": "sm_90a"}, truth=x.astype(float).sum(0))


def _runs(entry: str, threads: int, by_map: bool) -> Any:
    return lambda random: [_run(random, entry, tiles, threads, by_map) for tiles in (TILES, 1, 5)]


def _right(runs: Sequence[Run], reports: Sequence[Report]) -> list[bool]:
    pairs = zip(runs, reports, strict=True)
    return [not failure(report) and close(report["buffers"]["out"], run.truth, 1e-4) for run, report in pairs]


def judged_async(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    right = _right(runs, reports)
    copies = executed(reports[0], "cp.async.c")  # .ca or .cg
    staged = all(right) and copies * 32 * 16 >= runs[0].buffers["x"].nbytes
    time, given = total(reports[0], "modelled_ns"), total(reports[0]["given"], "modelled_ns")
    fast = staged and time <= FASTER * given
    earned = {"right": sum(right) / 3, "clean": all(right) and clean(reports), "copies": staged, "overlap": fast}
    idea = ""
    if not all(share == 1 for share in earned.values()):
        idea = symptom(reports) if any(map(failure, reports)) or not clean(reports) else ""
        idea = idea or _sums(runs, reports)
        idea = idea or ("" if not all(right) else "not_async" if not staged else "no_overlap")
    text = f"{time / 1000:.2f} us modelled, the given kernel {given / 1000:.2f}; at most {FASTER:.0%} of that."
    return marks(exercise, earned, reports, idea, {"overlap": text if all(right) else ""})


def judged_mbarrier(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    right = _right(runs, reports)
    phases = int(total(reports[0], "mbarrier_phases"))
    loads = executed(reports[0], "cp.async.bulk.tensor")
    staged = all(right) and loads >= TILES
    pipelined = staged and phases >= 2 * TILES - 8
    time, given = total(reports[0], "modelled_ns"), total(reports[0]["given"], "modelled_ns")
    earned = {
        "right": sum(right) / 3,
        "clean": all(right) and clean(reports),
        "phases": pipelined,
        "overlap": pipelined and time <= FASTER * given,
    }
    idea = ""
    if not all(share == 1 for share in earned.values()):
        idea = symptom(reports) if any(map(failure, reports)) or not clean(reports) else ""
        idea = idea or _sums(runs, reports)
        idea = idea or (
            "" if not all(right) else "not_bulk" if not staged else "no_empty" if not pipelined else "no_overlap"
        )
    summary = f"{phases} phases of mbarriers ended over {TILES} tiles."
    text = f"{time / 1000:.2f} us modelled, the given kernel {given / 1000:.2f}; at most {FASTER:.0%} of that."
    return marks(exercise, earned, reports, idea, {"phases": summary, "overlap": text} if all(right) else {})


def _sums(runs: Sequence[Run], reports: Sequence[Report]) -> str:
    """What wrong sums tell, where all runs came to their end."""
    if any(map(failure, reports)):
        return ""
    if unwritten(runs, reports):
        return "nothing"
    conclusions = (
        ("last_tile", lambda x, n: x[: (n - 1) * ROWS].sum(0)),
        ("first_tile", lambda x, n: x[ROWS:].sum(0)),
        ("half_rows", lambda x, n: x.reshape(n, ROWS, COLUMNS)[:, ::2].sum((0, 1))),
        ("half_rows", lambda x, n: x.reshape(n, ROWS, COLUMNS)[:, 1::2].sum((0, 1))),
        ("same_tile", lambda x, n: x[:ROWS].sum(0) * n),
    )
    for name, wrong in conclusions:
        if all(
            close(report["buffers"]["out"], wrong(run.buffers["x"].astype(float), len(run.buffers["x"]) // ROWS), 1e-3)
            for run, report in zip(runs, reports, strict=True)
        ):
            return name
    return ""


SUMS = (
    Idea(
        "last_tile", "The last tile is missing: what was loaded must also be summed after the loop of loads has ended."
    ),
    Idea("first_tile", "The first tile is missing: the sum begins with tile 0."),
    Idea("half_rows", "Only every second row counts: a column has two threads, and both sums go into out."),
    Idea("same_tile", "Every tile is tile 0: the address must move on."),
)
ASYNC = CudaExercise(
    id="cp_async",
    title="With cp.async",
    file="cp_async.cu",
    given="11_pipeline/given.cu",
    runs=_runs("sum_columns", 128, by_map=False),
    judged=judged_async,
    criteria=(
        Criterion("right", 10, "the sums, of 1, 5 and 24 tiles"),
        Criterion("clean", 10, "no race, no copy read before it has come (sanitizers)"),
        Criterion("copies", 10, "all of x comes by cp.async, 16 bytes per thread"),
        Criterion("overlap", 15, f"modelled time at most {FASTER:.0%} of the given kernel's: copies and sums overlap"),
    ),
    ideas=(
        *SUMS,
        Idea("not_async", "The tiles do not come by cp.async: plain loads keep their thread waiting."),
        Idea(
            "no_overlap",
            "You wait for each tile right after asking for it: keep further groups in flight (wait_group N, N > 0).",
        ),
        *symptom_ideas(),
    ),
    hints=(
        Hint("Ask for kStages - 1 tiles before the loop; in the loop ask for one more, then wait for the oldest.", 3),
        Hint(
            "Commit a group per tile, empty ones at the end, too: then wait_group<kStages - 1> always means the same.",
            5,
        ),
        Hint(
            "Two barriers per tile: after the wait (all threads' copies are there), "
            "and after the sum (the stage is free).",
            5,
        ),
    ),
)
MBARRIER = CudaExercise(
    id="mbarrier",
    title="With TMA and mbarriers",
    file="mbarrier.cu",
    given="11_pipeline/given_map.cu",
    runs=_runs("sum_columns", 160, by_map=True),
    judged=judged_mbarrier,
    criteria=(
        Criterion("right", 10, "the sums, of 1, 5 and 24 tiles"),
        Criterion("clean", 10, "no race, no fence missing (sanitizers)"),
        Criterion("phases", 15, "every tile comes by TMA; full and empty change their phase with every tile"),
        Criterion("overlap", 10, f"modelled time at most {FASTER:.0%} of the given kernel's"),
    ),
    ideas=(
        *SUMS,
        Idea("not_bulk", "The tiles do not come by TMA."),
        Idea(
            "no_empty",
            "Stages are given back by a CTA barrier, or not at all: a second mbarrier per stage says that it is empty.",
        ),
        Idea("no_overlap", "With one stage the load waits for the sums and the sums for the load."),
        *symptom_ideas(),
    ),
    hints=(
        Hint("full: one arrival, with expect_tx of the tile's bytes. empty: one arrival per summing warp.", 3),
        Hint("In round r of a stage: wait for full with parity r & 1, for empty with (r & 1) ^ 1.", 5),
        Hint("__syncwarp() before a lane arrives at empty for its warp: all lanes have read.", 3),
    ),
)


def _stages(random: Random) -> tuple[str, Question]:
    tile, limit = random.choice([16, 24, 32]), 227
    return (
        f"A tile takes {tile} KiB, and a CTA may have {limit} KiB of shared memory. How many stages fit?",
        Question(lambda: limit // tile, "{truth}.", "Whole tiles only."),
    )


LAB = Lab(
    id="11",
    name="pipeline",
    title="A cp.async pipeline, then one of mbarriers",
    goal="Keep copies in flight while a tile is being summed: with cp.async groups, "
    "then with TMA and full/empty mbarriers.",
    minutes=90,
    exercises=(
        ASYNC,
        MBARRIER,
        AnswerExercise.of(
            "11",
            Asked(
                "stages",
                5,
                _stages,
                (("up", "What does not fit whole is no stage.", lambda r: 227 // r.choice([16, 24, 32]) + 1),),
            ),
        ),
    ),
    needs=("nvcc",),
    reading=("notebooks/07_shared_memory.ipynb", "notebooks/10_pipelines.ipynb"),
)
