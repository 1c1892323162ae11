"""Lab 10: shared memory without bank conflicts and without padding."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CudaExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .kernel_marks import Report, clean, failure, marks, symptom, symptom_ideas, total

TILE_BYTES = 4096
FLOATS, CHUNKS = (32, 32), (32, 8, 4)
"""A tile of 32 x 32 floats; the same bytes as 32 rows of eight 16-byte chunks."""


def _run(random: np.random.Generator, entry: str, shape: tuple[int, ...], tiles: int) -> Run:
    x = random.standard_normal((tiles, *shape)).astype(np.float32)
    truth = x.swapaxes(1, 2)
    args = [{"buffer": "x"}, {"buffer": "out"}]
    launch = {"entry": entry, "grid": [tiles], "block": [256], "args": args}
    buffers = {"x": x, "out": np.full(truth.shape, np.nan, np.float32)}
    return Run(entry, buffers, ("out",), launch, options={"banks": True}, truth=truth)


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    (run,), (report,) = runs, reports
    out = report["buffers"]["out"]
    right = not failure(report) and bool((out == run.truth).all())
    shared = total(report, "shared_bytes")
    staged = right and shared >= TILE_BYTES and total(report, "shared_written") >= run.buffers["x"].nbytes
    passes, least = total(report, "passes"), total(report, "least_passes")
    free = staged and passes == least
    earned = {
        "right": right,
        "clean": staged and clean(reports),
        "free": free and shared <= TILE_BYTES,
        "half": staged and passes <= 2.5 * least and shared <= TILE_BYTES,
    }
    idea = "" if all(earned.values()) else _idea(run, report, right, staged, shared)
    text = f"{passes:.0f} passes through the banks where {least:.0f} would do; {shared:.0f} bytes of shared memory."
    return marks(exercise, earned, reports, idea, {"free": text, "half": text} if right else {})


def _idea(run: Run, report: Report, right: bool, staged: bool, shared: float) -> str:
    if right and not staged:
        return "direct"
    if right and shared > TILE_BYTES:
        return "padding"
    idea = symptom([report])
    if idea or failure(report):
        return idea
    out, passes, least = report["buffers"]["out"], total(report, "passes"), total(report, "least_passes")
    if right:
        return "linear" if passes > 4 * least else "some_bits" if passes > least else ""
    if (out == run.buffers["x"].reshape(out.shape)).all():
        return "copied"
    if np.isnan(out).any():
        return "" if np.isnan(out).all() else "part"
    return "one_side"


IDEAS = (
    Idea(
        "linear",
        "All lanes of a phase want the same banks: rows lie a multiple of 128 bytes apart. Permute within the rows.",
    ),
    Idea("some_bits", "Some conflicts are left: all bits of the row's number that matter must go into the place."),
    Idea(
        "padding",
        "Padding avoids conflicts, too, but TMA and wgmma know no padding, and it takes memory. Permute instead.",
    ),
    Idea(
        "one_side",
        "The place is computed differently when writing and when reading: both must use the same permutation.",
    ),
    Idea(
        "direct", "Without shared memory one side of the transpose is not coalesced: stage the tile in shared memory."
    ),
    Idea("copied", "This is a copy: rows and columns are not exchanged."),
    Idea("part", "A part of the tile is never written: 256 threads, how many elements does each have?"),
    *symptom_ideas(),
)


def _exercise(name: str, title: str, shape: tuple[int, ...], hints: tuple[Hint, ...]) -> CudaExercise:
    return CudaExercise(
        id=name,
        title=title,
        file=f"{name}.cu",
        arch="sm_90a",
        runs=lambda random: [_run(random, name, shape, 2)],
        judged=judged,
        criteria=(
            Criterion("right", 10, "the tile is transposed"),
            Criterion("clean", 5, "through shared memory, without a race"),
            Criterion("half", 10, "few bank conflicts, in 4096 bytes"),
            Criterion("free", 20, "no bank conflict at all, in 4096 bytes"),
        ),
        ideas=IDEAS,
        hints=hints,
    )


def _place(random: Random) -> tuple[str, Question]:
    row, chunk = random.randrange(9, 31), random.randrange(1, 8)
    return (
        f"With the 128-byte swizzle, at which place of its row is chunk {chunk} of row {row}?",
        Question(lambda: chunk ^ row % 8, "{truth} = chunk ^ (row mod 8).", "Exclusive or, with the row modulo 8."),
    )


def _sum(random: Random) -> int:
    row, chunk = random.randrange(9, 31), random.randrange(1, 8)
    return (row + chunk) % 8


LAB = Lab(
    id="10",
    name="swizzle",
    title="A swizzle without bank conflicts",
    goal="Transpose tiles through shared memory without a single bank conflict and without a byte of padding.",
    minutes=45,
    exercises=(
        _exercise(
            "transpose",
            "Floats",
            FLOATS,
            (
                Hint("Element (row, column) may lie at any place of its row, as long as writing and reading agree.", 2),
                Hint("tile[row][column ^ row]: the 32 elements of a column are then in 32 banks.", 6),
            ),
        ),
        _exercise(
            "chunks",
            "Chunks of 16 bytes",
            CHUNKS,
            (
                Hint(
                    "A warp's 16-byte access takes four phases of eight lanes: eight rows' chunks need eight places.", 2
                ),
                Hint("tile[row][chunk ^ row % 8], TMA's 128-byte swizzle.", 6),
            ),
        ),
        AnswerExercise.of(
            "10", Asked("place", 5, _place, (("sum", "Exclusive or, not a sum: it undoes itself.", _sum),))
        ),
    ),
    needs=("nvcc",),
    reading=("notebooks/07_shared_memory.ipynb",),
)
