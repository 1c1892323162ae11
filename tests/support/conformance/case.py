"""An instruction form with inputs and expected results: data that any device can be held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Bits = np.ndarray  # of uint16, uint32 or uint64: raw register contents

DTYPES = {16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(frozen=True)
class Case:
    """One instruction form.

    form: the PTX, with {d}, {a}, {b}, {c} for registers; further statements may surround it
    result: bits of {d}
    sources: bits of {a}, {b}, … in order
    expected: from the sources' bits to the result's bits, computed independently of the emulator
    inputs: makes the sources' bits from a random generator
    ulps: how far an approximate f32 result may be from the expected one
    error: or how far in absolute terms, from the sources' bits, where the bound of the form is not in ulps
    target: the oldest architecture that has the form
    declare: further registers that the form uses
    """

    form: str
    result: int
    sources: tuple[int, ...]
    expected: Callable[..., Bits]
    inputs: Callable[[np.random.Generator], tuple[Bits, ...]]
    ulps: float = 0
    error: Callable[..., np.ndarray] | None = None
    target: str = "sm_80"
    declare: str = ""

    @property
    def name(self) -> str:
        return self.form.split(";")[0].split("{d}")[0].strip() if self.form.count(";") == 1 else self.form

    def ptx(self) -> str:
        """A kernel with one pointer per source, one for the result, and how many elements there are."""
        loads, parameters = [], []
        for letter, bits in zip("abcefg", self.sources, strict=False):
            parameters.append(f".param .u64 p_{letter}")
            loads.append(
                f"  ld.param.u64 %pointer, [p_{letter}];\n  mad.wide.u32 %pointer, %index, {bits // 8}, %pointer;\n"
                f"  ld.global.b{bits} %{letter}, [%pointer];"
            )
        registers = " ".join(f".reg .b{bits} %{letter};" for letter, bits in zip("abcefg", self.sources, strict=False))
        names = {letter: f"%{letter}" for letter in "abcefg"} | {"d": "%d"}
        body = "\n".join(loads)
        return f""".version 8.8
.target {self.target}
.address_size 64
.visible .entry conform({", ".join(parameters)}, .param .u64 p_d, .param .u32 p_n)
{{
  .reg .pred %past, %p, %q, %r; .reg .b32 %index, %count, %step; .reg .b64 %pointer;
  {registers} .reg .b{self.result} %d; {self.declare}
  mov.u32 %index, %ctaid.x;
  mov.u32 %step, %ntid.x;
  mov.u32 %count, %tid.x;
  mad.lo.u32 %index, %index, %step, %count;
  ld.param.u32 %count, [p_n];
  setp.ge.u32 %past, %index, %count;
  @%past bra DONE;
{body}
  {self.form.format(**names)}
  ld.param.u64 %pointer, [p_d];
  mad.wide.u32 %pointer, %index, {self.result // 8}, %pointer;
  st.global.b{self.result} [%pointer], %d;
DONE:
  ret;
}}
"""


def integers(*widths: int, count: int = 700) -> Callable[[np.random.Generator], tuple[Bits, ...]]:
    """Random bit patterns of several lengths, and every pair of corner values."""

    def make(rng: np.random.Generator) -> tuple[Bits, ...]:
        columns = []
        corners = [0, 1, 2, 3, 7, 31, 32, 33, 63, 64, -1, -2, -31, -32]
        for position, bits in enumerate(widths):
            top = 1 << (bits - 1)
            special = [v % (1 << bits) for v in [*corners, top, top - 1, top + 1]]
            grid = np.array(special, dtype=np.uint64)
            crossed = np.repeat(grid, len(special)) if position % 2 else np.tile(grid, len(special))
            random = rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False) >> rng.integers(
                64 - bits, 64, count, dtype=np.uint64
            )
            columns.append(np.concatenate([crossed, random]).astype(DTYPES[bits]))
        return tuple(columns)

    return make


def mapped(bits: int, function: Callable[..., int]) -> Callable[..., Bits]:
    """An expected column from a function of Python integers, one element at a time."""

    def expected(*columns: Bits) -> Bits:
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return np.array([function(*row) % (1 << bits) for row in rows], dtype=DTYPES[bits])

    return expected


def signed(value: int, bits: int) -> int:
    """Two's complement bits as a number."""
    return value - (1 << bits) if value >> (bits - 1) else value
