"""A store of files: one per student, a line per record, only ever added to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .record import STUDENT, Record

try:
    import fcntl
except ImportError:  # Windows: a line is written in one call, but two processes may write at once
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".jsonl"


class FileStore:
    """Crash-safe: a record is one line, written in one call and brought to the disk; a line that a crash cut short is
    left out when reading, and closed before the next is written.

    Args:
        folder: is made when the first record comes.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def add(self, record: Record) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / f"{record.student}{SUFFIX}") as file:
            size = os.fstat(file).st_size
            cut = size > 0 and os.pread(file, 1, size - 1) != b"\n"
            os.write(file, b"\n" * cut + record.as_json().encode() + b"\n")
            os.fsync(file)

    def records(self, student: str | None = None, lab: str | None = None) -> list[Record]:
        if student is not None and not STUDENT.fullmatch(student):
            raise ValueError(f"student: expected letters, digits and . _ @ + -; got {student!r:.80}")
        files = sorted(self.folder.glob(f"*{SUFFIX}")) if student is None else [self.folder / f"{student}{SUFFIX}"]
        found = [record for file in files if file.exists() for record in _read(file)]
        return [record for record in found if lab is None or record.lab == lab]


def _read(file: Path) -> Iterator[Record]:
    for line in file.read_bytes().split(b"\n"):
        try:
            yield Record.from_json(line.decode())
        except ValueError:  # the line that a crash cut short
            continue


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)
