"""Random operands: corner values, near numbers, related numbers and any bits, so that rounding and limits are met."""

from __future__ import annotations

import numpy as np

from sglab_fuzz.arithmetic.form import Bits, width
from sglab_fuzz.arithmetic.soft import FORMATS, Format

U = np.uint64


def draw(kinds: tuple[str, ...], rng: np.random.Generator, lanes: int) -> list[Bits]:
    """One column per source; some rows of later columns are near those of the first."""
    columns: list[Bits] = []
    for kind in kinds:
        column = _column(kind, rng, lanes)
        if columns and width(kind) == width(kinds[0]) and kind == kinds[0]:
            near = rng.random(lanes) < 0.15
            step = rng.integers(-3, 4, lanes).astype(np.int64).view(np.uint64)
            flip = np.where(rng.random(lanes) < 0.5, U(1) << U(width(kind) - 1), U(0))
            mask = U((1 << width(kind)) - 1)
            column = np.where(near, ((columns[0] + step) & mask) ^ flip, column)
        columns.append(column)
    return columns


def _column(kind: str, rng: np.random.Generator, lanes: int) -> Bits:
    if kind in ("shift", "small"):
        wide = _integers(32, rng, lanes)
        small = rng.integers(0, 70, lanes, dtype=np.uint64)
        return np.where(rng.random(lanes) < 0.8, small, wide)
    if kind == "lane":
        return rng.integers(0, 32, lanes, dtype=np.uint64)
    if kind == "selector":
        return rng.integers(0, 1 << 32, lanes, dtype=np.uint64)
    if kind.endswith("x2") and kind[:-2] in FORMATS:
        f = FORMATS[kind[:-2]]
        return _floats(f, rng, lanes) | _floats(f, rng, lanes) << U(f.bits)
    if kind in FORMATS:
        return _floats(FORMATS[kind], rng, lanes)
    return _integers(width(kind), rng, lanes)


def _bits(bits: int, rng: np.random.Generator, lanes: int) -> Bits:
    return rng.integers(0, 1 << 64, lanes, dtype=np.uint64) >> U(64 - bits)


def _integers(bits: int, rng: np.random.Generator, lanes: int) -> Bits:
    top = 1 << (bits - 1)
    corners = [0, 1, 2, 3, 7, 15, 31, 32, 33, 63, 64, 255, -1, -2, -3, -31, -32, top, top - 1, top + 1, top >> 1]
    corner = rng.choice(np.array([c % (1 << bits) for c in corners], dtype=np.uint64), lanes)
    cut = _bits(bits, rng, lanes) >> rng.integers(0, bits, lanes, dtype=np.uint64)
    power = (U(1) << rng.integers(0, bits, lanes, dtype=np.uint64)) + rng.integers(0, 3, lanes, dtype=np.uint64) - U(1)
    which = rng.integers(0, 4, lanes)
    return np.choose(which, [corner, _bits(bits, rng, lanes), cut, power]) & U((1 << bits) - 1)


def _floats(f: Format, rng: np.random.Generator, lanes: int) -> Bits:
    least, whole = 1 << f.mantissa, f.infinity
    corners = [0, 1, 2, least - 1, least, least + 1, f.one - 1, f.one, f.one + 1, f.one + least // 2, whole - 1, whole]
    corners += [whole + 1, f.sign - 1, f.one + least, f.one - least]
    corner = rng.choice(np.array(corners, dtype=np.uint64), lanes)
    fraction = _bits(f.mantissa, rng, lanes)
    sparse = fraction & _bits(f.mantissa, rng, lanes) & _bits(f.mantissa, rng, lanes)
    near = (rng.integers(f.bias - 4, f.bias + 5, lanes, dtype=np.uint64) << U(f.mantissa)) | fraction
    some = (rng.integers(0, 2 * f.bias + 1, lanes, dtype=np.uint64) << U(f.mantissa)) | sparse
    small = (rng.integers(0, f.mantissa + 3, lanes, dtype=np.uint64) << U(f.mantissa)) | fraction
    which = rng.integers(0, 5, lanes)
    chosen = np.choose(which, [corner, near, some, small, _bits(f.bits - 1, rng, lanes)])
    return chosen | rng.integers(0, 2, lanes, dtype=np.uint64) << U(f.bits - 1)
