"""A student's own folder of labs: where a lab is, who the student is, which hints were taken."""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .coursework import labs
from .lab import STARTERS, Lab, Outcome, seed_of, total
from .store import FileStore, Record, hints_taken

SETTINGS, RECORDS = "labs.json", ".records"


@dataclass(frozen=True)
class LabFolder:
    """The folder in which a student works: one folder per lab, the student's name, a store of records.

    Attributes:
        path: of the folder.
        student: whose it is.
    """

    path: Path
    student: str

    @classmethod
    def at(cls, path: Path, student: str | None = None) -> LabFolder:
        """The folder; made by the first `start`.

        Args:
            student: whose it is; the folder's own, else the user's login where none is given.

        Raises:
            ValueError: it is another student's.
        """
        file = path / SETTINGS
        known = json.loads(file.read_text())["student"] if file.exists() else None
        if known and student and known != student:
            raise ValueError(f"student: {path} is {known}'s; use another --dir for {student}")
        return cls(path, known or student or re.sub(r"[^A-Za-z0-9._@+-]", "_", getpass.getuser()))

    @property
    def store(self) -> FileStore:
        return FileStore(self.path / RECORDS)

    def place(self, lab: Lab) -> Path:
        return self.path / lab.folder

    def start(self, lab: Lab) -> tuple[list[str], list[str]]:
        """Copies the starter; files that are there stay as they are. Returns what was copied, what was kept."""
        place = self.place(lab)
        place.mkdir(parents=True, exist_ok=True)
        settings = self.path / SETTINGS
        if not settings.exists():
            settings.write_text(json.dumps({"student": self.student}) + "\n")
        copied: list[str] = []
        kept: list[str] = []
        texts = {exercise.file: exercise.starter(lab, self.student) for exercise in lab.exercises}
        for given in sorted((STARTERS / lab.folder).iterdir()):  # kernels to beat
            if given.is_file() and given.name not in texts:
                texts[given.name] = given.read_text("utf-8")
        for name, text in texts.items():
            target = place / name
            (kept if target.exists() else copied).append(name)
            if not target.exists():
                target.write_text(text, "utf-8")
        return copied, kept

    def started(self) -> list[Lab]:
        return [lab for lab in labs() if self.place(lab).is_dir()]

    def chosen(self, names: list[Lab]) -> list[Lab]:
        """Those that are named, else all that were started.

        Raises:
            ValueError: there is none.
        """
        found = names or self.started()
        for lab in found:
            if not self.place(lab).is_dir():
                raise ValueError(
                    f"{self.path}: lab {lab.id} was not started here. Begin with: sglab labs start {lab.id}"
                )
        if not found:
            raise ValueError(f"{self.path}: no lab was started here. Begin with: sglab labs start 01")
        return found

    def sources(self, lab: Lab) -> dict[str, str]:
        place = self.place(lab)
        return {name: (place / name).read_text("utf-8") for name in lab.files if (place / name).is_file()}

    def hints(self, lab: Lab) -> dict[str, int]:
        return hints_taken(self.store.records(self.student), lab.id)

    def seed(self, lab: Lab) -> int:
        """The student's own: questions' numbers depend on it."""
        return seed_of(lab.id, self.student)

    def keep(self, lab: Lab, kind: Any, data: Mapping[str, Any]) -> None:
        self.store.add(Record(self.student, lab.id, kind, time.time(), dict(data)))


def result_of(lab: Lab, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """What a record keeps of a judgement."""
    marks = {
        name: {mark.criterion: [mark.share, mark.idea] for mark in outcome.marks} for name, outcome in outcomes.items()
    }
    return {"points": total(lab, outcomes), "of": lab.points, "marks": marks}
