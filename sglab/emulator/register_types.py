"""What registers hold whose declaration gives only their size: compilers write .b32 for floats, too.

A register that a floating-point instruction reads or writes holds floats; so do those that it is moved to or from. One
that integer instructions use as well stays what it was declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
INTEGERS = frozenset({"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"})
MOVES = ("mov.", "selp.b", "shfl.")
MEMORY = ("ld.", "st.")
"""Accesses that say .u32 of floats, too: nvcc loads the members of a struct parameter so."""
REGISTER = re.compile(r"%[A-Za-z_$][\w$]*")
TYPE = re.compile(r"(?:[usfb]|bf|tf|e\dm|ue\dm)\d")
GUARD, ADDRESS = re.compile(r"^@!?%\w+\s+"), re.compile(r"\[[^]]*\]")
MIXED = ("cvt", "cvta", "mma", "wgmma", "tcgen05", "tex", "atom", "red.")
"""Instructions whose operands differ in type: only what is written is known, and only by conversions."""


def float_types(instructions: Iterable[str]) -> dict[str, str]:
    """f16, bf16, f32 or f64 by register, of those that hold floats for sure. instructions: lines of PTX"""
    types: dict[str, str] = {}
    others: set[str] = set()
    moves: list[list[str]] = []
    for text in instructions:
        opcode, operands = _parts(text)
        named = [part for part in opcode.split(".")[1:] if part in FLOATS or part in INTEGERS]
        if opcode.startswith(MOVES):
            moves.append(operands)
            if not FLOATS & set(named):
                continue
        if opcode.startswith(MEMORY) and not FLOATS & set(named):
            named = [name for name in named if name.startswith("s")]
        if opcode.startswith("cvt."):
            to = next(filter(TYPE.match, opcode.split(".")[1:]), "")  # may be packed, such as bf16x2
            operands, named = operands[:1], [to] if to in FLOATS | INTEGERS else []
        elif opcode.startswith(MIXED) or len(set(named)) > 1:
            continue
        for register in operands if named else []:
            if named[0] in INTEGERS or types.get(register, named[0]) != named[0]:
                others.add(register)
            else:
                types[register] = named[0]
    _spread(types, others, moves)
    return {register: kind for register, kind in types.items() if register not in others}


def _spread(types: dict[str, str], others: set[str], moves: list[list[str]]) -> None:
    """Along moves, in both directions, until nothing new is learnt."""
    for _ in range(8):
        before = len(types), len(others)
        for operands in moves:
            if others & set(operands):
                others.update(operands)
            found = {types[register] for register in operands if register in types}
            if len(found) == 1:
                types.update(dict.fromkeys(operands, *found))
        if (len(types), len(others)) == before:
            return


def _parts(text: str) -> tuple[str, list[str]]:
    """Opcode, and the registers of its operands but for addresses, predicates, masks and lane counts."""
    opcode, _, rest = GUARD.sub("", text.strip()).replace("\t", " ").partition(" ")
    rest = ADDRESS.sub("", rest)
    operands = REGISTER.findall(rest)
    if opcode.startswith("shfl."):
        operands = [name for name in operands if not name.startswith("%p")][:2]
    elif opcode.startswith("selp."):
        operands = operands[:-1]
    elif opcode.startswith("redux."):
        operands = operands[:2]
    elif opcode.startswith("setp."):
        operands = [name for name in operands if not name.startswith("%p")]
    elif opcode.startswith("mov.") and "{" in rest:  # parts of a register, or several as one
        operands = []
    return opcode.strip(), operands
