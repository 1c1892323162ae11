"""Grades of the class's store that a platform does not have yet, posted; what went wrong is tried again, by name."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from logging import Logger
from pathlib import Path

from sglab.labs.coursework import lab
from sglab.labs.store import SqliteStore

from .gradebook import GradeBook, Score
from .keys import ToolKey
from .links import Link, Links
from .platform import LtiError, Tool

FIRST_WAIT_SECONDS = 30.0
LONGEST_WAIT_SECONDS = 3600.0


class Passback:
    """Posts the latest grade of each student and lab.

    Args:
        store: SQLite file that `sglab labs grade --store` writes; need not be there yet.
        folder: keeps `posted.jsonl` (a line per score that a platform took) and `problems.json`.
        wait: seconds before the first new try of a score that was not taken; then twice as long each time.
    """

    def __init__(
        self,
        tool: Tool,
        key: ToolKey,
        links: Links,
        store: Path,
        folder: Path,
        log: Logger,
        wait: float = FIRST_WAIT_SECONDS,
    ) -> None:
        self._links, self._store, self._log, self._wait = links, store, log, wait
        self._books = {(one.issuer, one.client_id): GradeBook(one, key) for one in tool.platforms}
        self._file, self._notes = folder / "posted.jsonl", folder / "problems.json"
        self._posted = {tuple(row["to"]): tuple(row["score"]) for row in _rows(self._file)}
        self._waiting: dict[tuple[str, ...], tuple[float, float]] = {}
        self._problems: dict[str, str] = {}
        self._mark: object = None
        self._scores: dict[tuple[str, str], Score] = {}

    async def once(self) -> int:
        """One round over all students; returns how many scores were posted."""
        self._read()
        posted, failed = 0, set[GradeBook]()
        for link in self._links:
            book = self._books.get((link.issuer, link.client_id))
            for score in self._of(link):
                to = link.issuer, link.client_id, link.user, link.lineitems, score.lab.id
                given = score.points, score.of, score.when
                if book is None or self._posted.get(to) == given or self._waiting.get(to, (0, 0))[0] > time.monotonic():
                    continue
                try:
                    await book.post(link, score)
                except LtiError as error:
                    failed.add(book)
                    self._postpone(to, f"{link.name}, lab {score.lab.id}", str(error))
                    continue
                posted += 1
                self._keep(to, given, f"{link.name}, lab {score.lab.id}")
        for book in failed:
            book.forget()
        return posted

    def _of(self, link: Link) -> list[Score]:
        return [score for (student, _), score in self._scores.items() if student == link.name]

    def _read(self) -> None:
        """The store, where it has changed; a grade that comes later takes the place of an earlier one."""
        files = [self._store, self._store.with_name(self._store.name + "-wal")]
        mark = [(file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.exists()]
        if not self._store.exists() or mark == self._mark:
            return
        for record in SqliteStore(self._store).records():
            if record.kind == "grade":
                points, of = float(record.data["points"]), float(record.data["of"])
                self._scores[record.student, record.lab] = Score(lab(record.lab), points, of, record.when)
        self._mark = mark

    def _keep(self, to: tuple[str, ...], given: tuple[float, ...], what: str) -> None:
        with open(self._file, "a", encoding="utf-8") as out:
            out.write(json.dumps({"to": to, "score": given}) + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._posted[to] = given
        self._waiting.pop(to, None)
        self._log.info("%s: %g of %g posted to %s", what, given[0], given[1], to[0])
        if self._problems.pop(what, None):
            self._write_problems()

    def _postpone(self, to: tuple[str, ...], what: str, problem: str) -> None:
        wait = min(LONGEST_WAIT_SECONDS, self._waiting.get(to, (0, self._wait / 2))[1] * 2)
        self._waiting[to] = time.monotonic() + wait, wait
        if self._problems.get(what) != problem:
            self._log.warning("%s: not posted, tried again: %s", what, problem)
            self._problems[what] = problem
            self._write_problems()

    def _write_problems(self) -> None:
        new = self._notes.with_name(self._notes.name + ".new")
        new.write_text(json.dumps(self._problems, indent=1))
        new.replace(self._notes)


def _rows(file: Path) -> Iterator[dict[str, list]]:
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:  # the line that a crash cut short: that score is posted once more
            continue
