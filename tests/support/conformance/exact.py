"""IEEE arithmetic with exact rationals: decode bits, compute, round once. Slow and plain."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

Number = Fraction | float  # a float only for infinities, NaN and negative zero


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    bits: int
    mantissa: int
    nan: int  # that operations make, and in all formats but f64 also hand on

    @property
    def exponent_bits(self) -> int:
        return self.bits - self.mantissa - 1

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    def is_nan(self, bits: int) -> bool:
        return bits & (self.sign - 1) > self.infinity

    def hand_on(self, bits: int, target: Format) -> int:
        """What a NaN becomes in another format: quiet, with its sign and as much of its payload as fits."""
        payload = bits & ((1 << self.mantissa) - 1)
        shift = target.mantissa - self.mantissa
        payload = payload << shift if shift >= 0 else payload >> -shift
        return (target.sign if bits & self.sign else 0) | target.infinity | 1 << (target.mantissa - 1) | payload

    def decode(self, bits: int, flush: bool = False) -> Number:
        negative, magnitude = bits & self.sign, bits & (self.sign - 1)
        if magnitude > self.infinity:
            return math.nan
        if magnitude == self.infinity:
            return -math.inf if negative else math.inf
        exponent, fraction = magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1)
        if exponent == 0 and (flush or fraction == 0):
            return -0.0 if negative else Fraction(0)
        whole = fraction if exponent == 0 else fraction | 1 << self.mantissa
        value = whole * Fraction(2) ** (max(exponent, 1) - self.bias - self.mantissa)
        return -value if negative else value

    def encode(self, value: Number, mode: str = "rn", flush: bool = False) -> int:
        """Rounds once; `mode` is rn, rz, rm or rp."""
        if isinstance(value, float):
            if math.isnan(value):
                return self.nan
            if math.isinf(value):
                return self.infinity | (self.sign if value < 0 else 0)
            return self.sign if math.copysign(1, value) < 0 else 0
        sign = self.sign if value < 0 else 0
        magnitude = abs(value)
        if magnitude == 0:
            return 0
        exponent = max(floor_log2(magnitude), 1 - self.bias)
        unit = Fraction(2) ** (exponent - self.mantissa)
        steps = magnitude / unit
        whole = steps.numerator // steps.denominator
        rest = steps - whole
        up = {
            "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1 == 1),
            "rz": False,
            "rm": rest > 0 and sign != 0,
            "rp": rest > 0 and sign == 0,
        }[mode]
        code = ((exponent - 1 + self.bias) << self.mantissa) + whole + up
        if code >= self.infinity:
            towards_zero = mode == "rz" or (mode == "rm" and not sign) or (mode == "rp" and sign)
            code = self.infinity - 1 if towards_zero else self.infinity
        if flush and self._tiny(magnitude, mode, sign):
            code = 0
        return sign | code

    def _tiny(self, magnitude: Fraction, mode: str, sign: int) -> bool:
        """Whether a flushing instruction takes a result for subnormal: as if exponents had no lower limit."""
        smallest = Fraction(2) ** (1 - self.bias)
        if magnitude >= smallest:
            return False
        unit = smallest * Fraction(2) ** (-self.mantissa - 1)  # spacing right below the smallest normal number
        short = smallest - magnitude
        away = (mode == "rm" and sign) or (mode == "rp" and not sign)
        reaches = short < unit if away else mode == "rn" and short <= unit / 2
        return not reaches


F16 = Format(16, 10, 0x7FFF)
BF16 = Format(16, 7, 0x7FFF)
F32 = Format(32, 23, 0x7FFFFFFF)
F64 = Format(64, 52, 0xFFF8000000000000)


def floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _plain(value: Number) -> Fraction | None:
    """As a rational, if it is finite."""
    if isinstance(value, Fraction):
        return value
    return Fraction(0) if value == 0 else None


def _negative(value: Number) -> bool:
    return math.copysign(1, value) < 0 if isinstance(value, float) else value < 0


def _zero(negative: bool) -> Number:
    return -0.0 if negative else Fraction(0)


def add(a: Number, b: Number, mode: str = "rn") -> Number:
    x, y = _plain(a), _plain(b)
    if x is None or y is None:
        return (float(a) if x is None else 0.0) + (float(b) if y is None else 0.0)
    if x + y != 0:
        return x + y
    if x == 0 and _negative(a) == _negative(b):
        return _zero(_negative(a))
    return _zero(mode == "rm")


def negate(a: Number) -> Number:
    if isinstance(a, float):
        return -a
    return -0.0 if a == 0 else -a


def multiply(a: Number, b: Number) -> Number:
    x, y = _plain(a), _plain(b)
    negative = _negative(a) != _negative(b)
    if x is None or y is None:
        if x == 0 or y == 0 or a != a or b != b:
            return math.nan
        return -math.inf if negative else math.inf
    return x * y if x * y != 0 else _zero(negative)


def divide(a: Number, b: Number) -> Number:
    x, y = _plain(a), _plain(b)
    negative = _negative(a) != _negative(b)
    if a != a or b != b or (x is None and y is None) or (x == 0 and y == 0):
        return math.nan
    if x is None or y == 0:
        return -math.inf if negative else math.inf
    if y is None or x == 0:
        return _zero(negative)
    return x / y


def fused(a: Number, b: Number, c: Number, mode: str = "rn") -> Number:
    return add(multiply(a, b), c, mode)


def square_root(a: Number, digits: int = 120) -> Number:
    """With so many extra bits that rounding it once more is right: a square root is never exactly half-way."""
    x = _plain(a)
    if x == 0:
        return a
    if a != a or _negative(a):
        return math.nan
    if x is None:
        return math.inf
    scale = 2 * digits + max(0, -2 * floor_log2(x))
    scaled = x * 4**scale
    floor = math.isqrt(scaled.numerator // scaled.denominator)
    exact = floor * floor * scaled.denominator == scaled.numerator
    return Fraction(2 * floor + (0 if exact else 1), 2 * 2**scale)


def minimum(a: Number, b: Number, largest: bool = False, propagate: bool = False) -> Number:
    """PTX min and max: a NaN loses unless it is to propagate; -0 is less than +0."""
    if a != a or b != b:
        return math.nan if propagate or (a != a and b != b) else (b if a != a else a)
    if _plain(a) == 0 and _plain(b) == 0:
        first = _negative(a) != largest
        return a if first else b
    return a if (a > b) == largest else b
