"""Public calls that were found right before: another with tensors of the same shapes and the same options is not
checked again, which is most of what a call costs on the host.

Only what checks read of shapes, strides, dtypes, devices and options is left out. Whether tensors overlap depends on
where they lie and is looked at in every call, and a call whose contents are checked is checked whole.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Hashable
from typing import Any, ParamSpec, TypeVar

import torch

MOST = 2048
"""Calls remembered per operator; then all are forgotten."""
ALIGNMENT = 16
"""Bytes. Nothing that is checked asks for more."""

P = ParamSpec("P")
T = TypeVar("T")
_PLAIN = frozenset({type(None), bool, int, float, str, torch.dtype})


class _Call(threading.local):
    known = False


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
    raise TypeError(kind)
