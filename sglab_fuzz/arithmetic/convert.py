"""Oracles of cvt: integers, floats of all widths, packed and narrow formats."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sglab_fuzz.arithmetic.form import Bits, Form, Oracle
from sglab_fuzz.arithmetic.host import rounding
from sglab_fuzz.arithmetic.integers import extended, mask
from sglab_fuzz.arithmetic.soft import F16, F32, F64, FORMATS, Format, decode, encode, relu, saturate

U, S = np.uint64, np.int64
INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
_ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_TINY = {
    "e4m3": (3, 7, 448.0),
    "e5m2": (2, 15, 57344.0),
    "e2m3": (3, 1, 7.5),
    "e3m2": (2, 3, 28.0),
    "e2m1": (1, 1, 6.0),
}
"""Bits of the fraction, bias, largest finite number."""


def _limits(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _register(kind: str) -> int:
    """Bits of the register that holds a value: 8-bit ones are held in 32."""
    return 32 if kind.endswith("8") and kind[0] in "us" else int(kind.lstrip("bfsu"))


def _widened(value: Bits, kind: str) -> Bits:
    """A result as its register shows it: 8-bit results are extended to 32 bits."""
    return extended(value, kind[0], int(kind[1:])) & mask(_register(kind))


def _between_integers(to: str, source: str, sat: bool) -> Oracle:
    low, high = _limits(to)

    def oracle(a: Bits) -> Bits:
        x = extended(a, source[0], int(source[1:]))
        if sat:
            if source[0] == "s":
                if high < 1 << 63:
                    x = np.clip(x.view(S), max(low, -(1 << 63)), high).view(U)
                else:
                    x = np.where(x.view(S) < 0, U(0), x)
            else:
                x = np.minimum(x, U(high))
        return _widened(x, to)

    return oracle


def _to_integer(to: str, source: str, mode: str, flush: bool) -> Oracle:
    f = FORMATS[source]
    low, high = _limits(to)
    wide = f is F64 or to.endswith("64")

    def oracle(a: Bits) -> Bits:
        x = decode(a, f, flush)
        nan = np.isnan(x)
        with np.errstate(invalid="ignore"):
            whole = _ROUND[mode](np.where(nan, 0.0, x))
        over, under = whole >= float(high), whole <= float(low)
        inside = np.where(over | under, 0.0, whole)
        if to == "u64":
            great = inside >= 2.0**63
            value = np.where(great, (inside - np.where(great, 2.0**63, 0.0)), inside).astype(S).view(U)
            value = np.where(great, value | U(1) << U(63), value)
        else:
            value = inside.astype(S).view(U)
        value = np.where(over, U(high % (1 << 64)), np.where(under, U(low % (1 << 64)), value))
        # A NaN: 0 of 32 bits and fewer; where one side has 64, the sign bit of the result alone.
        bad = U(1) << U(int(to[1:]) - 1) if wide else U(0)
        return _widened(np.where(nan, bad, value), to)

    return oracle


def _from_integer(to: str, source: str, mode: str, sat: bool) -> Oracle:
    f = FORMATS[to]

    def oracle(a: Bits) -> Bits:
        x = extended(a, source[0], int(source[1:]))
        if f is F64:
            with rounding(mode):
                value = (x.view(S) if source[0] == "s" else x).astype(np.float64)
            result = value.view(U)
        else:
            result = encode(_odd(x, source[0]), f, mode)
        return saturate(result, f) if sat else result

    return oracle


def _odd(x: Bits, kind: str) -> np.ndarray:
    """64-bit integers as f64 rounded to odd."""
    negative = (x >> U(63)).astype(bool) & (kind == "s")
    magnitude = np.where(negative, U(0) - x, x)
    high, low = magnitude >> U(12), magnitude & U(0xFFF)
    with np.errstate(all="ignore"):
        value = np.where(magnitude < 1 << 52, magnitude, (high | (low != 0).astype(U)) << U(0)).astype(np.float64)
    value = np.where(magnitude < 1 << 52, value, value * 4096.0)
    return np.where(negative, -value, value)


def _between_floats(to: str, source: str, tokens: list[str], mode: str) -> Oracle:
    t, f = FORMATS[to], FORMATS[source]
    flush, sat = "ftz" in tokens and t is not F16, "sat" in tokens  # an H200 flushes nothing on the way to f16
    if source == to == "f32" and not flush and not sat:
        return lambda a: a

    def oracle(a: Bits) -> Bits:
        x = decode(a, f, flush and f is F32)
        nan = f.is_nan(a)
        if t is F64:
            result = np.where(nan, U(F64.nan), x.view(U))
        else:
            result = encode(x, t, mode, flush and t is F32)
            if (source, to) == ("bf16", "f32"):
                result = np.where(nan, a << U(16), result)
        if "satfinite" in tokens:
            infinite = result & U(t.sign - 1) == U(t.infinity)
            result = np.where(infinite, result - U(1), result)
        result = relu(result, t) if "relu" in tokens else result
        return saturate(result, t) if sat else result

    return oracle


def _whole(kind: str, tokens: list[str], mode: str) -> Oracle:
    """cvt.rni.f32.f32 and the like: to a whole number of the same format."""
    f, flush = FORMATS[kind], "ftz" in tokens

    def oracle(a: Bits) -> Bits:
        x = decode(a, f, flush)
        with np.errstate(invalid="ignore"):
            value = np.copysign(_ROUND[mode](x), x)
        result = np.where(np.isnan(x), U(F64.nan), value.view(U)) if f is F64 else encode(value, f)
        return saturate(result, f) if "sat" in tokens else result

    return oracle


def _tiny(values: np.ndarray, name: str) -> Bits:
    """To a format of at most 8 bits, rn.satfinite."""
    fraction, bias, top = _TINY[name]
    sign = np.where(np.signbit(values), U(1) << U({"e4m3": 7, "e5m2": 7, "e2m1": 3}.get(name, 5)), U(0))
    nan = np.isnan(values)
    magnitude = np.minimum(np.abs(np.where(nan, 0.0, values)), top)
    _, exponent = np.frexp(magnitude)
    floor = np.maximum(np.where(magnitude == 0, -1074, exponent - 1), 1 - bias).astype(S)
    whole = np.rint(np.ldexp(magnitude, fraction - floor))
    code = (((floor + bias - 1) << fraction) + whole.astype(S)).view(U)
    bad = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x7}[name]
    return np.where(nan, U(bad), code | sign)


def _tiny_numbers(codes: Bits, name: str) -> np.ndarray:
    """The numbers of codes of a narrow format."""
    fraction, bias, _ = _TINY[name]
    sign_bit = U({"e4m3": 7, "e5m2": 7, "e2m1": 3}.get(name, 5))
    sign, magnitude = codes >> sign_bit & U(1), codes & ((U(1) << sign_bit) - U(1))
    exponent, part = (magnitude >> U(fraction)).astype(S), magnitude & mask(fraction)
    value = np.ldexp(
        (part + np.where(exponent > 0, U(1 << fraction), U(0))).astype(np.float64),
        np.maximum(exponent, 1) - bias - fraction,
    )
    if name == "e4m3":
        value = np.where(magnitude == 0x7F, np.nan, value)
    if name == "e5m2":
        value = np.where(magnitude == 0x7C, np.inf, np.where(magnitude > 0x7C, np.nan, value))
    return np.where(sign != 0, -value, value)


def _narrow(mnemonic: str, tokens: list[str], name: str) -> Iterator[Form]:
    """cvt to pairs of e4m3, e5m2, e2m3, e3m2, e2m1, and from them to f16x2."""
    width = 4 if name == "e2m1" else 8
    rectify = "relu" in tokens

    def pack(low: np.ndarray, high: np.ndarray) -> Bits:
        if rectify:
            low, high = (np.where(v <= 0, 0.0, v) for v in (low, high))
        return _tiny(low, name) | _tiny(high, name) << U(width)

    if tokens[-1].startswith(name):  # from the narrow format

        def widen(a: Bits) -> Bits:
            parts = [encode(_tiny_numbers(a >> U(s) & mask(width), name), F16) for s in (0, width)]
            parts = [relu(p, F16) if rectify else p for p in parts]
            return parts[0] | parts[1] << U(16)

        if name == "e2m1":
            code = f"mov.b16 {{{{t, u}}}}, {{a}}; {mnemonic} {{d}}, t;"
            yield Form(
                mnemonic, code, 32, ("b16",), lambda a: widen(a & U(255)), unit="f16x2", declare=".reg .b8 t, u;"
            )
        else:
            inside = U(0x3F3F) if name in ("e2m3", "e3m2") else U(0xFFFF)
            code = f"and.b16 t, {{a}}, {int(inside)}; {mnemonic} {{d}}, t;"
            yield Form(mnemonic, code, 32, ("b16",), lambda a: widen(a & inside), unit="f16x2", declare=".reg .b16 t;")
        return
    if tokens[-1] == "f32":

        def singles(a: Bits, b: Bits) -> Bits:
            return pack(decode(b, F32), decode(a, F32))

        if name == "e2m1":
            code = f"{mnemonic} t, {{a}}, {{b}}; mov.b32 {{d}}, {{{{t, t, t, t}}}};"
            yield Form(
                mnemonic, code, 32, ("f32", "f32"), lambda a, b: singles(a, b) * U(0x01010101), declare=".reg .b8 t;"
            )
        else:
            yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}}, {{b}};", 16, ("f32", "f32"), singles)
        return
    f = FORMATS[tokens[-1].removesuffix("x2")]

    def halves(a: Bits) -> Bits:
        return pack(decode(a & mask(16), f), decode(a >> U(16), f))

    yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}};", 16, (tokens[-1],), halves)


def _exponents(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    """ue8m0: powers of two from 2^-127 to 2^127, and NaN."""
    if tokens[-1] == "ue8m0x2":

        def widen(a: Bits) -> Bits:
            result = np.zeros(len(a), U)
            for k in (0, 8):
                code = a >> U(k) & U(255)
                bits = np.where(code == 255, U(0x7FFF), np.where(code == 0, U(0x40), code << U(7)))
                result |= bits << U(2 * k)
            return result

        yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}};", 32, ("b16",), widen)
        return
    up, finite = "rp" in tokens, "satfinite" in tokens

    def code(x: np.ndarray) -> Bits:
        magnitude = np.abs(np.where(np.isfinite(x), x, 1.0))
        part, exponent = np.frexp(magnitude)
        power = np.where(magnitude == 0, -128, exponent - 1)
        power = np.maximum(power + (up & (part > 0.5) & (magnitude > 0)), -127)
        power = np.where((magnitude < 2.0**-127), -127, power)
        result = np.where(power > 127, 0xFE if finite else 0xFF, power + 127)
        result = np.where(np.isinf(x), 0xFE if finite else 0xFF, result)
        return np.where(np.isnan(x), 0xFF, result).astype(U)

    if tokens[-1] == "f32":

        def singles(a: Bits, b: Bits) -> Bits:
            return code(decode(b, F32)) | code(decode(a, F32)) << U(8)

        yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}}, {{b}};", 16, ("f32", "f32"), singles)
    else:
        f = FORMATS["bf16"]

        def halves(a: Bits) -> Bits:
            return code(decode(a & mask(16), f)) | code(decode(a >> U(16), f)) << U(8)

        yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}};", 16, ("bf16x2",), halves)


def _tensor_float(tokens: list[str]) -> Oracle:
    """tf32: the upper 19 bits of f32. rna cuts a NaN; rn and rz make it 0x7fffe000."""
    mode = tokens[1]

    def oracle(a: Bits) -> Bits:
        finite = (a & U(F32.sign - 1)) < F32.infinity
        if mode == "rna":
            return np.where(finite, a + U(0x1000), a) & U(0xFFFFE000)
        up = U(0) if mode == "rz" else U(0xFFF) + (a >> U(13) & U(1))
        result = np.where(finite, (a + up) & U(0xFFFFE000), a)
        result = np.where(F32.is_nan(a), U(0x7FFFE000), result)
        return relu(result, F32) if "relu" in tokens else result

    return oracle


def forms(mnemonic: str) -> Iterator[Form]:
    """The forms of a cvt mnemonic."""
    tokens = mnemonic.split(".")
    if "rs" in tokens or "pack" in tokens:
        return  # of several operands: conformance cases hold them
    to, source = tokens[-2], tokens[-1]
    mode = next((t for t in tokens if t in ("rn", "rz", "rm", "rp")), "rn")
    whole = next((t for t in tokens if t in _ROUND), "")
    code = f"{mnemonic} {{d}}, {{a}};"
    name = next((n for n in _TINY if f"{n}x2" in tokens), "")
    if name:
        yield from _narrow(mnemonic, tokens, name)
    elif "ue8m0x2" in tokens:
        yield from _exponents(mnemonic, tokens)
    elif to == "tf32":
        yield Form(mnemonic, code, 32, ("f32",), _tensor_float(tokens))
    elif to in ("f16x2", "bf16x2"):
        half = _between_floats(to.removesuffix("x2"), "f32", tokens, mode)

        def packed(a: Bits, b: Bits) -> Bits:
            return half(b) | half(a) << U(16)

        yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}}, {{b}};", 32, ("f32", "f32"), packed, unit=to)
    elif to in INTEGERS and source in INTEGERS:
        low, high = _limits(source)
        if "sat" in tokens and _limits(to)[0] <= low and high <= _limits(to)[1]:
            return  # refused, as by ptxas: nothing can saturate
        oracle = _between_integers(to, source, "sat" in tokens)
        yield Form(mnemonic, code, _register(to), (_source(source),), oracle)
    elif to in INTEGERS:
        oracle = _to_integer(to, source, whole, "ftz" in tokens)
        yield Form(mnemonic, code, _register(to), (source,), oracle)
    elif source in INTEGERS:
        oracle = _from_integer(to, source, mode, "sat" in tokens)
        yield Form(mnemonic, code, FORMATS[to].bits, (_source(source),), oracle)
    else:
        f: Format = FORMATS[to]
        oracle = _whole(to, tokens, whole) if whole else _between_floats(to, source, tokens, mode)
        yield Form(mnemonic, code, f.bits, (source,), oracle, unit=to, any_nan=F64 in (f, FORMATS[source]))


def _source(kind: str) -> str:
    return f"{kind[0]}{_register(kind)}"
