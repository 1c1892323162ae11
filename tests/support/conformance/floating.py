"""f32, f64, f16 and bf16 arithmetic, alone and packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from . import exact
from .case import Bits, Case, mapped
from .exact import BF16, F16, F32, F64, Format, Number
from .values import edges, floats, together

MODES = ("rn", "rz", "rm", "rp")


def _rounded(f: Format, function: Callable[..., Number], mode: str, flush: bool, sat: bool) -> Callable[..., int]:
    """From bits to bits, with one rounding at the end."""

    def evaluate(*raw: int) -> int:
        bits = f.encode(function(*(f.decode(v, flush) for v in raw)), mode, flush)
        return _saturated(f, bits) if sat else bits

    return evaluate


def _saturated(f: Format, bits: int) -> int:
    value = f.decode(bits)
    if value != value or value < 0:
        return 0
    return f.encode(Fraction(1)) if value > 1 else bits & (f.sign - 1) if value == 0 else bits


def _inherited(op: str, raw: tuple[int, ...]) -> int | None:
    """The NaN that f64 operations hand on, as an H100 does: mostly the second operand's."""
    order = {"add": (1, 0), "sub": (1, 0), "mul": (1, 0), "fma": (1, 2, 0)}.get(op, range(len(raw)))
    return next((F64.hand_on(raw[k], F64) for k in order if F64.is_nan(raw[k])), None)


def _operations(mode: str) -> dict[str, tuple[int, Callable[..., Number]]]:
    return {
        "add": (2, lambda a, b: exact.add(a, b, mode)),
        "sub": (2, lambda a, b: exact.add(a, exact.negate(b), mode)),
        "mul": (2, exact.multiply),
        "div": (2, exact.divide),
        "fma": (3, lambda a, b, c: exact.fused(a, b, c, mode)),
        "sqrt": (1, exact.square_root),
        "rcp": (1, lambda a: exact.divide(Fraction(1), a)),
    }


def _case(f: Format, type_name: str, op: str, mode: str, flush: bool = False, sat: bool = False) -> Case:
    operands, function = _operations(mode)[op]
    names = ", ".join(["{a}", "{b}", "{c}"][:operands])
    form = f"{op}.{mode}{'.ftz' if flush else ''}{'.sat' if sat else ''}.{type_name} {{d}}, {names};"
    evaluate = _rounded(f, function, mode, flush, sat)
    if f is F64:
        rounded = evaluate

        def evaluate(*raw: int) -> int:
            nan = _inherited(op, raw)
            return rounded(*raw) if nan is None else nan

    inputs = floats(*(f,) * operands, count=80)
    if op in ("mul", "div", "fma"):
        inputs = together(inputs, edges(f, op))
    return Case(form, f.bits, (f.bits,) * operands, mapped(f.bits, evaluate), inputs)


def single_and_double() -> Iterator[Case]:
    for mode in MODES:
        for op in ("add", "sub", "mul", "div", "fma", "sqrt", "rcp"):
            yield _case(F32, "f32", op, mode)
            yield _case(F64, "f64", op, mode)
            yield _case(F32, "f32", op, mode, flush=True)
        for op in ("add", "sub", "mul", "fma"):
            yield _case(F32, "f32", op, mode, sat=True)
            yield _case(F32, "f32", op, mode, flush=True, sat=True)
        for type_name, f in (("f32", F32), ("f64", F64)):
            fused = _case(f, type_name, "fma", mode)
            yield replace(fused, form=fused.form.replace("fma", "mad"))


