"""Runs a program in a process of its own, which costs only itself whatever it does."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .inside import calls, wire
from .inside.main import EXIT_MEMORY, REFUSED, UNCONFINED
from .limits import Limits

_FOLDER = Path(__file__).parent
_START = "import sys; sys.path.insert(0, sys.argv[1]); from inside.main import main; main(int(sys.argv[2]))"
_PACKAGE = Path(__file__).resolve().parents[2]
_KERNELS = [root / "csrc" / "kernels" for root in (_PACKAGE, _PACKAGE.parent)]
_OURS = ("portable", "sm90", "sm100", "lessons")
CALLS = "inside.calls:run"
"""The program that calls a submission's functions; it sees numpy and no sglab."""


def _history(checkout: Path) -> tuple[Path, ...]:
    """Where Git keeps a checkout's files, solutions among them: in it, or, of a further work tree, elsewhere."""
    link = checkout / ".git"
    if not link.is_file():
        return (link,)
    folder = Path(checkout, link.read_text("utf-8").partition("gitdir:")[2].strip())
    return (folder.parents[1] if folder.parent.name == "worktrees" else folder,)


SOLUTIONS = (
    _PACKAGE.parent / "labs",
    *(_PACKAGE.parent / name for name in ("build", "dist")),
    *(_history(_PACKAGE.parent) if (_PACKAGE.parent / "labs").is_dir() else ()),
    *(root / name for root in _KERNELS for name in _OURS),
)
"""No submission sees these: of a checkout the instructors' folder, with its history and what was built of it; our own
kernels, which a submission could include."""
LAUNCHES = ("sglab.labs.launches.capture:run",)
"""The programs in which a submission's Python launches kernels; they see sglab, but what is READY."""
READY = tuple(_PACKAGE / name for name in ("attention", "engine", "kernels", "models", "serving", "labs/coursework"))
"""What a submission that launches kernels does not see besides: ready-made ones, and the judges."""
_CHUNK = 1 << 16
_REASONS = {
    EXIT_MEMORY: "it used more memory than the limit",
    128 + signal.SIGXCPU: "it used more processor time than the limit",
    128 + signal.SIGXFSZ: "it wrote a file larger than the limit",
    128 + signal.SIGSEGV: "it crashed (segmentation fault), or started too many processes",
    128 + signal.SIGSYS: "it made a forbidden system call",
}


class SandboxError(RuntimeError):
    """Submissions cannot be held on this machine as it is."""


@dataclass(frozen=True)
class Ended:
    """What became of a process.

    Attributes:
        result: what the program returned, plain data; None where it did not get there.
        failed: why not; empty where it did.
        text: what it printed, cut.
        enforced: what held it: rlimits, namespaces, seccomp, …
        seconds: wall-clock.
    """

    result: Any
    failed: str
    text: str
    enforced: tuple[str, ...]
    seconds: float


class Bench(Protocol):
    """Where submissions' code runs."""

    def run(self, program: str, payload: Any, limits: Limits) -> Ended:
        """Runs `program` ("module:function") on `payload`."""


