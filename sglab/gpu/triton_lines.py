"""Where Triton inlined a function: its PTX says so in comments alone.

.loc 2 191 40   // standard.py:191:40 @[ kernel.py:9:29 ]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

FILE = re.compile(r'^[ \t]*\.file\s+\d+\s+"([^"]+)"', re.MULTILINE)
LOC = re.compile(r"\s*\.loc\s+\d+\s+\d+\s+\d+(.*)")
CALL = re.compile(r"@\[ ([^\s:]+):(\d+):(\d+)")


def with_callers(ptx: str, rows: Sequence[Any]) -> Sequence[Any]:
    """Rows of Code with the lines, after their own, at which functions were inlined. Other PTX is left as it is."""
    if " @[ " not in ptx:
        return rows
    paths: dict[str, set[str]] = {}
    for path in FILE.findall(ptx):
        paths.setdefault(PurePath(path).name, set()).add(path)
    known = {name: found.pop() for name, found in paths.items() if len(found) == 1}  # comments have names alone
    callers: list[tuple[tuple[str, int, int, str], ...]] = [()]
    here: tuple[tuple[str, int, int, str], ...] = ()
    for line in ptx.splitlines():
        if loc := LOC.match(line):
            calls = CALL.findall(loc[1])
            here = tuple((known[name], int(at), int(column), "") for name, at, column in calls if name in known)
        callers.append(here)
    return [
        (line, opcode, kind, (*chain, *callers[line])) if len(chain) == 1 else (line, opcode, kind, chain)
        for line, opcode, kind, chain in rows
    ]