def mixed() -> Iterator[Case]:
    """add, sub and fma of f32 with operands that are f16 or bf16."""
    for name, half in (("f16", F16), ("bf16", BF16)):
        for mode in MODES:
            for op in ("add", "sub", "fma"):
                operands, function = _operations(mode)[op]
                formats = (half, F32) if operands == 2 else (half, half, F32)
                for sat in (False, True):

                    def evaluate(*raw: int, formats=formats, function=function, mode=mode, sat=sat) -> int:
                        wide = [f.decode(v) for f, v in zip(formats, raw, strict=True)]
                        return (
                            _saturated(F32, F32.encode(function(*wide), mode))
                            if sat
                            else F32.encode(function(*wide), mode)
                        )

                    names = ", ".join(["{a}", "{b}", "{c}"][:operands])
                    form = f"{op}.{mode}{'.sat' if sat else ''}.f32.{name} {{d}}, {names};"
                    bits = tuple(f.bits for f in formats)
                    inputs = floats(*formats, count=80)
                    yield Case(form, 32, bits, mapped(32, evaluate), inputs, target="sm_100")


def _pairs(form: str, f: Format, evaluate: Callable[..., int], operands: int, width: int, target: str) -> Case:
    """The same on both halves of registers twice as wide."""
    half = width // 2
    mask = (1 << half) - 1

    def both(*raw: int) -> int:
        return evaluate(*(v & mask for v in raw)) | evaluate(*(v >> half for v in raw)) << half

    single = floats(*(f,) * operands, count=60)

    def inputs(rng: np.random.Generator) -> tuple[Bits, ...]:
        columns = single(rng)
        order = rng.permutation(len(columns[0]))
        kind = np.uint32 if width == 32 else np.uint64
        return tuple(c.astype(kind) | c[order].astype(kind) << kind(half) for c in columns)

    return Case(form, width, (width,) * operands, mapped(width, both), inputs, target=target)


def packed_single() -> Iterator[Case]:
    for mode in MODES:
        for op in ("add", "sub", "mul", "fma"):
            operands, function = _operations(mode)[op]
            names = ", ".join(["{a}", "{b}", "{c}"][:operands])
            for flush in (False, True):
                form = f"{op}.{mode}{'.ftz' if flush else ''}.f32x2 {{d}}, {names};"
                yield _pairs(form, F32, _rounded(F32, function, mode, flush, False), operands, 64, "sm_100")


def halves() -> Iterator[Case]:
    for f, name, target in ((F16, "f16", "sm_80"), (BF16, "bf16", "sm_90")):
        for op in ("add", "sub", "mul", "fma"):
            operands, function = _operations("rn")[op]
            names = ", ".join(["{a}", "{b}", "{c}"][:operands])
            evaluate = _rounded(f, function, "rn", False, False)
            form = f"{op}.rn.{name} {{d}}, {names};"
            inputs = floats(*(f,) * operands, count=150)
            yield Case(form, 16, (16,) * operands, mapped(16, evaluate), inputs, target=target)
            yield _pairs(f"{op}.rn.{name}x2 {{d}}, {names};", f, evaluate, operands, 32, target)

            def relu(*raw: int, f: Format = f, evaluate=evaluate) -> int:
                bits = evaluate(*raw)
                return 0 if bits & f.sign and bits & (f.sign - 1) <= f.infinity else bits

            if op == "fma":
                form = f"fma.rn.relu.{name} {{d}}, {names};"
                yield Case(form, 16, (16,) * 3, mapped(16, relu), inputs)
        if f is F16:
            for op in ("add", "sub", "mul", "fma"):
                operands, function = _operations("rn")[op]
                names = ", ".join(["{a}", "{b}", "{c}"][:operands])
                for suffix, flush, sat in ((".ftz", True, False), (".sat", False, True), (".ftz.sat", True, True)):
                    evaluate = _rounded(f, function, "rn", flush, sat)
                    form = f"{op}.rn{suffix}.f16 {{d}}, {names};"
                    yield Case(form, 16, (16,) * operands, mapped(16, evaluate), floats(*(f,) * operands, count=100))


OOB_NAN = 0x7FF7  # what a tensor copy fills in, in every 16 bits


