"""An object's methods that are those of its parts, with their signatures and their documentation."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

Part = TypeVar("Part")
P = ParamSpec("P")
Answer = TypeVar("Answer")


def delegates(part: str, method: Callable[Concatenate[Part, P], Answer]) -> Callable[Concatenate[Any, P], Answer]:
    """`method` of the object in the attribute `part`, as a method of the object that has it."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        return method(getattr(self, part), *args, **kwargs)

    update_wrapper(call, method)
    return call
