"""setp, set, selp and slct."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from .case import Case, integers, mapped, signed
from .exact import BF16, F16, F32, F64
from .values import floats

ORDERED: dict[str, Callable] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
BOOLEANS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
RESULT = " selp.b32 {d}, 1, 0, %p; @%q or.b32 {d}, {d}, 2;"


def _setp(form: str, bits: int, holds: Callable[[int, int], bool], inputs, target: str = "sm_80") -> Case:
    half = form.endswith("f16")  # these have one predicate only
    return Case(
        f"setp.{form} %p, {{a}}, {{b}}; selp.b32 {{d}}, 1, 2, %p;"
        if half
        else f"setp.{form} %p|%q, {{a}}, {{b}};" + RESULT,
        32,
        (bits, bits),
        mapped(32, lambda a, b: 1 if holds(a, b) else 2),
        inputs,
        target=target,
    )


def integer_comparisons() -> Iterator[Case]:
    for bits in (16, 32, 64):
        for kind in "us":
            for name, op in ORDERED.items():

                def holds(a: int, b: int, op=op, kind=kind, bits=bits) -> bool:
                    return op(signed(a, bits), signed(b, bits)) if kind == "s" else op(a, b)

                yield _setp(f"{name}.{kind}{bits}", bits, holds, integers(bits, bits))
        for name, op in (("lo", operator.lt), ("ls", operator.le), ("hi", operator.gt), ("hs", operator.ge)):
            yield _setp(f"{name}.u{bits}", bits, op, integers(bits, bits))


def float_comparisons() -> Iterator[Case]:
    for name, f, target in (
        ("f32", F32, "sm_80"),
        ("f64", F64, "sm_80"),
        ("f16", F16, "sm_80"),
        ("bf16", BF16, "sm_90"),
    ):
        for flush in (False, True) if name in ("f32", "f16") else (False,):

            def values(a: int, b: int, f=f, flush=flush) -> tuple:
                return f.decode(a, flush), f.decode(b, flush)

            suffix = f"{'.ftz' if flush else ''}.{name}"
            for word, op in ORDERED.items():

                def ordered(a: int, b: int, op=op, values=values) -> bool:
                    x, y = values(a, b)
                    return x == x and y == y and bool(op(x, y))

                def unordered(a: int, b: int, op=op, values=values) -> bool:
                    x, y = values(a, b)
                    return x != x or y != y or bool(op(x, y))

                yield _setp(f"{word}{suffix}", f.bits, ordered, floats(f, f, count=100), target)
                yield _setp(f"{word}u{suffix}", f.bits, unordered, floats(f, f, count=100), target)
            if not flush:

                def number(a: int, b: int, values=values) -> bool:
                    x, y = values(a, b)
                    return x == x and y == y

                yield _setp(f"num{suffix}", f.bits, number, floats(f, f), target)
                yield _setp(f"nan{suffix}", f.bits, lambda a, b, number=number: not number(a, b), floats(f, f), target)


def combinations() -> Iterator[Case]:
    for word, op in BOOLEANS.items():
        for negated in (False, True):

            def both(a: int, b: int, op=op, negated=negated) -> int:
                less, third = signed(a, 32) < signed(b, 32), bool(a & 1) != negated
                return int(op(less, third)) | 2 * int(op(not less, third))

            form = (
                "and.b32 x, {a}, 1; setp.eq.u32 %r, x, 1; "
                f"setp.lt.{word}.s32 %p|%q, {{a}}, {{b}}, {'!' if negated else ''}%r;" + RESULT
            )
            yield Case(form, 32, (32, 32), mapped(32, both), integers(32, 32), declare=".reg .b32 x;")
    for kind, yes in (("u32", 0xFFFFFFFF), ("s32", 0xFFFFFFFF), ("f32", 0x3F800000)):
        yield Case(
            f"set.lt.{kind}.s32 {{d}}, {{a}}, {{b}};",
            32,
            (32, 32),
            mapped(32, lambda a, b, yes=yes: yes if signed(a, 32) < signed(b, 32) else 0),
            integers(32, 32),
        )


YES = {"u16": 0xFFFF, "s16": 0xFFFF, "u32": 0xFFFFFFFF, "s32": 0xFFFFFFFF, "f16": 0x3C00, "bf16": 0x3F80}


def half_results() -> Iterator[Case]:
    """set with 16-bit operands or results."""
    for name, f in (("f16", F16), ("bf16", BF16)):

        def less(a: int, b: int, f=f) -> bool:
            x, y = f.decode(a), f.decode(b)
            return x == x and y == y and bool(x < y)

        for kind in ("u16", "s16", "u32", "s32", name):
            bits = 32 if kind.endswith("32") else 16
            inputs = (16, 16), mapped(bits, lambda a, b, less=less, kind=kind: YES[kind] if less(a, b) else 0)
            yield Case(f"set.lt.{kind}.{name} {{d}}, {{a}}, {{b}};", bits, *inputs, floats(f, f), target="sm_90")

        def pair(a: int, b: int, less=less, name=name) -> int:
            low, high = less(a & 0xFFFF, b & 0xFFFF), less(a >> 16, b >> 16)
            return (YES[name] if low else 0) | (YES[name] << 16 if high else 0)

        form = f"set.lt.{name}x2.{name}x2 {{d}}, {{a}}, {{b}};"
        yield Case(form, 32, (32, 32), mapped(32, pair), integers(32, 32), target="sm_90")
        for kind in ("u32", "s32"):

            def below(a: int, b: int, kind=kind, name=name) -> int:
                holds = signed(a, 32) < signed(b, 32) if kind == "s32" else a < b
                return YES[name] if holds else 0

            form = f"set.lt.{name}.{kind} {{d}}, {{a}}, {{b}};"
            yield Case(form, 16, (32, 32), mapped(16, below), integers(32, 32), target="sm_90")


def selections() -> Iterator[Case]:
    for bits in (16, 32, 64):
        yield Case(
            f"setp.lt.s32 %p, {{c}}, 0; selp.b{bits} {{d}}, {{a}}, {{b}}, %p;",
            bits,
            (bits, bits, 32),
            mapped(bits, lambda a, b, c: a if signed(c, 32) < 0 else b),
            integers(bits, bits, 32),
        )
    yield Case(
        "slct.b32.s32 {d}, {a}, {b}, {c};",
        32,
        (32,) * 3,
        mapped(32, lambda a, b, c: a if signed(c, 32) >= 0 else b),
        integers(32, 32, 32),
    )
    yield Case(
        "setp.lt.s32 %p, {c}, 0; mov.b32 {d}, {a}; @%p add.s32 {d}, {a}, {b};",
        32,
        (32,) * 3,
        mapped(32, lambda a, b, c: a + b if signed(c, 32) < 0 else a),
        integers(32, 32, 32),
    )


def sign_selections() -> Iterator[Case]:
    """slct by an f32, which is its own selection, and set of f32 comparisons."""
    for flush in (False, True):
        ftz = ".ftz" if flush else ""
        for bits in (32, 64):

            def select(a: int, b: int, c: int, flush=flush) -> int:
                value = F32.decode(c, flush)
                return a if value == value and value >= 0 else b

            for before in ("", "add.ftz.f32 t, t, t; "):
                yield Case(
                    f"{before}slct{ftz}.b{bits}.f32 {{d}}, {{a}}, {{b}}, {{c}};",
                    bits,
                    (bits, bits, 32),
                    mapped(bits, select),
                    floats(*(F32 if bits == 32 else F64,) * 2, F32),
                    declare=".reg .f32 t;",
                )
        for word, op in ORDERED.items():

            def holds(a: int, b: int, op=op, flush=flush) -> int:
                x, y = F32.decode(a, flush), F32.decode(b, flush)
                return 0x3F800000 if x == x and y == y and op(x, y) else 0

            form = f"set.{word}{ftz}.f32.f32 {{d}}, {{a}}, {{b}};"
            yield Case(form, 32, (32, 32), mapped(32, holds), floats(F32, F32, count=100))


def cases() -> Iterator[Case]:
    yield from sign_selections()
    yield from integer_comparisons()
    yield from float_comparisons()
    yield from combinations()
    yield from half_results()
    yield from selections()
