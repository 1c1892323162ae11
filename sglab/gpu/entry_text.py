"""The text of one entry of a PTX module."""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def entry_body(ptx: str, entry: str) -> str:
    """What is between an entry's braces; empty if it is not found."""
    text = _COMMENT.sub(" ", ptx)
    begin = re.search(rf"\.entry\s+{re.escape(entry)}\s*\(", text)
    if begin is None or (first := text.find("{", begin.end())) < 0:
        return ""
    depth = 0
    for brace in re.finditer(r"[{}]", text[first:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[first + 1 : first + brace.start()]
    return ""


def meets_as_a_grid(ptx: str, entry: str) -> bool:
    """Whether an entry waits for its whole grid: cooperative groups find the grid's barrier through %envreg1 and 2."""
    return "%envreg1" in entry_body(ptx, entry)