def out_of_bounds() -> Iterator[Case]:
    """fma.oob: +0 if a factor, of either sign, is the NaN of elements out of bounds. Any other NaN is a NaN."""
    for f, name in ((F16, "f16"), (BF16, "bf16")):
        rounded = _rounded(f, _operations("rn")["fma"][1], "rn", False, False)
        for relu in (False, True):

            def evaluate(a: int, b: int, c: int, f: Format = f, rounded=rounded, relu=relu) -> int:
                if OOB_NAN in (a & 0x7FFF, b & 0x7FFF):
                    return 0
                bits = rounded(a, b, c)
                return 0 if relu and bits & f.sign and bits & (f.sign - 1) <= f.infinity else bits

            def inputs(rng: np.random.Generator, f: Format = f) -> tuple[Bits, ...]:
                columns = floats(f, f, f, count=60)(rng)
                for column in columns:
                    column[rng.integers(0, len(column), len(column) // 4)] = rng.choice([OOB_NAN, OOB_NAN | 0x8000])
                return columns

            suffix = f"fma.rn.oob{'.relu' * relu}.{name}"
            yield Case(suffix + " {d}, {a}, {b}, {c};", 16, (16,) * 3, mapped(16, evaluate), inputs, target="sm_90")
            yield replace(
                _pairs(suffix + "x2 {d}, {a}, {b}, {c};", f, evaluate, 3, 32, "sm_90"),
                inputs=lambda rng, inputs=inputs: tuple(
                    x.astype(np.uint32) | rng.permutation(x).astype(np.uint32) << np.uint32(16) for x in inputs(rng)
                ),
            )


def extremes() -> Iterator[Case]:
    for f, name in ((F32, "f32"), (F64, "f64"), (F16, "f16"), (BF16, "bf16")):
        for largest in (False, True):
            for propagate in (False, True):
                if name == "f64" and propagate:
                    continue

                def pick(a: int, b: int, f: Format = f, largest=largest, propagate=propagate) -> int:
                    if f is F64 and f.is_nan(a) and f.is_nan(b):
                        return f.hand_on(b, f)
                    return f.encode(exact.minimum(f.decode(a), f.decode(b), largest, propagate))

                op = ("max" if largest else "min") + (".NaN" if propagate else "")
                yield Case(
                    f"{op}.{name} {{d}}, {{a}}, {{b}};", f.bits, (f.bits,) * 2, mapped(f.bits, pick), floats(f, f)
                )
                if f is F16:

                    def flushed(a: int, b: int, pick=pick) -> int:
                        return pick(*(x & 0x8000 if x & 0x7C00 == 0 else x for x in (a, b)))

                    form = op.replace(".NaN", "") + f".ftz{'.NaN' if propagate else ''}"
                    yield Case(
                        f"{form}.f16 {{d}}, {{a}}, {{b}};", 16, (16, 16), mapped(16, flushed), floats(f, f, count=200)
                    )
                    yield _pairs(f"{form}.f16x2 {{d}}, {{a}}, {{b}};", f, flushed, 2, 32, "sm_80")
                if f is F32:

                    def three(a: int, b: int, c: int, pick=pick) -> int:
                        return pick(pick(a, b), c)

                    yield Case(
                        f"{op}.f32 {{d}}, {{a}}, {{b}}, {{c}};",
                        32,
                        (32,) * 3,
                        mapped(32, three),
                        floats(f, f, f),
                        target="sm_100",
                    )
                if f in (F16, BF16):
                    target = "sm_80" if f is F16 else "sm_90"
                    yield _pairs(f"{op}.{name}x2 {{d}}, {{a}}, {{b}};", f, pick, 2, 32, target)


def _numbers(f: Format, count: int = 250) -> Callable[[np.random.Generator], tuple[Bits, ...]]:
    """Without NaN, whose sign operations leave unspecified bits."""

    def inputs(rng: np.random.Generator) -> tuple[Bits, ...]:
        (column,) = floats(f, count=count)(rng)
        return (column[(column & type(column[0])(f.sign - 1)) <= f.infinity],)

    return inputs


def signs() -> Iterator[Case]:
    for f, name in ((F32, "f32"), (F64, "f64"), (F16, "f16"), (BF16, "bf16")):
        yield Case(
            f"neg.{name} {{d}}, {{a}};", f.bits, (f.bits,), mapped(f.bits, lambda a, f=f: a ^ f.sign), _numbers(f)
        )
        yield Case(
            f"abs.{name} {{d}}, {{a}};",
            f.bits,
            (f.bits,),
            mapped(f.bits, lambda a, f=f: a & ~f.sign),
            _numbers(f),
        )
    yield Case(
        "copysign.f32 {d}, {a}, {b};",
        32,
        (32, 32),
        mapped(32, lambda a, b: a & 0x80000000 | b & 0x7FFFFFFF),
        floats(F32, F32),
    )


def _approximate(function: Callable[[np.ndarray], np.ndarray], flush: bool) -> Callable[[Bits], Bits]:
    """In double precision, then rounded to f32; NaN is canonical."""

    def expected(bits: Bits) -> Bits:
        with np.errstate(invalid="ignore"):  # signalling NaN
            x = bits.view(np.float32).astype(np.float64)
        tiny = np.finfo(np.float32).tiny
        if flush:
            x = np.where(np.abs(x) < tiny, np.copysign(0, x), x)
        with np.errstate(all="ignore"):
            y = function(x).astype(np.float32)
        if flush:
            y = np.where(np.abs(y) < tiny, np.copysign(np.float32(0), y), y)
        return np.where(np.isnan(y), np.uint32(F32.nan), y.view(np.uint32))

    return expected


def _logarithm_error(bits: Bits) -> np.ndarray:
    """PTX ISA, lg2: 2^-22 absolute for inputs in (0.5, 2), 2^-22 relative outside."""
    with np.errstate(all="ignore"):
        x = bits.view(np.float32).astype(np.float64)
        return np.where((x > 0.5) & (x < 2), 1, np.abs(np.log2(x))) * 2.0**-22


def approximations() -> Iterator[Case]:
    forms: list[tuple[str, Callable[[np.ndarray], np.ndarray], float]] = [
        ("ex2.approx", np.exp2, 2),
        ("lg2.approx", np.log2, 2),
        ("rcp.approx", lambda x: 1 / x, 1),
        ("sqrt.approx", np.sqrt, 1),
        ("rsqrt.approx", lambda x: 1 / np.sqrt(x), 2),
    ]
    for name, function, ulps in forms:
        for flush in (False, True):
            form = f"{name}{'.ftz' if flush else ''}.f32 {{d}}, {{a}};"
            error = _logarithm_error if name == "lg2.approx" else None
            yield Case(form, 32, (32,), _approximate(function, flush), floats(F32, count=2000), ulps=ulps, error=error)

    def moderate(rng: np.random.Generator) -> tuple[Bits, ...]:
        return (rng.uniform(-3, 3, 2000).astype(np.float32).view(np.uint32),)

    def absolute(bits: Bits) -> np.ndarray:
        return np.full(bits.shape, 2**-20.5)

    yield Case("sin.approx.f32 {d}, {a};", 32, (32,), _approximate(np.sin, False), moderate, ulps=1, error=absolute)
    yield Case("cos.approx.f32 {d}, {a};", 32, (32,), _approximate(np.cos, False), moderate, ulps=1, error=absolute)
    yield Case("tanh.approx.f32 {d}, {a};", 32, (32,), _approximate(np.tanh, False), moderate, ulps=8192)


def quotients() -> Iterator[Case]:
    """div.approx multiplies by a reciprocal that is zero above 2^126; div.full reaches everywhere."""
    great = (F32.bias + 126) << F32.mantissa

    def inputs(rng: np.random.Generator) -> tuple[Bits, ...]:
        a, b = floats(F32, F32)(rng)
        above = great + rng.integers(0, 2 << F32.mantissa, 300, dtype=np.uint32)
        above |= rng.integers(0, 2, 300, dtype=np.uint32) << np.uint32(31)
        a = np.concatenate([a, rng.permutation(a)[:300]])
        b = np.concatenate([b, above])
        plain = (b & 0x7FFFFFFF == 0) | (b & 0x7FFFFFFF >= 1 << F32.mantissa)  # the ISA bounds no other error
        return a[plain], b[plain]

    for full in (False, True):
        for flush in (False, True):

            def evaluate(a: int, b: int, full=full, flush=flush) -> int:
                x, y = F32.decode(a, flush), F32.decode(b, flush)
                if not full and great < b & 0x7FFFFFFF < F32.infinity:
                    return F32.encode(exact.multiply(x, -0.0 if b & F32.sign else Fraction(0)))
                return F32.encode(exact.divide(x, y), "rn", flush)

            form = f"div.{'full' if full else 'approx'}{'.ftz' if flush else ''}.f32 {{d}}, {{a}}, {{b}};"
            yield Case(form, 32, (32, 32), mapped(32, evaluate), inputs, ulps=2)


def upper_words() -> Iterator[Case]:
    """f64 approximations that look at the upper word only, and flush."""

    def root(a: Number) -> Number:
        return exact.divide(Fraction(1), exact.square_root(a))

    def edge_of_range(rng: np.random.Generator) -> tuple[Bits, ...]:
        """Zeros, infinities, numbers that are flushed, and numbers whose reciprocals are."""
        tiny = rng.integers(1, 1 << F64.mantissa, 200, dtype=np.uint64)
        huge = (rng.integers(2045, 2047, 200, dtype=np.uint64) << np.uint64(F64.mantissa)) | tiny
        both = np.concatenate([[np.uint64(0), np.uint64(F64.infinity)], tiny, huge[huge >> np.uint64(32) > 0x7FD00000]])
        return (np.concatenate([both, both | np.uint64(F64.sign)]).astype(np.uint64),)

    def moderate(rng: np.random.Generator) -> tuple[Bits, ...]:
        return ((10 ** rng.uniform(-30, 30, 700)).view(np.uint64),)

    for name, function in (("rcp", lambda a: exact.divide(Fraction(1), a)), ("rsqrt", root)):

        def upper(a: int, function=function) -> int:
            return F64.encode(function(F64.decode(a >> 32 << 32, flush=True)), "rz", flush=True) >> 32

        form = f"{name}.approx.ftz.f64 x, {{a}}; mov.b64 {{{{lo, {{d}}}}}}, x;"
        declare = ".reg .f64 x; .reg .b32 lo;"
        # 20 bits of the fraction are left, so a step of the upper word is a unit in the last place.
        yield Case(form, 32, (64,), mapped(32, upper), moderate, ulps=1, declare=declare)
        if name == "rcp":
            yield Case(form + " ", 32, (64,), mapped(32, upper), edge_of_range, declare=declare)
        else:

            def only_zeros(rng: np.random.Generator) -> tuple[Bits, ...]:
                (column,) = edge_of_range(rng)
                return (column[column & np.uint64(F64.infinity) == 0],)

            yield Case(form + " ", 32, (64,), mapped(32, upper), only_zeros, declare=declare)


def after_flushing() -> Iterator[Case]:
    """f64 and integer-controlled instructions right after one that flushes: no mode outlives its instruction."""
    first = "add.ftz.f32 t, t, t; "
    for largest in (False, True):

        def pick(a: int, b: int, largest=largest) -> int:
            if F64.is_nan(a) and F64.is_nan(b):
                return F64.hand_on(b, F64)
            return F64.encode(exact.minimum(F64.decode(a), F64.decode(b), largest))

        form = f"{first}{'max' if largest else 'min'}.f64 {{d}}, {{a}}, {{b}};"
        yield Case(form, 64, (64, 64), mapped(64, pick), floats(F64, F64), declare=".reg .f32 t;")


def cases() -> Iterator[Case]:
    yield from single_and_double()
    yield from mixed()
    yield from quotients()
    yield from upper_words()
    yield from after_flushing()
    yield from packed_single()
    yield from halves()
    yield from out_of_bounds()
    yield from extremes()
    yield from signs()
    yield from approximations()
