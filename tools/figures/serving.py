"""Figures of the notebook on the serving loop."""

from __future__ import annotations

from .canvas import BLUE, GREEN, INK, MUTED, Canvas


def radix_tree() -> Canvas:
    """Three prompts that begin alike: one shared edge, three endings."""
    c = Canvas(900, 220)
    c.box(24, 92, 60, 36, "root", GREEN, 13)
    c.line([(84, 110), (336, 110)], arrow=False)
    c.text(96, 98, "A story about a small rob…", 13, INK)
    c.text(96, 132, "28 tokens, 7 pages, kept once", 12.5, MUTED)
    c.box(336, 92, 28, 36, "", BLUE)
    for i, ending in enumerate(("ot. Once upon a time …", "ot. The robot said …", "ot. In the garden there was …")):
        y = 40 + 70 * i
        c.line([(364, 110), (440, y), (800, y)], arrow=False)
        c.text(452, y - 8, ending, 13, INK)
        c.box(800, y - 18, 76, 36, f"prompt {i + 1}", BLUE, 12.5)
    return c
