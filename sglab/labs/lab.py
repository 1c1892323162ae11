"""A lab: exercises with points, judged by what a submission does."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .sandbox import Bench, SandboxError

STARTERS = Path(__file__).parent / "coursework" / "starters"


@dataclass(frozen=True)
class Criterion:
    """One row of the rubric.

    Attributes:
        id: within its exercise.
        points: at most.
        text: what they are for.
    """

    id: str
    points: float
    text: str


@dataclass(frozen=True)
class Idea:
    """A known wrong idea: how it is called in statistics, and what a student who has it gets to read."""

    id: str
    feedback: str


@dataclass(frozen=True)
class Hint:
    """One level of help.

    Attributes:
        cost: points of the lab that it takes, once.
    """

    text: str
    cost: float


@dataclass(frozen=True)
class Mark:
    """What a criterion got.

    Attributes:
        share: of its points, 0 to 1.
        feedback: for the student.
        idea: the known wrong idea that was recognised, by its id.
    """

    criterion: str
    share: float
    feedback: str = ""
    idea: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share: expected 0 to 1; got {self.share}")


@dataclass(frozen=True)
class Outcome:
    """What judging an exercise gave.

    Attributes:
        marks: one per criterion, in the rubric's order.
        printed: what the submission printed.
        enforced: what held its processes.
        timeline: a page that shows its kernel's launch; empty without one.
        modelled_ns: for a leaderboard; None where nothing is ranked, or it may not be.
    """

    marks: tuple[Mark, ...]
    printed: str = ""
    enforced: tuple[str, ...] = ()
    timeline: str = ""
    modelled_ns: float | None = None


@dataclass(frozen=True)
class Exercise(ABC):
    """Something to hand in, in one file.

    Attributes:
        id: within its lab.
        file: the student's file.
        criteria: the rubric.
        ideas: known wrong ideas that are recognised.
        hints: from a nudge to nearly the answer.
    """

    id: str
    title: str
    file: str
    criteria: tuple[Criterion, ...]
    ideas: tuple[Idea, ...] = ()
    hints: tuple[Hint, ...] = ()

    @property
    def points(self) -> float:
        return sum(each.points for each in self.criteria)

    def starter(self, lab: Lab, student: str) -> str:
        """The file that the student begins with."""
        return (STARTERS / lab.folder / self.file).read_text("utf-8")

    @abstractmethod
    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        """Runs a submission and judges what came of it.

        Args:
            source: the text of the student's file.
            seed: of the inputs; a grader's own.
            bench: where the submission's code runs.
            student_seed: the student's own, which questions depend on.
        """

    def nothing(self, feedback: str, idea: str = "", **more: Any) -> Outcome:
        """No points, for one reason."""
        first, *rest = self.criteria
        text = f"{self.feedback_of(idea)} {feedback}" if idea else feedback
        marks = (Mark(first.id, 0.0, text, idea), *(Mark(each.id, 0.0) for each in rest))
        return Outcome(marks, **more)

    def feedback_of(self, idea: str) -> str:
        return next((each.feedback for each in self.ideas if each.id == idea), "")


@dataclass(frozen=True)
class Lab:
    """A piece of the course.

    Attributes:
        id: two digits, the order in the course.
        name: for folders: page_table.
        goal: what one can do afterwards.
        minutes: that it takes, about.
        needs: what must be installed besides numpy: "nvcc", "triton".
        reading: notebooks and documents to read before.
        ranked: whether the modelled time makes a leaderboard.
    """

    id: str
    name: str
    title: str
    goal: str
    minutes: int
    exercises: tuple[Exercise, ...]
    needs: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    ranked: bool = False
    version: int = 1
    _by_id: dict[str, Exercise] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_id.update({each.id: each for each in self.exercises})

    def __getitem__(self, exercise: str) -> Exercise:
        return self._by_id[exercise]

    @property
    def folder(self) -> str:
        return f"{self.id}_{self.name}"

    @property
    def points(self) -> float:
        return sum(each.points for each in self.exercises)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.file for each in self.exercises))

    def judge(
        self, sources: Mapping[str, str], seed: int, bench: Bench, student_seed: int, only: Sequence[str] = ()
    ) -> dict[str, Outcome]:
        """Judges every exercise by its id.

        Args:
            sources: text by file; one that is missing gets no points.
            only: ids of exercises; all where none are given.
        """
        outcomes = {}
        for exercise in self.exercises:
            if only and exercise.id not in only:
                continue
            source = sources.get(exercise.file)
            if source is None:
                outcomes[exercise.id] = exercise.nothing(f"{exercise.file} was not handed in")
                continue
            try:
                outcomes[exercise.id] = exercise.judge(source, seed, bench, student_seed)
            except SandboxError:
                raise
            except Exception as error:
                # What a submission returns may be of any shape; what judges cannot read earns nothing.
                reason = f"what it returned cannot be judged ({type(error).__name__}: {str(error)[:200]})"
                outcomes[exercise.id] = exercise.nothing(reason)
        return outcomes


def seed_of(*parts: str) -> int:
    """A seed from texts, such as a secret, a lab and a student."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:6], "little")


def total(lab: Lab, outcomes: Mapping[str, Outcome]) -> float:
    """Points of a lab's outcomes, before hints."""
    return sum(
        criterion.points * mark.share
        for name, outcome in outcomes.items()
        for criterion, mark in zip(lab[name].criteria, outcome.marks, strict=True)
    )
