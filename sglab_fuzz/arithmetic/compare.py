"""Oracles of setp, set, selp and slct, with all their modifiers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sglab_fuzz.arithmetic.form import Bits, Form, Oracle
from sglab_fuzz.arithmetic.integers import extended
from sglab_fuzz.arithmetic.soft import FORMATS, decode

U, S = np.uint64, np.int64
_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEANS = ("and", "or", "xor")


def _holds(word: str, kind: str, flush: bool) -> Oracle:
    """Whether a comparison holds, as 0 or 1."""
    base = kind.removesuffix("x2")
    if base in FORMATS:
        f = FORMATS[base]

        def floats(a: Bits, b: Bits) -> Bits:
            x, y = decode(a, f, flush), decode(b, f, flush)
            unordered = np.isnan(x) | np.isnan(y)
            if word in ("num", "nan"):
                return (unordered == (word == "nan")).astype(U)
            plain = word.removesuffix("u") if len(word) == 3 else word
            with np.errstate(invalid="ignore"):
                holds = _order(plain, x, y)
            return ((holds | unordered) if word != plain else (holds & ~unordered)).astype(U)

        return floats

    def integers(a: Bits, b: Bits) -> Bits:
        x, y = (extended(v, kind[0], int(kind[1:])) for v in (a, b))
        if kind[0] == "s":
            return _order(word, x.view(S), y.view(S)).astype(U)
        return _order(_NAMES.get(word, word), x, y).astype(U)

    return integers


def _order(word: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    functions = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    return functions[word](x, y)


def _combined(boolean: str, a: Bits, b: Bits) -> Bits:
    return {"and": a & b, "or": a | b, "xor": a ^ b}.get(boolean, a)


def _setp(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    kind = tokens[-1]
    boolean = next((t for t in tokens if t in _BOOLEANS), "")
    holds = _holds(tokens[1], kind, "ftz" in tokens)
    packed = kind.endswith("x2")
    operands = "{a}, {b}" + (", %r" if boolean else "")
    before = "setp.ne.b32 %r, {c}, 0; " if boolean else ""
    sources = (kind, kind, "small") if boolean else (kind, kind)
    shown = " selp.b32 {d}, 1, 0, %p;"
    half = kind in ("f16", "bf16")

    def one(a: Bits, b: Bits, c: Bits | None = None) -> Bits:
        first = holds(a, b)
        third = (c != 0).astype(U) if c is not None else first
        return _combined(boolean, first, third) if boolean else first

    if packed:

        def both(a: Bits, b: Bits, c: Bits | None = None) -> Bits:
            low = U(0xFFFF)
            return one(a & low, b & low, c) | one(a >> U(16), b >> U(16), c) << U(1)

        code = f"{before}{mnemonic} %p|%q, {operands};{shown} @%q or.b32 {{d}}, {{d}}, 2;"
        yield Form(mnemonic, code, 32, sources, both)
        return
    if not half:

        def pair(a: Bits, b: Bits, c: Bits | None = None) -> Bits:
            first = holds(a, b)
            third = (c != 0).astype(U) if c is not None else first
            second = first ^ U(1)
            if boolean:
                first, second = _combined(boolean, first, third), _combined(boolean, second, third)
            return first | second << U(1)

        code = f"{before}{mnemonic} %p|%q, {operands};{shown} @%q or.b32 {{d}}, {{d}}, 2;"
        yield Form(mnemonic, code, 32, sources, pair)
        return
    yield Form(mnemonic, f"{before}{mnemonic} %p, {operands};{shown}", 32, sources, one)


_ONE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}


def _set(mnemonic: str, tokens: list[str]) -> Iterator[Form]:
    result, kind = tokens[-2], tokens[-1]
    boolean = next((t for t in tokens if t in _BOOLEANS), "")
    holds = _holds(tokens[1], kind, "ftz" in tokens)
    packed = result.endswith("x2")
    base = result.removesuffix("x2")
    bits = int(base.lstrip("bfus"))
    yes = U(_ONE.get(base, (1 << bits) - 1))
    before = "setp.ne.b32 %r, {c}, 0; " if boolean else ""
    operands = "{a}, {b}" + (", %r" if boolean else "")

    def one(a: Bits, b: Bits, c: Bits | None = None) -> Bits:
        value = holds(a, b)
        if c is not None:
            value = _combined(boolean, value, (c != 0).astype(U))
        return np.where(value != 0, yes, U(0))

    def both(a: Bits, b: Bits, c: Bits | None = None) -> Bits:
        low = U(0xFFFF)
        return one(a & low, b & low, c) | one(a >> U(16), b >> U(16), c) << U(16)

    sources = (kind, kind, "small") if boolean else (kind, kind)
    code = f"{before}{mnemonic} {{d}}, {operands};"
    yield Form(mnemonic, code, 32 if packed else bits, sources, both if packed else one)


def forms(mnemonic: str) -> Iterator[Form]:
    """The forms of a mnemonic of the comparisons and selections."""
    tokens = mnemonic.split(".")
    if tokens[0] == "setp":
        yield from _setp(mnemonic, tokens)
    elif tokens[0] == "set":
        yield from _set(mnemonic, tokens)
    elif tokens[0] == "selp":
        bits = int(tokens[-1][1:])
        code = f"setp.ne.b32 %p, {{c}}, 0; {mnemonic} {{d}}, {{a}}, {{b}}, %p;"
        yield Form(mnemonic, code, bits, (f"b{bits}", f"b{bits}", "small"), lambda a, b, c: np.where(c != 0, a, b))
    elif tokens[0] == "slct":
        bits, by, flush = int(tokens[-2][1:]), tokens[-1], "ftz" in tokens

        def select(a: Bits, b: Bits, c: Bits) -> Bits:
            if by == "s32":
                return np.where(c >> U(31), b, a)
            with np.errstate(invalid="ignore"):
                return np.where(decode(c, FORMATS["f32"], flush) >= 0, a, b)

        code = f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}};"
        yield Form(mnemonic, code, bits, (f"b{bits}", f"b{bits}", by), select)
