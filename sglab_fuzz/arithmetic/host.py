"""f64 operations in every rounding mode, by the host's own arithmetic; fma with exact rationals."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np

from sglab_fuzz.arithmetic.form import Bits

_X86 = {"rn": 0, "rm": 0x400, "rp": 0x800, "rz": 0xC00}
_ARM = {"rn": 0, "rp": 0x400000, "rm": 0x800000, "rz": 0xC00000}
_MODES = _X86 if platform.machine() in ("x86_64", "AMD64", "i686") else _ARM


@contextmanager
def rounding(mode: str) -> Iterator[None]:
    """numpy's arithmetic in this mode: vector instructions follow the same control register."""
    library = ctypes.CDLL(None)
    library.fesetround(_MODES[mode])
    try:
        yield
    finally:
        library.fesetround(_MODES["rn"])


def double(function: Callable[..., np.ndarray], mode: str) -> Callable[..., Bits]:
    """An f64 operation that the host's hardware rounds."""

    def oracle(*bits: Bits) -> Bits:
        numbers = [b.view(np.float64) for b in bits]
        with np.errstate(all="ignore"), rounding(mode):
            result = function(*numbers)
        return result.view(np.uint64)

    return oracle


def double_fma(mode: str) -> Callable[..., Bits]:
    """f64 fma with exact rationals; slow."""

    def oracle(a: Bits, b: Bits, c: Bits) -> Bits:
        numbers = (x.view(np.float64).tolist() for x in (a, b, c))
        return np.array([_fused(*row, mode) for row in zip(*numbers, strict=True)]).view(np.uint64)

    return oracle


def _fused(a: float, b: float, c: float, mode: str) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        return float(np.float64(a) * np.float64(b) + np.float64(c)) if np.isfinite(c) or c != c else _plus(a, b, c)
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        sign = np.signbit(a) ^ np.signbit(b)
        product_zero = a == 0 or b == 0
        if product_zero and c == 0 and sign == np.signbit(c):
            return -0.0 if sign else 0.0
        return -0.0 if mode == "rm" else 0.0
    return _round(exact, mode)


def _plus(a: float, b: float, c: float) -> float:
    """With an infinite c: a finite product may not overflow on the way."""
    if np.isfinite(a) and np.isfinite(b):
        return c
    with np.errstate(invalid="ignore"):
        return float(np.float64(a) * np.float64(b) + np.float64(c))


def _round(exact: Fraction, mode: str) -> float:
    """To f64, once: Python's division of integers rounds to nearest; from there at most one step."""
    try:
        near = exact.numerator / exact.denominator
    except OverflowError:
        near = float("inf") if exact > 0 else float("-inf")
    if mode == "rn":
        return near
    inward = mode == "rz" or (mode == "rm" and exact > 0) or (mode == "rp" and exact < 0)
    if np.isinf(near):
        return float(np.nextafter(near, 0)) if inward else near
    gap = exact - Fraction(near)
    if inward and (gap > 0) != (exact > 0) and gap != 0:
        return float(np.nextafter(near, 0)) if near != 0 else near
    if not inward and gap != 0 and (gap > 0) == (exact > 0):
        return float(np.nextafter(near, np.inf if exact > 0 else -np.inf))
    if near == 0 and exact < 0:
        return -0.0
    return near
