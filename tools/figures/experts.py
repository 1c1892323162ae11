"""Figures of the notebook on experts and quantisation."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def expert_blocks() -> Canvas:
    """Choices of four tokens, sorted by expert and padded to blocks of four."""
    c = Canvas(900, 290)
    c.text(24, 34, "four tokens, three choices each", 15, INK, bold=True)
    ids = ((2, 3, 4), (1, 2, 4), (1, 3, 4), (1, 2, 3))
    colours = {1: BLUE, 2: ORANGE, 3: GREEN, 4: PURPLE}
    for token, row in enumerate(ids):
        c.text(24 + 200 * token, 70, f"token {token}", 12.5, MUTED)
        for choice, expert in enumerate(row):
            c.cells(84 + 200 * token + 34 * choice, 52, [str(3 * token + choice)], 34, colours[expert], 28, 13)
    c.text(24, 110, "Each choice has a number, token · 3 + choice; its colour is its expert.", 12.5, MUTED)
    c.text(24, 150, "for the grouped GEMM: by expert, in whole blocks of four", 15, INK, bold=True)
    for expert in colours:
        held = [str(3 * t + i) for t, row in enumerate(ids) for i, each in enumerate(row) if each == expert]
        x = 24 + 214 * (expert - 1)
        c.cells(x, 168, [*held, "12"], 48, colours[expert], 34, 13, marked=(3,), mark=GREY)
        c.brace(x, 208, 192, f"block {expert - 1}: expert {expert}", colours[expert])
    c.text(24, 270, "12 is no choice: padding, which is computed with the rest and thrown away.", 12.5, MUTED)
    return c


def number_formats() -> Canvas:
    """Bits of the formats, and who shares a scale."""
    c = Canvas(900, 300)
    c.text(24, 34, "a value", 15, INK, bold=True)
    c.text(330, 34, "and who shares a scale", 15, INK, bold=True)
    rows = (
        ("int8", ("s", *"iiiiiii"), "a tensor, a row, or a group of a row: float32"),
        ("e4m3", ("s", *"eeee", *"mmm"), "the same, or a block of rows and columns: float32"),
        ("int4", ("s", *"iii"), "a group of 32 to 128: float16"),
        ("e2m1 in MXFP4", ("s", "e", "e", "m"), "32 neighbours: a power of two, 8 bits"),
        ("e2m1 in NVFP4", ("s", "e", "e", "m"), "16 neighbours: e4m3, and one float32 for all"),
    )
    shades = {"s": GREY, "e": ORANGE, "m": BLUE, "i": GREEN}
    for i, (name, bits, shared) in enumerate(rows):
        y = 52 + 42 * i
        c.text(24, y + 20, name, 13, INK)
        for at, bit in enumerate(bits):
            c.cells(140 + 22 * at, y, [bit], 22, shades[bit], 30, 12)
        c.text(336, y + 20, shared, 13, INK)
    c.text(24, 284, "s sign · i integer · e exponent · m mantissa.  A weight comes back as value · scale.", 12.5, MUTED)
    return c
