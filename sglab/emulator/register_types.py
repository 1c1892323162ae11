"""What registers hold whose declaration says their size alone: compilers write .b32 for floats, too.

A register that a floating-point instruction reads or writes holds floats; so do those that it is moved to or from. One
that integer instructions use as well stays what it was declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from sglab.gpu import core

Statement: TypeAlias = tuple[str, Sequence[Sequence[str]]]
"""A mnemonic and the registers of each operand; see core.Kernel.statements."""
FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
INTEGERS = frozenset({"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"})
ELEMENTS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "bool": "u8",
    **{f"int{bits}": f"s{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
"""PTX's name of what a tensor or an array holds, by its dtype."""
APART = frozenset({"mma", "tmem"})
"""Events of instructions whose operands are of several types."""


def float_types(statements: Iterable[Statement]) -> dict[str, str]:
    """f16, bf16, f32 or f64 by register, of those that hold floats for sure."""
    types: dict[str, str] = {}
    others: set[str] = set()
    own: set[str] = set()
    moves: list[list[str]] = []
    for mnemonic, operands in statements:
        effects = _effects(mnemonic)
        if effects is None or mnemonic.startswith("wmma."):  # whose fragments are of several types, packed ones, too
            continue
        if effects.taint == "shuffle" or effects.cost == "reduce":
            operands = operands[:2]  # the others are lanes and masks
        registers = [register for operand in operands for register in operand]
        if _moves(effects) and all(len(operand) < 2 for operand in operands):
            moves.append(registers)
        kind, written = _kind(effects)
        for register in operands[0] if written else registers:
            if kind in INTEGERS or (kind and types.get(register, kind) != kind):
                others.add(register)
            elif kind:
                types[register] = kind
        if kind in FLOATS and operands:
            own.update(operands[0])
    _spread(types, others, moves, own)
    return {register: kind for register, kind in types.items() if register not in others}


@lru_cache(maxsize=4096)
def _effects(mnemonic: str) -> core.Effects | None:
    return core.instruction_effects(mnemonic)


def _moves(effects: core.Effects) -> bool:
    """Whether it hands values on as they are."""
    return effects.taint in ("pack", "shuffle") or (effects.taint == "select" and effects.type not in INTEGERS)


def _kind(effects: core.Effects) -> tuple[str, bool]:
    """The type of what an instruction's registers hold, empty where it says nothing; and whether that is said of its
    result alone."""
    known = FLOATS | INTEGERS
    if effects.event in APART or effects.atomic:
        return "", False
    if effects.to in known or effects.to.endswith("x2"):  # two types: the first is the result's
        return (effects.to if effects.to in known else ""), True
    kind = effects.type if effects.type in known else ""
    if kind in FLOATS or not kind:
        return kind, False
    if _moves(effects) or (effects.act in ("access", "parameter") and kind.startswith("u")):
        return "", False  # .u32 is said of floats, too: nvcc loads the members of a struct parameter so
    return kind, False


def _spread(types: dict[str, str], others: set[str], moves: list[list[str]], own: set[str]) -> None:
    """Along moves, in both directions, until nothing new is learnt. What a floating-point instruction wrote, its `own`,
    stays a float where its bits are moved to an integer, too, as in logf."""
    for _ in range(8):
        before = len(types), len(others)
        for operands in moves:
            if others & set(operands):
                others.update(set(operands) - own)
            found = {types[register] for register in operands if register in types}
            if len(found) == 1:
                types.update(dict.fromkeys(operands, *found))
        if (len(types), len(others)) == before:
            return
