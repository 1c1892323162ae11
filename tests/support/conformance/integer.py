"""Integer arithmetic, logic, shifts and bit fields."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

from .case import Case, integers, mapped, signed


def _divide(a: int, b: int) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * _divide(a, b)


def _as(kind: str, value: int, bits: int) -> int:
    return signed(value, bits) if kind == "s" else value


def arithmetic() -> Iterator[Case]:
    for bits in (16, 32, 64):
        for kind in "us":

            def case(op: str, function, operands: int, result: int = bits, kind: str = kind, bits: int = bits) -> Case:
                names = ", ".join(["{a}", "{b}", "{c}"][:operands])
                widths = [bits, bits, result if "wide" in op else bits][:operands]

                def value(*raw: int) -> int:
                    return function(*(_as(kind, v, w) for v, w in zip(raw, widths, strict=True)))

                return Case(
                    f"{op}.{kind}{bits} {{d}}, {names};",
                    result,
                    tuple(widths),
                    mapped(result, value),
                    integers(*widths),
                )

            yield case("add", lambda a, b: a + b, 2)
            yield case("sub", lambda a, b: a - b, 2)
            yield case("mul.lo", lambda a, b: a * b, 2)
            yield case("mul.hi", lambda a, b, bits=bits: a * b >> bits, 2)
            yield case("mad.lo", lambda a, b, c: a * b + c, 3)
            yield case("mad.hi", lambda a, b, c, bits=bits: (a * b >> bits) + c, 3)
            yield case("div", _divide, 2)
            yield case("rem", _remainder, 2)
            yield case("min", min, 2)
            yield case("max", max, 2)
            if bits < 64:
                yield case("mul.wide", lambda a, b: a * b, 2, 2 * bits)
                yield case("mad.wide", lambda a, b, c: a * b + c, 3, 2 * bits)
            if kind == "s":
                yield case("neg", lambda a: -a, 1)
                yield case("abs", abs, 1)


def _saturate(value: int) -> int:
    return max(-(1 << 31), min((1 << 31) - 1, value))


def more_arithmetic() -> Iterator[Case]:
    def word(form: str, function, operands: int) -> Case:
        names = ", ".join(["{a}", "{b}", "{c}", "{e}"][:operands])
        return Case(f"{form} {{d}}, {names};", 32, (32,) * operands, mapped(32, function), integers(*(32,) * operands))

    def s(v: int) -> int:
        return signed(v, 32)

    yield word("add.sat.s32", lambda a, b: _saturate(s(a) + s(b)), 2)
    yield word("sub.sat.s32", lambda a, b: _saturate(s(a) - s(b)), 2)
    yield word("mad.hi.sat.s32", lambda a, b, c: _saturate((s(a) * s(b) >> 32) + s(c)), 3)
    yield word("sad.u32", lambda a, b, c: c + abs(a - b), 3)
    yield word("sad.s32", lambda a, b, c: c + abs(s(a) - s(b)), 3)
    m24 = 0xFFFFFF
    yield word("mul24.lo.u32", lambda a, b: (a & m24) * (b & m24), 2)
    yield word("mul24.hi.u32", lambda a, b: (a & m24) * (b & m24) >> 16, 2)
    yield word("mad24.lo.u32", lambda a, b, c: (a & m24) * (b & m24) + c, 3)
    yield word("mad24.hi.u32", lambda a, b, c: ((a & m24) * (b & m24) >> 16) + c, 3)

    def s24(v: int) -> int:
        return signed(v & m24, 24)

    yield word("mul24.lo.s32", lambda a, b: s24(a) * s24(b), 2)
    yield word("mul24.hi.s32", lambda a, b: s24(a) * s24(b) >> 16, 2)
    yield word("mad24.lo.s32", lambda a, b, c: s24(a) * s24(b) + c, 3)
    yield word("mad24.hi.s32", lambda a, b, c: (s24(a) * s24(b) >> 16) + c, 3)
    yield word("mad24.hi.sat.s32", lambda a, b, c: _saturate((s24(a) * s24(b) >> 16) + s(c)), 3)
    for ta in "us":
        for tb in "us":

            def dot4(a: int, b: int, c: int, ta: str = ta, tb: str = tb) -> int:
                for k in range(0, 32, 8):
                    c += _as(ta, a >> k & 255, 8) * _as(tb, b >> k & 255, 8)
                return c

            def dot2(a: int, b: int, c: int, shift: int, ta: str = ta, tb: str = tb) -> int:
                for k in range(2):
                    c += _as(ta, a >> 16 * k & 0xFFFF, 16) * _as(tb, b >> (shift + 8 * k) & 255, 8)
                return c

            yield word(f"dp4a.{ta}32.{tb}32", dot4, 3)
            yield word(f"dp2a.lo.{ta}32.{tb}32", lambda a, b, c, f=dot2: f(a, b, c, 0), 3)
            yield word(f"dp2a.hi.{ta}32.{tb}32", lambda a, b, c, f=dot2: f(a, b, c, 16), 3)
    for op, pick in (("min", min), ("max", max)):
        for kind in "us":

            def packed(a: int, b: int, pick=pick, kind: str = kind) -> int:
                halves = [
                    pick(_as(kind, a >> k & 0xFFFF, 16), _as(kind, b >> k & 0xFFFF, 16)) & 0xFFFF for k in (0, 16)
                ]
                return halves[0] | halves[1] << 16

            case = word(f"{op}.{kind}16x2", packed, 2)
            yield Case(case.form, 32, case.sources, case.expected, case.inputs, target="sm_90")
            if kind == "s":

                def positive(a: int, b: int, packed=packed) -> int:
                    c = packed(a, b)
                    return sum(0 if c >> k & 0x8000 else c & 0xFFFF << k for k in (0, 16))

                case = word(f"{op}.relu.s16x2", positive, 2)
                yield Case(case.form, 32, case.sources, case.expected, case.inputs, target="sm_90")


def carries() -> Iterator[Case]:
    split = "mov.b64 {{x, y}}, {a}; mov.b64 {{z, w}}, {b}; "
    join = " mov.b64 {d}, {{lo, hi}};"
    declare = ".reg .b32 x, y, z, w, lo, hi;"
    for op, function in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b)):
        form = f"{split}{op}.cc.u32 lo, x, z; {op}c.u32 hi, y, w;{join}"
        yield Case(form, 64, (64, 64), mapped(64, function), integers(64, 64), declare=declare)
    form = split + "mad.lo.cc.u32 lo, x, z, w; madc.hi.u32 hi, x, z, 0;" + join
    yield Case(
        form,
        64,
        (64, 64),
        mapped(64, lambda a, b: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) + (b >> 32)),
        integers(64, 64),
        declare=declare,
    )
    for kind in "us":

        def upper(a: int, b: int, kind: str = kind) -> int:
            product = (_as(kind, a & 0xFFFFFFFF, 32) * _as(kind, b & 0xFFFFFFFF, 32) >> 32) & 0xFFFFFFFF
            total = product + (b >> 32)
            return (total & 0xFFFFFFFF) | (total >> 32) << 32

        form = f"{split}mad.hi.cc.{kind}32 lo, x, z, w; addc.u32 hi, 0, 0;{join}"
        yield Case(form, 64, (64, 64), mapped(64, upper), integers(64, 64), declare=declare)


def logic() -> Iterator[Case]:
    for bits in (16, 32, 64):
        for op, function in (("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b)):
            yield Case(
                f"{op}.b{bits} {{d}}, {{a}}, {{b}};", bits, (bits, bits), mapped(bits, function), integers(bits, bits)
            )
        yield Case(f"not.b{bits} {{d}}, {{a}};", bits, (bits,), mapped(bits, lambda a: ~a), integers(bits))
        yield Case(f"cnot.b{bits} {{d}}, {{a}};", bits, (bits,), mapped(bits, lambda a: a == 0), integers(bits))
        shift = integers(bits, 32)
        yield Case(
            f"shl.b{bits} {{d}}, {{a}}, {{b}};",
            bits,
            (bits, 32),
            mapped(bits, lambda a, n, bits=bits: a << min(n, bits)),
            shift,
        )
        yield Case(
            f"shr.u{bits} {{d}}, {{a}}, {{b}};", bits, (bits, 32), mapped(bits, lambda a, n: a >> min(n, 64)), shift
        )
        yield Case(
            f"shr.s{bits} {{d}}, {{a}}, {{b}};",
            bits,
            (bits, 32),
            mapped(bits, lambda a, n, bits=bits: signed(a, bits) >> min(n, 64)),
            shift,
        )
    for lut in (0x00, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xFE, 0xFF):

        def table(a: int, b: int, c: int, lut: int = lut) -> int:
            return sum((lut >> ((a >> k & 1) << 2 | (b >> k & 1) << 1 | (c >> k & 1)) & 1) << k for k in range(32))

        yield Case(
            f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {lut};",
            32,
            (32,) * 3,
            mapped(32, table),
            integers(32, 32, 32, count=200),
        )
        yield from _with_predicate(lut, table)


def _with_predicate(lut: int, table: Callable[[int, int, int], int]) -> Iterator[Case]:
    """lop3.and and lop3.or: p = (d != 0) BoolOp q. Shown: d turned by what p is, of a q that is bit 1 of b."""
    q_of = "and.b32 {d}, {b}, 2; setp.ne.u32 %q, {d}, 0;"
    show = "selp.b32 %e, 0x55555555, 0x0f0f0f0f, %p; xor.b32 {d}, {d}, %e;"
    for name, combined in (("and", operator.and_), ("or", operator.or_)):
        for sign, where in (("", 2), ("!", 0)):

            def both(a: int, b: int, c: int, combined=combined, where=where) -> tuple[int, bool]:
                d = table(a, b, c)
                return d, combined(d != 0, b & 2 == where)

            def shown(a: int, b: int, c: int, both=both) -> int:
                d, p = both(a, b, c)
                return d ^ (0x55555555 if p else 0x0F0F0F0F)

            form = f"{q_of} lop3.{name}.b32 {{d}}|%p, {{a}}, {{b}}, {{c}}, {lut}, {sign}%q; {show}"
            inputs = integers(32, 32, 32, count=200)
            yield Case(form, 32, (32,) * 3, mapped(32, shown), inputs, declare=".reg .b32 %e;")
        # Without d, and only in lanes whose guard holds: the others keep the p that they had.

        def guarded(a: int, b: int, c: int, combined=combined) -> int:
            return combined(table(a, b, c) != 0, b & 2 == 2) if a & 1 else b & 4 == 4

        form = (
            "and.b32 {d}, {b}, 4; setp.ne.u32 %p, {d}, 0; and.b32 {d}, {a}, 1; setp.ne.u32 %r, {d}, 0; "
            f"{q_of} @%r lop3.{name}.b32 _|%p, {{a}}, {{b}}, {{c}}, {lut}, %q; selp.b32 {{d}}, 1, 0, %p;"
        )
        yield Case(form, 32, (32,) * 3, mapped(32, guarded), integers(32, 32, 32, count=200))


def _funnel(a: int, b: int, n: int, left: bool) -> int:
    both = b << 32 | a
    return both << n >> 32 if left else both >> n


def _place(position: int, length: int, bits: int) -> tuple[int, int]:
    """The 32-bit instructions look at eight bits of each; the 64-bit ones, which are code, at all of them."""
    return (position & 255, length & 255) if bits == 32 else (position, length)


def _field(a: int, position: int, length: int, bits: int, kind: str) -> int:
    """bfe as the ISA's pseudo-code has it."""
    position, length = _place(position, length, bits)
    top = bits - 1
    sign = 0 if kind == "u" or length == 0 else a >> min(position + length - 1, top) & 1
    result = 0
    for k in range(bits):
        bit = a >> (position + k) & 1 if k < length and position + k <= top else sign
        result |= bit << k
    return result


