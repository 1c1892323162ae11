"""`sglab labs`: list, start, check, hint, submit for students; grade, export, rubric for instructors."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import sys
import textwrap
import time
from pathlib import Path

from .coursework import lab, labs
from .export import write_nbgrader, write_otter
from .folder import LabFolder, result_of
from .grading import Grade, find_submissions, grade_all
from .grading.report import write_reports
from .grading.submissions import hand_in
from .grading.tables import grade_book, leaderboard, statistics_table
from .lab import Lab, Outcome, total
from .rubric import rubric
from .sandbox import Sandbox
from .store import FileStore, Record, SqliteStore, Store
from .store.export import as_csv, as_json, table_text

WIDTH = 110


def run_labs(options: argparse.Namespace) -> int:
    """Runs the command; returns the exit status.

    Raises:
        ValueError: a file, a folder or a name does not fit.
    """
    return int(globals()[f"_{options.labs_command}"](options) or 0)


def _list(options: argparse.Namespace) -> None:
    folder = LabFolder.at(options.dir)
    best: dict[str, float] = {}
    for record in folder.store.records(folder.student):
        if "points" in record.data:
            best[record.lab] = max(best.get(record.lab, 0.0), float(record.data["points"]))
    for one in labs():
        state = f"{best[one.id]:g} of " if one.id in best else "started, " if folder.place(one).is_dir() else ""
        needs = f", needs {' and '.join(one.needs)}" if one.needs else ""
        print(f"{one.id}  {one.title}  ({state}{one.points:g} points, {one.minutes} minutes{needs})")
        print(textwrap.fill(one.goal, WIDTH, initial_indent="    ", subsequent_indent="    "))


def _start(options: argparse.Namespace) -> None:
    (one,) = options.labs
    folder = LabFolder.at(options.dir, options.student)
    copied, kept = folder.start(one)
    print(
        f"{folder.place(one)}: {', '.join(copied) or 'nothing'} copied" + (f"; {', '.join(kept)} kept" if kept else "")
    )
    print(textwrap.fill(f"{one.title}: {one.goal}", WIDTH))
    if one.reading:
        print(f"Read first: {', '.join(one.reading)}")
    print(f"Then: sglab labs check {one.id}")


def _check(options: argparse.Namespace) -> None:
    folder, bench = LabFolder.at(options.dir), Sandbox()
    for one in folder.chosen(options.labs):
        outcomes = one.judge(folder.sources(one), folder.seed(one), bench, folder.seed(one), options.exercise)
        _show(one, outcomes)
        if not options.exercise:
            folder.keep(one, "check", result_of(one, outcomes))
        for name, outcome in outcomes.items():
            if options.timeline and outcome.timeline:
                options.timeline.mkdir(parents=True, exist_ok=True)
                page = options.timeline / f"{one.folder}.{name}.html"
                page.write_text(outcome.timeline, "utf-8")
                print(f"  timeline: {page}")


def _show(one: Lab, outcomes: dict[str, Outcome]) -> None:
    possible = sum(one[name].points for name in outcomes)
    print(f"{one.id} {one.title}: {round(total(one, outcomes), 2):g} of {possible:g} points")
    for name, outcome in outcomes.items():
        print(f"  {name}: {one[name].title} ({one[name].file})")
        shown = ""
        for criterion, mark in zip(one[name].criteria, outcome.marks, strict=True):
            sign = "full" if mark.share == 1 else "none" if mark.share == 0 else "part"
            print(f"    {sign}  {criterion.points * mark.share:5.3g} of {criterion.points:<4g} {criterion.text}")
            if mark.feedback and mark.share < 1:
                fresh = mark.feedback.removeprefix(shown).strip()  # what explains several criteria is said once
                shown = shown or mark.feedback
                for line in fresh.splitlines():
                    print(textwrap.fill(line, WIDTH, initial_indent=" " * 10, subsequent_indent=" " * 10))
        if outcome.modelled_ns is not None:
            print(f"    modelled time: {outcome.modelled_ns / 1000:.2f} us")
        if outcome.printed.strip():
            print(textwrap.indent(outcome.printed.rstrip()[:1500], "    | "))


def _hint(options: argparse.Namespace) -> None:
    (one,) = options.labs
    folder = LabFolder.at(options.dir)
    taken = folder.hints(one)
    if options.exercise is None:
        for exercise in one.exercises:
            level = taken.get(exercise.id, 0)
            left = f"the next costs {exercise.hints[level].cost:g}" if level < len(exercise.hints) else "no more"
            told = f"{level} of {len(exercise.hints)} hints taken, {left}" if exercise.hints else "no hints"
            print(f"{exercise.id}: {told}")
        return
    names = [exercise.id for exercise in one.exercises]
    if options.exercise not in names:
        raise ValueError(f"exercise: expected one of {', '.join(names)}; got {options.exercise!r}")
    hints, level = one[options.exercise].hints, taken.get(options.exercise, 0)
    for hint in hints[:level]:
        print(textwrap.fill(f"(taken) {hint.text}", WIDTH))
    if level == len(hints):
        print("There are no more hints.")
        return
    if not options.yes and sys.stdin.isatty():
        answer = input(f"The next hint costs {hints[level].cost:g} points. Take it? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            return
    data = {"exercise": options.exercise, "level": level + 1, "hint_cost": hints[level].cost}
    folder.keep(one, "hint", data)
    print(textwrap.fill(hints[level].text, WIDTH))


def _submit(options: argparse.Namespace) -> None:
    folder = LabFolder.at(options.dir)
    for one in folder.chosen(options.labs):
        place = hand_in(one, folder.student, folder.place(one), options.to, folder.hints(one))
        folder.keep(one, "attempt", {"folder": str(place)})
        print(f"{one.id} {one.title}: handed in to {place}")


def _grade(options: argparse.Namespace) -> int:
    if options.jobs < 1:
        raise ValueError(f"--jobs: expected 1 or more; got {options.jobs}")
    submissions = find_submissions(options.submissions)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    journal = options.out.with_suffix(".journal")
    if options.again:
        journal.unlink(missing_ok=True)
    secret = _secret(options)
    journal.touch()
    ours = [options.out, journal, options.secret or options.out.with_suffix(".secret")]
    ours += [path for path in (options.reports, options.statistics, options.leaderboard, options.store) if path]
    bar = Bar(len(submissions))
    bench = Sandbox(hidden=[options.submissions, *ours])
    grades = grade_all(submissions, bench, secret, journal, options.jobs, bar.show, options.scheduler)
    bar.end()
    _write(options.out, grade_book(grades))
    print(f"{options.out}: {len(grades)} submissions of {len({each.student for each in grades})} students")
    if options.statistics:
        _write(options.statistics, statistics_table(grades))
        print(f"{options.statistics}: item statistics")
    if options.reports:
        print(f"{options.reports}: {len(write_reports(grades, options.reports))} pages")
    if options.leaderboard:
        ranked = [number for number in sorted({each.lab for each in grades}) if lab(number).ranked]
        rows = [[number, *row] for number in ranked for row in leaderboard(grades, number)]
        _write(options.leaderboard, table_text([["lab", "rank", "student", "modelled us"], *rows]))
        print(f"{options.leaderboard}: {len(rows)} ranked")
    if options.store:
        _keep(grades, open_store(options.store))
    held = sorted({name for each in grades for name in each.enforced})
    print(textwrap.fill(f"in force: {'; '.join(held) or 'nothing ran'}", WIDTH, subsequent_indent="  "))
    return 0


def _secret(options: argparse.Namespace) -> str:
    """The grader's own, made once: no student knows the inputs beforehand, and a grading can be repeated."""
    file: Path = options.secret or options.out.with_suffix(".secret")
    if not file.exists():
        if options.secret:
            raise ValueError(f"--secret: there is no {file}")
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as out:
            out.write(secrets.token_hex(16))
    return file.read_text().strip()


