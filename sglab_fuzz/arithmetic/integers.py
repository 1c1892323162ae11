"""Oracles of integer arithmetic, logic, shifts and bit fields."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from sglab_fuzz.arithmetic.form import Bits, Form, Oracle

U, S = np.uint64, np.int64
ABC = ("{a}", "{b}", "{c}", "{e}")


def mask(bits: int) -> np.uint64:
    return U((1 << bits) - 1)


def signed(x: Bits, bits: int) -> Bits:
    """Sign-extended to 64 bits, as uint64."""
    shift = U(64 - bits)
    return ((x << shift).view(S) >> S(64 - bits)).view(U)


def extended(x: Bits, kind: str, bits: int) -> Bits:
    """The low `bits` as a 64-bit number: sign- or zero-extended."""
    return signed(x, bits) if kind == "s" else x & mask(bits)


def high_product(a: Bits, b: Bits, kind: str) -> Bits:
    """The upper 64 bits of a product of 64-bit numbers."""
    low = mask(32)
    a0, a1, b0, b1 = a & low, a >> U(32), b & low, b >> U(32)
    middle = (a0 * b0 >> U(32)) + (a1 * b0 & low) + (a0 * b1 & low)
    high = a1 * b1 + (a1 * b0 >> U(32)) + (a0 * b1 >> U(32)) + (middle >> U(32))
    if kind == "s":
        high = high - np.where(a >> U(63), b, U(0)) - np.where(b >> U(63), a, U(0))
    return high


def _divide(a: Bits, b: Bits, kind: str, bits: int, remainder: bool) -> Bits:
    """Truncating. By zero: whatever the emulator's documentation says is judged elsewhere; such lanes are left out."""
    x, y = extended(a, kind, bits), extended(b, kind, bits)
    y = np.where(y == 0, U(1), y)
    if kind == "u":
        return x % y if remainder else x // y
    xs, ys = x.view(S), y.view(S)
    with np.errstate(over="ignore"):
        ax, ay = np.where(xs < 0, -xs, xs).view(U), np.where(ys < 0, -ys, ys).view(U)
    quotient, rest = ax // ay, ax % ay
    if remainder:
        return np.where(xs < 0, U(0) - rest, rest)
    return np.where((xs < 0) != (ys < 0), U(0) - quotient, quotient)


def _pick(a: Bits, b: Bits, kind: str, bits: int, largest: bool) -> Bits:
    x, y = extended(a, kind, bits), extended(b, kind, bits)
    less = x.view(S) < y.view(S) if kind == "s" else x < y
    return np.where(less != largest, a, b)


def saturated(value: np.ndarray) -> Bits:
    """int64 numbers to s32."""
    return np.clip(value, -(1 << 31), (1 << 31) - 1).astype(S).view(U) & mask(32)


def _plain(tokens: list[str]) -> Oracle | None:
    """add, sub, mul, mad, div, rem, min, max, neg, abs of 16, 32 and 64 bits."""
    op, kind, bits = tokens[0], tokens[-1][0], int(tokens[-1][1:])
    m, part = mask(bits), tokens[1] if len(tokens) > 2 else ""

    def product(a: Bits, b: Bits) -> Bits:
        x, y = extended(a, kind, bits), extended(b, kind, bits)
        if part == "hi":
            return high_product(x, y, kind) if bits == 64 else extended_shift(x * y, kind, bits)
        return x * y

    def extended_shift(x: Bits, kind: str, shift: int) -> Bits:
        return (x.view(S) >> S(shift)).view(U) if kind == "s" else x >> U(shift)

    wide = mask(2 * bits) if part == "wide" else m
    table: dict[str, Oracle] = {
        "add": lambda a, b: (a + b) & m,
        "sub": lambda a, b: (a - b) & m,
        "mul": lambda a, b: product(a, b) & wide,
        "mad": lambda a, b, c: (product(a, b) + c) & wide,
        "div": lambda a, b: _divide(a, b, kind, bits, False) & m,
        "rem": lambda a, b: _divide(a, b, kind, bits, True) & m,
        "min": lambda a, b: _pick(a, b, kind, bits, False),
        "max": lambda a, b: _pick(a, b, kind, bits, True),
        "neg": lambda a: (U(0) - a) & m,
        "abs": lambda a: np.where(a >> U(bits - 1), U(0) - a, a) & m,
    }
    return table.get(op)


