"""Which Python objects are integers: what counts and sizes of a launch may be given as."""

from __future__ import annotations

import operator
from typing import Any


def integer(value: Any) -> int | None:
    """`value` as an int if it is one or turns into one exactly, as numpy's integers do; None for anything else.

    Arrays and tensors have `__index__` whether or not it works, and fail with errors of their own.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        return None
