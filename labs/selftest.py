"""Holds the labs to their word: solutions score full marks, starters none, known wrong ideas get their feedback.

python labs/selftest.py [01 02 …] [--seeds 10] [--sandbox] [--pages]
"""

from __future__ import annotations

import argparse
import runpy
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from sglab.labs.coursework import MODULES, lab
from sglab.labs.exercises.answers import AnswerExercise
from sglab.labs.lab import Lab, Outcome, seed_of, total
from sglab.labs.rubric import rubric
from sglab.labs.sandbox import Bench, OpenBench, Sandbox

ROOT = Path(__file__).parent
STUDENT = "ada"
RUBRIC = "## Rubric\n\n"


def solution(one: Lab, student: str = STUDENT) -> dict[str, str]:
    """The model solution's files; answers to the student's own questions are computed."""
    files = {}
    for exercise in one.exercises:
        if isinstance(exercise, AnswerExercise):
            random_seed = seed_of(one.id, student)
            rows = [f"{a.name} = {a.make(exercise._random(random_seed, a))[1].answer()!r}" for a in exercise.asked]
            files[exercise.file] = "\n".join(rows)
        else:
            files[exercise.file] = (ROOT / one.folder / exercise.file).read_text("utf-8")
    return files


def starters(one: Lab, student: str = STUDENT) -> dict[str, str]:
    return {exercise.file: exercise.starter(one, student) for exercise in one.exercises}


def wrongs(one: Lab) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Exercise, idea and files of every known wrong idea that is written down as a change of the solution."""
    right = solution(one)
    file = ROOT / one.folder / "wrong.py"
    for exercise, idea, changes in runpy.run_path(str(file))["WRONG"] if file.exists() else ():
        text = right[one[exercise].file]
        for old, new in changes:
            if old not in text:
                raise ValueError(f"{one.folder}, {idea}: the solution has no {old!r}")
            text = text.replace(old, new)
        yield exercise, idea, {**right, one[exercise].file: text}


def judged(
    one: Lab, files: dict[str, str], bench: Bench, seed: int = 7, only: tuple[str, ...] = ()
) -> dict[str, Outcome]:
    return one.judge(files, seed, bench, seed_of(one.id, STUDENT), only)


def check(one: Lab, bench: Bench, seed: int = 7) -> list[str]:
    """What is wrong with a lab, on the inputs that are drawn from `seed`."""
    problems = []
    outcomes = judged(one, solution(one), bench, seed)
    if total(one, outcomes) != one.points:
        lost = [str(mark) for outcome in outcomes.values() for mark in outcome.marks if mark.share < 1]
        problems.append(f"{one.folder}: the solution scores {total(one, outcomes)} of {one.points}: {lost}")
    outcomes = judged(one, starters(one), bench, seed)
    if total(one, outcomes):
        got = [str(mark) for outcome in outcomes.values() for mark in outcome.marks if mark.share]
        problems.append(f"{one.folder}: the starter scores {total(one, outcomes)}: {got}")
    for exercise, idea, files in wrongs(one):
        found = judged(one, files, bench, seed, only=(exercise,))[exercise]
        if idea not in {mark.idea for mark in found.marks}:
            marks = [(mark.share, mark.idea, mark.feedback[:200]) for mark in found.marks][:2]
            problems.append(f"{one.folder}, {exercise}: {idea} is not recognised: {marks}")
        elif all(mark.share == 1 for mark in found.marks):
            problems.append(f"{one.folder}, {exercise}: {idea} scores full marks")
    return problems


def page(one: Lab) -> str:
    """The instructor's page as it should be: what was written by hand, then the rubric."""
    text = (ROOT / one.folder / "instructor.md").read_text("utf-8")
    return text.partition(RUBRIC)[0] + RUBRIC + rubric(one).partition("\n")[2].lstrip("\n").replace("\n## ", "\n### ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labs", nargs="*", default=list(MODULES))
    parser.add_argument(
        "--pages", action="store_true", help="write the rubrics into the instructors' pages, and no more"
    )
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="draw the inputs that many times (1)")
    parser.add_argument("--sandbox", action="store_true", help="in processes of their own, as submissions are")
    options = parser.parse_args()
    if options.pages:
        for number in options.labs:
            (ROOT / lab(number).folder / "instructor.md").write_text(page(lab(number)), "utf-8")
        return 0
    bench: Bench = Sandbox() if options.sandbox else OpenBench()
    warnings.simplefilter("ignore", RuntimeWarning)  # wrong ideas divide by zero
    failed = 0
    for number in options.labs:
        one = lab(number)
        problems = [
            f"seed {seed}: {each}" if options.seeds > 1 else each
            for seed in range(7, 7 + options.seeds)
            for each in check(one, bench, seed)
        ]
        failed += len(problems)
        count = len(list(wrongs(one)))
        print(f"{one.folder}: {'fine' if not problems else 'NOT fine'}, {count} wrong ideas, {one.points:g} points")
        for problem in problems:
            print("  ", problem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
