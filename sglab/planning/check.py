"""Argument checks that say what was expected, what came and what to do about it."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Int64Array = NDArray[np.int64]
INT32_MAX = 2**31 - 1


def fail(name: str, expected: str, value: object, remedy: str) -> ValueError:
    return ValueError(f"{name}: expected {expected}, got {value}; {remedy}")


def integer(name: str, value: int, *, minimum: int, maximum: int = INT32_MAX, remedy: str = "") -> int:
    """`value` as an int in [minimum, maximum]."""
    expected = f"an integer from {minimum} to {maximum}"
    remedy = remedy or f"pass {name}={min(max(minimum, 1), maximum)} or more"
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected {expected}, got {value!r}; {remedy}") from None
    if isinstance(value, bool) or not minimum <= number <= maximum:
        raise fail(name, expected, repr(value), remedy)
    return number


def choice(name: str, value: str, options: Sequence[str]) -> str:
    if value not in options:
        raise fail(name, "one of " + ", ".join(map(repr, options)), repr(value), "choose one of these")
    return value


def lengths(name: str, values: ArrayLike, *, minimum: int = 0, remedy: str = "") -> Int64Array:
    """`values` as a non-empty 1-D int64 array whose entries are all in [minimum, 2**31 - 1]."""
    array = _integer_vector(name, values)
    if array.size == 0:
        raise fail(name, "at least one request", "an empty list", f"pass one length per request, such as {name}=[1024]")
    wrong = np.flatnonzero((array < minimum) | (array > INT32_MAX))
    if wrong.size:
        index = int(wrong[0])
        remedy = remedy or "lengths are tokens per request and must fit int32"
        raise fail(f"{name}[{index}]", f"an integer from {minimum} to {INT32_MAX}", array[index], remedy)
    return array


def indptr(name: str, values: ArrayLike) -> Int64Array:
    """`values` as a CSR index: starts at 0, never decreases, has at least two entries."""
    array = _integer_vector(name, values)
    if array.size < 2:
        raise fail(name, "at least two entries (batch size + 1)", f"{array.size}", "prepend 0 to the running total")
    if array[0] != 0:
        raise fail(f"{name}[0]", "0", array[0], "prepend 0 to the running total")
    wrong = np.flatnonzero(np.diff(array) < 0)
    if wrong.size:
        index = int(wrong[0]) + 1
        found = f"{array[index]} after {array[index - 1]}"
        raise fail(f"{name}[{index}]", "a value that does not decrease", found, "pass the running total of lengths")
    return array


def same_length(name: str, array: Int64Array, other_name: str, expected: int) -> None:
    if array.size != expected:
        raise fail(name, f"{expected} entries, as {other_name} has requests", f"{array.size}", "pass one per request")


def _integer_vector(name: str, values: ArrayLike) -> Int64Array:
    array = np.asarray(values)
    if array.ndim != 1:
        raise fail(name, "a one-dimensional sequence", f"shape {array.shape}", "flatten it to one entry per request")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: expected integers, got dtype {array.dtype}; cast the lengths to an integer type")
    return array.astype(np.int64)
