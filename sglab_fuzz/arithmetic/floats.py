"""Oracles of f32, f64, f16 and bf16 arithmetic: exact in f64 or rounded to odd there, then rounded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sglab_fuzz.arithmetic import host
from sglab_fuzz.arithmetic.form import Bits, Form, Oracle
from sglab_fuzz.arithmetic.soft import BF16, F16, F32, F64, FORMATS, Format, Numbers, decode, encode, odd_sum, relu
from sglab_fuzz.arithmetic.soft import saturate as saturated

U = np.uint64
ABC = ("{a}", "{b}", "{c}")
MODES = ("rn", "rz", "rm", "rp")
COUNT = {"add": 2, "sub": 2, "mul": 2, "fma": 3, "mad": 3, "div": 2, "rcp": 1, "sqrt": 1}


def _compute(op: str, mode: str) -> Callable[..., Numbers]:
    """The operation in f64, exact or rounded to odd, of numbers of at most 24 bits.

    Quotients and roots are rounded to nearest in f64: of 24-bit operands they are never so near to a number of 24 bits,
    or to the middle of two, that it would be taken for exact (Figueroa, "When is double rounding innocuous?").
    """

    def fused(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        with np.errstate(all="ignore"):
            return odd_sum(a * b, c, mode)

    def quotient(a: Numbers, b: Numbers) -> Numbers:
        with np.errstate(all="ignore"):
            return a / b

    def root(a: Numbers) -> Numbers:
        with np.errstate(all="ignore"):
            return np.sqrt(a)

    def product(a: Numbers, b: Numbers) -> Numbers:
        with np.errstate(all="ignore"):
            return a * b

    table: dict[str, Callable[..., Numbers]] = {
        "add": lambda a, b: odd_sum(a, b, mode),
        "sub": lambda a, b: odd_sum(a, np.negative(b), mode),
        "mul": product,
        "fma": fused,
        "mad": fused,
        "div": quotient,
        "rcp": lambda a: quotient(np.ones_like(a), a),
        "sqrt": root,
    }
    return table[op]


def _oracle(op: str, mode: str, f: Format, sources: tuple[Format, ...], tokens: list[str]) -> Oracle:
    flush, compute = "ftz" in tokens, _compute(op, mode)

    def oracle(*bits: Bits) -> Bits:
        numbers = [decode(b, s, flush and s in (F32, F16)) for b, s in zip(bits, sources, strict=True)]
        result = encode(compute(*numbers), f, mode, flush)
        result = relu(result, f) if "relu" in tokens else result
        return saturated(result, f) if "sat" in tokens else result

    return oracle


def pairs(function: Oracle, bits: int) -> Oracle:
    """Both halves of packed operands."""
    low = U((1 << bits) - 1)

    def oracle(*sources: Bits) -> Bits:
        return function(*(s & low for s in sources)) | function(*(s >> U(bits) for s in sources)) << U(bits)

    return oracle


def _mode(tokens: list[str]) -> str:
    return next((m for m in MODES if m in tokens), "rn")


def _arithmetic(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    op, kind, mode = tokens[0], tokens[-1], _mode(tokens)
    count = COUNT[op]
    operands = ", ".join(ABC[:count])
    code = f"{mnemonic} {{d}}, {operands};"
    if kind == "f64":
        table: dict[str, Callable[..., np.ndarray]] = {
            "add": np.add,
            "sub": np.subtract,
            "mul": np.multiply,
            "div": np.divide,
            "rcp": lambda a: np.divide(1.0, a),
            "sqrt": np.sqrt,
        }
        fused = op in ("fma", "mad")
        oracle = host.double_fma(mode) if fused else host.double(table[op], mode)
        most = 256 if fused else 1 << 20
        yield Form(mnemonic, code, 64, ("f64",) * count, oracle, unit="f64", any_nan=True, most=most)
        return
    base = kind.removesuffix("x2")
    if len(tokens) > 2 and tokens[-2] == "f32":  # f32 with narrow sources: add.f32.f16 d, a, c
        source = FORMATS[kind]
        formats = (source, F32) if count == 2 else (source, source, F32)
        names = (kind, "f32") if count == 2 else (kind, kind, "f32")
        yield Form(mnemonic, code, 32, names, _oracle(op, mode, F32, formats, tokens), unit="f32")
        return
    f = FORMATS[base]
    oracle = _oracle(op, mode, f, (f,) * count, tokens)
    if kind.endswith("x2"):
        yield Form(mnemonic, code, 2 * f.bits, (kind,) * count, pairs(oracle, f.bits), unit=kind)
    else:
        yield Form(mnemonic, code, f.bits, (kind,) * count, oracle, unit=kind)


def _extreme(tokens: list[str], f: Format) -> Oracle:
    """min and max: -0 is less than +0; a NaN loses unless .NaN; .abs, .xorsign.abs; f32 and f16 may flush."""
    largest, propagate, flush = tokens[0] == "max", "NaN" in tokens, "ftz" in tokens
    absolute, xorsign = "abs" in tokens, "xorsign" in tokens

    def key(bits: Bits) -> np.ndarray:
        magnitude = (bits & U(f.sign - 1)).view(np.int64)
        return np.where(bits & U(f.sign), -magnitude - 1, magnitude)

    def two(a: Bits, b: Bits) -> Bits:
        sign = (a ^ b) & U(f.sign)
        if flush:
            a, b = (np.where(x & U(f.infinity), x, x & U(f.sign)) for x in (a, b))
        if absolute:
            a, b = a & U(f.sign - 1), b & U(f.sign - 1)
        nan_a, nan_b = f.is_nan(a), f.is_nan(b)
        result = np.where((key(a) < key(b)) != largest, a, b)
        result = np.where(nan_a, b, np.where(nan_b, a, result))
        nan = nan_a | nan_b if propagate else nan_a & nan_b
        if xorsign:
            result = result & U(f.sign - 1) | sign
        return np.where(nan, U(f.nan), result)

    def oracle(*sources: Bits) -> Bits:
        result = sources[0]
        for each in sources[1:]:
            result = two(result, each)
        return result

    return oracle


def _extremes(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    kind = tokens[-1]
    base = kind.removesuffix("x2")
    f = FORMATS[base]
    oracle = _extreme(tokens, f)
    packed = kind.endswith("x2")
    bits = f.bits * (2 if packed else 1)
    function = pairs(oracle, f.bits) if packed else oracle
    only_three = "abs" in tokens and "xorsign" not in tokens
    if not only_three:
        code = f"{mnemonic} {{d}}, {{a}}, {{b}};"
        yield Form(mnemonic, code, bits, (kind,) * 2, function, unit=kind, any_nan=f is F64)
    if kind == "f32" and "xorsign" not in tokens:
        code = f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}};"
        yield Form(f"{mnemonic} of three", code, 32, (kind,) * 3, function, unit=kind)


def _signs(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    kind = tokens[-1]
    base = kind.removesuffix("x2")
    f, flush = FORMATS[base], "ftz" in tokens

    def oracle(a: Bits) -> Bits:
        if flush:
            a = np.where(a & U(f.infinity), a, a & U(f.sign))
        return a & U(f.sign - 1) if tokens[0] == "abs" else a ^ U(f.sign)

    packed = kind.endswith("x2")
    bits = f.bits * (2 if packed else 1)
    function = pairs(oracle, f.bits) if packed else oracle
    code = f"{mnemonic} {{d}}, {{a}};"
    yield Form(mnemonic, code, bits, (kind,), function, unit=kind, any_nan=True)


def _approximation(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    """Bounds: PTX ISA; tanh 2^-11 relative, ex2 2 codes, lg2 2^-22, sin and cos 2^-20.5 near zero."""
    op, kind, flush = tokens[0], tokens[-1], "ftz" in tokens
    table: dict[str, Callable[[Numbers], Numbers]] = {
        "ex2": np.exp2,
        "lg2": np.log2,
        "rcp": lambda x: 1 / x,
        "sqrt": np.sqrt,
        "rsqrt": lambda x: 1 / np.sqrt(x),
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
    }
    base = kind.removesuffix("x2")
    f, function = FORMATS[base], table[op]

    def oracle(a: Bits) -> Bits:
        with np.errstate(all="ignore"):
            values = function(decode(a, f, flush))
        if f is F64:
            return values.view(U)
        return encode(values, f, "rn", flush)

    ulps = {"ex2": 2, "lg2": 2, "rcp": 1, "sqrt": 1, "rsqrt": 2, "sin": 1, "cos": 1, "tanh": 8192}[op]
    bounds: dict[str, Callable[..., np.ndarray]] = {"lg2": _logarithm_error, "sin": _sine_error, "cos": _sine_error}
    bound = bounds.get(op)
    if f in (F16, BF16):
        ulps = 2
        # tanh: the ISA's absolute error. ex2.ftz.bf16: whether a subnormal result is flushed is left open.
        near = {("tanh", 10): 2.0**-10, ("tanh", 7): 2.0**-8, ("ex2", 7): 2.0**-126}.get((op, f.mantissa), 0.0)

        def bound(*sources: Bits) -> np.ndarray:
            return np.full(len(sources[0]), near)

    if f is F64:
        yield _upper_words(mnemonic, op)
        return
    packed = kind.endswith("x2")
    bits = f.bits * (2 if packed else 1)
    code = f"{mnemonic} {{d}}, {{a}};"
    whole = pairs(oracle, f.bits) if packed else oracle
    yield Form(mnemonic, code, bits, (kind,), whole, ulps=ulps, bound=bound, unit=kind)


def _upper_words(mnemonic: str, op: str) -> Form:
    """f64 approximations look at the upper word and give an upper word; a step of it is a unit in the last place."""

    def oracle(a: Bits) -> Bits:
        cut = a >> U(32) << U(32) if "ftz" in mnemonic else a
        flushed = np.where(cut & U(F64.infinity), cut, cut & U(F64.sign)) if "ftz" in mnemonic else cut
        x = flushed.view(np.float64)
        with np.errstate(all="ignore"):
            result = 1 / x if op == "rcp" else 1 / np.sqrt(x)
        bits = result.view(U)
        bits = np.where(bits & U(F64.infinity), bits, bits & U(F64.sign)) if "ftz" in mnemonic else bits
        return bits >> U(32)

    code = f"{mnemonic} x, {{a}}; mov.b64 {{{{lo, {{d}}}}}}, x;"
    declare = ".reg .f64 x; .reg .b32 lo;"
    return Form(mnemonic, code, 32, ("f64",), oracle, ulps=2, unit="upper", any_nan=True, declare=declare)


def _logarithm_error(a: Bits) -> np.ndarray:
    with np.errstate(all="ignore"):
        x = decode(a, F32)
        return np.where((x > 0.5) & (x < 2), 1, np.abs(np.log2(x))) * 2.0**-22


def _sine_error(a: Bits) -> np.ndarray:
    """The ISA bounds [-2 pi, 2 pi] only, by 2^-20.5; an H200 is off by up to 7.0e-7, 2^-20.45. Beyond, whatever lies in
    [-1, 1] is accepted."""
    with np.errstate(all="ignore"):
        x = np.abs(decode(a, F32))
    return np.where(x <= 6.28318, 2.0**-20.4, 2.001)


def _division(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    """div.full: 2 codes; div.approx: 2 codes where |b| is in [2^-126, 2^126]; zero or NaN above, as the ISA says."""
    flush, full = "ftz" in tokens, "full" in tokens
    great = (F32.bias + 126) << F32.mantissa

    def oracle(a: Bits, b: Bits) -> Bits:
        x, y = decode(a, F32, flush), decode(b, F32, flush)
        with np.errstate(all="ignore"):
            result = x / y
            beyond = ((b & U(F32.sign - 1)) > great) & ((b & U(F32.sign - 1)) < F32.infinity)
            if not full:
                result = np.where(beyond, x * np.copysign(0.0, y), result)
        return encode(result, F32, "rn", flush)

    def bound(a: Bits, b: Bits) -> np.ndarray:
        subnormal = (b & U(F32.infinity)) == 0
        with np.errstate(all="ignore"):
            quotient = np.abs(decode(a, F32, flush) / decode(b, F32, flush))
        # Within two codes of the least normal number an approximation may come to it, or below and be flushed.
        least = 2.0**-126
        edge = flush & (quotient < least) & (quotient > least * (1 - 2.0**-22))
        return np.where(subnormal & (b & U(F32.sign - 1) != 0), np.inf, np.where(edge, least, 0.0))

    code = f"{mnemonic} {{d}}, {{a}}, {{b}};"
    yield Form(mnemonic, code, 32, ("f32", "f32"), oracle, ulps=2, bound=bound, unit="f32")


def _tests(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    f = FORMATS[tokens[-1]]

    def oracle(a: Bits) -> Bits:
        magnitude = a & U(f.sign - 1)
        table = {
            "finite": magnitude < f.infinity,
            "infinite": magnitude == f.infinity,
            "number": magnitude <= f.infinity,
            "notanumber": magnitude > f.infinity,
            "normal": ((magnitude == 0) | (magnitude >= 1 << f.mantissa)) & (magnitude < f.infinity),
            "subnormal": magnitude < 1 << f.mantissa,
        }
        if tokens[1] == "subnormal":
            return (table["subnormal"] & (magnitude != 0)).astype(U)
        return table[tokens[1]].astype(U)

    code = f"{mnemonic} %p, {{a}}; selp.b32 {{d}}, 1, 0, %p;"
    yield Form(mnemonic, code, 32, (tokens[-1],), oracle)


def forms(mnemonic: str) -> Iterator[Form]:
    """The forms of a mnemonic of the floating-point families."""
    tokens = mnemonic.split(".")
    op = tokens[0]
    if "oob" in tokens:
        return  # one NaN of the factors means zero: conformance cases hold it
    if op == "testp":
        yield from _tests(mnemonic, tokens)
    elif op == "copysign":
        f = FORMATS[tokens[-1]]

        def copied(a: Bits, b: Bits) -> Bits:
            return a & U(f.sign) | b & U(f.sign - 1)

        yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}}, {{b}};", f.bits, (tokens[-1],) * 2, copied)
    elif op in ("min", "max"):
        yield from _extremes(mnemonic, tokens)
    elif op in ("abs", "neg"):
        yield from _signs(mnemonic, tokens)
    elif op == "div" and ("full" in tokens or "approx" in tokens):
        yield from _division(mnemonic, tokens)
    elif "approx" in tokens:
        yield from _approximation(mnemonic, tokens)
    elif op in COUNT:
        yield from _arithmetic(mnemonic, tokens)


__all__ = ["F16", "F32", "forms", "pairs"]
