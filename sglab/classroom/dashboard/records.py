"""Records of a class, read again only where a student's file has grown.

The files are students' own and lie in their homes, and the dashboard may run as root: no link is followed, nothing
but a
regular file is read, and no more of it than MOST.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from sglab.classroom.folders import ClassFolder
from sglab.labs.store import Record

MOST = 4 << 20
"""Bytes of one student's records; a term's are some hundred kilobytes."""
_SAFE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass
class ClassRecords:
    """All students' records, kept between looks."""

    folder: ClassFolder
    _known: dict[str, tuple[tuple[int, int, int], list[Record]]] = field(default_factory=dict)

    def of(self, student: str) -> list[Record]:
        """The student's records in the order in which they came; records that name someone else are left out."""
        try:
            file = _open_below(self.folder.homes, [student, "my_labs", ".records", f"{student}.jsonl"])
        except OSError:
            return []
        try:
            state = os.fstat(file)
            if not stat.S_ISREG(state.st_mode) or state.st_size > MOST:
                return []
            mark = state.st_ino, state.st_size, state.st_mtime_ns
            if student not in self._known or self._known[student][0] != mark:
                self._known[student] = mark, _parse(os.read(file, MOST), student)
            return self._known[student][1]
        finally:
            os.close(file)


def _open_below(folder: Path, names: list[str]) -> int:
    """Opens folder/names…, none of which may be a link."""
    at = os.open(folder, _SAFE | os.O_DIRECTORY)
    for name in names:
        last = name is names[-1]
        try:
            inner = os.open(name, _SAFE | (os.O_NONBLOCK if last else os.O_DIRECTORY), dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def _parse(text: bytes, student: str) -> list[Record]:
    found = []
    for line in text.split(b"\n"):
        try:
            record = Record.from_json(line.decode())
        except (ValueError, RecursionError):  # a line in the making, or one that a student wrote by hand
            continue
        if record.student == student and isinstance(record.when, (int, float)) and isinstance(record.data, dict):
            found.append(record)
    return found