def _sixteen_pairs(function: Oracle) -> Oracle:
    def oracle(*sources: Bits) -> Bits:
        low = function(*(s & mask(16) for s in sources)) & mask(16)
        high = function(*(s >> U(16) & mask(16) for s in sources)) & mask(16)
        return low | high << U(16)

    return oracle


def _rectified(function: Oracle) -> Oracle:
    """.relu of 16 bits: 0 in place of what is negative."""

    def oracle(*sources: Bits) -> Bits:
        result = function(*sources) & mask(16)
        return np.where(result >> U(15) != 0, U(0), result)

    return oracle


def _m24(x: Bits, kind: str) -> np.ndarray:
    return extended(x, kind, 24).view(S)


def special(mnemonic: str) -> tuple[Oracle, int] | None:
    """Instructions with an oracle of their own, and how many sources they have; all of 32 bits."""
    tokens = mnemonic.split(".")
    s32 = lambda x: signed(x, 32).view(S)  # noqa: E731
    table: dict[str, tuple[Oracle, int]] = {
        "add.sat.s32": (lambda a, b: saturated(s32(a) + s32(b)), 2),
        "sub.sat.s32": (lambda a, b: saturated(s32(a) - s32(b)), 2),
        "mad.hi.sat.s32": (lambda a, b, c: saturated((s32(a) * s32(b) >> S(32)) + s32(c)), 3),
        "min.relu.s32": (lambda a, b: np.maximum(np.minimum(s32(a), s32(b)), 0).view(U), 2),
        "max.relu.s32": (lambda a, b: np.maximum(np.maximum(s32(a), s32(b)), 0).view(U), 2),
        "mad24.hi.sat.s32": (lambda a, b, c: saturated((_m24(a, "s") * _m24(b, "s") >> S(16)) + s32(c)), 3),
        "sad.u32": (lambda a, b, c: (c + np.where(a > b, a - b, b - a)) & mask(32), 3),
        "sad.s32": (lambda a, b, c: (c + np.abs(s32(a) - s32(b)).view(U)) & mask(32), 3),
    }
    if mnemonic in table:
        return table[mnemonic]
    if tokens[0] in ("mul24", "mad24"):
        kind, high = tokens[2][0], tokens[1] == "hi"

        def product(a: Bits, b: Bits) -> Bits:
            whole = _m24(a, kind) * _m24(b, kind)
            return (whole >> S(16) if high else whole).view(U)

        if tokens[0] == "mul24":
            return (lambda a, b: product(a, b) & mask(32)), 2
        return (lambda a, b, c: (product(a, b) + c) & mask(32)), 3
    if tokens[0] in ("dp4a", "dp2a"):
        return _dot(tokens), 3
    return None


def _dot(tokens: list[str]) -> Oracle:
    ka, kb = tokens[-2][0], tokens[-1][0]

    def oracle(a: Bits, b: Bits, c: Bits) -> Bits:
        if tokens[0] == "dp4a":
            for k in range(0, 32, 8):
                c = c + extended(a >> U(k), ka, 8) * extended(b >> U(k), kb, 8)
        else:
            shift = 16 if tokens[1] == "hi" else 0
            for k in range(2):
                c = c + extended(a >> U(16 * k), ka, 16) * extended(b >> U(shift + 8 * k), kb, 8)
        return c & mask(32)

    return oracle


def _carried(tokens: list[str]) -> tuple[str, Oracle, tuple[str, ...], int]:
    """An instruction with a carry, between one that makes a carry and one that shows it: code, oracle, sources, bits.

    The carry in is `a + a`'s of the first source, so that it varies; the carry out is the result's top half.
    """
    op = tokens[0].removesuffix("c")
    takes, gives, bits = tokens[0].endswith("c"), "cc" in tokens, int(tokens[-1][1:])
    kind, m = tokens[-1], mask(bits)
    high = "hi" in tokens
    count = 3 if op == "mad" else 2
    operands = ", ".join(["x", "y", "z"][:count])
    make = f"add.cc.u{bits} t, x, x; " if not op.startswith("sub") else f"sub.cc.u{bits} t, y, x; "
    code = "".join(f"mov.b{bits} {name}, {{{letter}}}; " for name, letter in zip("xyz"[:count], "abc", strict=False))
    code += make if takes else ""
    code += f"{'.'.join(tokens[:-1])}.{kind} u, {operands}; "
    code += f"addc.u{bits} w, 0, 0; " if gives else f"mov.b{bits} w, 0; "
    if gives and op == "sub":
        code += f"xor.b{bits} w, w, 1; "  # on hardware and here a borrow is a carry that is not set
    code += f"shl.b{bits} w, w, {bits - 4}; xor.b{bits} {{d}}, u, w;"

    def oracle(a: Bits, b: Bits, c: Bits | None = None) -> Bits:
        if op == "sub":
            borrow = (b < a) if takes else np.zeros(len(a), bool)
            total = (a - b - borrow.astype(U)) & m
            out = (a < b) | ((a == b) & borrow)
        else:
            carry = ((a >> U(bits - 1)) if takes else np.zeros(len(a), U)).astype(U)
            if op == "mad":
                assert c is not None
                product = (high_product(a, b, kind[0]) if bits == 64 else _upper(a, b, kind[0])) if high else a * b
                first, second = product & m, c
            else:
                first, second = a, b
            total = (first + second) & m
            over = total < first
            again = (total + carry) & m
            out = over | (again < total)
            total = again
        return total ^ ((out.astype(U) << U(bits - 4)) & m if gives else U(0))

    return code, oracle, (f"u{bits}",) * count, bits


