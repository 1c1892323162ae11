"""Exercises in Python: functions and objects, judged by what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sglab.labs.lab import Exercise, Mark, Outcome
from sglab.labs.sandbox import CALLS, Bench, Limits

BLOCKED = ("sglab", "torch", "triton")
MOST_SHOWN = 160


class Step(NamedTuple):
    """One row of a script; see sglab.labs.sandbox.inside.calls."""

    what: str | int
    name: str
    args: list[Any]


@dataclass(frozen=True)
class ScriptExercise(Exercise):
    """A script of calls, and a judge of all that they returned.

    Attributes:
        script: the steps, and whatever the judge needs to know, from random numbers.
        judged: the marks, from what `script` said and the steps' answers, {"value": …} or {"error": …} each.
    """

    script: Callable[[np.random.Generator], tuple[list[Step], Any]] = field(default=lambda random: ([], None))
    judged: Callable[[Exercise, Any, list[dict[str, Any]]], list[Mark]] = field(default=lambda *_: [])
    limits: Limits = field(default_factory=Limits)

    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        steps, known = self.script(np.random.default_rng(seed))
        payload = {"source": source, "file": self.file, "script": [list(s) for s in steps], "blocked": list(BLOCKED)}
        ended = bench.run(CALLS, payload, self.limits)
        more: dict[str, Any] = {"printed": ended.text[:4000], "enforced": ended.enforced}
        if ended.failed:
            return self.nothing(ended.failed, **more)
        answers = _answers(ended.result, len(steps))
        if isinstance(answers, str):
            return self.nothing(answers, **more)
        return Outcome(tuple(self.judged(self, known, answers)), **more)


def _answers(result: Any, count: int) -> list[dict[str, Any]] | str:
    """The steps' answers, or why there are none. Nothing of it is trusted."""
    if not isinstance(result, dict) or not isinstance(result.get("steps"), list):
        return "its answer is no message"
    if result.get("error"):
        return str(result["error"])[:2000]
    if len(result["steps"]) != count or not all(isinstance(each, dict) for each in result["steps"]):
        return "its answer is no message"
    return list(result["steps"])


@dataclass(frozen=True)
class CaseGroup:
    """Calls of one kind, which earn one criterion.

    Attributes:
        criterion: its id.
        make: arguments of one call.
        count: calls.
    """

    criterion: str
    make: Callable[[np.random.Generator], list[Any]]
    count: int = 6


@dataclass(frozen=True)
class FunctionExercise(Exercise):
    """A pure function, compared with the truth on random arguments; wrong ideas are functions, too.

    Attributes:
        truth: the right function.
        wrong: by id of an idea, the function that it leads to.
        tolerance: relative and absolute, of numbers that are not integers.
    """

    function: str = ""
    truth: Callable[..., Any] = field(default=lambda *_: None)
    groups: tuple[CaseGroup, ...] = ()
    wrong: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    tolerance: float = 1e-5
    limits: Limits = field(default_factory=Limits)

    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        random = np.random.default_rng(seed)
        cases = [(group.criterion, group.make(random)) for group in self.groups for _ in range(group.count)]
        script = [["call", self.function, args] for _, args in cases]
        payload = {"source": source, "file": self.file, "script": script, "blocked": list(BLOCKED)}
        ended = bench.run(CALLS, payload, self.limits)
        more: dict[str, Any] = {"printed": ended.text[:4000], "enforced": ended.enforced}
        if ended.failed:
            return self.nothing(ended.failed, **more)
        answers = _answers(ended.result, len(script))
        if isinstance(answers, str):
            return self.nothing(answers, **more)
        truths = [self.truth(*args) for _, args in cases]
        right = [self._is(a, truth) for a, truth in zip(answers, truths, strict=True)]
        idea = "" if all(right) else self._idea(cases, answers, truths)
        return Outcome(tuple(self._marks(cases, answers, truths, right, idea)), **more)

    def _is(self, answer: Mapping[str, Any], truth: Any, nan: bool = False) -> bool:
        return "value" in answer and same_value(answer["value"], truth, self.tolerance, nan)

    def _idea(self, cases: Sequence[tuple[str, list[Any]]], answers: list[dict[str, Any]], truths: list[Any]) -> str:
        """The idea that explains every answer, and that is wrong on at least one of these cases."""
        for name, function in self.wrong.items():
            differs = False
            for (_, args), answer, truth in zip(cases, answers, truths, strict=True):
                try:
                    wrong = function(*args)
                except (ArithmeticError, LookupError, ValueError, TypeError):
                    if "error" not in answer:
                        break
                    differs = True
                    continue
                if not self._is(answer, wrong, nan=True):
                    break
                differs = differs or not same_value(wrong, truth, self.tolerance)
            else:
                if differs:
                    return name
        return ""

    def _marks(
        self,
        cases: Sequence[tuple[str, list[Any]]],
        answers: list[dict[str, Any]],
        truths: list[Any],
        right: list[bool],
        idea: str,
    ) -> list[Mark]:
        marks = []
        for criterion in self.criteria:
            mine = [index for index, (name, _) in enumerate(cases) if name == criterion.id]
            good = [index for index in mine if right[index]]
            if len(good) == len(mine):
                marks.append(Mark(criterion.id, 1.0))
                continue
            first = next(index for index in mine if not right[index])
            text = f"{len(good)} of {len(mine)} right. {self._shown(cases[first][1], answers[first], truths[first])}"
            feedback = f"{self.feedback_of(idea)} " if idea else ""
            marks.append(Mark(criterion.id, len(good) / len(mine), feedback + text, idea))
        return marks

    def _shown(self, args: list[Any], answer: Mapping[str, Any], truth: Any) -> str:
        if "NotImplementedError" in str(answer.get("error")):
            return f"{self.function} is still to be written."
        came = (
            f"failed: {str(answer['error'])[:400]}" if "error" in answer else f"returned {short(answer.get('value'))}"
        )
        given = ", ".join(short(each) for each in args)
        where = first_difference(answer.get("value"), truth, self.tolerance)
        return f"{self.function}({given}) {came}; expected {short(truth)}.{where}"


