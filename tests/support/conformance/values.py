"""Floating-point inputs: all pairs of special values, close and far random values, random bit patterns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .case import DTYPES, Bits
from .exact import Format


def specials(f: Format) -> list[int]:
    one = f.bias << f.mantissa
    magnitudes = [
        0,
        1,
        2,
        (1 << f.mantissa) - 1,
        1 << f.mantissa,
        (1 << f.mantissa) + 1,
        one - 1,
        one,
        one + 1,
        one + (1 << (f.mantissa - 1)),
        f.infinity - 1,
        f.infinity,
        f.infinity + 1,
        f.sign - 1,
    ]
    return magnitudes + [m | f.sign for m in magnitudes]


def floats(*formats: Format, count: int = 250) -> Callable[[np.random.Generator], tuple[Bits, ...]]:
    def make(rng: np.random.Generator) -> tuple[Bits, ...]:
        length = len(specials(formats[0]))
        columns = []
        for position, f in enumerate(formats):
            grid = np.array(specials(f), dtype=np.uint64)[:length]
            crossed = np.repeat(grid, length) if position == 1 else np.tile(grid, length)
            if position == 2:
                crossed = rng.permutation(crossed)
            anything = (
                rng.integers(0, 1 << f.bits, count, dtype=np.uint64, endpoint=False)
                if f.bits < 64
                else (rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False))
            )
            exponents = rng.integers(f.bias - 3, f.bias + 4, count, dtype=np.uint64) << np.uint64(f.mantissa)
            near = exponents | rng.integers(0, 1 << f.mantissa, count, dtype=np.uint64)
            near |= rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(f.bits - 1)
            columns.append(np.concatenate([crossed, anything, near]).astype(DTYPES[f.bits]))
        return tuple(columns)

    return make