def _upper(a: Bits, b: Bits, kind: str) -> Bits:
    x, y = extended(a, kind, 32), extended(b, kind, 32)
    return ((x * y).view(S) >> S(32)).view(U) if kind == "s" else x * y >> U(32)


def _shifts(tokens: list[str]) -> Oracle:
    bits, kind = int(tokens[1][1:]), tokens[1][0]

    def left(a: Bits, n: Bits) -> Bits:
        return np.where(n < bits, a << np.minimum(n, U(63)), U(0)) & mask(bits)

    def right(a: Bits, n: Bits) -> Bits:
        x = extended(a, kind, bits)
        if kind == "s":
            return (x.view(S) >> np.minimum(n, U(63)).view(S)).view(U) & mask(bits)
        return np.where(n < bits, x >> np.minimum(n, U(63)), U(0))

    return left if tokens[0] == "shl" else right


def _length(a: Bits) -> Bits:
    """Python's bit_length."""
    count = np.zeros(len(a), U)
    for step in (32, 16, 8, 4, 2, 1):
        there = a >> U(step) != 0
        count += np.where(there, U(step), U(0))
        a = np.where(there, a >> U(step), a)
    return count + (a != 0).astype(U)


def _ones(a: Bits) -> Bits:
    return sum((a >> U(k) & U(1) for k in range(64)), np.zeros(len(a), U))


def _reversed(a: Bits, bits: int) -> Bits:
    return sum(((a >> U(k) & U(1)) << U(bits - 1 - k) for k in range(bits)), np.zeros(len(a), U))


def _place(p: Bits, bits: int) -> Bits:
    """The 32-bit instructions look at eight bits of positions and lengths."""
    return p & U(255) if bits == 32 else p & mask(32)


def _field(kind: str, bits: int) -> Oracle:
    def oracle(a: Bits, position: Bits, length: Bits) -> Bits:
        p, n = _place(position, bits), _place(length, bits)
        result = np.zeros(len(a), U)
        last = np.minimum(p + n - U(1), U(bits - 1))
        top = np.where((n == 0) | (kind == "u"), U(0), a >> np.minimum(last, U(63)) & U(1))
        for k in range(bits):
            inside = (U(k) < n) & (p + U(k) <= U(bits - 1))
            bit = np.where(inside, a >> np.minimum(p + U(k), U(63)) & U(1), top)
            result |= bit << U(k)
        return result

    return oracle


def _insert(bits: int) -> Oracle:
    def oracle(a: Bits, b: Bits, position: Bits, length: Bits) -> Bits:
        p, n = _place(position, bits), _place(length, bits)
        result = b.copy()
        for k in range(bits):
            from_a = (U(k) >= p) & (U(k) < p + n)
            bit = a >> np.where(from_a, U(k) - p, U(0)) & U(1)
            result = np.where(from_a, result & ~(U(1) << U(k)) | bit << U(k), result)
        return result & mask(bits)

    return oracle


def _permute(mode: str) -> Oracle:
    selectors = {
        "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
        "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
        "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
        "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
        "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
        "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
    }

    def oracle(a: Bits, b: Bits, c: Bits) -> Bits:
        both = a | b << U(32)
        if mode:
            c = np.array(selectors[mode], U)[(c & U(3)).astype(int)]
        result = np.zeros(len(a), U)
        for k in range(4):
            s = c >> U(4 * k) & U(15)
            byte = both >> (s & U(7)) * U(8) & U(255)
            byte = np.where(s & U(8), np.where(byte & U(128), U(255), U(0)), byte)
            result |= byte << U(8 * k)
        return result

    return oracle


