"""Where Triton inlined a function: its PTX says so in comments alone.

.loc 2 191 40   // standard.py:191:40 @[ kernel.py:9:29 ]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

Place = tuple[str, int, int, str]
"""File, line, column, and a function's name, which these comments do not have."""

_CALLED = "@[ "
_MOST_CALLERS = 63
"""As the compiled core's chains, which have 64 lines with an instruction's own."""
_LONGEST_NUMBER = 9


def with_callers(ptx: str, rows: Sequence[Any], files: Iterable[str]) -> Sequence[Any]:
    """Rows of Code with the lines, after their own, at which functions were inlined. Other PTX is left as it is.

    Args:
        files: what the PTX names in .file.
    """
    if f" {_CALLED}" not in ptx:
        return rows
    paths: dict[str, set[str]] = {}
    for path in files:
        paths.setdefault(PurePath(path).name, set()).add(path)
    known = {name: found.pop() for name, found in paths.items() if len(found) == 1}  # comments have names alone
    callers: list[tuple[Place, ...]] = [()]
    here: tuple[Place, ...] = ()
    for line in ptx.splitlines():
        words = line.split(None, 4) if ".loc" in line else []
        if len(words) > 3 and words[0] == ".loc":
            here = _calls("".join(words[4:]), known)
        callers.append(here)
    return [
        (line, opcode, kind, (*chain, *callers[line])) if len(chain) == 1 else (line, opcode, kind, chain)
        for line, opcode, kind, chain in rows
    ]


def _calls(comment: str, known: Mapping[str, str]) -> tuple[Place, ...]:
    """The places in files with known paths that a comment names, innermost first."""
    calls: list[Place] = []
    for each in comment.split(_CALLED, _MOST_CALLERS)[1:]:
        name, *numbers = each.split(None, 1)[0].split(":", 3) if each.strip() else [""]
        if name in known and len(numbers) == 2 and all(map(_is_number, numbers)):
            calls.append((known[name], int(numbers[0]), int(numbers[1]), ""))
    return tuple(calls)


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and text.isdecimal()
