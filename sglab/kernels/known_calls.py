"""Public calls that were found right before: another with tensors of the same shapes and the same options is not
checked again, which is most of what a call costs on the host.

Only what checks read of shapes, strides, dtypes, devices and options is left out. Whether tensors overlap depends on
where they lie and is looked at in every call, and a call whose contents are checked is checked whole.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import torch

MOST = 2048
"""Calls remembered per operator; then all are forgotten."""
ALIGNMENT = 16
"""Bytes. Nothing that is checked asks for more."""

P = ParamSpec("P")
T = TypeVar("T")
_PLAIN = frozenset({type(None), bool, int, float, str, torch.dtype})


_RECORDS: dict[type, tuple[str, ...]] = {}
"""Dataclasses that are arguments, and their fields."""


def is_argument(record: type[T]) -> type[T]:
    """A dataclass of tensors and plain values that operators take."""
    _RECORDS[record] = tuple(field.name for field in dataclasses.fields(record))  # type: ignore[arg-type]
    return record


class _Call(threading.local):
    known = False
    whole = False
    """In an operator made of operators, whose like call was found right with all that is in it."""


_call = _Call()


def call_is_known() -> bool:
    """Whether this thread is in a call like one that was found right."""
    return _call.known


def checked_once(function: Callable[P, T]) -> Callable[P, T]:
    """An operator's public function, of whose like calls the first alone is checked."""
    right: set[Hashable] = set()
    reads_contents = "check_values" in inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if _call.whole:
            return function(*args, **options)
        key = None if reads_contents and _reads(args, options) else _key(args, options)
        before = _call.known
        _call.known = key is not None and key in right
        try:
            result = function(*args, **options)
        finally:
            _call.known = before
        if key is not None and key not in right:
            if len(right) >= MOST:
                right.clear()
            right.add(key)
        return result

    return call


@contextmanager
def made_of_operators() -> Iterator[None]:
    """Within a call that is known: the operators in it get tensors like those of the first call, so they are known."""
    before = _call.whole
    _call.whole = _call.known
    try:
        yield
    finally:
        _call.whole = before


def _reads(args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether a call's contents are checked: as it says, by default where its first tensor lies on the host."""
    asked = options.get("check_values")
    if asked is not None:
        return bool(asked)
    for value in args or options.values():
        if isinstance(value, torch.Tensor):
            return value.device.type == "cpu"
    return True


def _key(args: tuple[Any, ...], options: dict[str, Any]) -> Hashable:
    """All of a call that checks depend on but contents and addresses; None: it is checked whole."""
    try:
        return tuple([_described(value) for value in args]), tuple(
            [(name, _described(options[name])) for name in options]
        )
    except TypeError:
        return None


def _described(value: Any) -> Hashable:
    """
    Raises:
        TypeError: of an object whose parts are not known here.
    """
    kind = type(value)
    if kind is torch.Tensor:
        return value.shape, value.stride(), value.dtype, value.device, value.data_ptr() % ALIGNMENT
    if kind in _PLAIN:
        return kind, value
    if kind is tuple or kind is list:
        return tuple([_described(each) for each in value])
    if kind in _RECORDS:
        return kind, tuple([_described(getattr(value, name)) for name in _RECORDS[kind]])
    raise TypeError(kind)
