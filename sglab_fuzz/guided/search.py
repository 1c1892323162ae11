"""Runs libFuzzer on the front end until the time is over; what stops it becomes a finding."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglab_fuzz import findings, process
from sglab_fuzz.guided import build, seeds
from sglab_fuzz.minimise import minimised
from sglab_fuzz.search import Result
from sglab_fuzz.targets.front import Front
from sglab_fuzz.worker import described

FOLDER = process.ROOT / "build" / "guided-inputs"
CORPUS = FOLDER / "corpus"
"""What earlier searches found worth keeping: the next one goes on from there."""
SLOWER = 5
"""Times that an instrumented build takes longer: what exceeds the limit here is tried again by the usual core."""
MOST_ALLOCATION_MB = 1024
SANITIZED_SHARE = 0.3
"""Of the time: an input costs several times as much with sanitizers, and those begin with all that was kept without."""
_SUMMARY = re.compile(r"SUMMARY: (\w+): ([\w-]+)(?: (\S+))?")
_RUNTIME = re.compile(r"(\S+?):(\d+):\d+: runtime error: ([^\n]*)")
_COVERED = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_EXECUTED = re.compile(r"stat::number_of_executed_units: (\d+)")
_POINTS = re.compile(r"(\d+) inline 8-bit counters")


def environment(words: Path) -> dict[str, str]:
    """What the target runs with: bounded allocations, and its limit of processor time."""
    limit = process.HANG_SECONDS * SLOWER * process.patience()
    return dict(
        os.environ,
        ASAN_OPTIONS=f"detect_leaks=1:allocator_may_return_null=1:max_allocation_size_mb={MOST_ALLOCATION_MB}",
        UBSAN_OPTIONS="print_stacktrace=1",
        SGLAB_GUIDED_SECONDS=str(round(limit)),
        SGLAB_GUIDED_WORDS=str(words),
    )


def ending(log: str) -> dict[str, str]:
    """What libFuzzer's output says about how a text failed, as a finding."""
    runtime = _RUNTIME.search(log)
    if runtime is not None:
        where = f"{Path(runtime[1]).name}:{runtime[2]}"
        return {"kind": "crash", "signature": f"UBSan at {where}", "message": runtime[3], "trace": log[-2000:]}
    summary = _SUMMARY.search(log)
    if summary is None:
        return {"kind": "crash", "signature": "crash", "message": log[-500:], "trace": log[-2000:]}
    tool, what, where = summary[1], summary[2], Path(summary[3] or "").name.rpartition(":")[0]
    kind = {"hang": "hang", "timeout": "hang", "out-of-memory": "memory"}.get(what, "crash")
    signature = f"{tool} {what}" + (f" at {where}" if where and tool == "AddressSanitizer" else "")
    return {"kind": kind, "signature": signature, "message": summary[0], "trace": log[-2000:]}


@dataclass
class _Counts:
    """What libFuzzer says it did."""

    executed: int = 0
    points: int = 0
    covered: tuple[int, int, int] = (0, 0, 0)
    """Edges, features and inputs kept."""

    def add(self, log: str) -> None:
        self.executed += sum(int(count) for count in _EXECUTED.findall(log))
        self.points = max([self.points, *map(int, _POINTS.findall(log))])
        self.covered = max([self.covered, *((int(a), int(b), int(c)) for a, b, c in _COVERED.findall(log))])


