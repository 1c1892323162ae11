"""Listeners to moves of a launch under control; see Session.on_move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Listeners:
    """A part of its own: the others notify, and none of them refers to the session, whose memory is large."""

    def __init__(self) -> None:
        self._all: list[Callable[[], None]] = []
        self._held = 0

    def on_move(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever the session has moved or its breakpoints have changed, until the function that this
        returns is called."""
        self._all.append(listener)
        return lambda: self._all.remove(listener) if listener in self._all else None

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """While it lasts, listeners do not hear of moves: for those that end where they began."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def notify(self) -> None:
        """Calls all of them."""
        for listener in [] if self._held else [*self._all]:
            listener()
