"""A store for a class: one SQLite file that several processes use at once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .record import Record

_TABLE = """
create table if not exists records (
  id integer primary key, student text not null, lab text not null, kind text not null, time real not null,
  record text not null);
create index if not exists by_student on records (student, lab);
"""
PATIENCE_SECONDS = 30


class SqliteStore:
    """Each record is a transaction; a write-ahead log lets others read meanwhile.

    Args:
        path: of the file, which is made where there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._open() as database:
            database.execute("pragma journal_mode=wal")
            database.executescript(_TABLE)

    def add(self, record: Record) -> None:
        row = (record.student, record.lab, record.kind, record.when, record.as_json())
        with self._open() as database:
            database.execute("insert into records (student, lab, kind, time, record) values (?, ?, ?, ?, ?)", row)

    def records(self, student: str | None = None, lab: str | None = None) -> list[Record]:
        wanted = [(name, value) for name, value in (("student", student), ("lab", lab)) if value is not None]
        where = f" where {' and '.join(f'{name} = ?' for name, _ in wanted)}" if wanted else ""
        with self._open() as database:
            rows = database.execute(f"select record from records{where} order by id", [value for _, value in wanted])
            return [Record.from_json(text) for (text,) in rows]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=PATIENCE_SECONDS)
        try:
            with database:
                yield database
        finally:
            database.close()
