"""Figures of the notebook on finding bugs."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def bugs_method() -> Canvas:
    """From the symptom to the tool."""
    c = Canvas(900, 330)
    rows = (
        ("wrong, always", "a formula, an index, no barrier", "sanitizers; then step by step with float64", PURPLE),
        (
            "wrong for some lengths\nor magnitudes",
            "an edge: last tile, empty, overflow",
            "many inputs; reads of what nobody wrote",
            BLUE,
        ),
        ("wrong under some\nschedules", "a race", "other schedulers, race detector", ORANGE),
        ("right everywhere", "luck, or no bug", "sanitizers: they ask for order, not for results", GREEN),
        ("it never ends", "a wait for what cannot come", "deadlock report: who waits for whom", RED),
    )
    for x, title in ((24, "symptom"), (270, "suspect"), (560, "ask")):
        c.text(x, 34, title, 15, INK, bold=True)
    for i, (symptom, suspect, tool, colour) in enumerate(rows):
        y = 50 + 54 * i
        c.box(24, y, 200, 44, symptom, colour, 13)
        c.line([(224, y + 22), (266, y + 22)])
        c.text(272, y + 27, suspect, 13, INK)
        c.line([(518, y + 22), (554, y + 22)])
        c.text(560, y + 27, tool, 13, INK)
    return c


def bugs_stale_tile() -> Canvas:
    """A last tile that is not full, in a buffer that held another tile."""
    c = Canvas(900, 210)
    c.text(24, 34, "20 rows, tiles of 8 in one buffer", 15, INK, bold=True)
    for n, (title, new) in enumerate((("tile 0", 8), ("tile 1", 8), ("tile 2", 4))):
        x = 24 + 300 * n
        c.text(x, 64, title, 13.5, INK, bold=True)
        numbers = [str(8 * n + i) if i < new else str(8 * (n - 1) + i) for i in range(8)]
        c.cells(x, 76, numbers, 32, BLUE, 40, 13, marked=[i for i in range(8) if i >= new], mark=RED)
        if n:
            c.line([(x - 38, 96), (x - 8, 96)])
    c.brace(24 + 600 + 128, 122, 128, "12 to 15, once more", RED)
    c.text(24, 190, "Each number is a row of x that lies in the buffer when the tile is added up.", 12.5, MUTED)
    return c


def bugs_ring_order() -> Canvas:
    """Two warps and a buffer: what an arrival promises."""
    c = Canvas(900, 230)
    c.text(24, 34, "what a barrier promises: the right order", 15, INK, bold=True)
    c.text(24, 84, "warp 0 loads", 13, INK)
    c.text(24, 164, "warp 1 adds", 13, INK)
    for x, y, text, colour in (
        (150, 62, "wait empty", GREY),
        (270, 62, "write row", BLUE),
        (390, 62, "arrive full", GREY),
        (640, 62, "wait empty", GREY),
        (760, 62, "write row", BLUE),
        (390, 142, "wait full", GREY),
        (510, 142, "read row", ORANGE),
        (630, 142, "arrive empty", GREY),
    ):
        c.box(x, y, 106, 36, text, colour, 13)
    c.line([(443, 98), (443, 138)], GREEN)
    c.line([(683, 142), (693, 102)], GREEN)
    c.text(
        24,
        212,
        "Everything before an arrival has happened for whoever has waited for it. Nothing after it has.",
        13,
        MUTED,
    )
    return c
