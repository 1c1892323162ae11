"""Who is told of launches on a GPU: what keeps a pass's launches to make them again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Listener(Protocol):
    """Told after each launch of this thread."""

    def launched(self, launch: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """`launch(*arguments)` was called; the same call launches the kernel again, also with tensors' addresses in
        their place."""
        ...

    def passed_over(self, kernel: str) -> None:
        """A kernel was launched in a way that cannot be made again."""
        ...


class _Heard(threading.local):
    listener: Listener | None = None


_heard = _Heard()


def listener() -> Listener | None:
    """Of this thread's launches."""
    return _heard.listener


@contextmanager
def listening(to_tell: Listener) -> Iterator[None]:
    """Tell this listener, and no other, inside."""
    before = _heard.listener
    _heard.listener = to_tell
    try:
        yield
    finally:
        _heard.listener = before
