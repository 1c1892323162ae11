"""Records as a table or as JSON, for others' software."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from .record import Record

_COLUMNS = ("student", "lab", "kind", "when", "points", "of", "hints")


def as_csv(records: Iterable[Record]) -> str:
    """A row per record."""
    rows = [
        [
            *(record.student, record.lab, record.kind, f"{record.when:.0f}"),
            *(record.data.get(name, "") for name in ("points", "of", "hint_cost")),
        ]
        for record in records
    ]
    return table_text([_COLUMNS, *rows])


def as_json(records: Iterable[Record]) -> str:
    return json.dumps([asdict(record) for record in records], indent=1)


def table_text(rows: Iterable[Iterable[Any]]) -> str:
    """CSV that a spreadsheet takes for text where it is text: a cell that begins like a formula gets an apostrophe."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value:g}"
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value[:1] else value
