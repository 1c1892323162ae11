"""Shows a waiting user what is being compiled, or how far a launch is."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TextIO

from sglab.gpu import core

PATIENCE = 1.0  # seconds; what is over by then needs no announcement
LONG = 2.0  # seconds; the same of a launch on the emulator
INTERVAL = 1.0  # seconds between counts
INTERRUPT = "Ctrl-C, or in a notebook ■ (Kernel, Interrupt), stops it"


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Says that `what` is being done if it takes longer than a second, and then how long it took: on stderr, in a
    notebook on stdout."""
    start = time.perf_counter()
    spoken = threading.Event()

    def begin() -> None:
        spoken.set()
        _say(f"{what} …")

    timer = threading.Timer(PATIENCE, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if spoken.is_set():
            _say(f"{what}: {time.perf_counter() - start:.1f} s")


@cache
def say_once(text: str) -> None:
    """Says what a user should know but need not answer; the same text only once."""
    _say(text)


def _stream() -> TextIO:
    """stderr; in a notebook stdout, since it draws stderr on red, as if something had failed."""
    return sys.stdout if "ipykernel" in type(sys.stdout).__module__ else sys.stderr


def _say(text: str) -> None:
    print(f"[sglab] {text}", file=_stream(), flush=True)


class Watched:
    """Around a launch on the emulator: if it takes longer than two seconds, says what runs, how many
    warp-instructions it has executed so far of `limit` (0: none), and how to interrupt it.

    Args:
        what: the kernel's name.
    """

    def __init__(self, what: str, limit: int = 0) -> None:
        self._what, self._limit = what, limit

    def __enter__(self) -> None:
        _listen()
        self._begin = time.monotonic()
        self._next = self._begin + LONG
        self._said = self._counting = False
        self._executed = 0
        self._before, _here.watch = getattr(_here, "watch", None), self

    def __exit__(self, *error: object) -> None:
        _here.watch = self._before
        self.over()

    def polled(self, executed: int) -> None:
        now, self._executed = time.monotonic(), executed
        if now < self._next:
            return
        self._next = now + INTERVAL
        if not self._said:
            self._said = True
            _say(f"{self._what} runs on the emulator: {self._so_far()}. {INTERRUPT}")
        elif _rewrites():
            self._counting = True
            print(f"\r[sglab] {self._so_far()}", end="", file=_stream(), flush=True)

    def over(self) -> None:
        if self._counting:
            print(file=_stream())
        if self._said:
            _say(f"{self._what}: {time.monotonic() - self._begin:.1f} s")

    def _so_far(self) -> str:
        seconds = time.monotonic() - self._begin
        most = f" of at most {self._limit:,}" if self._limit else ""
        return f"{self._executed:,} warp-instructions{most} in {seconds:.0f} s"


_here = threading.local()  # watch: of the launch that this thread runs


def _polled(executed: int) -> None:
    watch = getattr(_here, "watch", None)
    if watch is not None:
        watch.polled(executed)


@cache
def _listen() -> None:
    core.on_poll(_polled)


def _rewrites() -> bool:
    """Whether a carriage return writes over a line: in a terminal, and in a notebook's output."""
    return _stream() is sys.stdout or sys.stderr.isatty()
