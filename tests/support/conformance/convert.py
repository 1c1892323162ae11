"""cvt between all types, with all roundings."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from . import exact
from .case import DTYPES, Bits, Case, integers, mapped, signed
from .exact import BF16, F16, F32, F64, Format, Number
from .values import floats, together

FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
ROUND = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}


def _range(kind: str, bits: int) -> tuple[int, int]:
    return (0, (1 << bits) - 1) if kind == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _clamp(value: int, kind: str, bits: int) -> int:
    low, high = _range(kind, bits)
    return max(low, min(high, value))


def between_integers() -> Iterator[Case]:
    for source in (16, 32, 64):
        for target in (16, 32, 64):
            for ks in "us":
                for kt in "us":
                    low, high = _range(ks, source)
                    exceeds = low < _range(kt, target)[0] or high > _range(kt, target)[1]
                    for sat in (False, True) if exceeds else (False,):  # ptxas takes .sat only where it can act

                        def convert(a: int, ks=ks, kt=kt, source=source, target=target, sat=sat) -> int:
                            value = signed(a, source) if ks == "s" else a
                            return _clamp(value, kt, target) if sat else value

                        name = f"cvt{'.sat' if sat else ''}.{kt}{target}.{ks}{source} {{d}}, {{a}};"
                        yield Case(name, target, (source,), mapped(target, convert), integers(source))
    for kind in "us":
        yield Case(
            f"cvt.{kind}32.{kind}8 {{d}}, {{a}};",
            32,
            (32,),
            mapped(32, lambda a, kind=kind: signed(a & 255, 8) if kind == "s" else a & 255),
            integers(32),
        )
        yield Case(
            f"cvt.sat.{kind}8.s32 {{d}}, {{a}};",
            32,
            (32,),
            mapped(32, lambda a, kind=kind: _clamp(signed(a, 32), kind, 8)),
            integers(32),
        )


def integral(value: Fraction, mode: str) -> int:
    floor = value.numerator // value.denominator
    rest = value - floor
    if mode == "rn":
        return floor + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor & 1 == 1))
    if mode == "rz":
        return floor + (rest > 0 and value < 0)
    return floor + (rest > 0 and mode == "rp")


def _to_integer(value: Number, kind: str, bits: int, mode: str, wide: bool) -> int:
    low, high = _range(kind, bits)
    if value != value:
        return 1 << (bits - 1) if wide else 0
    if isinstance(value, float) and math.isinf(value):
        return high if value > 0 else low
    return _clamp(integral(Fraction(value), mode), kind, bits)


def _reach(f: Format) -> Callable[[np.random.Generator], tuple[Bits, ...]]:
    """Specials, and numbers around every power of two that an integer can have."""
    base = floats(f)

    def make(rng: np.random.Generator) -> tuple[Bits, ...]:
        (column,) = base(rng)
        exponents = rng.integers(-3, min(66, f.bias), 600)
        values = rng.choice([-1.0, 1.0], 600) * rng.uniform(1, 2, 600) * 2.0**exponents
        rounded = [f.encode(Fraction(float(v))) for v in values]
        halves = [f.encode(Fraction(2 * k + 1, 2)) for k in range(-40, 40)]
        return (np.concatenate([column, np.array(rounded + halves, dtype=column.dtype)]),)

    return make


def _around_least(source: Format, to: Format) -> Callable[[np.random.Generator], tuple[Bits, ...]]:
    """Numbers around the smallest normal number of a narrower format, and between subnormal ones."""

    def make(rng: np.random.Generator) -> tuple[Bits, ...]:
        least = Fraction(2) ** (1 - to.bias)
        places = [least * (1 - Fraction(k, 1 << (to.mantissa + 3))) for k in range(-20, 40)]
        small = [least * Fraction(int(k), 1 << (to.mantissa + 2)) for k in rng.integers(0, 1 << to.mantissa, 60)]
        bits = [source.encode(v) for v in places + small]
        codes = [b + int(step) for b in bits for step in (-1, 0, 1) if b + step >= 0]
        return (np.array([c | source.sign * (k & 1) for k, c in enumerate(codes)], dtype=DTYPES[source.bits]),)

    return make


def float_to_integer() -> Iterator[Case]:
    for name, f in FLOATS.items():
        target = "sm_90" if name == "bf16" else "sm_80"
        for bits in (16, 32, 64):
            for kind in "us":
                for mode, rounding in ROUND.items():

                    def convert(a: int, f=f, kind=kind, bits=bits, rounding=rounding) -> int:
                        return _to_integer(f.decode(a), kind, bits, rounding, f is F64 or bits == 64)

                    yield Case(
                        f"cvt.{mode}.{kind}{bits}.{name} {{d}}, {{a}};",
                        bits,
                        (f.bits,),
                        mapped(bits, convert),
                        _reach(f),
                        target=target,
                    )


def integer_to_float() -> Iterator[Case]:
    for name, f in FLOATS.items():
        target = "sm_90" if name == "bf16" else "sm_80"
        for bits in (16, 32, 64):
            for kind in "us":
                for mode in ("rn", "rz", "rm", "rp"):

                    def convert(a: int, f=f, kind=kind, bits=bits, mode=mode) -> int:
                        return f.encode(Fraction(signed(a, bits) if kind == "s" else a), mode)

                    yield Case(
                        f"cvt.{mode}.{name}.{kind}{bits} {{d}}, {{a}};",
                        f.bits,
                        (bits,),
                        mapped(f.bits, convert),
                        integers(bits),
                        target=target,
                    )
                    if name == "f32":
                        form = f"cvt.{mode}.ftz.f32.{kind}{bits} {{d}}, {{a}};"
                        yield Case(form, 32, (bits,), mapped(32, convert), integers(bits))
                    if name != "bf16":
                        form = f"cvt.{mode}.sat.{name}.{kind}{bits} {{d}}, {{a}};"

                        def saturated(a: int, f=f, convert=convert) -> int:
                            return _unit(f, convert(a))

                        yield Case(form, f.bits, (bits,), mapped(f.bits, saturated), integers(bits), target=target)


def _unit(f: Format, bits: int) -> int:
    """.sat: clamped to [0, 1], NaN and -0 become +0."""
    if bits & f.sign or f.is_nan(bits):
        return 0
    return min(bits, f.encode(Fraction(1)))


def between_floats() -> Iterator[Case]:
    def narrow(
        form: str, to: Format, source: Format, mode: str, target: str = "sm_80", relu: bool = False, sat: bool = False
    ) -> Case:
        flush = ".ftz" in form and to is not F16  # an H200 does not flush a subnormal source on its way to f16

        def convert(a: int) -> int:
            if flush and source is F32 and source.is_nan(a):
                a = 0x7FFFFFFF  # flushing is an operation on f32, which makes a NaN canonical
            if sat or flush:
                bits = to.encode(source.decode(a, flush and source is F32), mode, flush and to is F32)
                if not sat and source.is_nan(a) and F64 in (source, to):
                    return source.hand_on(a, to)
                return _unit(to, bits) if sat else bits
            if source.is_nan(a) and F64 in (source, to):
                return source.hand_on(a, to)
            if source.is_nan(a) and (source, to) == (BF16, F32):
                return a << 16
            bits = to.encode(source.decode(a), mode)
            return 0 if relu and bits & to.sign and bits & ~to.sign <= to.infinity else bits

        inputs = together(_reach(source), _around_least(source, to)) if source.bits > to.bits else _reach(source)
        return Case(f"{form} {{d}}, {{a}};", to.bits, (source.bits,), mapped(to.bits, convert), inputs, target=target)

    for ftz, sat in ((".ftz", False), ("", True), (".ftz", True)):
        tail = ftz + (".sat" if sat else "")
        for mode in ("rn", "rz", "rm", "rp"):
            yield narrow(f"cvt.{mode}{tail}.f32.f64", F32, F64, mode, sat=sat)
            yield narrow(f"cvt.{mode}{tail}.f16.f32", F16, F32, mode, sat=sat)
            if not ftz:
                yield narrow(f"cvt.{mode}{tail}.f16.f64", F16, F64, mode, sat=sat)
        yield narrow(f"cvt{tail}.f32.f16", F32, F16, "rn", sat=sat)
        yield narrow(f"cvt{tail}.f64.f32", F64, F32, "rn", sat=sat)
        yield narrow(f"cvt{tail}.f32.f32", F32, F32, "rn", sat=sat)
        if not ftz:
            yield narrow(f"cvt{tail}.f64.f16", F64, F16, "rn", sat=sat)
    for mode in ("rn", "rz", "rm", "rp"):
        yield narrow(f"cvt.{mode}.f32.f64", F32, F64, mode)
        yield narrow(f"cvt.{mode}.f16.f32", F16, F32, mode)
        yield narrow(f"cvt.{mode}.f16.f64", F16, F64, mode)
        yield narrow(f"cvt.{mode}.bf16.f64", BF16, F64, mode, "sm_90")
        yield narrow(f"cvt.{mode}.bf16.f16", BF16, F16, mode, "sm_90")
        yield narrow(f"cvt.{mode}.f16.bf16", F16, BF16, mode, "sm_90")
        yield narrow(f"cvt.{mode}.f64.bf16", F64, BF16, mode, "sm_90")
    for mode in ("rm", "rp"):
        yield narrow(f"cvt.{mode}.bf16.f32", BF16, F32, mode)
    yield narrow("cvt.sat.f16.f16", F16, F16, "rn", sat=True)
    # ptxas makes additions of -0 of these two, so that every NaN becomes the canonical one.
    yield narrow("cvt.f16.f16", F16, F16, "rn")
    yield narrow("cvt.bf16.bf16", BF16, BF16, "rn", "sm_90")
    for mode in ("rn", "rz"):
        yield narrow(f"cvt.{mode}.bf16.f32", BF16, F32, mode)
        yield narrow(f"cvt.{mode}.relu.f16.f32", F16, F32, mode, relu=True)
        yield narrow(f"cvt.{mode}.relu.bf16.f32", BF16, F32, mode, relu=True)
    yield narrow("cvt.f32.f16", F32, F16, "rn")
    yield narrow("cvt.f32.bf16", F32, BF16, "rn", "sm_90")
    yield narrow("cvt.f64.f32", F64, F32, "rn")
    yield narrow("cvt.f64.f16", F64, F16, "rn")
    yield narrow("cvt.f64.bf16", F64, BF16, "rn", "sm_90")
    for mode, rounding in ROUND.items():
        for name, f in (("f32", F32), ("f64", F64), ("f16", F16), ("bf16", BF16)):

            def whole(a: int, f=f, rounding=rounding) -> int:
                value = f.decode(a)
                if f is F64 and f.is_nan(a):
                    return f.hand_on(a, f)
                if not isinstance(value, Fraction):
                    return f.encode(value)
                result = integral(value, rounding)
                return f.encode(Fraction(result)) if result else (f.sign if value < 0 else 0)

            form = f"cvt.{mode}.{name}.{name} {{d}}, {{a}};"
            target = "sm_90" if f is BF16 else "sm_80"
            yield Case(form, f.bits, (f.bits,), mapped(f.bits, whole), _reach(f), target=target)


def packed() -> Iterator[Case]:
    for name, f in (("f16", F16), ("bf16", BF16)):
        for mode in ("rn", "rz"):
            for relu in (False, True):

                def convert(a: int, b: int, f=f, mode=mode, relu=relu) -> int:
                    halves = [f.encode(F32.decode(v), mode) for v in (b, a)]
                    if relu:
                        halves = [0 if h & f.sign and h & ~f.sign <= f.infinity else h for h in halves]
                    return halves[0] | halves[1] << 16

                form = f"cvt.{mode}{'.relu' if relu else ''}.{name}x2.f32 {{d}}, {{a}}, {{b}};"
                yield Case(form, 32, (32, 32), mapped(32, convert), floats(F32, F32))


@dataclass(frozen=True)
class Tiny:
    """A format of at most 8 bits: its largest finite code, and which codes are NaN and infinity."""

    exponent_bits: int
    mantissa: int
    top: int
    nan: int
    infinity: int | None
    width: int  # bits that a code takes in a pair
    target: str

    @property
    def sign(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa)

    def value(self, code: int) -> Fraction:
        exponent, fraction = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        whole = fraction if exponent == 0 else fraction | 1 << self.mantissa
        bias = (1 << (self.exponent_bits - 1)) - 1
        return whole * Fraction(2) ** (max(exponent, 1) - bias - self.mantissa)

    def encode(self, value: Number) -> int:
        """With saturation, by looking for the nearest of all codes."""
        if value != value:
            return self.nan
        negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
        sign = self.sign if negative else 0
        if isinstance(value, float) and math.isinf(value):
            return sign | self.top
        x = abs(Fraction(value))
        codes = _values(self)
        if x >= codes[-1]:
            return sign | self.top
        above = bisect.bisect_right(codes, x)
        low, high = x - codes[above - 1], codes[above] - x
        return sign | (above if high < low or (high == low and above % 2 == 0) else above - 1)

    def widen(self, code: int) -> int:
        """As f16 bits."""
        sign = 0x8000 if code & self.sign else 0
        magnitude = code & (self.sign - 1)
        if magnitude <= self.top:
            return sign | F16.encode(self.value(magnitude))
        return sign | F16.infinity if magnitude == self.infinity else F16.nan


@cache
def _values(f: Tiny) -> list[Fraction]:
    """The finite magnitudes of a format, rising."""
    return [f.value(code) for code in range(f.top + 1)]


TINY = {
    "e4m3": Tiny(4, 3, 0x7E, 0x7F, None, 8, "sm_89"),
    "e5m2": Tiny(5, 2, 0x7B, 0x7F, 0x7C, 8, "sm_89"),
    "e2m3": Tiny(2, 3, 0x1F, 0x1F, None, 8, "sm_100a"),
    "e3m2": Tiny(3, 2, 0x1F, 0x1F, None, 8, "sm_100a"),
    "e2m1": Tiny(2, 1, 0x7, 0x7, None, 4, "sm_100a"),
}


def _two_reaches(rng: np.random.Generator) -> tuple[Bits, ...]:
    columns = [_reach(F32)(rng)[0] for _ in range(2)]
    return columns[0], rng.permutation(columns[1])


def _half_pairs(rng: np.random.Generator) -> tuple[Bits, ...]:
    low = _reach(F16)(rng)[0].astype(np.uint32)
    return (low | rng.permutation(low) << np.uint32(16),)


def narrow_formats() -> Iterator[Case]:
    for name, f in TINY.items():
        mask = (1 << f.width) - 1

        def from_singles(a: int, b: int, f=f) -> int:
            return f.encode(F32.decode(b)) | f.encode(F32.decode(a)) << f.width

        def from_halves(a: int, f=f) -> int:
            return f.encode(F16.decode(a & 0xFFFF)) | f.encode(F16.decode(a >> 16)) << 8

        def widened(a: int, f=f, mask=mask) -> int:
            return f.widen(a & mask) | f.widen(a >> f.width & mask) << 16

        def codes(rng: np.random.Generator, f=f) -> tuple[Bits, ...]:
            inside = f.sign | (f.sign - 1)
            pairs = rng.integers(0, 1 << 16, 3000)
            return ((pairs & inside | (pairs >> 8 & inside) << f.width).astype(np.uint16),)

        narrow = f"cvt.rn.satfinite.{name}x2.f32"
        if f.width == 4:
            bytes4 = mapped(32, lambda a, b, g=from_singles: g(a, b) * 0x01010101)
            form = narrow + " t, {a}, {b}; mov.b32 {d}, {{t, t, t, t}};"
            yield Case(form, 32, (32, 32), bytes4, _two_reaches, target=f.target, declare=".reg .b8 t;")
            form = f"mov.b16 {{{{t, u}}}}, {{a}}; cvt.rn.f16x2.{name}x2 {{d}}, t;"
            yield Case(form, 32, (16,), mapped(32, widened), codes, target=f.target, declare=".reg .b8 t, u;")
            continue
        yield Case(narrow + " {d}, {a}, {b};", 16, (32, 32), mapped(16, from_singles), _two_reaches, target=f.target)
        yield Case(f"cvt.rn.f16x2.{name}x2 {{d}}, {{a}};", 32, (16,), mapped(32, widened), codes, target=f.target)
        if f.target == "sm_89":
            form = f"cvt.rn.satfinite.{name}x2.f16x2 {{d}}, {{a}};"
            yield Case(form, 16, (32,), mapped(16, from_halves), _half_pairs, target=f.target)


def exponents() -> Iterator[Case]:
    """ue8m0: a power of two from 2^-127 to 2^127, or NaN (0xff); the sign is dropped."""

    def code(value: Number, up: bool, finite: bool) -> int:
        if value != value:
            return 0xFF
        if isinstance(value, float) and math.isinf(value):
            return 0xFE if finite else 0xFF
        x = abs(Fraction(value))
        for exponent in range(-127, 128):
            power = Fraction(2) ** exponent
            if x < 2 * power or (up and x == 2 * power):
                rounded = exponent + (1 if up and x > power else 0)
                return rounded + 127 if rounded < 128 else (0xFE if finite else 0xFF)
        return 0xFE if finite else 0xFF

    for up in (False, True):
        for finite in (False, True):

            def convert(a: int, b: int, up=up, finite=finite) -> int:
                return code(F32.decode(b), up, finite) | code(F32.decode(a), up, finite) << 8

            form = f"cvt.{'rp' if up else 'rz'}{'.satfinite' if finite else ''}.ue8m0x2.f32 {{d}}, {{a}}, {{b}};"
            yield Case(form, 16, (32, 32), mapped(16, convert), floats(F32, F32, count=60), target="sm_100a")

    def widen(c: int) -> int:
        return BF16.nan if c == 0xFF else BF16.encode(Fraction(2) ** (c - 127))

    def all_pairs(rng: np.random.Generator) -> tuple[Bits, ...]:
        return (rng.permutation(1 << 16)[:4096].astype(np.uint16),)

    both = mapped(32, lambda a: widen(a & 255) | widen(a >> 8) << 16)
    yield Case("cvt.rn.bf16x2.ue8m0x2 {d}, {a};", 32, (16,), both, all_pairs, target="sm_100a")


def _carried(value: Number, mantissa: int, lowest: int, random: Fraction) -> Number:
    """The value with its fraction cut off, or one step further from zero if the fraction and `random` reach one."""
    if isinstance(value, float):
        return value
    unit = Fraction(2) ** (max(exact.floor_log2(abs(value)), lowest) - mantissa) if value else Fraction(1)
    steps = math.floor(abs(value) / unit + random)
    rounded = steps * unit
    if rounded == 0:
        return -0.0 if value < 0 else Fraction(0)
    return -rounded if value < 0 else rounded


def _random_bits(rng: np.random.Generator, *columns: Bits) -> tuple[Bits, ...]:
    """The columns twice, with any random bits and with all or none of them."""
    count = len(columns[0])
    anything = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    extreme = rng.choice(np.array([0, 0xFFFFFFFF, 0x1FFF1FFF, 0x10001000], np.uint32), count)
    return (*(np.concatenate([column, column]) for column in columns), np.concatenate([anything, extreme]))


def stochastic() -> Iterator[Case]:
    """cvt.rs: random bits are added to what is cut off. Which they are: as measured on a B200."""
    for name, f, bits in (("f16", F16, 13), ("bf16", BF16, 16)):
        for relu in (False, True):
            for finite in (False, True):

                def pair(a: int, b: int, r: int, f=f, bits=bits, relu=relu, finite=finite) -> int:
                    codes = []
                    for raw, random in ((b, r), (a, r >> 16)):
                        fraction = Fraction(random & (1 << bits) - 1, 1 << bits)
                        code = f.encode(_carried(F32.decode(raw), f.mantissa, 1 - f.bias, fraction), "rn")
                        if finite and code & (f.sign - 1) == f.infinity:
                            code -= 1
                        negative = code & f.sign and code & (f.sign - 1) <= f.infinity
                        codes.append(0 if relu and negative else code)
                    return codes[0] | codes[1] << 16

                flags = ".relu" * relu + ".satfinite" * finite
                form = f"cvt.rs{flags}.{name}x2.f32 {{d}}, {{a}}, {{b}}, {{c}};"

                def inputs(rng: np.random.Generator, f=f) -> tuple[Bits, ...]:
                    lowest, highest = 1 - f.bias - f.mantissa - 3, f.bias + 1.2
                    pairs = 2.0 ** rng.uniform(max(lowest, -148), min(highest, 127.99), (2, 300))
                    near = (pairs * rng.choice([-1, 1], pairs.shape)).astype(np.float32).view(np.uint32)
                    return _random_bits(rng, *np.concatenate([near, floats(F32, F32, count=20)(rng)], axis=1))

                yield Case(form, 32, (32, 32, 32), mapped(32, pair), inputs, target="sm_100a")
    for name, tiny in TINY.items():
        for relu in (False, True):

            def four(a: int, b: int, e: int, g: int, r: int, f=tiny, relu=relu) -> int:
                byte = [r >> 8 * k & 255 for k in range(4)]
                fields = [byte[3] << 8 | byte[2], byte[1] << 8 | byte[0]]
                if f.width == 4:
                    fields = [byte[3] << 8 | byte[1], byte[2] << 8 | byte[0]]
                randoms = [int(f"{fields[0]:016b}"[::-1], 2), fields[0], int(f"{fields[1]:016b}"[::-1], 2), fields[1]]
                bias = (1 << (f.exponent_bits - 1)) - 1
                packed = 0
                for raw, random in zip((a, b, e, g), randoms, strict=True):
                    value = F32.decode(raw)
                    if relu and value == value and raw >> 31:
                        value = Fraction(0)
                    value = _carried(value, f.mantissa, 1 - bias, Fraction(random, 1 << 16))
                    packed = packed << f.width | f.encode(value)
                return packed

            result = 4 * tiny.width
            names = "{{{a}, {b}, {c}, {e}}}"
            form = f"cvt.rs{'.relu' * relu}.satfinite.{name}x4.f32 {{d}}, {names}, {{f}};"

            def fours(rng: np.random.Generator, f=tiny) -> tuple[Bits, ...]:
                top = float(f.value(f.top))
                magnitudes = top * 2.0 ** rng.uniform(-f.exponent_bits * 4 - 6, 1, (4, 120))
                signed = (magnitudes * rng.choice([-1, 1], magnitudes.shape)).astype(np.float32).view(np.uint32)
                special = rng.choice(_reach(F32)(rng)[0], (4, 60))
                return _random_bits(rng, *np.concatenate([signed, special], axis=1))

            yield Case(form, result, (32,) * 5, mapped(result, four), fours, target="sm_100a")


def fields() -> Iterator[Case]:
    """cvt.pack: two saturated integers below the lower bits of a third operand."""
    for bits in (16, 8, 4, 2):
        for sign in "us":
            low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign == "s" else (0, (1 << bits) - 1)

            def pack(a: int, b: int, c: int = 0, bits=bits, low=low, high=high) -> int:
                x, y = (min(max(signed(v, 32), low), high) % (1 << bits) for v in (a, b))
                return y | x << bits | c << 2 * bits

            more = bits < 16
            form = f"cvt.pack.sat.{sign}{bits}.s32{'.b32' * more} {{d}}, {{a}}, {{b}}{', {c}' * more};"
            yield Case(form, 32, (32,) * (2 + more), mapped(32, pack), integers(*(32,) * (2 + more)))


def tensor_float() -> Iterator[Case]:
    def away(a: int) -> int:
        finite = a & 0x7FFFFFFF < 0x7F800000
        return (a + 0x1000 if finite else a) & 0xFFFFE000  # a NaN is only cut

    yield Case("cvt.rna.tf32.f32 {d}, {a};", 32, (32,), mapped(32, away), floats(F32, count=1000))


def cases() -> Iterator[Case]:
    yield from between_integers()
    yield from float_to_integer()
    yield from integer_to_float()
    yield from between_floats()
    yield from packed()
    yield from narrow_formats()
    yield from exponents()
    yield from stochastic()
    yield from fields()
    yield from tensor_float()