@dataclass
class Sandbox:
    """A process for each run.

    Attributes:
        hidden: folders and files that no submission may see: other submissions, results, solutions. Without a mount
            namespace they are only as safe as their permissions.
        namespaces: whether to ask the system for namespaces.
    """

    hidden: Sequence[Path] = ()
    namespaces: bool = True
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, program: str, payload: Any, limits: Limits) -> Ended:
        """Runs `program` ("module:function") on `payload`, both ours; what the payload holds may be anybody's."""
        folder = tempfile.mkdtemp(prefix="sglab-lab-")
        paths = _installed(sys.path)
        hidden = [str(Path(path).resolve()) for path in (*self.hidden, *SOLUTIONS) if Path(path).exists()]
        tools = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
        needed = [sys.prefix, sys.base_prefix, sys.executable, os.__file__, *tools, *paths]
        hidden += _private(Path.home(), needed)
        if any(path.startswith("/tmp/") for path in needed):
            hidden += _private(Path("/tmp"), [*needed, folder])
        if program in LAUNCHES:
            hidden += [str(path) for path in READY if path.is_dir()]
        if program == CALLS:
            hidden.append(str(_PACKAGE))
            paths = [path for path in paths if not Path(path, "sglab").is_dir()] + _numpy_beside_sglab(paths)
        request = {
            "program": program,
            "payload": wire.encode(payload),
            "limits": limits.as_dict(),
            "folder": folder,
            "hidden": hidden,
            "needed": needed,
            "namespaces": self.namespaces,
            "paths": paths,
            "environment": {**_environment(folder), **self.environment},
        }
        try:
            ended = self._finished(wire.encode(request), limits)
            if ended.failed.startswith(UNCONFINED):  # namespaces without the right to mount: then without them
                ended = self._finished(wire.encode({**request, "namespaces": False}), limits)
            return ended
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _finished(self, request: bytes, limits: Limits) -> Ended:
        status_read, status_write = os.pipe()
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(_FOLDER), str(status_write)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[status_write],
            cwd="/",
            env={"PATH": os.environ.get("PATH", "")},
        )
        os.close(status_write)
        try:
            answer, text, why = _conversation(process, request, limits, began)
        finally:
            _end(process)
            with os.fdopen(status_read, "rb") as status:
                enforced = _enforced(status)
        if enforced[:1] and enforced[0].startswith(REFUSED):
            raise SandboxError(f"nothing was run: {enforced[0]}")
        result, failed = _read(answer, why, process.returncode)
        if enforced[:1] and enforced[0].startswith(UNCONFINED):
            failed, enforced = enforced[0], ()
        return Ended(result, failed, text.decode("utf-8", "replace"), enforced, time.monotonic() - began)


@dataclass
class OpenBench:
    """Runs in this very process: for code that is trusted, such as the model solutions in tests."""

    def run(self, program: str, payload: Any, limits: Limits) -> Ended:
        import importlib

        module, _, name = program.partition(":")
        function = calls.run if program == CALLS else getattr(importlib.import_module(module), name)
        before = Path.cwd()
        with tempfile.TemporaryDirectory() as folder:  # programs write the files that they run
            os.chdir(folder)
            try:
                return Ended(wire.decode(wire.encode(function(wire.decode(wire.encode(payload))))), "", "", (), 0.0)
            except Exception as error:
                return Ended(None, f"{type(error).__name__}: {error}", "", (), 0.0)
            finally:
                os.chdir(before)


def _installed(paths: Sequence[str]) -> list[str]:
    """Where Python's library and packages lie. Other folders that the grader imports from may be closed to others, and
    are none of a submission's business."""
    homes = tuple(os.path.join(os.path.realpath(prefix), "") for prefix in (sys.prefix, sys.base_prefix))
    return [
        path
        for path in paths
        if path
        and (
            os.path.realpath(path).startswith(homes)
            or Path(path).name in {"site-packages", "dist-packages"}
            or any(Path(path, package).is_dir() for package in ("sglab", "numpy", "torch"))
        )
    ]


def _private(home: Path, needed: Sequence[str]) -> list[str]:
    """The folders of the grader's home, but for what Python needs and the way there."""
    kept = {Path(path).resolve() for path in needed} | {Path(path) for path in needed}
    way = {up for path in kept for up in (path, *path.parents)}
    found: list[str] = []
    todo = [home.resolve()]
    while todo:
        for entry in _folders(todo.pop()):
            if entry in kept:
                continue
            if entry in way:
                todo.append(entry)
            else:
                found.append(str(entry))
    return found


def _folders(path: Path) -> list[Path]:
    try:
        return [entry for entry in sorted(path.iterdir()) if entry.is_dir() and not entry.is_symlink()]
    except OSError:
        return []


