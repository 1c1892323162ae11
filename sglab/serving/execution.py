"""Where passes run: at once, or one after another in a thread, which is to a CPU what a CUDA stream is to a GPU.

Everything that touches KV rows goes through one of these in the order of the plans, so that a slot may be given to
another request while a pass that still writes it is on its way.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import torch

T = TypeVar("T")


class Pending(Generic[T]):
    """A result on its way."""

    def __init__(self, run: Callable[[], T]) -> None:
        self._run = run
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Compute it; what it raises is raised by `result`."""
        try:
            self._value = self._run()
        except Exception as error:
            self._error = error
        self._done.set()

    def result(self) -> T:
        """Wait for it."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """So many of PyTorch's threads for operations that this thread starts; None: as before."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class InlineExecution:
    """Runs what is submitted at once; on a GPU its kernels are only launched then.

    Args:
        threads: PyTorch's threads on a CPU; None: as they are.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads

    def submit(self, run: Callable[[], T]) -> Pending[T]:
        """Run it."""
        pending = Pending(run)
        with torch_threads(self.threads):
            pending.run()
        return pending

    def close(self) -> None:
        """Nothing is left to stop."""


class ThreadExecution:
    """Runs what is submitted in a thread, in order, while the caller goes on. Arguments as InlineExecution."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads
        self._queue: queue.SimpleQueue[Pending[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name="sglab-forward", daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[], T]) -> Pending[T]:
        """Queue it."""
        pending = Pending(run)
        self._queue.put(pending)
        return pending

    def close(self) -> None:
        """End the thread after what was submitted."""
        self._queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while (pending := self._queue.get()) is not None:
            with torch_threads(self.threads):
                pending.run()


Execution = InlineExecution | ThreadExecution
