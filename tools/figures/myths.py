"""Figures of the notebook on myths."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def myths_map() -> Canvas:
    """A decode step from request to output, with the statements about each station."""
    c = Canvas(900, 300)
    c.text(24, 34, "one decode step, and what people believe about it", 15, INK, bold=True)
    c.box(368, 56, 356, 152, "", GREY, empty=True, dashed=True)
    c.text(380, 76, "CUDA graph", 12.5, MUTED)
    c.text(24, 76, "before each replay", 12.5, MUTED)
    stations = (
        (24, "page table\nand pool", "13–19", GREEN),
        (194, "plan:\nsplits", "27–36", BLUE),
        (384, "kernel:\nQ · K, softmax, P · V", "20–26", ORANGE),
        (594, "merge of\npartials", "26", PURPLE),
    )
    for i, (x, text, numbers, colour) in enumerate(stations):
        width = 160 if i == 2 else 110
        c.box(x, 96, width, 62, text, colour, 13)
        c.text(x + width / 2, 186, numbers, 15, INK, "middle", bold=True)
        if i + 1 < len(stations):
            c.line([(x + width, 127), (stations[i + 1][0] - 4, 127)])
    c.text(712, 76, "43–45", 15, INK, "end", bold=True)
    c.line([(704, 127), (760, 127)])
    c.box(764, 96, 110, 62, "next token", GREY, 13)
    for x, width, text, numbers, colour in (
        (24, 190, "the model: MLA's widths", "5–12", ORANGE),
        (234, 150, "the GPU", "1–4", RED),
        (404, 230, "kernels, tools, errors", "37–42", GREY),
        (654, 220, "what it costs", "46–48", BLUE),
    ):
        c.box(x, 228, width, 30, text, colour, 13)
        c.text(x + width / 2, 282, numbers, 15, INK, "middle", bold=True)
    return c


def myths_method() -> Canvas:
    """From a belief to a verdict."""
    c = Canvas(900, 150)
    steps = (
        ("a belief", "it sounds right", PURPLE),
        ("what would you see,\nif it were true?", "a number, an error, a bit", BLUE),
        ("run it", "the real planner, kernel, pool", GREEN),
        ("compare", "true, or false and why", ORANGE),
    )
    for i, (text, note, colour) in enumerate(steps):
        x = 24 + 220 * i
        c.box(x, 36, 180, 56, text, colour, 13.5, bold=True)
        c.text(x + 90, 116, note, 12.5, MUTED, "middle")
        if i:
            c.line([(x - 38, 64), (x - 4, 64)])
    return c
