"""The search: workers for one target, until the time is over; crashes, hangs and floods of memory become findings."""

from __future__ import annotations

import json
import mmap
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglab_fuzz import findings, process
from sglab_fuzz import target as targets
from sglab_fuzz.minimise import minimised
from sglab_fuzz.worker import PROGRESS

IMPORT_SECONDS = 120.0
"""How long the first case may take, with all that is imported for it, before that counts as the search's time."""


@dataclass
class Result:
    """What a search of one target came to."""

    name: str
    unit: str
    cases: int = 0
    units: int = 0
    seconds: float = 0.0
    found: list[dict[str, Any]] = field(default_factory=list)
    """One entry per signature: its first case, and how many `times` it was seen."""
    note: str = ""
    """What else is to be said of it."""


class _Worker:
    """One worker and its progress; started again after it died."""

    def __init__(self, search: Search, first: int, folder: Path) -> None:
        self.search, self.first, self.number = search, first, first
        self.progress, self.answers = folder / f"progress{first}", folder / f"answers{first}"
        self.answers.touch()
        self.read, self.cases, self.units = 0, 0, 0
        self.start()

    def start(self) -> None:
        self.progress.write_bytes(PROGRESS.pack(0, self.number, 0, 0))
        arguments = [self.search.name, self.search.device, str(self.search.seed), str(self.number)]
        with self.answers.open("a") as output:
            self.process = process.start([*arguments, str(self.search.jobs), str(self.progress)], output)
        self.watch = process.Watch(self.process.pid)

    def state(self) -> tuple[int, int, int, int]:
        with self.progress.open("r+b") as file, mmap.mmap(file.fileno(), PROGRESS.size) as shared:
            return PROGRESS.unpack_from(shared)

    def look(self) -> dict[str, Any] | None:
        """What became of the case the worker is at, if that is a finding; the worker then starts at the next."""
        begun, number, _, done = self.state()
        if self.process.poll() is not None:
            found: dict[str, Any] | None = process.death(self.process)
        elif begun == 0:  # still importing
            self.watch.begin(number)
            return None
        else:
            found = self.watch.looks(number) if begun > done else None
        if found is None:
            return None
        process.end(self.process)
        self.close()
        self.cases += 1
        self.number = number + self.search.jobs
        self.start()
        return {**found, "number": number}

    def close(self) -> None:
        _, _, units, done = self.state()
        self.cases, self.units = self.cases + done, self.units + units

    def new_answers(self) -> list[dict[str, Any]]:
        text = self.answers.read_text()
        whole = text[self.read : text.rfind("\n") + 1]
        self.read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


@dataclass
class Search:
    """A search of one target.

    Args:
        jobs: worker processes.
        keep: where findings are written, or None.
        most: signatures after which the search stops to look.
    """

    name: str
    seed: int
    seconds: float
    jobs: int = 1
    device: str = "cpu"
    keep: Path | None = findings.FOLDER
    most: int = 20

    def __post_init__(self) -> None:
        self.target = targets.load(self.name, self.device)
        self.seen: dict[str, dict[str, Any]] = {}

    def run(self) -> Result:
        result = Result(self.name, self.target.unit)
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            workers = [_Worker(self, first, Path(folder)) for first in range(self.jobs)]
            latest = begin + IMPORT_SECONDS
            try:
                while time.monotonic() - begin < self.seconds and len(self.seen) < self.most:
                    time.sleep(0.05)
                    if time.monotonic() < latest and not any(worker.state()[3] or worker.cases for worker in workers):
                        begin = time.monotonic()  # imports, the first case included, are not its time
                    for worker in workers:
                        self._note(worker)
                for worker in workers:
                    self._note(worker)
            finally:
                for worker in workers:
                    process.end(worker.process)
                    worker.close()
            result.cases, result.units = sum(w.cases for w in workers), sum(w.units for w in workers)
        result.seconds = time.monotonic() - begin
        result.found = list(self.seen.values())
        for found in result.found:
            self._keep(found)
        return result

    def _note(self, worker: _Worker) -> None:
        death = worker.look()
        for found in worker.new_answers() + ([death] if death else []):
            known = self.seen.setdefault(found["signature"], {**found, "target": self.name, "times": 0})
            known["times"] += 1

    def _keep(self, found: dict[str, Any]) -> None:
        """Confirm a finding alone, make it smaller and write it."""
        number = found["number"]
        text = found.pop("replay", None) or self.target.make(targets.generator(self.seed, number), number)
        again = process.run_text(self.name, self.device, text)
        found["confirmed"] = again is not None
        if again is None:
            found["text"] = text
            return

        def fails(smaller: str) -> bool:
            shown = process.run_text(self.name, self.device, smaller)
            return shown is not None and shown["signature"] == again["signature"]

        found["text"] = minimised(text, fails)
        if self.keep is not None:
            found["file"] = str(findings.save(self.name, self.seed, number, found["text"], again, self.keep))
