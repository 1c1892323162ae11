"""Lab 13: one tile on Hopper's tensor cores: swizzled operands, descriptors, wgmma."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CudaExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .kernel_marks import Report, clean, close, executed, failure, marks, symptom, symptom_ideas, unwritten

N = 64


def _run(random: np.random.Generator, name: str) -> Run:
    a, b = (random.standard_normal((N, N)).astype(np.float16) for _ in range(2))
    buffers = {"a": a, "b": b, "d": np.full((N, N), np.nan, np.float32)}
    launch = {"entry": "tile", "grid": [1], "block": [128], "args": [{"buffer": each} for each in buffers]}
    return Run(name, buffers, ("d",), launch, truth=(a.astype(float), b.astype(float)))


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    right = [
        not failure(report) and close(report["buffers"]["d"], run.truth[0] @ run.truth[1].T, 1e-3)
        for run, report in zip(runs, reports, strict=True)
    ]
    products = executed(reports[0], "wgmma.mma_async") // 4  # of four warps each
    earned: dict[str, bool | float] = {
        "right": all(right),
        "wgmma": all(right) and products == N // 16,
        "clean": all(right) and products > 0 and clean(reports),
    }
    idea = ""
    if not all(earned.values()):
        silent = unwritten(runs, reports) and not _aborted(reports)
        idea = "nothing" if silent else _wrong(runs, reports) or symptom(reports)
        idea = idea or ("no_wgmma" if all(right) and products != N // 16 else "" if _untouched(reports) else "layout")
    count = f"{products} wgmma of the warpgroup; {N // 16} are needed."
    return marks(exercise, earned, reports, idea, {"wgmma": count} if products != N // 16 else {})


def _untouched(reports: Sequence[Report]) -> bool:
    return any(failure(r) or np.isnan(r["buffers"]["d"]).all() for r in reports)


_RESULTS: dict[str, Any] = {
    "b_transposed": lambda a, b: a @ b,
    "d_transposed": lambda a, b: b @ a.T,
    "last_step": lambda a, b: a[:, 48:] @ b[:, 48:].T,
    "first_step": lambda a, b: a[:, :16] @ b[:, :16].T,
    "same_step": lambda a, b: 4 * (a[:, :16] @ b[:, :16].T),
}


def _aborted(reports: Sequence[Report]) -> bool:
    """Whether reading the accumulator too early is why nothing was written: the emulator ends such a launch."""
    return symptom(reports) == "missing_wgmma_wait"


def _wrong(runs: Sequence[Run], reports: Sequence[Report]) -> str:
    if any(map(failure, reports)):
        return ""
    for name, made in _RESULTS.items():
        if all(close(r["buffers"]["d"], made(*run.truth), 1e-3) for run, r in zip(runs, reports, strict=True)):
            return name
    if any(_bands(run, report) for run, report in zip(runs, reports, strict=True)):
        return "fragment"
    return ""


def _bands(run: Run, report: Report) -> bool:
    """Whether all the right numbers are there, in wrong places or more than once."""
    right, given = run.truth[0] @ run.truth[1].T, report["buffers"]["d"].astype(float)
    if np.isnan(given).all():
        return False
    known = np.sort(right.reshape(-1))
    shown = given[~np.isnan(given)]
    near = np.clip(np.searchsorted(known, shown), 1, len(known) - 1)
    apart = np.minimum(np.abs(known[near] - shown), np.abs(known[near - 1] - shown))
    return bool((apart < 1e-3).mean() > 0.98) and not close(given, right, 1e-3)


EXERCISE = CudaExercise(
    id="tile",
    title="A 64 × 64 × 64 product by wgmma",
    file="tensor_tile.cu",
    arch="sm_90a",
    runs=lambda random: [_run(random, "one"), _run(random, "two")],
    judged=judged,
    criteria=(
        Criterion("right", 40, "D = A Bᵀ in float32"),
        Criterion("wgmma", 15, "by four wgmma of the warpgroup, one per 16 columns of K"),
        Criterion("clean", 15, "no fence and no wait is missing (sanitizers)"),
    ),
    ideas=(
        Idea("b_transposed", "This is A B, not A Bᵀ: B lies K-major, row n of B is column n of the result."),
        Idea("d_transposed", "Rows and columns of D are exchanged, or A and B are."),
        Idea("last_step", "Only the last 16 columns of K count: all but the first wgmma must accumulate."),
        Idea("first_step", "Only the first 16 columns of K count: four wgmma are needed for 64."),
        Idea(
            "same_step",
            "All four wgmma read the same 16 columns: advance both descriptors by 32 bytes (2 in units of 16).",
        ),
        Idea(
            "fragment",
            "The products are right, their places are not: warp w has rows 16 w on; lane and register say the rest.",
        ),
        Idea(
            "layout",
            "Nothing fits: does the store follow the 128-byte swizzle, and does the "
            "descriptor say 1024 bytes per 8 rows?",
        ),
        Idea("no_wgmma", "The tensor cores are to do this, with four wgmma."),
        *symptom_ideas(),
    ),
    hints=(
        Hint("Row r of a K-major tile is 128 bytes; its 16-byte chunk c lies at place c ^ (r % 8) of the row.", 4),
        Hint("smem_descriptor(address + 32 * k, 0, 1024) for step k: 8 rows of 128 bytes are 1024.", 4),
        Hint("d[i]: row 16 * warp + lane / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + lane % 4 * 2 + i % 2.", 4),
    ),
)


def _flops(random: Random) -> tuple[str, Question]:
    n = random.choice([64, 128, 256])
    return (
        f"How many floating-point operations (an addition or a multiplication each) does one wgmma m64n{n}k16 do?",
        Question(lambda: 2 * 64 * n * 16, "{truth:,}.", "A product and a sum for each of m x n x k."),
    )


LAB = Lab(
    id="13",
    name="tensor_tile",
    title="A wgmma tile",
    goal="Multiply two 64 × 64 tiles on tensor cores: swizzle the operands, write the "
    "descriptors, fence, issue, wait, store.",
    minutes=90,
    exercises=(
        EXERCISE,
        AnswerExercise.of(
            "13",
            Asked(
                "operations",
                5,
                _flops,
                (("half", "Count additions, too.", lambda r: 64 * r.choice([64, 128, 256]) * 16),),
            ),
        ),
    ),
    needs=("nvcc",),
    reading=("notebooks/07_shared_memory.ipynb", "notebooks/14_tensor_cores.ipynb"),
)
