"""Figures of the notebook on rooflines."""

from __future__ import annotations

from .canvas import BLUE, GREEN, INK, LINE, MUTED, ORANGE, PURPLE, RED, Canvas


def roofline_anatomy() -> Canvas:
    """Two roofs that meet at a ridge, three kernels, and how far one is below its roof."""
    c = Canvas(900, 400)
    left, bottom, ridge, top, right = 110, 330, 470, 90, 860
    c.line([(left, 40), (left, bottom), (right, bottom)], LINE, arrow=False)
    c.line([(left, 290), (ridge, top), (right, top)], INK, arrow=False)
    c.line([(ridge, top), (ridge, bottom)], MUTED, arrow=False, dashed=True)
    c.text(24, 30, "FLOP/s", 13, MUTED)
    c.text(right, 356, "arithmetic intensity: FLOP per byte", 13, MUTED, "end")
    c.text(ridge, 356, "ridge", 13, INK, "middle", bold=True)
    c.text(122, 150, "memory roof", 14, INK, bold=True)
    c.text(122, 170, "bandwidth × intensity", 12.5, MUTED)
    c.text(right, 76, "compute roof: peak of the tensor cores", 14, INK, "end", bold=True)
    slope = (290 - top) / (ridge - left)
    for x, y, name, colour, dx, dy, anchor in (
        (190, 290 - slope * 80, "GQA decode: 4", BLUE, 14, 20, "start"),
        (440, 290 - slope * 330, "MLA decode, 128 heads: 242", PURPLE, -14, -10, "end"),
        (700, top, "prefill of 4,096: 1,639", GREEN, 0, 28, "middle"),
    ):
        c.box(x - 7, y - 7, 14, 14, "", colour)
        c.text(x + dx, y + dy, name, 13, INK, anchor)
    c.box(433, 248, 14, 14, "", ORANGE)
    c.line([(440, 244), (440, 290 - slope * 330 + 12)], RED, dashed=True)
    c.text(426, 200, "what this run\nleaves unused", 12.5, RED, "end")
    c.text(426, 288, "a run: its time says how high", 13, INK, "end")
    told = "Both axes are logarithmic: a step is a factor. Left of the ridge a kernel waits for bytes, right of it for"
    c.text(24, 388, f"{told} arithmetic.", 12.5, MUTED)
    return c
