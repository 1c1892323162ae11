"""Public calls that were found right before: another with tensors of the same shapes and the same options is not
checked again, which is most of what a call costs on the host.

Only what checks read of shapes, strides, dtypes, devices and options is left out. Whether tensors overlap depends on
where they lie and is looked at in every call, and a call whose contents are checked is checked whole.

An operator may say how calls like the one that it just served are served from then on (`next_time`): by less than its
own way, for everything but the tensors is known. It is asked at the second call, for shapes that never come back are
not worth the preparation.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, Generic, ParamSpec, TypeVar

import torch

MOST = 2048
"""Calls remembered per operator; then all are forgotten."""
ALIGNMENT = 16
"""Bytes. Nothing that is checked asks for more."""

_new, _set = object.__new__, object.__setattr__  # of frozen dataclasses, too

P = ParamSpec("P")
T = TypeVar("T")
_TENSOR, _PARAMETER = torch.Tensor, torch.nn.Parameter
_PLAIN = frozenset({type(None), bool, int, float, str, torch.dtype})


_RECORDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
"""Dataclasses that are arguments, and what gives their fields."""


def is_argument(record: type[T]) -> type[T]:
    """A dataclass of tensors and plain values, two or more, that operators take."""
    _RECORDS[record] = attrgetter(*(field.name for field in dataclasses.fields(record)))  # type: ignore[arg-type]
    return record


_found_right: list[dict[Any, Any]] = []
"""Of every operator, its calls that were found right and how others like them are served."""


def forget() -> None:
    """Check every call again: an operator has another implementation than when they were served."""
    for calls in _found_right:
        calls.clear()


class _Call(threading.local):
    known = False
    """It is like one that was found right; were it known how such calls are served, it would not be under way."""
    serve: Callable[..., Any] | None = None
    """What the call under way says of those like it."""


_call = _Call()


def call_is_known() -> bool:
    """Whether this thread is in a call like one that was found right."""
    return _call.known


def checked_once(function: Callable[P, T]) -> Callable[P, T]:
    """An operator's public function, of whose like calls the first alone is checked."""
    right: dict[Hashable, Callable[P, T] | None] = {}
    _found_right.append(right)
    reads_contents = "check_values" in inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        key = None if reads_contents and _reads(args, options) else _key(args, options)
        serve = right.get(key) if key is not None else None
        if serve is not None:
            return serve(*args, **options)
        known = key is not None and key in right
        before = _call.known, _call.serve
        _call.known, _call.serve = known, None
        try:
            result = function(*args, **options)
            like_it = _call.serve
        finally:
            _call.known, _call.serve = before
        if key is not None and (like_it is not None or not known):
            if len(right) >= MOST:
                right.clear()
            right[key] = like_it
        return result

    return call


def next_time(make: Callable[[], Callable[..., Any]]) -> None:
    """Calls like the one under way are served by what this makes, once that has returned.

    Args:
        make: called now, if this was not the first call of its kind. What it gives takes what the operator takes, and
            gives what it gives. It must hold no tensor of the call, must look whether outputs overlap what is read, and
            is not asked where contents are checked.
    """
    if _call.known:
        _call.serve = make()


class Template(Generic[T]):
    """The checked arguments of a call without what changes from one like it to the next.

    Args:
        arguments: a dataclass.
        changing: its fields that `of` is given. The others may hold no tensors.

    Raises:
        ValueError: another field holds a tensor, which would serve calls that have one of their own.
    """

    def __init__(self, arguments: T, *changing: str) -> None:
        fields = dataclasses.fields(arguments)  # type: ignore[arg-type]
        self._kind = type(arguments)
        self._kept = {field.name: getattr(arguments, field.name) for field in fields if field.name not in changing}
        if held := [name for name, value in self._kept.items() if _holds_tensor(value)]:
            raise ValueError(f"{self._kind.__name__}: {', '.join(held)} must be among what changes: it holds a tensor")

    def of(self, **changing: Any) -> T:
        """Arguments of another call."""
        return self.filled(changing)

    def filled(self, changing: dict[str, Any]) -> T:
        """`of`, whose dictionary the arguments keep."""
        changing.update(self._kept)
        made: T = _new(self._kind)
        _set(made, "__dict__", changing)
        return made


class Served(Generic[T]):
    """How calls like one that was checked are served: their tensors put into its arguments, which then run.

    Args:
        arguments: of the call that was checked.
        run: its implementation.
        changing: fields that each call has of its own; see Template.
    """

    def __init__(self, arguments: T, run: Callable[[T], object], *changing: str) -> None:
        self._template, self._run = Template(arguments, *changing), run

    def _serve(self, changing: dict[str, Any]) -> None:
        """Run a call with these, in a dictionary that it keeps."""
        self._run(self._template.filled(changing))


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (tuple, list)):
        return any(map(_holds_tensor, value))
    if dataclasses.is_dataclass(value):
        return any(_holds_tensor(getattr(value, field.name)) for field in dataclasses.fields(value))
    return False


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
    """All of a call that checks depend on but contents and addresses; None: it is checked whole.

    One flat tuple, for a tuple within a tuple is more to make and to hash. What each part is says its first element: a
    tensor's is its shape, that of anything else its type, and the names of options come before what they name.
    """
    key: list[Any] = []
    try:
        _describe(args, key)
        if options:
            key += options
            _describe(options.values(), key)
    except TypeError:
        return None
    return tuple(key)


def _describe(values: Iterable[Any], key: list[Any]) -> None:
    """
    Raises:
        TypeError: of an object whose parts are not known here.
    """
    for value in values:
        kind = type(value)
        if kind is _TENSOR or kind is _PARAMETER:
            key += (value.shape, value.stride(), value.dtype, value.device, value.data_ptr() % ALIGNMENT)
        elif kind in _PLAIN:
            key += (kind, value)
        elif kind is tuple or kind is list:
            key += (kind, len(value))
            _describe(value, key)
        elif kind in _RECORDS:
            key.append(kind)
            _describe(_RECORDS[kind](value), key)
        else:
            raise TypeError(kind)
