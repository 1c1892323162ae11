"""Submissions on disk: a folder per student, in it one per lab."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglab.labs.coursework import lab
from sglab.labs.lab import Lab
from sglab.labs.store.record import STUDENT

MANIFEST = "submission.json"
LARGEST = 256 << 10
"""Bytes of one file; no exercise needs more."""


@dataclass(frozen=True)
class Submission:
    """What a student handed in for a lab.

    Attributes:
        sources: text by file.
        hints: levels of hints that were taken, by exercise; as the student's own machine has it.
        problems: files that were not read, and why.
    """

    student: str
    lab: Lab
    sources: Mapping[str, str]
    hints: Mapping[str, int]
    problems: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Of everything that a grade depends on."""
        parts = [self.student, self.lab.folder, str(self.lab.version), json.dumps(sorted(self.hints.items()))]
        parts += [f"{name}\0{text}" for name, text in sorted(self.sources.items())]
        return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


def hand_in(one: Lab, student: str, folder: Path, target: Path, hints: Mapping[str, int]) -> Path:
    """Copies a lab's files to `target`/student/lab, all or nothing.

    Raises:
        ValueError: there is nothing to hand in, or the student's name will not do.
    """
    if not STUDENT.fullmatch(student):
        raise ValueError(f"student: expected letters, digits and . _ @ + -; got {student!r:.80}")
    present = [name for name in one.files if (folder / name).is_file()]
    if not present:
        raise ValueError(
            f"{folder}: expected {', '.join(one.files)}; there is none. Begin with: sglab labs start {one.id}"
        )
    place = target / student / one.folder
    new = place.with_name(place.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    for name in present:
        shutil.copyfile(folder / name, new / name)
    manifest = {"student": student, "lab": one.id, "when": time.time(), "hints": dict(hints)}
    (new / MANIFEST).write_text(json.dumps(manifest, indent=1))
    shutil.rmtree(place, ignore_errors=True)
    new.rename(place)
    return place


def find_submissions(folder: Path) -> list[Submission]:
    """All of `folder`/student/lab, by student and lab. What is no submission is left out.

    Raises:
        ValueError: there is none.
    """
    found = []
    for student in sorted(folder.iterdir() if folder.is_dir() else ()):
        if not STUDENT.fullmatch(student.name) or student.is_symlink() or not student.is_dir():
            continue
        for place in sorted(student.iterdir()):
            try:
                one = lab(place.name)
            except ValueError:
                continue
            if (opened := _opened(student, place.name)) is not None:
                with opened as inside:
                    found.append(_read(student.name, one, inside))
    if not found:
        raise ValueError(f"{folder}: expected folders student/lab such as ada/01_page_table; there is none")
    return found


class _Place:
    """An open folder: what its owner puts in its place meanwhile, a link for example, is not read."""

    def __init__(self, folder: Path, descriptor: int | None) -> None:
        self._folder, self._descriptor = folder, descriptor

    def __enter__(self) -> _Place:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def open(self, name: str, flags: int) -> int:
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        if self._descriptor is None:
            return os.open(self._folder / name, flags)
        return os.open(name, flags, dir_fd=self._descriptor)


def _opened(student: Path, lab: str) -> _Place | None:
    """A student's folder of a lab; None where it is a link or no folder."""
    place = student / lab
    if os.open not in os.supports_dir_fd:  # Windows
        return _Place(place, None) if place.is_dir() and not place.is_symlink() else None
    folder = os.O_RDONLY | os.O_DIRECTORY
    try:
        with _Place(student, os.open(student, folder | os.O_NOFOLLOW)) as above:
            return _Place(place, above.open(lab, folder))
    except OSError:
        return None


def _read(student: str, one: Lab, place: _Place) -> Submission:
    sources, problems = {}, []
    for name in one.files:
        try:
            sources[name] = _text(place, name)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            link = isinstance(error, OSError) and error.errno == errno.ELOOP
            problems.append(f"{name}: {'is a link, and no file' if link else error}")
    return Submission(student, one, sources, _hints(place, one), tuple(problems))


def _text(place: _Place, name: str) -> str:
    """A regular file's text; no link is followed, nothing that is not a file is opened."""
    descriptor = place.open(name, os.O_RDONLY)
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            raise ValueError("is no regular file")
        if state.st_size > LARGEST:
            raise ValueError(f"has {state.st_size} bytes; at most {LARGEST}")
        return os.read(descriptor, LARGEST).decode("utf-8")
    finally:
        os.close(descriptor)


def _hints(place: _Place, one: Lab) -> dict[str, int]:
    try:
        data: Any = json.loads(_text(place, MANIFEST))
        given = {str(name): int(level) for name, level in data["hints"].items()}
    except (OSError, ArithmeticError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    known = {each.id: len(each.hints) for each in one.exercises}
    return {name: max(0, min(level, known[name])) for name, level in given.items() if name in known}
