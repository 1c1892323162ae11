"""Binary formats in numpy: bits to numbers, sums that keep what was rounded off, and one rounding in any mode."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sglab_fuzz.arithmetic.form import Bits

Numbers = npt.NDArray[np.float64]
U = np.uint64


@dataclass(frozen=True)
class Format:
    """An IEEE binary format; `nan` is the code that operations make."""

    bits: int
    mantissa: int
    nan: int

    @property
    def bias(self) -> int:
        return (1 << (self.bits - self.mantissa - 2)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.mantissa - 1)) - 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def one(self) -> int:
        return self.bias << self.mantissa

    def is_nan(self, bits: Bits) -> npt.NDArray[np.bool_]:
        return (bits & U(self.sign - 1)) > U(self.infinity)


F16 = Format(16, 10, 0x7FFF)
BF16 = Format(16, 7, 0x7FFF)
F32 = Format(32, 23, 0x7FFFFFFF)
F64 = Format(64, 52, 0x7FFFFFFFFFFFFFFF)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def decode(bits: Bits, f: Format, flush: bool = False) -> Numbers:
    """The numbers, exactly; `flush` takes subnormal ones for zeros of their sign."""
    if flush:
        bits = np.where(bits & U(f.infinity), bits, bits & U(f.sign))
    with np.errstate(invalid="ignore"):
        if f is F64:
            return bits.view(np.float64)
        if f is F32:
            return bits.astype(np.uint32).view(np.float32).astype(np.float64)
        if f is F16:
            return bits.astype(np.uint16).view(np.float16).astype(np.float64)
        return (bits << U(16)).astype(np.uint32).view(np.float32).astype(np.float64)


def encode(values: Numbers, f: Format, mode: str = "rn", flush: bool = False) -> Bits:
    """Round once to a format below f64; `mode` is rn, rz, rm, rp or rna (halves away from zero).

    Correct where `values` are exact, or rounded to odd and f has at most 51 bits.
    """
    negative = np.signbit(values)
    magnitude = np.abs(np.where(np.isfinite(values), values, 0.0))
    _, exponent = np.frexp(magnitude)
    floor = np.maximum(np.where(magnitude == 0, -1074, exponent - 1), 1 - f.bias).astype(np.int64)
    steps = np.ldexp(magnitude, f.mantissa - floor)
    whole = np.floor(steps)
    rest = steps - whole
    if mode == "rn":
        up = (rest > 0.5) | ((rest == 0.5) & (whole % 2 == 1))
    elif mode == "rna":
        up = rest >= 0.5
    elif mode == "rz":
        up = np.zeros(len(rest), bool)
    else:
        up = (rest > 0) & (negative if mode == "rm" else ~negative)
    code = ((floor + (f.bias - 1)) << f.mantissa) + whole.astype(np.int64) + up
    if mode == "rz":
        inward = np.ones(len(rest), bool)
    else:
        inward = {"rm": ~negative, "rp": negative}.get(mode, np.zeros(len(rest), bool))
    code = np.where(code >= f.infinity, np.where(inward, f.infinity - 1, f.infinity), code)
    if flush:
        smallest, unit = 2.0 ** (1 - f.bias), 2.0 ** (-f.bias - f.mantissa)
        short = smallest - magnitude
        away = (mode == "rm") & negative | (mode == "rp") & ~negative
        reaches = np.where(away, short < unit, (mode == "rn") & (short <= unit / 2))
        code = np.where((magnitude < smallest) & ~reaches, 0, code)
    code = np.where(np.isinf(values), f.infinity, code).astype(np.uint64)
    code |= np.where(negative, U(f.sign), U(0))
    return np.where(np.isnan(values), U(f.nan), code)


def odd_sum(a: Numbers, b: Numbers, mode: str = "rn") -> Numbers:
    """a + b rounded to odd, so that one more rounding to a narrower format is right; the sign of an exact zero is the
    mode's."""
    with np.errstate(all="ignore"):
        total = a + b
        part = total - a
        error = (a - (total - part)) + (b - part)
    inexact = np.isfinite(total) & (error != 0) & np.isfinite(error)
    code = np.ascontiguousarray(total).view(np.int64)
    below = inexact & (np.signbit(error) != np.signbit(total))
    odd = ((code - below) | 1).view(np.float64)
    total = np.where(inexact, odd, total)
    if mode == "rm":
        cancelled = (total == 0) & ~((a == 0) & (b == 0) & (np.signbit(a) == np.signbit(b)))
        total = np.where(cancelled, -0.0, total)
    return total


def saturate(bits: Bits, f: Format) -> Bits:
    """.sat: to [0, 1]; NaN and negative numbers become +0."""
    low = (bits & U(f.sign) != 0) | f.is_nan(bits)
    return np.where(low, U(0), np.minimum(bits, U(f.one)))


def relu(bits: Bits, f: Format) -> Bits:
    """.relu: negative numbers become +0; NaN is canonical."""
    return np.where((bits & U(f.sign) != 0) & ~f.is_nan(bits), U(0), bits)
