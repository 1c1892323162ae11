"""A stream that is always late: what is submitted runs when its result is asked for, after all that came before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sglab.serving.execution import Pending

T = TypeVar("T")


class LatePending(Pending[T]):
    def __init__(self, run: Callable[[], T], owner: LateExecution) -> None:
        super().__init__(run)
        self._owner = owner

    def result(self) -> T:
        while not self._done.is_set():
            self._owner.queue.pop(0).run()
        return super().result()


class LateExecution:
    """In the place of ThreadExecution: with it every plan is made before the pass that was planned before it begins."""

    def __init__(self, threads: int | None = None) -> None:
        self.queue: list[LatePending[Any]] = []

    def submit(self, run: Callable[[], T]) -> LatePending[T]:
        pending = LatePending(run, self)
        self.queue.append(pending)
        return pending

    def close(self) -> None:
        while self.queue:
            self.queue.pop(0).run()
