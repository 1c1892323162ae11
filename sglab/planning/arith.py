"""Integer arithmetic as the planners' C++ does it, for scalars and arrays."""

from __future__ import annotations

from typing import overload

import numpy as np

from sglab.planning.check import Int64Array


@overload
def ceil_div(x: int, y: int) -> int: ...
@overload
def ceil_div(x: Int64Array, y: int | Int64Array) -> Int64Array: ...
def ceil_div(x: int | Int64Array, y: int | Int64Array) -> int | Int64Array:
    """x / y rounded up, for x >= 0 and y > 0."""
    return (x + y - 1) // y


def next_power_of_two(number: int) -> int:
    """The least power of two that is at least `number`, for number >= 1. Triton's own takes 2 µs."""
    return 1 << (number - 1).bit_length()


def exclusive_cumsum(counts: Int64Array) -> Int64Array:
    """Running total with a leading 0: a CSR index from row sizes."""
    return np.concatenate(([0], np.cumsum(counts)))


def index_within_group(counts: Int64Array) -> Int64Array:
    """0 … counts[i]-1 for every group, concatenated: [2, 3] gives [0, 1, 0, 1, 2]."""
    return np.arange(int(counts.sum())) - np.repeat(exclusive_cumsum(counts)[:-1], counts)