def _numpy_beside_sglab(paths: Sequence[str]) -> list[str]:
    """Where numpy is: perhaps in the same folder as sglab, which is hidden by itself."""
    return [path for path in paths if Path(path, "numpy").is_dir()][:1]


def _environment(folder: str) -> dict[str, str]:
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    kept = {name: os.environ[name] for name in ("PATH", "CUDA_HOME", "LANG") if name in os.environ}
    return {**one, **kept, "HOME": folder, "TMPDIR": folder, "SGLAB_CACHE": str(Path(folder, "cache"))}


def _conversation(
    process: subprocess.Popen[bytes], request: bytes, limits: Limits, began: float
) -> tuple[bytes, bytes, str]:
    """Sends the request and reads until the process ends or goes too far: answer, printed text, why it was ended."""
    assert process.stdin and process.stdout and process.stderr
    answer, text, pending = bytearray(), bytearray(), memoryview(request)
    until = began + limits.seconds
    with selectors.DefaultSelector() as selector:
        for file, event in (
            (process.stdin, selectors.EVENT_WRITE),
            (process.stdout, selectors.EVENT_READ),
            (process.stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(file.fileno(), False)
            selector.register(file, event)
        while selector.get_map():
            left = until - time.monotonic()
            if left <= 0:
                until = began + limits.seconds + min(_waited(process.pid), limits.patience * limits.seconds)
                if until <= time.monotonic():
                    return bytes(answer), bytes(text), f"it was not done after {limits.seconds:g} s"
                continue
            over = process.poll() is not None  # before looking: what it wrote at its end is there then
            ready = selector.select(min(left, 0.05))
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    pending = _send(process, pending, selector)
                    continue
                data = os.read(key.fd, _CHUNK)
                into, most = (answer, limits.output) if key.fileobj is process.stdout else (text, limits.text)
                into += data
                if len(into) > most:
                    what = "answered" if into is answer else "printed"
                    return b"", bytes(text[: limits.text]), f"it {what} more than {most} bytes"
                if not data:
                    selector.unregister(key.fileobj)
            if not ready and over:
                break  # what it started may still hold the pipes
    return bytes(answer), bytes(text), ""


def _waited(process: int) -> float:
    """Seconds for which a process, or one below it, was ready to run and others had the processors: on a machine where
    a whole class computes, that is no fault of the submission. 0 where the system does not say."""
    longest, todo = 0.0, [str(process)]
    while todo:
        place = Path("/proc", todo.pop())
        try:
            longest = max(longest, int((place / "schedstat").read_text().split()[1]) / 1e9)
            todo += (place / "task" / place.name / "children").read_text().split()
        except (OSError, ValueError, IndexError):
            continue  # it has ended, or the kernel keeps no such figures
    return longest


def _send(process: subprocess.Popen[bytes], pending: memoryview, selector: selectors.BaseSelector) -> memoryview:
    assert process.stdin
    try:
        pending = pending[os.write(process.stdin.fileno(), pending[:_CHUNK]) :]
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        pending = pending[:0]
    if not pending:
        selector.unregister(process.stdin)
        process.stdin.close()
    return pending


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it with all of its session; a PID namespace ends with it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(0.2)
    try:
        if os.getsid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue


def _enforced(status: Any) -> tuple[str, ...]:
    os.set_blocking(status.fileno(), False)
    try:
        return tuple(map(str, json.loads(status.read(_CHUNK) or b"[]")))
    except ValueError:
        return ()


def _read(answer: bytes, why: str, code: int) -> tuple[Any, str]:
    if why:
        return None, why
    if not answer:
        return None, _REASONS.get(code, f"it ended without an answer (exit status {code})")
    try:
        message = wire.decode(answer)
    except wire.WireError as error:
        return None, f"its answer is no message: {error}"
    if not isinstance(message, dict) or set(message) not in ({"result"}, {"failed"}):
        return None, "its answer is no message"
    return message.get("result"), str(message.get("failed", ""))