def _keep(grades: list[Grade], store: Store) -> None:
    for each in grades:
        data = {"points": each.points, "of": each.of, "hint_cost": each.hint_cost, "marks": each.marks}
        store.add(Record(each.student, each.lab, "grade", time.time(), data))


def open_store(path: Path) -> Store:
    """A SQLite file or a folder of files, by the name."""
    return SqliteStore(path) if path.suffix in (".sqlite", ".db") else FileStore(path)


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, "utf-8")
    new.replace(path)


def _export(options: argparse.Namespace) -> None:
    if options.format in ("nbgrader", "otter"):
        if options.out is None:
            raise ValueError(f"--out: expected a folder for {options.format}'s files; got none")
        write = write_nbgrader if options.format == "nbgrader" else write_otter
        for path in write(options.labs or labs(), options.out):
            print(path)
        return
    if options.store is None or not options.store.exists():
        raise ValueError(f"store: expected a store of records; there is no {options.store}")
    records = open_store(options.store).records()
    print(as_json(records) if options.format == "json" else as_csv(records), end="")


def _rubric(options: argparse.Namespace) -> None:
    print(rubric(options.lab), end="")


class Bar:
    """Progress on stderr: a bar in a terminal, else a line now and then."""

    def __init__(self, of: int) -> None:
        self._of, self._tty, self._began = of, sys.stderr.isatty(), time.monotonic()
        self._shown = 0

    def show(self, grade: Grade, done: int, of: int) -> None:
        if self._tty:
            width = min(40, shutil.get_terminal_size().columns - 50)
            full = width * done // of
            text = f"\r[{'#' * full}{'.' * (width - full)}] {done}/{of} {grade.student[:20]:20} {grade.points:5.3g}"
            print(text, end="", file=sys.stderr, flush=True)
        elif done == of or done * 10 // of > self._shown:
            self._shown = done * 10 // of
            print(f"graded {done} of {of}, {time.monotonic() - self._began:.0f} s", file=sys.stderr)

    def end(self) -> None:
        if self._tty:
            print(file=sys.stderr)
