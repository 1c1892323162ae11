"""Figures of the notebook on several ranks."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def tensor_parallel() -> Canvas:
    """An MLP cut over two ranks: the first matrix by rows of output, the second by columns of input."""
    c = Canvas(900, 290)
    c.text(24, 34, "an MLP on two ranks", 15, INK, bold=True)
    for rank, colour in enumerate((BLUE, ORANGE)):
        y = 56 + 100 * rank
        c.text(24, y + 44, f"rank {rank}", 13, colour, bold=True)
        c.box(90, y + 16, 90, 50, "x, whole", GREY, 13)
        c.line([(180, y + 41), (208, y + 41)])
        c.box(212, y, 170, 82, "gate and up:\nhalf of the outputs", colour, 13)
        c.line([(382, y + 41), (410, y + 41)])
        c.box(414, y, 170, 82, "down: the inputs\nof this half", colour, 13)
        c.line([(584, y + 41), (622, y + 41), (652, 138)], arrow=True)
    c.box(656, 114, 100, 50, "all-reduce", PURPLE, 13, bold=True)
    c.line([(756, 139), (784, 139)])
    c.box(788, 114, 90, 50, "y, whole", GREY, 13)
    note = "Nothing is exchanged between the matrices: a half of down needs its own half of the middle alone."
    c.text(24, 276, note, 12.5, MUTED)
    return c


def dp_layouts() -> Canvas:
    """Tokens of two groups, padded or summed."""
    c = Canvas(900, 250)
    c.text(24, 34, "two groups with 5 and 2 tokens gather them for an MLP", 15, INK, bold=True)
    c.text(24, 82, "MAX_LEN", 13, INK, bold=True)
    c.cells(140, 60, ["a"] * 5, 34, BLUE, 34, 13)
    c.cells(140 + 5 * 34, 60, [*"bb", "0", "0", "0"], 34, ORANGE, 34, 13, marked=(2, 3, 4), mark=GREY)
    c.text(500, 82, "padded to the longest; one all-gather of 5 + 5 rows", 12.5, MUTED)
    c.text(24, 152, "SUM_LEN", 13, INK, bold=True)
    c.cells(140, 116, [*"aaaaa", "0", "0"], 34, BLUE, 30, 13, marked=(5, 6), mark=GREY)
    c.cells(140, 152, [*"00000", "b", "b"], 34, ORANGE, 30, 13, marked=(0, 1, 2, 3, 4), mark=GREY)
    c.text(118, 156, "+", 15, INK, bold=True)
    c.text(500, 148, "zeros elsewhere; one all-reduce of 7 rows,\nwhich moves each of them twice", 12.5, MUTED)
    c.line([(259, 186), (259, 200)], GREEN)
    c.cells(140, 204, [*"aaaaabb"], 34, GREEN, 30, 13)
    return c
