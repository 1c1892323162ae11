"""What the text of one entry of a PTX module says, whether or not the emulator runs it."""

from __future__ import annotations

from sglab.gpu import core

Operand = tuple[bool, list[str]]
"""Whether it is an address, and the names in it."""


def instructions_of(ptx: str, entry: str) -> list[tuple[str, list[Operand]]]:
    """The opcode and the operands of each instruction of an entry; empty where the text has no such entry."""
    try:
        return core.entry_words(ptx, entry)
    except core.PtxError:
        return []


def meets_as_a_grid(ptx: str, entry: str) -> bool:
    """Whether an entry waits for its whole grid: cooperative groups find the grid's barrier through %envreg1 and 2."""
    try:
        return core.entry_mentions(ptx, entry, "%envreg1")
    except core.PtxError:
        return False  # the driver's compiler will say what is wrong
