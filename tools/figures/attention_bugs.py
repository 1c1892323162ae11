"""Figures of the notebook on bugs of attention kernels."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def attention_bugs_map() -> Canvas:
    """Where in a decode step each of the five kernels stands."""
    c = Canvas(900, 250)
    c.text(24, 34, "a decode step, and whose part each kernel is", 15, INK, bold=True)
    parts = (
        ("page table", "which row is\nthe next key?", "paged_sum", BLUE),
        ("pipeline", "rows through a ring\nof buffers", "persistent", ORANGE),
        ("tensor cores", "P · V, while the next\ntiles are loaded", "product", PURPLE),
        ("splits of a CTA", "four warps, one\nsum of powers", "split_lse", GREEN),
        ("merge", "partials of splits,\nby their LSE", "merge_states", RED),
    )
    for i, (title, what, name, colour) in enumerate(parts):
        x = 24 + 174 * i
        c.text(x + 76, 68, title, 13.5, INK, "middle", bold=True)
        c.box(x, 80, 152, 66, what, colour, 12.5)
        c.text(x + 76, 174, name, 13, colour, "middle", mono=True)
        if i < 4:
            c.line([(x + 153, 113), (x + 172, 113)])
    c.text(24, 220, "Each is cut down to what carries its bug.", 12.5, MUTED)
    return c


def attention_bugs_phases() -> Canvas:
    """The phase of a stage's barrier runs on while each request begins its own count."""
    c = Canvas(900, 250)
    c.text(24, 34, "full[0], two stages: a request of 2 rows, then one of 5", 15, INK, bold=True)
    c.text(24, 76, "row (of its request)", 12.5, INK)
    c.text(24, 118, "phase of full[0] it fills", 12.5, INK)
    c.text(24, 160, "parity the warps wait for", 12.5, INK)
    for i in range(7):
        x, row = 220 + 92 * i, i - 2 * (i > 1)
        phase, parity = (str(i // 2), str(row // 2 % 2)) if i % 2 == 0 else ("", "")
        colour = GREY if not phase else GREEN if i < 2 else RED
        c.box(x, 56, 84, 30, str(row), BLUE if i < 2 else ORANGE, 13)
        c.box(x, 98, 84, 30, phase, GREY, 13, empty=not phase)
        c.box(x, 140, 84, 30, parity, colour, 13, empty=not phase)
    c.brace(220, 176, 176, "request 0", BLUE)
    c.brace(404, 176, 452, "request 1", ORANGE)
    c.text(
        24,
        232,
        "Phases 0, 1, 2, 3 have the parities 0, 1, 0, 1. In request 1 each wait names the other one.",
        12.5,
        MUTED,
    )
    return c


def attention_bugs_release() -> Canvas:
    """When a stage is released, and how long the product reads it."""
    c = Canvas(900, 262)
    c.text(24, 34, "when is a stage free?", 15, INK, bold=True)
    for y, text in (
        (76, "product 0 reads stage 0"),
        (116, "product 1 reads stage 1"),
        (186, "warps 0 to 3"),
        (226, "warp 4"),
    ):
        c.text(24, y, text, 12.5, INK)
    c.box(240, 60, 250, 26, "tile 0", PURPLE, 12.5)
    c.box(470, 100, 250, 26, "tile 1", PURPLE, 12.5)
    for x, width, text, colour in (
        (200, 76, "issue 0", GREY),
        (280, 112, "release stage 0", RED),
        (428, 76, "issue 1", GREY),
        (508, 112, "release stage 0", GREEN),
    ):
        c.box(x, 168, width, 28, text, colour, 12)
    c.box(400, 210, 150, 28, "load tile 2", RED, 12, dashed=True)
    c.box(626, 210, 150, 28, "load tile 2", GREEN, 12)
    c.line([(336, 196), (398, 222)], RED)
    c.line([(564, 196), (624, 222)], GREEN)
    c.line([(490, 88), (490, 166)], GREEN, arrow=False, dashed=True)
    c.text(498, 148, "product 0 is complete: wait_group<1> after issue 1 says so", 12, GREEN)
    return c