def _funnel(left: bool, clamp: bool) -> Oracle:
    def oracle(a: Bits, b: Bits, n: Bits) -> Bits:
        n = np.minimum(n, U(32)) if clamp else n & U(31)
        both = b << U(32) | a
        return (both << n >> U(32) if left else both >> n) & mask(32)

    return oracle


def _mask_bits(clamp: bool) -> Oracle:
    """bmsk: ones from a, b of them."""

    def oracle(a: Bits, b: Bits) -> Bits:
        a, b = (np.minimum(a, U(32)), np.minimum(b, U(32))) if clamp else (a & U(31), b & U(31))
        return ((U(1) << b) - U(1)) << a & mask(32)

    return oracle


def _extend_sign(kind: str, clamp: bool) -> Oracle:
    """szext: bits 0 to n - 1, extended."""

    def oracle(a: Bits, n: Bits) -> Bits:
        n = np.minimum(n, U(32)) if clamp else n & U(31)
        ones = (U(1) << n) - U(1)
        top = np.where((n > 0) & (kind == "s"), a >> np.maximum(n, U(1)) - U(1) & U(1), U(0))
        return (a & ones | np.where(top, ~ones, U(0))) & mask(32)

    return oracle


def _find_set(a: Bits, base: Bits, offset: Bits) -> Bits:
    """fns: the n-th set bit, upwards or downwards from base; -1 if there is none. An offset of -2^31 gives 0 (H200)."""
    base = base & U(31)
    n = signed(offset & mask(32), 32).view(S)
    left = np.abs(n)
    result = np.full(len(a), int(mask(32)), U)
    found = np.zeros(len(a), bool)
    seen = np.zeros(len(a), S)
    here = (a >> base & U(1)).astype(bool)
    result = np.where((n == 0) & here, base, result)
    for step in range(32):
        at = base.view(S) + np.where(n < 0, -step, step)
        inside = (at >= 0) & (at < 32)
        bit = (a >> np.clip(at, 0, 31).view(U) & U(1)).astype(bool) & inside
        seen += bit
        hit = bit & (seen == left) & (n != 0) & ~found
        result = np.where(hit, at.view(U), result)
        found |= hit
    return np.where(n == -(1 << 31), U(0), result)


def _bits(mnemonic: str) -> tuple[Oracle, tuple[str, ...], int] | None:
    """Logic and bit fields: oracle, sources, bits of the result."""
    t = mnemonic.split(".")
    bits = int(t[-1][1:]) if t[-1][1:].isdigit() else 32
    word = f"b{bits}"
    logic: dict[str, Callable] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    if t[0] in logic:
        return logic[t[0]], (word, word), bits
    if t[0] in ("shl", "shr"):
        return _shifts(t), (word, "shift"), bits
    if t[0] == "shf":
        return _funnel(t[1] == "l", t[2] == "clamp"), ("b32", "b32", "shift"), 32
    if t[0] == "prmt":
        return _permute(t[2] if len(t) == 3 else ""), ("b32", "b32", "selector"), 32
    if t[0] == "bfind":
        return _finder(t[-1][0], bits, "shiftamt" in t), (word,), 32
    one: dict[str, tuple[Oracle, tuple[str, ...], int]] = {
        "not": (lambda a: ~a & mask(bits), (word,), bits),
        "cnot": (lambda a: (a == 0).astype(U), (word,), bits),
        "bfe": (_field(t[-1][0], bits), (word, "small", "small"), bits),
        "bfi": (_insert(bits), (word, word, "small", "small"), bits),
        "brev": (lambda a: _reversed(a, bits), (word,), bits),
        "popc": (_ones, (word,), 32),
        "clz": (lambda a: U(bits) - _length(a), (word,), 32),
        "fns": (_find_set, ("b32", "lane", "small"), 32),
        "bmsk": (_mask_bits("clamp" in t), ("small", "small"), 32),
        "szext": (_extend_sign(t[-1][0], "clamp" in t), ("b32", "small"), 32),
    }
    return one.get(t[0])