def _insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = _place(position, length, bits)
    for k in range(min(length, bits)):
        if position + k >= bits:
            break
        b = b & ~(1 << (position + k)) | (a >> k & 1) << (position + k)
    return b


def _permute(a: int, b: int, selector: int) -> int:
    data = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]
    result = 0
    for k in range(4):
        s = selector >> 4 * k & 15
        byte = data[s & 7]
        if s & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * k
    return result


def _find(a: int, bits: int, kind: str, amount: bool) -> int:
    if kind == "s" and a >> (bits - 1):
        a = ~a & ((1 << bits) - 1)
    if a == 0:
        return 0xFFFFFFFF
    at = a.bit_length() - 1
    return bits - 1 - at if amount else at


def fields() -> Iterator[Case]:
    w3 = integers(32, 32, 32)
    for mode in ("wrap", "clamp"):
        for side in "lr":

            def shift(a: int, b: int, n: int, mode: str = mode, side: str = side) -> int:
                return _funnel(a, b, n & 31 if mode == "wrap" else min(n, 32), side == "l")

            yield Case(f"shf.{side}.{mode}.b32 {{d}}, {{a}}, {{b}}, {{c}};", 32, (32,) * 3, mapped(32, shift), w3)
    for bits in (32, 64):
        for kind in "us":
            yield Case(
                f"bfe.{kind}{bits} {{d}}, {{a}}, {{b}}, {{c}};",
                bits,
                (bits, 32, 32),
                mapped(bits, lambda a, p, n, bits=bits, kind=kind: _field(a, p, n, bits, kind)),
                integers(bits, 32, 32, count=400),
            )
            for amount in (False, True):
                form = f"bfind{'.shiftamt' if amount else ''}.{kind}{bits} {{d}}, {{a}};"
                yield Case(
                    form,
                    32,
                    (bits,),
                    mapped(32, lambda a, bits=bits, kind=kind, amount=amount: _find(a, bits, kind, amount)),
                    integers(bits),
                )
        yield Case(
            f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};",
            bits,
            (bits, bits, 32, 32),
            mapped(bits, lambda a, b, p, n, bits=bits: _insert(a, b, p, n, bits)),
            integers(bits, bits, 32, 32, count=400),
        )
        yield Case(
            f"brev.b{bits} {{d}}, {{a}};",
            bits,
            (bits,),
            mapped(bits, lambda a, bits=bits: int(f"{a:0{bits}b}"[::-1], 2)),
            integers(bits),
        )
        yield Case(f"popc.b{bits} {{d}}, {{a}};", 32, (bits,), mapped(32, lambda a: a.bit_count()), integers(bits))
        yield Case(
            f"clz.b{bits} {{d}}, {{a}};",
            32,
            (bits,),
            mapped(32, lambda a, bits=bits: bits - a.bit_length()),
            integers(bits),
        )
    yield Case("prmt.b32 {d}, {a}, {b}, {c};", 32, (32,) * 3, mapped(32, lambda a, b, c: _permute(a, b, c)), w3)
    modes = {
        "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
        "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
        "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
        "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
        "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
        "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
    }
    for mode, selectors in modes.items():
        yield Case(
            f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};",
            32,
            (32,) * 3,
            mapped(32, lambda a, b, c, selectors=selectors: _permute(a, b, selectors[c & 3])),
            w3,
        )


def cases() -> Iterator[Case]:
    yield from arithmetic()
    yield from more_arithmetic()
    yield from carries()
    yield from logic()
    yield from fields()
