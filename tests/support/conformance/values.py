"""Floating-point inputs: all pairs of special values, close and far random values, random bit patterns."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from .case import DTYPES, Bits
from .exact import Format, floor_log2


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


def edges(f: Format, op: str) -> Callable[[np.random.Generator], tuple[Bits, ...]]:
    """Operands of mul, div or fma whose results lie around the limits of normal numbers and around a last place."""

    def make(rng: np.random.Generator) -> tuple[Bits, ...]:
        # The smallest normal number, a number between subnormal ones, and the largest finite number.
        limits = [Fraction(2) ** (1 - f.bias), Fraction(1025, 2) * Fraction(2) ** (1 - f.bias - f.mantissa)]
        limits.append(f.decode(f.infinity - 1))
        rows = []
        for limit in limits:
            for _ in range(60):
                exponent = int(rng.integers(-8, 9)) + (floor_log2(limit) // 2 if op != "div" else 0)
                a = (exponent + f.bias) << f.mantissa | int(rng.integers(0, 1 << f.mantissa))
                wanted = limit / f.decode(a) if op != "div" else limit * f.decode(a)
                b = f.encode(wanted, "rz") + int(rng.integers(-2, 3))
                raw = (b, a) if op == "div" else (a, b)
                signs = rng.integers(0, 2, 2).tolist()
                row = [v | f.sign * s for v, s in zip(raw, signs, strict=True)]
                if op == "fma":  # an addend from nothing to a few last places of the limit
                    places = f.encode(limit) >> f.mantissa
                    shift = int(rng.integers(0, 3)) + f.mantissa - 1
                    c = max(places - shift, 0) << f.mantissa | int(rng.integers(0, 4)) if rng.integers(0, 2) else 0
                    row.append(c | f.sign * int(rng.integers(0, 2)))
                rows.append(row)
        return tuple(np.array(column, dtype=np.uint64).astype(DTYPES[f.bits]) for column in zip(*rows, strict=True))

    return make


def together(*makers: Callable[[np.random.Generator], tuple[Bits, ...]]) -> Callable:
    """The inputs of several makers, one after the other."""

    def make(rng: np.random.Generator) -> tuple[Bits, ...]:
        return tuple(np.concatenate(columns) for columns in zip(*(m(rng) for m in makers), strict=True))

    return make


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