def _finder(kind: str, bits: int, amount: bool) -> Oracle:
    def oracle(a: Bits) -> Bits:
        if kind == "s":
            a = np.where(a >> U(bits - 1), ~a & mask(bits), a)
        at = _length(a) - U(1)
        return np.where(a == 0, mask(32), U(bits - 1) - at if amount else at)

    return oracle


def _predicates(mnemonic: str) -> Form:
    op = mnemonic.split(".")[0]
    given = "setp.ne.b32 %p, {a}, 0; setp.ne.b32 %q, {b}, 0; "
    operation = f"{mnemonic} %r, %p; " if op == "not" else f"{mnemonic} %r, %p, %q; "
    table: dict[str, Oracle] = {
        "and": lambda a, b: ((a != 0) & (b != 0)).astype(U),
        "or": lambda a, b: ((a != 0) | (b != 0)).astype(U),
        "xor": lambda a, b: ((a != 0) ^ (b != 0)).astype(U),
        "not": lambda a, b: (a == 0).astype(U),
    }
    return Form(mnemonic, given + operation + "selp.b32 {d}, 1, 0, %r;", 32, ("b32", "b32"), table[op])


def forms(mnemonic: str) -> Iterator[Form]:
    """The forms of a mnemonic of the integer and logic families."""
    tokens = mnemonic.split(".")
    if tokens[-1] == "pred":
        yield _predicates(mnemonic)
        return
    if tokens[0] == "lop3":
        for lut in (0x00, 0x1B, 0x80, 0x96, 0xCA, 0xE8, 0xFE):
            yield _looked_up(mnemonic, lut)
        return
    if "cc" in tokens or tokens[0] in ("addc", "subc", "madc"):
        code, oracle, sources, bits = _carried(tokens)
        declare = f".reg .b{bits} x, y, z, t, u, w;"
        yield Form(mnemonic, code, bits, sources, oracle, declare=declare)
        return
    if (found := special(mnemonic)) is not None:
        function, count = found
        yield Form(
            mnemonic, f"{mnemonic} {{d}}, {', '.join(ABC[:count])};", 32, (f"{tokens[-1][0]}32",) * count, function
        )
        return
    if tokens[-1] in ("u16x2", "s16x2"):
        plain = _plain([tokens[0], tokens[-1][:3]])
        if plain is not None:
            half = _rectified(plain) if "relu" in tokens else plain
            yield Form(mnemonic, f"{mnemonic} {{d}}, {{a}}, {{b}};", 32, ("b32", "b32"), _sixteen_pairs(half))
        return
    if (bit := _bits(mnemonic)) is not None:
        function, sources, result = bit
        yield Form(mnemonic, f"{mnemonic} {{d}}, {', '.join(ABC[: len(sources)])};", result, sources, function)
        return
    if (plain := _plain(tokens)) is not None:
        bits = int(tokens[-1][1:])
        wide = 2 * bits if "wide" in tokens else bits
        count = {"mad": 3, "neg": 1, "abs": 1}.get(tokens[0], 2)
        sources = tuple(f"{tokens[-1][0]}{wide if k == 2 else bits}" for k in range(count))
        yield Form(mnemonic, f"{mnemonic} {{d}}, {', '.join(ABC[:count])};", wide, sources, plain)


def _looked_up(mnemonic: str, lut: int) -> Form:
    """lop3, and lop3.BoolOp, whose predicate turns every second bit of the result over."""
    name, sources, function = f"{mnemonic} {lut:#x}", ("b32",) * 3, _lut(lut)
    if mnemonic == "lop3.b32":
        return Form(name, f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {lut};", 32, sources, function)
    code = (
        f"setp.lt.u32 q, {{a}}, {{b}}; {mnemonic} t|p, {{a}}, {{b}}, {{c}}, {lut}, q; "
        "selp.b32 u, 0x55555555, 0, p; xor.b32 {d}, t, u;"
    )

    def oracle(a: Bits, b: Bits, c: Bits) -> Bits:
        result = function(a, b, c)
        some, given = result != 0, a < b
        both = some & given if ".and." in mnemonic else some | given
        return result ^ np.where(both, U(0x55555555), U(0))

    return Form(name, code, 32, sources, oracle, declare=".reg .pred p, q; .reg .b32 t, u;")


def _lut(lut: int) -> Oracle:
    def oracle(a: Bits, b: Bits, c: Bits) -> Bits:
        result = np.zeros(len(a), U)
        for row in range(8):
            if lut >> row & 1:
                result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result & mask(32)

    return oracle