@dataclass
class GuidedSearch:
    """A search of the front end that keeps what reaches new code.

    Args:
        jobs: processes, which share the corpus.
        keep: where findings are written, or None.
        corpus: inputs of earlier searches; grows.
        most: signatures after which the search stops to look.
    """

    seed: int
    seconds: float
    jobs: int = 1
    keep: Path | None = findings.FOLDER
    corpus: Path = CORPUS
    most: int = 20
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(self) -> Result:
        """Build, search, and read all that was kept by Python's side, too.

        Raises:
            RuntimeError: the targets cannot be built here.
        """
        plain, self.sanitized = build.build(self.jobs, False), build.build(self.jobs, True)
        self.starts, self.words = seeds.write(FOLDER)
        self.corpus.mkdir(parents=True, exist_ok=True)
        result = Result("front, guided", "inputs")
        begin = time.monotonic()
        quick = self._phase(plain, self.seconds * (1 - SANITIZED_SHARE))
        slow = self._phase(self.sanitized, self.seconds * SANITIZED_SHARE)
        compared = self._compare()
        result.cases = result.units = quick.executed + slow.executed
        result.seconds = time.monotonic() - begin
        result.found = list(self.seen.values())
        result.note = (
            f"{slow.executed:,} of them under ASan and UBSan; {quick.covered[0]:,} of {quick.points:,} edges of the "
            f"core reached, {quick.covered[1]:,} features; {compared:,} inputs kept and read by Python's side, too"
        )
        return result

    def _phase(self, target: Path, seconds: float) -> _Counts:
        """Search with one build; starts again after each finding."""
        counts, begin, round_ = _Counts(), time.monotonic(), 0
        while (left := seconds - (time.monotonic() - begin)) >= 1 and len(self.seen) < self.most:
            with tempfile.TemporaryDirectory() as folder:
                for log in self._round(target, Path(folder), left, round_):
                    counts.add(log)
                for path in sorted(Path(folder).glob("found-*")):
                    if "slow-unit" not in path.name:
                        self._note(target, path.read_bytes())
            round_ += 1
        return counts

    def _round(self, target: Path, folder: Path, left: float, round_: int) -> list[str]:
        """Run until the time is over or something fails; the output of each process."""
        running = []
        for job in range(self.jobs):
            command = [target, self.corpus, self.starts, f"-artifact_prefix={folder}/found-{job}-"]
            command += [f"-max_total_time={int(left)}", f"-seed={(self.seed + 1000 * round_ + job) % 2**32 or 1}"]
            command += [f"-max_len={seeds.MOST_LETTERS}", f"-rss_limit_mb={process.MOST_BYTES >> 20}"]
            command += ["-malloc_limit_mb=65536", "-timeout=300", "-print_final_stats=1", "-reload=30"]
            command += ["-entropic=0"]  # its accounts take a quarter of the time
            log = folder / f"log{job}"
            with log.open("w") as output:
                words = [str(part) for part in command]
                started = subprocess.Popen(
                    words,
                    stdout=output,
                    stderr=output,
                    env=environment(self.words),
                    cwd=folder,
                    start_new_session=True,
                )
            running.append((started, log))
        try:
            while all(worker.poll() is None for worker, _ in running):
                time.sleep(0.2)
        finally:
            for worker, _ in running:
                worker.send_signal(2)  # libFuzzer says what it counted
            for worker, _ in running:
                worker.wait()
        return [log.read_text(errors="replace") for _, log in running]

    def _once(self, target: Path, text: str) -> dict[str, str] | None:
        """What one text shows in a process of its own."""
        with tempfile.TemporaryDirectory() as folder:
            case = Path(folder, "case")
            case.write_text(text, "utf-8", "surrogateescape")
            done = subprocess.run(
                [str(target), str(case)], capture_output=True, env=environment(self.words), cwd=folder
            )
        return ending(done.stderr.decode(errors="replace")) if done.returncode else None

    def _note(self, target: Path, data: bytes) -> None:
        """Confirm what stopped a search, make it smaller and keep it."""
        text = data.decode("utf-8", "surrogateescape")
        again = self._once(self.sanitized, text) or self._once(target, text)
        if again is not None and again["kind"] in ("hang", "memory"):
            again = process.run_text("front", "cpu", text.encode("utf-8", "surrogateescape").decode(errors="replace"))
            if again is None:  # within the limits without instrumentation
                return
        found: dict[str, Any] = dict(again or {"kind": "crash", "signature": "not seen again", "message": text[:200]})
        known = self.seen.setdefault(
            found["signature"], {**found, "target": "front", "times": 0, "confirmed": again is not None, "text": text}
        )
        known["times"] += 1
        if known["times"] > 1 or again is None:
            return

        def fails(smaller: str) -> bool:
            shown = self._once(self.sanitized, smaller)
            return shown is not None and shown["signature"] == found["signature"]

        known["text"] = minimised(text, fails) if fails(text) else text
        if self.keep is not None:
            kept = known["text"].encode("utf-8", "surrogateescape").decode(errors="replace")
            known["file"] = str(findings.save("front", self.seed, 0, kept, again, self.keep))

    def _compare(self) -> int:
        """Read what was kept by the launch interface as well, which must see the same entries and parameters."""
        front, compared = Front(), 0
        for path in sorted(self.corpus.iterdir()):
            try:
                text = path.read_bytes().decode(errors="replace")
            except FileNotFoundError:  # another search with this corpus has found a smaller one
                continue
            compared += 1
            try:
                front.run(text)
            except Exception as error:  # whatever escapes is what the harness looks for
                shown = described(error)
                known = self.seen.setdefault(shown["signature"], {**shown, "target": "front", "times": 0, "text": text})
                known["times"] += 1
                if known["times"] == 1 and self.keep is not None:
                    known["file"] = str(findings.save("front", self.seed, 0, text, shown, self.keep))
        return compared
