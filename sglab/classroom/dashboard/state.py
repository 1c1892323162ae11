"""What the dashboard shows, computed from records: plain data, for a page or a test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sglab.labs.coursework import lab, labs
from sglab.labs.lab import Lab
from sglab.labs.store import Record

STUCK_CHECKS = 4
"""Checks of a lab in a row that earned nothing new, after which a student is shown as stuck."""
STUCK_SECONDS = 3600
"""…the last of them no longer ago than this."""


@dataclass(frozen=True)
class Seat:
    """What the hub knows of a student's server.

    Attributes:
        running: whether it runs.
        last_activity: seconds since 1970; None where there was none.
        documents: notebooks that are open.
        busy: whether a kernel computes.
        memory, memory_limit: bytes in use by all processes, page cache included, and at most; None where unknown.
    """

    running: bool = False
    last_activity: float | None = None
    documents: tuple[str, ...] = ()
    busy: bool = False
    memory: int | None = None
    memory_limit: int | None = None


@dataclass
class _Progress:
    best: float = 0.0
    checks: int = 0
    fruitless: int = 0
    submitted: bool = False
    hints: int = 0
    last: Record | None = None
    marks: dict[str, dict[str, list[Any]]] = field(default_factory=dict)


def class_state(records: Mapping[str, Sequence[Record]], seats: Mapping[str, Seat], now: float) -> dict[str, Any]:
    """Everything that the page shows.

    Args:
        records: of each student, in order.
        seats: of the same students.
        now: seconds since 1970.

    Returns:
        `labs` (those that a student has begun), `students` (where each is), `ideas` (wrong ideas that students have
        now, the commonest first), `criteria` (what the fewest get right), `totals`.
    """
    progress = {name: _progress(of) for name, of in records.items()}
    begun = sorted({number for of in progress.values() for number in of})
    students = [_student(name, progress[name], seats.get(name, Seat()), now) for name in sorted(records)]
    return {
        "now": now,
        "labs": [{"id": one.id, "title": one.title, "points": one.points} for one in labs() if one.id in begun],
        "students": students,
        "ideas": _ideas(progress),
        "criteria": _criteria(progress),
        "totals": {
            "students": len(students),
            "running": sum(each["running"] for each in students),
            "busy": sum(each["busy"] for each in students),
            "stuck": sum(each["stuck"] for each in students),
            "checks": sum(each.checks for of in progress.values() for each in of.values()),
            "submitted": sum(each.submitted for of in progress.values() for each in of.values()),
        },
    }


def _progress(records: Sequence[Record]) -> dict[str, _Progress]:
    """By lab. What a student's file says is taken only where it has the right form."""
    found: dict[str, _Progress] = defaultdict(_Progress)
    for record in records:
        try:
            one = lab(record.lab)
        except ValueError:
            continue
        now = found[one.id]
        now.last = record
        if record.kind == "check":
            points = min(_number(record.data.get("points")), one.points)
            now.checks += 1
            now.fruitless = 0 if points > now.best or points == one.points else now.fruitless + 1
            now.best = max(now.best, points)
            now.marks = _marks(one, record.data.get("marks"))
        elif record.kind == "attempt":
            now.submitted, now.fruitless = True, 0
        elif record.kind == "hint":
            now.hints += 1
    return dict(found)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and value == value and value >= 0 else 0.0


def _marks(one: Lab, given: Any) -> dict[str, dict[str, list[Any]]]:
    """Share and idea by exercise and criterion of the lab; others are left out."""
    marks: dict[str, dict[str, list[Any]]] = {}
    for exercise in one.exercises:
        rows = given.get(exercise.id) if isinstance(given, dict) else None
        for criterion in exercise.criteria:
            row = rows.get(criterion.id) if isinstance(rows, dict) else None
            if isinstance(row, list) and len(row) == 2:
                marks.setdefault(exercise.id, {})[criterion.id] = [min(1.0, _number(row[0])), str(row[1])]
    return marks


def _student(name: str, progress: Mapping[str, _Progress], seat: Seat, now: float) -> dict[str, Any]:
    latest = max(
        (each.last for each in progress.values() if each.last is not None), key=lambda record: record.when, default=None
    )
    at = progress[lab(latest.lab).id] if latest is not None else _Progress()
    recent = latest is not None and now - latest.when < STUCK_SECONDS
    return {
        "name": name,
        "running": seat.running,
        "busy": seat.busy,
        "documents": list(seat.documents),
        "idle_seconds": None if seat.last_activity is None else max(0.0, now - seat.last_activity),
        "memory": seat.memory,
        "memory_limit": seat.memory_limit,
        "lab": lab(latest.lab).id if latest is not None else None,
        "did": latest.kind if latest is not None else None,
        "ago": None if latest is None else max(0.0, now - latest.when),
        "stuck": recent and at.fruitless >= STUCK_CHECKS,
        "fruitless": at.fruitless,
        "labs": {
            number: {
                "points": each.best,
                "checks": each.checks,
                "hints": each.hints,
                "submitted": each.submitted,
            }
            for number, each in progress.items()
        },
    }


def _latest_marks(progress: Mapping[str, Mapping[str, _Progress]]) -> Iterator[tuple[str, str, str, str, float, str]]:
    """Student, lab, exercise, criterion, share and idea of each student's latest check of each lab."""
    for student, of in progress.items():
        for number, each in of.items():
            for exercise, rows in each.marks.items():
                for criterion, (share, idea) in rows.items():
                    yield student, number, exercise, criterion, share, idea


def _ideas(progress: Mapping[str, Mapping[str, _Progress]]) -> list[dict[str, Any]]:
    """Wrong ideas in the latest checks, with the feedback that those who have them were given."""
    who: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for student, number, exercise, _, share, idea in _latest_marks(progress):
        if idea and share < 1:
            who[number, exercise, idea].add(student)
    found = []
    for (number, exercise, idea), students in who.items():
        known = lab(number)[exercise]
        if feedback := known.feedback_of(idea):
            found.append(
                {"lab": number, "exercise": exercise, "title": known.title, "idea": idea, "feedback": feedback}
                | {"students": sorted(students)}
            )
    return sorted(found, key=lambda row: (-len(row["students"]), row["lab"], row["exercise"], row["idea"]))


def _criteria(progress: Mapping[str, Mapping[str, _Progress]]) -> list[dict[str, Any]]:
    """Criteria that not all have fully: mean share of those who checked, and how many have nothing; hardest first."""
    shares: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _, number, exercise, criterion, share, _ in _latest_marks(progress):
        shares[number, exercise, criterion].append(share)
    found = []
    for (number, exercise, name), values in shares.items():
        if min(values) < 1:
            row_of = next(each for each in lab(number)[exercise].criteria if each.id == name)
            found.append(
                {"lab": number, "exercise": exercise, "criterion": name, "text": row_of.text}
                | {"mean": sum(values) / len(values), "none": sum(share == 0 for share in values), "of": len(values)}
            )
    return sorted(found, key=lambda row: (row["mean"], -row["of"], row["lab"]))
