"""What a store keeps, and what it must be able to do; a hub's database implements the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

Kind = Literal["check", "attempt", "hint", "grade"]
KINDS = ("check", "attempt", "hint", "grade")
STUDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
"""What may be a student's name: it becomes a file's name."""


@dataclass(frozen=True)
class Record:
    """Something that a student did, or that was done for one.

    Attributes:
        kind: check (judged on the student's own machine), attempt (handed in), hint (taken), grade (given).
        when: seconds since 1970.
        data: plain data: marks by exercise, points, an exercise and a level of a hint, files' digests.
    """

    student: str
    lab: str
    kind: Kind
    when: float
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not STUDENT.fullmatch(self.student):
            raise ValueError(
                "student: expected letters, digits and . _ @ + -, at most 64, such as ada.lovelace; "
                f"got {self.student!r:.80}"
            )
        if self.kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}; got {self.kind!r:.40}")

    def as_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Record:
        """Raises: ValueError where the text is no record."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(f"no record: {error}") from None


class Store(Protocol):
    """Keeps records and gives them back in the order in which they came."""

    def add(self, record: Record) -> None:
        """Keeps it: after the return it survives a crash."""

    def records(self, student: str | None = None, lab: str | None = None) -> list[Record]:
        """Those of a student, of a lab, or all."""


def hints_taken(records: Iterable[Record], lab: str) -> dict[str, int]:
    """Levels of hints by exercise."""
    taken: dict[str, int] = {}
    for record in records:
        if record.kind == "hint" and record.lab == lab:
            exercise = str(record.data["exercise"])
            taken[exercise] = max(taken.get(exercise, 0), int(record.data["level"]))
    return taken


def best_attempts(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """The graded or attempted record with most points, by student and lab; of equals the first."""
    best: dict[tuple[str, str], Record] = {}
    for record in records:
        if "points" not in record.data:
            continue
        key = record.student, record.lab
        if key not in best or record.data["points"] > best[key].data["points"]:
            best[key] = record
    return best
