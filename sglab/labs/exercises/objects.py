"""Exercises in Python whose subject has a state: a class, compared with the truth over whole stories of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sglab.labs.lab import Exercise, Mark, Outcome
from sglab.labs.sandbox import CALLS, Bench, Limits

from .functions import BLOCKED, _answers, same_value, short

Calls = list[tuple[str, list[Any]]]


@dataclass(frozen=True)
class Story:
    """Lives of objects of one kind, which earn one criterion.

    Attributes:
        criterion: its id.
        make: constructor's arguments and the calls of one life.
        count: lives.
    """

    criterion: str
    make: Callable[[np.random.Generator], tuple[list[Any], Calls]]
    count: int = 3


@dataclass(frozen=True)
class _Scene:
    """A story with its true answers, and where its steps are in the script."""

    criterion: str
    args: list[Any]
    calls: Calls
    truth: list[Any]
    start: int


@dataclass(frozen=True)
class ObjectExercise(Exercise):
    """A class, in stories of which each earns its share up to the first wrong answer: half of a story is no story.

    Attributes:
        name: of the class.
        truth: the right one; every call must give what it gives.
        wrong: by id of an idea, the class that it leads to.
    """

    name: str = ""
    truth: Callable[..., Any] = field(default=lambda *_: None)
    stories: tuple[Story, ...] = ()
    wrong: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)

    def judge(self, source: str, seed: int, bench: Bench, student_seed: int) -> Outcome:
        scenes, script = self._script(np.random.default_rng(seed))
        payload = {"source": source, "file": self.file, "script": script, "blocked": list(BLOCKED)}
        ended = bench.run(CALLS, payload, self.limits)
        more: dict[str, Any] = {"printed": ended.text[:4000], "enforced": ended.enforced}
        if ended.failed:
            return self.nothing(ended.failed, **more)
        answers = _answers(ended.result, len(script))
        if isinstance(answers, str):
            return self.nothing(answers, **more)
        given = [answers[one.start + 1 : one.start + 1 + len(one.calls)] for one in scenes]
        wrong = [_first_wrong(mine, one.truth) for one, mine in zip(scenes, given, strict=True)]
        idea = "" if all(place is None for place in wrong) else self._idea(scenes, given)
        return Outcome(tuple(self._marks(scenes, given, wrong, idea, answers)), **more)

    def _script(self, random: np.random.Generator) -> tuple[list[_Scene], list[list[Any]]]:
        scenes: list[_Scene] = []
        script: list[list[Any]] = []
        for story in self.stories:
            for _ in range(story.count):
                args, calls = story.make(random)
                start = len(script)
                script.append(["new", self.name, args])
                script += [[start, method, values] for method, values in calls]
                scenes.append(_Scene(story.criterion, args, calls, _played(self.truth, args, calls), start))
        return scenes, script

    def _idea(self, scenes: Sequence[_Scene], given: Sequence[Sequence[Mapping[str, Any]]]) -> str:
        """The idea that explains every answer, and that is wrong at least once."""
        for name, kind in self.wrong.items():
            lives = [_played(kind, one.args, one.calls) for one in scenes]
            if all(_first_wrong(mine, life) is None for mine, life in zip(given, lives, strict=True)) and any(
                not all(_same(a, b) for a, b in zip(life, one.truth, strict=True))
                for life, one in zip(lives, scenes, strict=True)
            ):
                return name
        return ""

    def _marks(
        self,
        scenes: Sequence[_Scene],
        given: Sequence[Sequence[Mapping[str, Any]]],
        wrong: Sequence[int | None],
        idea: str,
        answers: Sequence[Mapping[str, Any]],
    ) -> list[Mark]:
        marks = []
        for criterion in self.criteria:
            mine = [index for index, one in enumerate(scenes) if one.criterion == criterion.id]
            failed = [index for index in mine if wrong[index] is not None]
            if not failed:
                marks.append(Mark(criterion.id, 1.0))
                continue
            first = failed[0]
            place = wrong[first]
            assert place is not None
            text = f"{len(mine) - len(failed)} of {len(mine)} stories right. "
            text += self._shown(scenes[first], given[first], place, answers[scenes[first].start])
            share = (len(mine) - len(failed)) / len(mine)
            marks.append(Mark(criterion.id, share, (f"{self.feedback_of(idea)} " if idea else "") + text, idea))
        return marks

    def _shown(self, one: _Scene, given: Sequence[Mapping[str, Any]], place: int, made: Mapping[str, Any]) -> str:
        if "NotImplementedError" in str(made.get("error")):
            return f"{self.name}.__init__ is still to be written."
        if "error" in made:
            return f"{self.name}({', '.join(map(short, one.args))}) failed: {str(made['error'])[:400]}"
        if "NotImplementedError" in str(given[place].get("error")):
            return f"{one.calls[place][0]} is still to be written."
        before = "; ".join(_call(*call) for call in one.calls[max(0, place - 3) : place])
        answer = given[place]
        came = f"failed: {str(answer['error'])[:300]}" if "error" in answer else f"gave {short(answer.get('value'))}"
        story = f"{self.name}({', '.join(map(short, one.args))})" + (f", then … {before}" if before else "")
        return f"{story}: {_call(*one.calls[place])} {came}; expected {short(one.truth[place])}."


_FAILED = object()


def _played(kind: Callable[..., Any], args: list[Any], calls: Calls) -> list[Any]:
    """What each call gives; _FAILED from a call that raises."""
    thing, results = kind(*args), []
    for method, values in calls:
        try:
            results.append(getattr(thing, method)(*values))
        except (ArithmeticError, LookupError, ValueError, TypeError, RuntimeError):
            results.append(_FAILED)
    return results


def _first_wrong(given: Sequence[Mapping[str, Any]], truth: Sequence[Any]) -> int | None:
    for place, (answer, right) in enumerate(zip(given, truth, strict=True)):
        if ("error" in answer) != (right is _FAILED):
            return place
        if right is not _FAILED and not same_value(answer.get("value"), right, 1e-6):
            return place
    return None


def _same(one: Any, other: Any) -> bool:
    if one is _FAILED or other is _FAILED:
        return one is other
    return same_value(one, other, 1e-6)


def _call(method: str, values: list[Any]) -> str:
    return f"{method}({', '.join(map(short, values))})"