def short(value: Any) -> str:
    """A value for feedback, cut."""
    text = repr(_rounded(value))
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def first_difference(given: Any, truth: Any, tolerance: float) -> str:
    """Where two arrays part, as a sentence after a space: of what is cut the difference may not be seen.

    Empty if both are shown whole, or are no arrays of one shape.
    """
    if not (short(given).endswith("…") or short(truth).endswith("…")):
        return ""
    if isinstance(truth, (list, tuple)) and not _numbers(truth):
        if not isinstance(given, (list, tuple)) or len(given) != len(truth):
            return ""
        parts = zip(given, truth, strict=True)
        i, (one, other) = next((i, each) for i, each in enumerate(parts) if not same_value(*each, tolerance))
        told = first_difference(one, other, tolerance)
        return f" Of the results, number {i} differs.{told}"
    try:
        mine, right = np.asarray(given), np.asarray(truth)
    except ValueError:
        return ""
    if mine.shape != right.shape:
        return f" The shapes differ: {list(mine.shape)}, expected {list(right.shape)}." if mine.ndim else ""
    if not right.ndim or mine.dtype.kind not in "iufb" or right.dtype.kind not in "iufb":
        return ""
    with np.errstate(invalid="ignore"):
        differs = ~(np.isclose(mine.astype(float), right.astype(float), tolerance, tolerance) | (mine == right))
    if not differs.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(differs)[0])
    return (
        f" {int(differs.sum())} of {differs.size} numbers differ, the first at {list(place)}: "
        f"{short(mine[place])}, expected {short(right[place])}."
    )


def _rounded(value: Any) -> Any:
    """Arrays as lists; four digits."""
    if isinstance(value, np.ndarray) and value.size > MOST_SHOWN:
        value = value.reshape(-1)[:MOST_SHOWN]
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value[:MOST_SHOWN]]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def same_value(given: Any, truth: Any, tolerance: float, nan: bool = False) -> bool:
    """Equal, as plain data: integers exactly, other numbers within the tolerance; lists and arrays alike.

    Args:
        nan: whether NaN equals NaN: of a wrong idea's result it does, of a right one never.
    """
    if isinstance(truth, dict):
        return (
            isinstance(given, dict)
            and given.keys() == truth.keys()
            and all(same_value(given[key], truth[key], tolerance, nan) for key in truth)
        )
    if isinstance(truth, (list, tuple)) and not _numbers(truth):
        return (
            isinstance(given, (list, tuple))
            and len(given) == len(truth)
            and all(same_value(one, other, tolerance, nan) for one, other in zip(given, truth, strict=True))
        )
    if isinstance(truth, (list, tuple, np.ndarray)):
        return _same_array(given, np.asarray(truth), tolerance, nan)
    if isinstance(truth, (bool, str)) or truth is None:
        return type(given) is type(truth) and bool(given == truth)
    if isinstance(given, (bool, str)) or given is None or isinstance(given, (list, tuple, dict)):
        return False
    if isinstance(truth, (int, np.integer)):
        return np.ndim(given) == 0 and bool(given == truth)
    return np.ndim(given) == 0 and bool(np.isclose(float(given), truth, tolerance, tolerance, nan))


def _same_array(given: Any, truth: Any, tolerance: float, nan: bool) -> bool:
    try:
        array = np.asarray(given)
    except ValueError:
        return False
    if array.shape != truth.shape or (array.size and array.dtype.kind not in "iufb"):
        return False
    if truth.dtype.kind in "iub":
        return bool((array == truth).all())
    same = np.isclose(array.astype(float), truth, tolerance, tolerance, nan) | (array == truth)  # infinities
    return bool(same.all())


def _numbers(values: Any) -> bool:
    return all(isinstance(each, (int, float, np.number)) and not isinstance(each, bool) for each in values)
