"""Lab 14: ten kernels, each with one bug, to be found and mended."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CudaExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .kernel_marks import SYMPTOMS, Report, clean, close, failure, said, symptom

Make = Callable[[np.random.Generator], tuple[dict[str, Any], list[Any], int, Any]]
"""Buffers, plain arguments after them, threads, and the truth of `out`."""


def _out(size: int) -> Any:
    return np.zeros(size, np.float32)


def _floats(random: np.random.Generator, *shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


def reverse(random: np.random.Generator) -> Any:
    x = _floats(random, 256)
    return {"x": x, "out": _out(256)}, [], 256, x[::-1]


def double(random: np.random.Generator) -> Any:
    n = int(random.integers(200, 250))
    x = _floats(random, n)
    return {"x": x, "out": _out(n)}, [n], 128, 2 * x


def lse(random: np.random.Generator) -> Any:
    x = _floats(random, 32) * 3
    return {"x": x, "out": _out(1)}, [], 32, np.array([math.log2(np.exp2(x.astype(float)).sum())])


def merge(random: np.random.Generator) -> Any:
    state = _floats(random, 64, 4)  # o_a, lse_a, o_b, lse_b per row
    state[::4, 1] = state[::4, 3] = -np.inf
    state[::4, 0] = state[::4, 2] = 0
    state[1::4, 1], state[1::4, 0] = -np.inf, 0
    a, b = np.exp2(state[:, 1].astype(float)), np.exp2(state[:, 3].astype(float))
    total = a + b
    truth = np.where(total > 0, (a * state[:, 0] + b * state[:, 2]) / np.where(total > 0, total, 1), 0)
    return {"x": state, "out": _out(64)}, [], 64, truth


def paged(random: np.random.Generator) -> Any:
    pages = random.permutation(8).astype(np.int32)
    x = _floats(random, 8 * 8)
    truth = x.reshape(8, 8)[pages].reshape(-1)
    return {"x": x, "pages": pages, "out": _out(64)}, [], 32, truth


def empty(random: np.random.Generator) -> Any:
    lens = np.array([int(random.integers(1, 9)), 0, int(random.integers(1, 9))], np.int32)
    x = _floats(random, 3, 8, 32)
    truth = np.stack([x[i, : int(n)].sum(0) for i, n in enumerate(lens)])
    return {"x": x, "lens": lens, "out": _out(96).reshape(3, 32)}, [], 64, truth


def ring(random: np.random.Generator) -> Any:
    tiles = int(random.integers(5, 9))
    x = _floats(random, tiles, 32)
    return {"x": x, "out": _out(32)}, [tiles], 64, x.sum(0)


def total(random: np.random.Generator) -> Any:
    n = int(random.integers(70, 120))
    x = _floats(random, n)
    return {"x": x, "out": _out(1)}, [n], 128, np.array([x.astype(float).sum()])


def staged(random: np.random.Generator) -> Any:
    x = _floats(random, 4, 128)
    return {"x": x, "out": _out(512).reshape(4, 128)}, [], 32, x[:, ::-1]


def bulk(random: np.random.Generator) -> Any:
    x = _floats(random, 256)
    return {"x": x, "out": _out(256)}, [], 256, x * x


BUGS: dict[str, tuple[Make, str]] = {
    "reverse": (reverse, "A thread reads what another one has written. Who says that it has been written by then?"),
    "double_it": (double, "Which threads of the last CTA have an element?"),
    "lse": (lse, "No sanitizer speaks. Take x = 0 everywhere: what should come out of 32 zeros, and what does?"),
    "merge": (merge, "Some rows are right. What have those in common that are not?"),
    "paged": (paged, "Some tokens are right. Fill each page with its own number, and see which pages out comes from."),
    "empty": (empty, "One of three CTAs hangs. How many rows has its request?"),
    "ring": (ring, "Run it with 1, 2, 3, 4 tiles: from which one on is it wrong, and what is new in that round?"),
    "total": (total, "Compare how many threads come to the barrier with how many it waits for."),
    "staged": (
        staged,
        "When the first row is read, which groups are committed, and which may still be on the way?",
    ),
    "bulk": (bulk, "All threads are in order. But who reads shared memory at last is no thread."),
}
GRIDS = {"double_it": 2, "empty": 3, "paged": 2}


def runs(random: np.random.Generator) -> list[Run]:
    made = []
    for name, (make, _) in BUGS.items():
        buffers, plain, threads, truth = make(random)
        args = [*({"buffer": each} for each in buffers), *plain]
        launch = {"entry": name, "grid": [GRIDS.get(name, 1)], "block": [threads], "args": args}
        made.append(Run(name, buffers, ("out",), launch, options={"most_instructions": 60_000}, truth=truth))
    return made


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    out = []
    for run, report in zip(runs, reports, strict=True):
        right = not failure(report) and close(report["buffers"]["out"], run.truth, 1e-4)
        if right and clean([report]):
            out.append(Mark(run.name, 1.0))
            continue
        seen = symptom([report], [] if failure(report) else [report["buffers"]["out"]])
        result = "" if right or failure(report) else "The result is wrong. "
        text = f"{result}{SYMPTOMS.get(seen, '')} {said([report])[:500]}".strip()
        out.append(Mark(run.name, 0.0, f"{exercise.feedback_of(run.name)} {text}", run.name))
    return out


EXERCISE = CudaExercise(
    id="bugs",
    title="Ten bugs",
    file="bugs.cu",
    arch="sm_90a",
    runs=runs,
    judged=judged,
    criteria=tuple(Criterion(name, 9, f"{name} is mended: right, and the sanitizers find nothing") for name in BUGS),
    ideas=tuple(Idea(name, text) for name, (_, text) in BUGS.items()),
    hints=(
        Hint("sglab.step(sglab.cuda('bugs.cu')['reverse'][1, 256], x, out).run().findings names line and kind.", 2),
        Hint("Two of them hang: session.run() in the debugger says who waits for what.", 3),
        Hint(
            "No sanitizer finds four: lse is scaled by log2(e) once too often, merge subtracts -inf from -inf, paged "
            "looks one page up for 32 tokens, ring waits for the same parity in every round.",
            6,
        ),
        Hint(
            "reverse lacks a barrier, double_it a comparison with n, empty a test before its first wait; total's "
            "barrier expects 128 threads where 64 come, staged lets one group too many be on the way, bulk "
            "lacks fence.proxy.async.",
            10,
        ),
    ),
)


def _race(random: Random) -> tuple[str, Question]:
    name = random.choice(["reverse", "total"])
    lines = {"reverse": "a missing barrier", "total": "a wrong count of threads"}
    return (
        f"What is wrong with the kernel {name}? One of these texts:\n"
        f"  'a missing barrier', 'a wrong count of threads', 'a wrong parity'",
        Question(lambda: lines[name], "{truth}.", "Run it with sanitize=True."),
    )


LAB = Lab(
    id="14",
    name="ten_bugs",
    title="Find and mend ten bugs",
    goal="Find races, a hang, a stale page, a wrong phase and six others with the "
    "sanitizers and the debugger, and mend them.",
    minutes=120,
    exercises=(EXERCISE, AnswerExercise.of("14", Asked("what", 5, _race))),
    needs=("nvcc",),
    reading=("notebooks/11_find_the_bug.ipynb", "notebooks/25_attention_bugs.ipynb", "docs/debug-your-kernel.md"),
)
