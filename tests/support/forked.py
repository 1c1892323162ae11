"""Processes forked from one that has imported what takes long, and has done nothing else.

A fork of the tests' own process might inherit a lock that a thread holds.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(
    [
        *("tests.support.ranks", "tests.support.models", "torch._dynamo"),  # ranks; capturing imports _dynamo
        *("triton", "ipykernel.kernelapp", "sglab.labs", "sglab.widgets", "sglab.workbench"),  # notebooks' kernels
    ]
)


class Fork:
    """A process with what is asked of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, run: Callable[..., Any], *args: Any, daemon: bool = True) -> None:
        vars(sys.modules["__main__"]).setdefault("__spec__", None)  # a shell of IPython that was reset has none
        self.process = FORK.Process(target=run, args=args, daemon=daemon)
        self.process.start()
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.process.join(timeout)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("fork", timeout or 0)
        return self.process.exitcode

    def send_signal(self, signum: int) -> None:
        assert self.pid is not None
        os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
