"""Questions with points, answered in a file of plain values. The file is read, never run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from sglab.labs.lab import Criterion, Exercise, Lab, Mark, Outcome, seed_of
from sglab.labs.question import Question
from sglab.labs.sandbox import Bench

FILE = "answers.py"
LARGEST = 32 << 10
"""Bytes: on what is much longer Python 3.10's parser can crash, and the grader with it."""
_TOP = '"""Replace each ... by your answer: a number, a text in quotes, True or False, or a list of them."""\n'


@dataclass(frozen=True)
class Asked:
    """A question whose numbers are a student's own.

    Attributes:
        name: of the variable in the file.
        make: text and question from the student's random numbers.
        slips: known wrong answers: what the student gets to read, by a function of the same random numbers.
    """

    name: str
    points: float
    make: Callable[[Random], tuple[str, Question]]
    slips: tuple[tuple[str, str, Callable[[Random], Any]], ...] = ()


@dataclass(frozen=True)
class AnswerExercise(Exercise):
    """Questions of a lab; `asked` in order."""

    asked: tuple[Asked, ...] = ()

    @classmethod
    def of(cls, lab: str, *asked: Asked) -> AnswerExercise:
        """Args: lab, whose random numbers they are."""
        rubric = tuple(Criterion(each.name, each.points, f"the question {each.name}") for each in asked)
        return cls(id="answers", title=f"Questions {lab}", file=FILE, criteria=rubric, asked=asked)

    def starter(self, lab: Lab, student: str) -> str:
        lines = [_TOP]
        for each in self.asked:
            text, _ = each.make(self._random(seed_of(lab.id, student), each))
            lines += ["", *(f"# {line}" for line in text.splitlines()), f"{each.name} = ...", ""]
        return "\n".join(lines)

    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        try:
            given = values(source)
        except ValueError as error:
            return self.nothing(f"{self.file}: {error}")
        return Outcome(tuple(self._mark(each, given, student_seed) for each in self.asked))

    def _mark(self, each: Asked, given: Mapping[str, Any], student_seed: int) -> Mark:
        if each.name not in given:
            return Mark(each.name, 0.0, f"there is no {each.name} in {self.file}")
        if given[each.name] is ...:
            return Mark(each.name, 0.0, "not answered yet")
        _, question = each.make(self._random(student_seed, each))
        verdict = question.check(given[each.name])
        if verdict.right is False:
            for idea, feedback, wrong in each.slips:
                if question_like(wrong(self._random(student_seed, each)), given[each.name], question.tolerance):
                    return Mark(each.name, 0.0, feedback, idea)
        return Mark(each.name, 1.0 if verdict.right else 0.0, verdict.text)

    def _random(self, seed: int, each: Asked) -> Random:
        return Random(f"{seed} {each.name}")


def question_like(wrong: Any, given: Any, tolerance: float) -> bool:
    """Whether an answer is this wrong one."""
    from sglab.labs.question import plain, same

    return same(plain(given), plain(wrong), tolerance)


def values(source: str) -> dict[str, Any]:
    """The assignments of plain values in a file; `...` where there is no answer yet.

    Raises:
        ValueError: it is no Python, or an answer is no plain value.
    """
    if len(source) > LARGEST:
        raise ValueError(f"cannot be read: it has {len(source)} characters; at most {LARGEST}")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"cannot be read: {error}") from None
    found: dict[str, Any] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            continue
        try:
            found[node.targets[0].id] = ast.literal_eval(node.value)
        except (ValueError, RecursionError, MemoryError, TypeError):
            raise ValueError(
                f"line {node.lineno}: expected a number, a text, or a list of them; write the result, not a formula"
            ) from None
    return found
