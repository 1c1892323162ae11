"""What a breakpoint asks of a lane's registers: "%r5 == 3 and lane < 4"."""

from __future__ import annotations

import re
from collections.abc import Container

from sglab.gpu.errors import SessionError

_TERM = re.compile(r"(%[\w$.%]+|lane)\s*(==|!=|<=|>=|<|>)\s*(\S+)")

Condition = tuple[str, str, "int | None", float]
"""A register or "lane", a comparison, the number if bits are compared with it, and the number."""


def conditions(when: str, floats: Container[str] = ()) -> list[Condition]:
    """The terms of a condition, all of which must hold in one lane.

    Args:
        floats: registers that hold floats, whatever their declaration says: 4 is 4.0 there, and 0x4 still bits.

    Raises:
        SessionError: it is none.
    """
    terms = re.split(r"\s+and\s+|\s*&&\s*", when.strip())
    return [_term(term.strip(), when, floats) for term in terms]


def _term(term: str, when: str, floats: Container[str]) -> Condition:
    found = _TERM.fullmatch(term)
    number = None if found is None else _number(found[3])
    if found is None or number is None:
        example = "'%r5 == 3', '%f1 == nan' or 'lane < 4 and %r5 > 0x10'"
        raise SessionError(f"when must compare registers or the lane with numbers, such as {example}; got {when!r}")
    is_float = isinstance(number, float) or (found[1] in floats and "x" not in found[3].lower())
    whole = None if is_float else int(number)
    if found[1] == "lane" and whole is None:
        raise SessionError(f"a lane is a whole number from 0 to 31; got {when!r}")
    if whole is not None and whole >= 2**63:
        whole -= 2**64  # the same bits
    return found[1], found[2], whole, float(number)


def _number(text: str) -> int | float | None:
    for read in (lambda: int(text, 0), lambda: float(text)):
        try:
            number = read()
        except ValueError:
            continue
        return number if isinstance(number, float) or -(2**63) <= number < 2**64 else None
    return None
