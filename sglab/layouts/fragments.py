"""Which lane holds which element of a matrix in which register: the fragments of mma.sync, ldmatrix, wgmma and tcgen05,
and where tcgen05.mma puts its result in tensor memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

BITS = {
    **dict.fromkeys(("f64",), 64),
    **dict.fromkeys(("tf32", "f32", "s32"), 32),
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("e4m3", "e5m2", "s8", "u8"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
}


class Owner(NamedTuple):
    """Who holds an element: lane of a warp, or thread of a warpgroup; register; its part, from the low bits.
    In tensor memory: its lane and its column."""

    lane: int
    register: int
    part: int


Where = Callable[[int, int], Owner]


@dataclass(frozen=True)
class Fragment:
    """A matrix spread over lanes.

    Attributes:
        name: as `fragment` reads it.
        rows, columns: of the matrix.
        element: its type.
        lanes, registers, parts: 32 lanes of a warp or 128 threads of a warpgroup; registers of each; elements per
            register. In tensor memory: its lanes and columns.
        space: "registers" or "tmem".
        instruction: a sentence of what reads or writes it so.
        owner: (row, column) to its owner.
    """

    name: str
    rows: int
    columns: int
    element: str
    lanes: int
    registers: int
    parts: int
    space: str
    instruction: str
    owner: Where

    def owners(self) -> Iterator[tuple[int, int, Owner]]:
        """(row, column, owner) of every element, row by row."""
        for row in range(self.rows):
            for column in range(self.columns):
                yield row, column, self.owner(row, column)


def fragment(name: str) -> Fragment:
    """A fragment by its name, such as those of FRAGMENTS.

    Args:
        name: `mma.m16n8k16.f16.A` (B, C, D; m8 with f64), `ldmatrix.x4` or `stmatrix.x4.trans`, `wgmma.m64n64k16.f16.D`
            (A in registers), `tcgen05.ld.16x64b.x4`, `tcgen05.mma.m64n32.D` (with `.cta_group::2`: of the pair's first
            CTA).

    Raises:
        ValueError: no such name, or sizes that the instruction does not have.
    """
    read = re.sub(r"\.[abcd]$", lambda operand: operand.group().upper(), name.strip().lower())
    for pattern, make in _MAKERS:
        match = pattern.fullmatch(read)
        if match:
            return make(read, *match.groups())
    raise ValueError(f"fragment {name!r}: expected a name such as {', '.join(list(FRAGMENTS)[::4])}")


def _mma(name: str, m: str, k: str, element: str, operand: str) -> Fragment:
    rows, depth, bits = int(m), int(k), _bits(name, element)
    per = max(1, 32 // bits)
    depths = _MMA_DEPTHS.get((rows, element), ())
    if (rows, depth, element) == (8, 4, "f16"):
        raise ValueError(f"fragment {name!r}: mma.m8n8k4 of f16 is for Volta: quad pairs of lanes share its operands")
    if depth not in depths:
        some = sorted({f"m{m}n8k{at}" for (m, known), all_ in _MMA_DEPTHS.items() for at in all_ if known == element})
        known = f"expected {' or '.join(some)}" if some else f"it multiplies {', '.join(_MMA_ELEMENTS)}"
        raise ValueError(f"fragment {name!r}: mma.sync has no m{m}n8k{k} of {element}; {known}")
    steps = depth // (4 * per)
    halves = rows // 8

    def a(row: int, column: int) -> Owner:
        step, inner = divmod(column, 4 * per)
        return Owner(row % 8 * 4 + inner // per, halves * step + row // 8, inner % per)

    def b(row: int, column: int) -> Owner:
        step, inner = divmod(row, 4 * per)
        return Owner(column * 4 + inner // per, step, inner % per)

    if operand in "CD":
        kept = "f64" if bits == 64 else "s32" if bits < 8 or element in ("s8", "u8") else "f32"
        return _accumulator(name, rows, 8, kept, "mma.sync adds to it and returns it so")
    said = f"mma.sync reads operand {operand} so"
    if operand == "A":
        return Fragment(name, rows, depth, element, 32, halves * steps, per, "registers", said, a)
    return Fragment(name, depth, 8, element, 32, steps, per, "registers", said, b)


def _accumulator(name: str, rows: int, columns: int, element: str, said: str) -> Fragment:
    """Of a warp (16 or 8 rows) or a warpgroup (64): quads of lanes hold two neighbouring columns."""
    lanes = 128 if rows == 64 else 32
    halves = min(2, rows // 8)

    def owner(row: int, column: int) -> Owner:
        lane = row // 16 * 32 + row % 8 * 4 + column % 8 // 2
        return Owner(lane, column // 8 * 2 * halves + row % 16 // 8 * 2 + column % 2, 0)

    return Fragment(name, rows, columns, element, lanes, columns // 8 * 2 * halves, 1, "registers", said, owner)


def _matrices(name: str, verb: str, count: str, trans: str | None) -> Fragment:
    matrices = int(count)

    def owner(row: int, column: int) -> Owner:
        number, inner = divmod(row, 8)
        outer, along = (column, inner) if trans else (inner, column)
        return Owner(4 * outer + along // 2, number, along % 2)

    did = "hands out" if verb == "ldmatrix" else "collects"
    said = f"{verb} {did} the 16-byte rows that lanes 0–7, 8–15, … point to so" + (", transposed" if trans else "")
    return Fragment(name, 8 * matrices, 8, "b16", 32, matrices, 2, "registers", said, owner)


def _wgmma(name: str, n: str, k: str, element: str, operand: str) -> Fragment:
    columns, depth, bits = int(n), int(k), _bits(name, element)
    if element not in _WGMMA_ELEMENTS:
        raise ValueError(f"fragment {name!r}: wgmma multiplies {', '.join(_WGMMA_ELEMENTS)}, got {element!r}")
    if columns % 8 or not 8 <= columns <= 256 or depth * bits != 256:
        raise ValueError(f"fragment {name!r}: wgmma has n of 8, 16, … 256 and k{256 // bits} for {element}")
    if element in ("s8", "u8") and columns > 32 and columns % 16:
        raise ValueError(f"fragment {name!r}: wgmma of {element} has n of 8, 16, 24, 32, 48, 64, 80, … 256")
    if operand == "D":
        kept = "s32" if element in ("s8", "u8") else "f32"
        return _accumulator(name, 64, columns, kept, "wgmma leaves D in a warpgroup's registers so")
    per = 32 // bits

    def a(row: int, column: int) -> Owner:
        step, inner = divmod(column, 4 * per)
        return Owner(row // 16 * 32 + row % 8 * 4 + inner // per, 2 * step + row % 16 // 8, inner % per)

    said = "wgmma reads A from a warpgroup's registers so"
    return Fragment(name, 64, depth, element, 128, 4, per, "registers", said, a)


def _tcgen05_ld(name: str, shape: str, count: str, pack: str | None) -> Fragment:
    number, scale = int(count), 2 if pack else 1
    lanes, columns, registers = _LOADS[shape]
    if number not in (1, 2, 4, 8, 16, 32, 64, 128) or registers * number > 128:
        raise ValueError(f"fragment {name!r}: .{shape} repeats 1, 2, 4, … times, up to {128 // registers}")

    def owner(row: int, column: int) -> Owner:
        column, part = divmod(column, scale)
        repeat, inner = divmod(column, columns)
        if shape == "32x32b":
            return Owner(row, column, part)
        if shape == "16x64b":  # the upper eight lanes are the odd threads'
            return Owner(row % 8 * 4 + 2 * inner + row // 8, repeat, part)
        if shape == "16x128b":
            return Owner(row % 8 * 4 + inner, 2 * repeat + row // 8, part)
        return Owner(row % 8 * 4 + inner // 2, 4 * repeat + row // 8 * 2 + inner % 2, part)

    said = "tcgen05.ld and st move tensor memory (rows: lanes of the warp's quarter) to registers so"
    width = columns * number * scale
    return Fragment(
        name, lanes, width, "b16" if pack else "b32", 32, registers * number, scale, "registers", said, owner
    )


def _tcgen05_mma(name: str, m: str, n: str, pair: str | None) -> Fragment:
    rows, columns = int(m), int(n)
    allowed = (128, 256) if pair else (64, 128)
    if rows not in allowed or columns % 8 or not 8 <= columns <= 256 or (rows > 64 and columns % 16):
        raise ValueError(
            f"fragment {name!r}: M of {allowed[0]} or {allowed[1]} and N a multiple of {8 if rows == 64 else 16} to 256"
        )
    half = columns // 2

    def owner(row: int, column: int) -> Owner:
        if rows == 64:  # sixteen rows per warp's quarter
            return Owner(row // 16 * 32 + row % 16, column, 0)
        if pair and rows == 128:  # a CTA's 64 rows; the right half of D below the left
            return Owner(row + 64 * (column // half), column % half, 0)
        return Owner(row, column, 0)

    whose = " of the pair's first CTA" if pair else ""
    said = f"tcgen05.mma leaves D in the tensor memory{whose} so"
    kept = rows // 2 if pair else rows
    width = half if pair and rows == 128 else columns
    return Fragment(name, kept, columns, "f32", 128, width, 1, "tmem", said, owner)


def _bits(name: str, element: str) -> int:
    if element not in BITS:
        raise ValueError(f"fragment {name!r}: expected an element among {', '.join(BITS)}, got {element!r}")
    return BITS[element]


_LOADS = {"32x32b": (32, 1, 1), "16x64b": (16, 2, 1), "16x128b": (16, 4, 2), "16x256b": (16, 8, 4)}
"""Shape of tcgen05.ld -> lanes, and columns and registers of one repetition."""
_MMA_DEPTHS = {
    **{(16, element): (8, 16) for element in ("f16", "bf16")},
    **{(16, element): (16, 32) for element in ("e4m3", "e5m2", "s8", "u8")},
    **{(16, element): (32, 64) for element in ("s4", "u4")},
    **{(8, element): (16,) for element in ("s8", "u8")},
    **{(8, element): (32,) for element in ("s4", "u4")},
    (16, "tf32"): (4, 8),
    (16, "f64"): (4, 8, 16),
    (8, "f64"): (4,),
}
"""(M, element) -> K of mma.sync, of dense products whose lanes hold the operands in quads."""
_MMA_ELEMENTS = list(dict.fromkeys(element for _, element in _MMA_DEPTHS))
_WGMMA_ELEMENTS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")
_MAKERS: list[tuple[re.Pattern[str], Callable[..., Fragment]]] = [
    (re.compile(r"mma\.m(16|8)n8k(\d+)\.(\w+)\.([ABCD])"), _mma),
    (re.compile(r"(ldmatrix|stmatrix)\.x([124])(\.trans)?"), _matrices),
    (re.compile(r"wgmma\.m64n(\d+)k(\d+)\.(\w+)\.([AD])"), _wgmma),
    (re.compile(r"tcgen05\.ld\.(32x32b|16x64b|16x128b|16x256b)\.x(\d+)(\.pack::16b)?"), _tcgen05_ld),
    (re.compile(r"tcgen05\.mma\.m(\d+)n(\d+)(\.cta_group::2)?\.D"), _tcgen05_mma),
]
FRAGMENTS = {
    "mma.m16n8k16.f16.A": "mma.sync: A, 16 × 16 of f16",
    "mma.m16n8k16.f16.B": "mma.sync: B, 16 × 8 of f16",
    "mma.m16n8k16.f16.C": "mma.sync: C and D, 16 × 8 of f32",
    "mma.m16n8k32.e4m3.A": "mma.sync: A, 16 × 32 of e4m3",
    "mma.m16n8k8.tf32.A": "mma.sync: A, 16 × 8 of tf32",
    "mma.m8n8k4.f64.A": "mma.sync: A, 8 × 4 of f64",
    "ldmatrix.x4": "ldmatrix: four 8 × 8 matrices",
    "ldmatrix.x2.trans": "ldmatrix.trans: two 8 × 8 matrices",
    "wgmma.m64n64k16.f16.D": "wgmma: D, 64 × 64 of f32",
    "wgmma.m64n64k16.f16.A": "wgmma: A in registers, 64 × 16 of f16",
    "tcgen05.ld.32x32b.x16": "tcgen05.ld: 32 lanes × 16 columns",
    "tcgen05.ld.16x64b.x8": "tcgen05.ld: 16 lanes × 16 columns, 16x64b",
    "tcgen05.ld.16x128b.x4": "tcgen05.ld: 16 lanes × 16 columns, 16x128b",
    "tcgen05.ld.16x256b.x2": "tcgen05.ld: 16 lanes × 16 columns, 16x256b",
    "tcgen05.mma.m128n32.D": "tcgen05.mma: D, 128 × 32 in tensor memory",
    "tcgen05.mma.m64n32.D": "tcgen05.mma: D, 64 × 32 in tensor memory",
    "tcgen05.mma.m128n64.cta_group::2.D": "tcgen05.mma of a CTA pair: D, 128 × 64, first CTA",
}
"""Name -> what it is, of those that a menu offers; `fragment` reads other sizes and types as well."""
