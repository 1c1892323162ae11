"""Shows a waiting user what is being compiled."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds; what is over by then needs no announcement


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Says on stderr that `what` is being done if it takes longer than a second, and then how long it took."""
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


def _say(text: str) -> None:
    print(f"[sglab] {text}", file=sys.stderr, flush=True)
