"""What the test cells of exported labs call: the share of a criterion that the files in this folder earn."""

from __future__ import annotations

import os
import secrets
from functools import cache
from pathlib import Path

from sglab.labs.coursework import lab
from sglab.labs.lab import Mark, seed_of
from sglab.labs.sandbox import Sandbox

STUDENT = "everyone"
"""Whose questions an exported lab asks: a grader that hands out one notebook has one set of numbers."""
SECRET = "SGLAB_LABS_SECRET"
"""The environment variable that seeds the inputs, so that a grading can be repeated; without it they are fresh."""


def share(number: str, exercise: str, criterion: str) -> float:
    """The share of a criterion, 0 to 1. Each exercise is judged once per state of its file, in processes of its own.

    Raises:
        ValueError: there is no such lab, exercise or criterion.
    """
    mark = _mark(number, exercise, criterion)
    if mark.feedback and mark.share < 1:
        print(mark.feedback)
    return mark.share


def points(number: str, exercise: str, criterion: str) -> float:
    """The points of a criterion that these files earn; prints what the student should read."""
    of = next(each.points for each in lab(number)[exercise].criteria if each.id == criterion)
    return round(share(number, exercise, criterion) * of, 2)


def _mark(number: str, exercise: str, criterion: str) -> Mark:
    one = lab(number)
    if exercise not in (each.id for each in one.exercises):
        raise ValueError(f"exercise: lab {number} has none called {exercise!r}")
    file = Path(one[exercise].file)
    source = file.read_text("utf-8") if file.is_file() else None
    for mark in _judged(one.id, exercise, source):
        if mark.criterion == criterion:
            return mark
    raise ValueError(f"criterion: exercise {exercise} of lab {number} has none called {criterion!r}")


@cache
def _judged(number: str, exercise: str, source: str | None) -> tuple[Mark, ...]:
    one = lab(number)
    secret = os.environ.get(SECRET) or secrets.token_hex(16)
    sources = {} if source is None else {one[exercise].file: source}
    outcomes = one.judge(sources, seed_of(secret, number, exercise), Sandbox(), seed_of(number, STUDENT), [exercise])
    return outcomes[exercise].marks
