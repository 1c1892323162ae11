"""Worker processes seen from outside: starting one, its memory and its processor time, and how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
HANG_SECONDS = 2.0
"""Processor time of one case that counts as a hang; without any, BLOCKED_SECONDS of the clock."""
BLOCKED_SECONDS = 20.0
MOST_BYTES = 3 << 30
"""Resident memory of a worker beyond which its case is a finding."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def patience() -> float:
    """How many times longer cases may take: a sanitized build is slower."""
    return float(os.environ.get("SGLAB_FUZZ_PATIENCE", "1"))


def start(arguments: list[str], output: IO[str]) -> subprocess.Popen[str]:
    """A worker with these arguments, in a process group of its own; what it prints goes to `output`."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT), PYTHONFAULTHANDLER="1", OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "sglab_fuzz.worker", *arguments]
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115  lives as long as the worker; `death` reads it
    worker = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=output, stderr=log, text=True, start_new_session=True
    )
    worker.log = log  # type: ignore[attr-defined]
    return worker


def processor_seconds(pid: int) -> float:
    """User and system time that a process has used; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


def end(worker: subprocess.Popen[str]) -> None:
    """End a worker of ours and wait for it."""
    if worker.poll() is None:
        worker.kill()
    worker.wait()


def death(worker: subprocess.Popen[str]) -> dict[str, str]:
    """How a worker died by itself, as a finding."""
    code = worker.returncode
    name = signal.Signals(-code).name if code < 0 else f"exit {code}"
    log = worker.log  # type: ignore[attr-defined]
    log.seek(0)
    text = log.read()
    sanitizer = next((line for line in text.splitlines() if "Sanitizer" in line or "runtime error" in line), "")
    return {"kind": "crash", "signature": f"crash {name}", "message": sanitizer or name, "trace": text[-2000:]}


class Watch:
    """Tells a hang or a flood of memory of the case that a worker is at."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.begin(-1)

    def begin(self, case: int) -> None:
        self.case, self.used, self.since = case, processor_seconds(self.pid), time.monotonic()

    def looks(self, case: int) -> dict[str, str] | None:
        """A finding, if the worker has been at this case for too long or is too large."""
        if case != self.case:
            self.begin(case)
        used = processor_seconds(self.pid) - self.used
        blocked = time.monotonic() - self.since
        if used > HANG_SECONDS * patience() or blocked > BLOCKED_SECONDS * patience():
            spent = f"{used:.1f} s of processor time in {blocked:.1f} s"
            return {"kind": "hang", "signature": "hang", "message": spent}
        if resident_bytes(self.pid) > MOST_BYTES * patience():
            return {"kind": "memory", "signature": "memory", "message": f"{resident_bytes(self.pid) >> 20} MiB"}
        return None


def run_text(name: str, device: str, text: str) -> dict[str, str] | None:
    """Run one text in a process of its own. Returns its finding, or None."""
    with tempfile.TemporaryDirectory() as folder:
        case, answers = Path(folder, "case"), Path(folder, "answers")
        case.write_text(text, "utf-8", "surrogatepass")
        with answers.open("w") as output:
            worker = start([name, device, "-", str(case)], output)
            watch, ready = Watch(worker.pid), False
            found = None
            while worker.poll() is None and found is None:
                time.sleep(0.02)
                if not ready:  # imports are not the case's time
                    ready = '"ready"' in answers.read_text()
                    watch.begin(0)
                else:
                    found = watch.looks(0)
            end(worker)
        if found is not None:
            return found
        if worker.returncode:
            return death(worker)
        lines = [json.loads(line) for line in answers.read_text().splitlines()]
        return next((line for line in lines if line["kind"] != "ready"), None)
