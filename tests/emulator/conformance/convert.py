"""cvt between all types, with all roundings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np

from .case import Bits, Case, integers, mapped, signed
from .exact import BF16, F16, F32, F64, Format, Number
from .values import floats

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


def between_floats() -> Iterator[Case]:
    def narrow(form: str, to: Format, source: Format, mode: str, target: str = "sm_80", relu: bool = False) -> Case:
        def convert(a: int) -> int:
            if source.is_nan(a) and F64 in (source, to):
                return source.hand_on(a, to)
            if source.is_nan(a) and (source, to) == (BF16, F32):
                return a << 16
            bits = to.encode(source.decode(a), mode)
            return 0 if relu and bits & to.sign and bits & ~to.sign <= to.infinity else bits

        return Case(
            f"{form} {{d}}, {{a}};", to.bits, (source.bits,), mapped(to.bits, convert), _reach(source), target=target
        )

    for mode in ("rn", "rz", "rm", "rp"):
        yield narrow(f"cvt.{mode}.f32.f64", F32, F64, mode)
        yield narrow(f"cvt.{mode}.f16.f32", F16, F32, mode)
        yield narrow(f"cvt.{mode}.f16.f64", F16, F64, mode)
        yield narrow(f"cvt.{mode}.bf16.f64", BF16, F64, mode, "sm_90")
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
        for name, f in (("f32", F32), ("f64", F64), ("f16", F16)):

            def whole(a: int, f=f, rounding=rounding) -> int:
                value = f.decode(a)
                if f is F64 and f.is_nan(a):
                    return f.hand_on(a, f)
                if not isinstance(value, Fraction):
                    return f.encode(value)
                result = integral(value, rounding)
                return f.encode(Fraction(result)) if result else (f.sign if value < 0 else 0)

            yield Case(f"cvt.{mode}.{name}.{name} {{d}}, {{a}};", f.bits, (f.bits,), mapped(f.bits, whole), _reach(f))


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


def _tiny(value: Number, exponent_bits: int, mantissa: int, top: int, nan: int, infinities: bool) -> int:
    """e4m3 and e5m2 with saturation, by looking for the nearest of all codes."""
    if value != value:
        return nan
    negative = math.copysign(1, value) < 0 if isinstance(value, float) else value < 0
    sign = 0x80 if negative else 0
    magnitude = abs(value)
    if isinstance(magnitude, float) and math.isinf(magnitude):
        return sign | top
    bias = (1 << (exponent_bits - 1)) - 1
    table = []
    for code in range(top + 1):
        e, m = code >> mantissa, code & ((1 << mantissa) - 1)
        whole = m if e == 0 else m | 1 << mantissa
        table.append(whole * Fraction(2) ** (max(e, 1) - bias - mantissa))
    x = Fraction(magnitude)
    if x >= table[-1]:
        return sign | top
    above = next(k for k, v in enumerate(table) if v > x)
    below = above - 1
    low, high = x - table[below], table[above] - x
    return sign | (above if high < low or (high == low and above % 2 == 0) else below)


def eight_bits() -> Iterator[Case]:
    kinds = {"e4m3": (4, 3, 0x7E, 0x7F, False), "e5m2": (5, 2, 0x7B, 0x7F, True)}
    for name, shape in kinds.items():

        def one(value: Number, shape=shape) -> int:
            return _tiny(value, *shape)

        def from_singles(a: int, b: int, one=one) -> int:
            return one(F32.decode(b)) | one(F32.decode(a)) << 8

        def from_halves(a: int, one=one) -> int:
            return one(F16.decode(a & 0xFFFF)) | one(F16.decode(a >> 16)) << 8

        def reach(rng: np.random.Generator) -> tuple[Bits, ...]:
            columns = [_reach(F32)(rng)[0] for _ in range(2)]
            return columns[0], rng.permutation(columns[1])

        def half_pairs(rng: np.random.Generator) -> tuple[Bits, ...]:
            low = _reach(F16)(rng)[0].astype(np.uint32)
            return (low | rng.permutation(low) << np.uint32(16),)

        yield Case(
            f"cvt.rn.satfinite.{name}x2.f32 {{d}}, {{a}}, {{b}};",
            16,
            (32, 32),
            mapped(16, from_singles),
            reach,
            target="sm_89",
        )
        yield Case(
            f"cvt.rn.satfinite.{name}x2.f16x2 {{d}}, {{a}};",
            16,
            (32,),
            mapped(16, from_halves),
            half_pairs,
            target="sm_89",
        )
        exponent_bits, mantissa, top, _, infinities = shape

        def widen(code: int, exponent_bits=exponent_bits, mantissa=mantissa, top=top, infinities=infinities) -> int:
            magnitude = code & 0x7F
            if magnitude > top:
                if infinities and magnitude == 0x7C:
                    return F16.infinity | (0x8000 if code & 0x80 else 0)
                return F16.nan
            e, m = magnitude >> mantissa, magnitude & ((1 << mantissa) - 1)
            bias = (1 << (exponent_bits - 1)) - 1
            whole = m if e == 0 else m | 1 << mantissa
            value = F16.encode(whole * Fraction(2) ** (max(e, 1) - bias - mantissa))
            return value | (0x8000 if code & 0x80 else 0)

        def all_codes(rng: np.random.Generator) -> tuple[Bits, ...]:
            return (np.arange(1 << 16, dtype=np.uint16)[rng.permutation(1 << 16)[:4096]],)

        yield Case(
            f"cvt.rn.f16x2.{name}x2 {{d}}, {{a}};",
            32,
            (16,),
            mapped(32, lambda a, widen=widen: widen(a & 255) | widen(a >> 8) << 16),
            all_codes,
            target="sm_89",
        )


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
    yield from eight_bits()
    yield from tensor_float()
