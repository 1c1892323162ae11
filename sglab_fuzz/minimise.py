"""Makes a failing text smaller: lines are left out as long as it fails in the same way (delta debugging)."""

from __future__ import annotations

import time
from collections.abc import Callable


def minimised(text: str, fails: Callable[[str], bool], seconds: float = 60.0) -> str:
    """The smallest text found in this time whose lines are a subset of the given ones and that still fails.

    Args:
        fails: whether a text shows the finding that is looked at.

    Source: Zeller, Hildebrandt, "Simplifying and isolating failure-inducing input" (ddmin), on lines.
    """
    lines, until = text.splitlines(keepends=True), time.monotonic() + seconds
    parts = 2
    while len(lines) > 1 and time.monotonic() < until:
        size = -(-len(lines) // parts)
        for start in range(0, len(lines), size):
            rest = lines[:start] + lines[start + size :]
            if time.monotonic() >= until:
                break
            if rest and fails("".join(rest)):
                lines, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(lines))
    return "".join(lines)
