"""The life of a submission's process: read a request, be confined, run its program, answer.

stdin brings the request, stdout takes the answer, stderr what the submission prints; the file `status_fd` what is in
force, written and closed before any of the submission's code runs. Three processes: this one, outside; the first of the
PID namespace, which waits, and with which all the others end; and the one that runs the program.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from . import confine, libc, wire

EXIT_UNCONFINED = 97
"""What was asked for could not be put in force; nothing has run."""
EXIT_MEMORY = 98
"""Its processes together used more memory than they may."""
UNCONFINED, REFUSED = "not confined", "refused"
ROOT = (
    "root's rights would reach past every limit, and this root may neither mount nor run Python as another user. "
    "Grade as an ordinary user, or install Python where all users may read it (/opt, /usr)"
)
POLL_SECONDS = 0.02


def main(status_fd: int) -> None:
    """Never returns."""
    grader = os.getppid()
    request = wire.decode(sys.stdin.buffer.read())
    limits, folder, hidden = request["limits"], request["folder"], request["hidden"]
    sys.path[1:] = request["paths"]
    os.environ.clear()
    os.environ.update(request["environment"])
    module, _, name = request["program"].partition(":")
    program = getattr(importlib.import_module(module), name)
    payload = wire.decode(request["payload"])  # its arrays need numpy, which is found only now
    os.setsid()
    needed = [sys.executable, os.__file__, *sys.path]
    user = confine.FIRST_USER + os.getpid() % confine.USERS  # of all that run at once, each its own
    spaces = confine.namespaces() if request["namespaces"] else []
    done = list(spaces)
    try:
        if not spaces:
            done += confine.own_user(user, needed, folder)
            spaces = confine.namespaces() if done and request["namespaces"] else []
            done += spaces
        if os.geteuid() == 0 and not spaces:
            _give_up(status_fd, PermissionError(ROOT), final=True)
    except OSError as error:
        _give_up(status_fd, error)
    if not spaces:
        os.chdir(folder)
        done += confine.rlimits(limits)
        _follow(grader)
        _lock(limits, done, status_fd)
        _answer(program, payload)
    first = os.fork()
    if first:
        _follow(grader)
        os._exit(_status(os.waitpid(first, 0)[1]))
    libc.die_with_parent()
    try:
        done += confine.mounts(folder, hidden, request["needed"], limits["folder_bytes"], limits["processes"])
    except OSError as error:
        _give_up(status_fd, error)
    second = os.fork()
    if second:
        os.close(status_fd)
        _watch(second, limits["processes"], limits["resident"])
    os.chdir(folder)
    done += confine.own_user(user, needed, folder)
    if os.geteuid() == 0:
        _give_up(status_fd, PermissionError(ROOT), final=True)
    done += confine.rlimits(limits)
    _lock(limits, done, status_fd)
    _answer(program, payload)


def _follow(parent: int) -> None:
    """Ends with the process that watches the time: once it is killed, nobody else would end a submission that sleeps.

    After every change of user, which would undo it.
    """
    libc.die_with_parent()
    if os.getppid() != parent:
        os._exit(EXIT_UNCONFINED)


def _lock(limits: dict[str, Any], done: list[str], status_fd: int) -> None:
    confine.process_limit(limits["processes"] + limits["threads"])
    done += confine.finish(limits["processes"])
    os.write(status_fd, json.dumps(done).encode())
    os.close(status_fd)


def _give_up(status_fd: int, error: OSError, final: bool = False) -> None:
    os.write(status_fd, json.dumps([f"{REFUSED if final else UNCONFINED}: {error}"]).encode())
    os._exit(EXIT_UNCONFINED)


def _watch(child: int, processes: int, resident: int) -> None:
    """Waits for the program as the first process of its namespace, and ends all of them when they become too many, or
    use too much memory together."""
    page = os.sysconf("SC_PAGE_SIZE")
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            os._exit(_status(status))
        if ended == 0:
            others = [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]
            if processes > 1 and len(others) > processes:
                os._exit(128 + 11)
            if resident and sum(map(_pages, others)) * page > resident:
                os._exit(EXIT_MEMORY)
            time.sleep(POLL_SECONDS)


def _pages(process: str) -> int:
    """Of memory, that a process has in use; 0 where it has ended."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _status(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _answer(program: Callable[[Any], Any], payload: Any) -> None:
    """Runs the program; its answer, or how it failed, goes to what was stdout."""
    answer = os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  for as long as the process lives
    try:
        message = wire.encode({"result": program(payload)})
    except MemoryError:
        message = wire.encode({"failed": "MemoryError: more memory than the limit"})
    except BaseException as error:  # SystemExit and KeyboardInterrupt are the submission's failures, too
        message = wire.encode({"failed": "".join(traceback.format_exception_only(type(error), error)).strip()[:4000]})
    try:
        view = memoryview(message)
        while view:
            view = view[os.write(answer, view) :]
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)
