"""Methods of one object that are watched for a while; the class and every other object stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class Wrapped:
    """The watched methods of one object."""

    def __init__(self, target: object) -> None:
        self._target = target
        self._names: list[str] = []

    def watch(self, name: str, around: Callable[..., Any]) -> None:
        """`around(run, *arguments)` is called instead of the method; `run` is the method as it was."""
        run = getattr(self._target, name)

        @wraps(run)
        def watched(*args: Any, **kwargs: Any) -> Any:
            return around(run, *args, **kwargs)

        vars(self._target)[name] = watched
        self._names.append(name)

    def undo(self) -> None:
        """The object's methods are its class's again."""
        for name in self._names:
            vars(self._target).pop(name, None)
        self._names.clear()
