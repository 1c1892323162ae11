"""Runs a compiler in a forked child: it sees every function defined so far, and may crash without harm."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from sglab.gpu.errors import CompileError


def in_child(what: str, work: Callable[[], None], folder: Path) -> None:
    """Calls `work` in a child process; its output and its errors go to a log in `folder`.

    Raises:
        CompileError: `work` raised, or the process died; with everything that it said.
    """
    log = folder / "log.txt"
    with warnings.catch_warnings():  # Python warns of threads; the child runs the compiler and nothing else
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _run(work, log)
    try:
        _, status = os.waitpid(child, 0)
    except BaseException:  # Ctrl-C: the child must not continue alone
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    said = log.read_text(errors="replace").strip() if log.exists() else ""
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        raise CompileError(f"{what}: the compiler crashed ({name}). {said}")
    if os.WEXITSTATUS(status):
        raise CompileError(f"{what}: {said}")


def _run(work: Callable[[], None], log: Path) -> None:
    """The child's life. It ends here, without the parent's exit handlers."""
    try:
        gc.freeze()  # CUDA does not survive a fork: tensors that the parent left are not to be freed here
        faulthandler.disable()  # it would write to the parent's terminal
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        work()
        os._exit(0)
    except BaseException as error:
        text = str(error) or "".join(traceback.format_exception(error))
        os.write(2, f"{type(error).__name__}: {text}\n".encode())
    finally:
        sys.stdout = sys.stderr = None
        os._exit(1)
