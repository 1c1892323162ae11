"""Grades as tables: the grade book, item statistics, the leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglab.labs.coursework import lab
from sglab.labs.store.export import table_text

from .grade import Grade
from .statistics import COLUMNS, item_statistics


def grade_book(grades: Sequence[Grade]) -> str:
    """A row per submission: points, each exercise's points, the ideas that were recognised, what went wrong."""
    header = ["student", "lab", "points", "of", "hints", "modelled us", "exercises", "ideas", "remark", "confined by"]
    rows: list[list[Any]] = [header]
    for each in grades:
        one = lab(each.lab)
        by_exercise: dict[str, float] = {}
        for name, criterion, mark in each.rows(one):
            by_exercise[name] = by_exercise.get(name, 0.0) + criterion.points * mark.share
        ideas = sorted({mark.idea for _, _, mark in each.rows(one) if mark.idea})
        rows.append(
            [
                *(each.student, each.lab, each.points, each.of, each.hint_cost),
                "" if each.modelled_ns is None else round(each.modelled_ns / 1000, 3),
                "; ".join(f"{name} {points:g}" for name, points in by_exercise.items()),
                " ".join(ideas),
                _remark(each),
                "; ".join(each.enforced),
            ]
        )
    return table_text(rows)


def statistics_table(grades: Sequence[Grade]) -> str:
    return table_text([COLUMNS, *item_statistics(grades)])


def leaderboard(grades: Sequence[Grade], number: str) -> list[tuple[int, str, float]]:
    """Rank, student and modelled µs of a ranked lab: only solutions with full marks, the fastest first; who is equally
    fast shares a rank."""
    times = sorted(
        (each.modelled_ns / 1000, each.student) for each in grades if each.lab == number and each.modelled_ns
    )
    return [(1 + sum(other < time for other, _ in times), student, time) for time, student in times]


def _remark(one: Grade) -> str:
    """The first reason why a whole exercise earned nothing, in one line."""
    reasons = list(one.problems)
    for name, rows in one.marks.items():
        if rows and all(row[1] == 0 for row in rows) and rows[0][2]:
            reasons.append(f"{name}: {' '.join(str(rows[0][2]).split())[:160]}")
    return "; ".join(reasons[:2])
