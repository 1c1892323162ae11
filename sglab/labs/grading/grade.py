"""Grades of many submissions: several at a time, what was graded before is kept, nothing of one disturbs another."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglab.labs.coursework import lab
from sglab.labs.lab import Criterion, Lab, Mark, Outcome, seed_of, total
from sglab.labs.sandbox import Bench
from sglab.scale.cluster import executor_of, was_lost

from .submissions import Submission


@dataclass(frozen=True)
class Grade:
    """What a submission got.

    Attributes:
        points: after hints, at least 0.
        marks: by exercise, as [criterion, share, feedback, idea].
        timelines: pages of kernels' launches by exercise; not kept from one grading to the next.
        modelled_ns: for the leaderboard, or None.
        enforced: what held the submission's processes.
    """

    student: str
    lab: str
    digest: str
    points: float
    of: float
    hint_cost: float
    marks: dict[str, list[list[Any]]]
    printed: dict[str, str]
    enforced: list[str]
    seconds: float
    modelled_ns: float | None = None
    problems: list[str] = field(default_factory=list)
    timelines: dict[str, str] = field(default_factory=dict)

    def rows(self, lab: Lab) -> Iterator[tuple[str, Criterion, Mark]]:
        """Exercise, criterion and mark, in the rubric's order."""
        for exercise in lab.exercises:
            for criterion, row in zip(exercise.criteria, self.marks[exercise.id], strict=True):
                yield exercise.id, criterion, Mark(row[0], row[1], row[2], row[3])


def hint_cost(lab: Lab, hints: Mapping[str, int]) -> float:
    """Points that the hints take: every level up to the one that was read."""
    return sum(hint.cost for name, level in hints.items() for hint in lab[name].hints[:level])


def grade(one: Submission, bench: Bench, secret: str) -> Grade:
    """Judges a submission.

    Args:
        secret: of the grader: with it no student knows the inputs beforehand.
    """
    began = time.monotonic()
    seed = seed_of(secret, one.lab.id, one.student)
    outcomes = one.lab.judge(one.sources, seed, bench, seed_of(one.lab.id, one.student))
    cost = hint_cost(one.lab, one.hints)
    ranks = [outcome.modelled_ns for outcome in outcomes.values() if outcome.modelled_ns is not None]
    return Grade(
        student=one.student,
        lab=one.lab.id,
        digest=one.digest,
        points=max(0.0, total(one.lab, outcomes) - cost),
        of=one.lab.points,
        hint_cost=cost,
        marks={name: _rows(outcome) for name, outcome in outcomes.items()},
        printed={name: outcome.printed for name, outcome in outcomes.items() if outcome.printed},
        enforced=sorted({each for outcome in outcomes.values() for each in outcome.enforced}),
        seconds=time.monotonic() - began,
        modelled_ns=min(ranks, default=None),
        problems=list(one.problems),
        timelines={name: outcome.timeline for name, outcome in outcomes.items() if outcome.timeline},
    )


def _rows(outcome: Outcome) -> list[list[Any]]:
    return [[mark.criterion, mark.share, mark.feedback, mark.idea] for mark in outcome.marks]


def grade_all(
    submissions: Sequence[Submission],
    bench: Bench,
    secret: str,
    journal: Path,
    jobs: int = 1,
    graded: Callable[[Grade, int, int], None] = lambda grade, done, of: None,
    scheduler: str | None = None,
) -> list[Grade]:
    """Grades them all, in their order.

    Args:
        journal: a line per grade; what it holds of an earlier grading with the same secret, unchanged since, is not
            graded again.
        jobs: submissions at a time.
        graded: is called after each, with how many are done of how many.
        scheduler: of Dask: "local" for `jobs` worker processes here, or an address; None: threads of this process, each
            of which waits for the processes of one submission. A worker that dies loses nothing: its submission goes to
            another; one that kills every worker gets no points, and is graded again next time.

    Raises:
        ImportError: a scheduler is named, and Dask is missing.
        ValueError: no scheduler answers.
    """
    salt = f"{seed_of(secret, 'journal'):x}"
    known = {(each.student, each.lab, each.digest): each for each in _journal(journal, salt)}
    found: dict[int, Grade] = {}
    workers: AbstractContextManager[Executor] = executor_of(scheduler, jobs) if scheduler else ThreadPoolExecutor(jobs)
    with workers as pool, open(journal, "a", encoding="utf-8") as file:
        _close_line(journal, file)
        pending: dict[Future[Grade], int] = {}
        for index, one in enumerate(submissions):
            before = known.get((one.student, one.lab.id, one.digest))
            if before is not None:
                found[index] = before
                graded(before, len(found), len(submissions))
            else:
                # A lab goes by its number: its judges are functions, which another process finds by itself.
                plain = {**vars(one), "lab": one.lab.id}
                future = (
                    pool.submit(_grade_plain, plain, bench, secret)
                    if scheduler
                    else pool.submit(grade, one, bench, secret)
                )
                pending[future] = index
        while pending:
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                index = pending.pop(future)
                try:
                    result = found[index] = future.result()
                except Exception as error:
                    if not was_lost(error):
                        raise
                    result = found[index] = _lost(submissions[index])
                    graded(result, len(found), len(submissions))
                    continue
                file.write(_line(result, salt))
                file.flush()
                os.fsync(file.fileno())
                graded(result, len(found), len(submissions))
    return [found[index] for index in range(len(submissions))]


def _grade_plain(one: dict[str, Any], bench: Bench, secret: str) -> Grade:
    return grade(Submission(**{**one, "lab": lab(one["lab"])}), bench, secret)


def _lost(one: Submission) -> Grade:
    """Of a submission that took down every worker."""
    reason = "the worker that graded this ended, and so did others that tried it"
    marks = {each.id: _rows(each.nothing(reason)) for each in one.lab.exercises}
    cost = hint_cost(one.lab, one.hints)
    return Grade(
        one.student,
        one.lab.id,
        one.digest,
        0.0,
        one.lab.points,
        cost,
        marks,
        {},
        [],
        0.0,
        problems=[*one.problems, reason],
    )


def _line(one: Grade, salt: str) -> str:
    return json.dumps({"salt": salt, **{k: v for k, v in vars(one).items() if k != "timelines"}}) + "\n"


def _close_line(journal: Path, file: Any) -> None:
    """A crash may have cut the last line short."""
    text = journal.read_bytes()
    if text and not text.endswith(b"\n"):
        file.write("\n")


def _journal(journal: Path, salt: str) -> Iterable[Grade]:
    if not journal.exists():
        return
    for line in journal.read_text("utf-8", "replace").splitlines():
        try:
            fields = json.loads(line)
            if fields.pop("salt") == salt:
                yield Grade(**fields)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
