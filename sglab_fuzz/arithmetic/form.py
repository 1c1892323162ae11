"""An instruction form that is compared: its PTX, its operands and its oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]
Oracle = Callable[..., Bits]


@dataclass(frozen=True)
class Form:
    """One mnemonic with one choice of operands.

    Attributes:
        name: the mnemonic, and what tells it from other choices of operands.
        code: PTX with {d} for the result, {a}, {b}, {c}, {e} for the sources.
        result: bits of {d}.
        sources: what each source is, such as "u32", "f16", "f16x2", "shift".
        oracle: from the sources' bits to the result's, uint64 each.
        ulps: how many codes of `unit` an approximation may be off; 0: bit-equal.
        bound: from the sources' bits to an absolute error that is allowed instead.
        unit: the format of the result for `ulps` and NaN: "f32", "f64", "f16x2", "" for integers.
        any_nan: every NaN equals every other: payload and sign are not judged.
        most: lanes that the oracle can do at once.
        declare: further registers.
    """

    name: str
    code: str
    result: int
    sources: tuple[str, ...]
    oracle: Oracle
    ulps: int = 0
    bound: Callable[..., npt.NDArray[np.float64]] | None = None
    unit: str = ""
    any_nan: bool = False
    most: int = 1 << 20
    declare: str = ""


def width(kind: str) -> int:
    """Bits of a source: what its name ends in, twice where it is a pair."""
    if kind in ("shift", "selector", "small", "lane"):
        return 32
    base, _, pair = kind.partition("x2")
    bits = int("".join(filter(str.isdigit, base.removeprefix("bf"))) or 32)
    return bits * 2 if "x2" in kind and not pair else bits
