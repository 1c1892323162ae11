"""Figures of the notebook on an attention backend of one's own."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def backend_life() -> Canvas:
    """When each method of a backend is called, and what it sees."""
    c = Canvas(980, 360)
    c.text(24, 34, "the life of a backend", 15, INK, bold=True)
    for x, width, text in ((24, 150, "once"), (196, 280, "once per pass"), (498, 458, "once per layer of a pass")):
        c.brace(x, 52, width, text)
    c.box(24, 96, 150, 56, "__init__\n(model runner)", GREY, 13, mono=True)
    c.box(196, 96, 280, 56, "prepare(forward_batch)", BLUE, 14, mono=True)
    c.box(498, 96, 458, 56, "attend(inputs): q, k, v of the new tokens", ORANGE, 14, mono=True)
    c.line([(174, 124), (192, 124)], INK)
    c.line([(476, 124), (494, 124)], INK)

    c.text(24, 180, "pools, page size,\ndtypes, device", 12, MUTED)
    c.text(196, 180, "lengths, rows of req_to_token\n→ slots, indptr, splits: the metadata", 12, MUTED)
    c.text(
        498,
        180,
        "1. store k and v at out_cache_loc    2. read keys and values of all slots\n3. softmax(scale · q kᵀ) v",
        12,
        MUTED,
    )

    c.text(24, 244, "the same under a graph: what was captured reads fixed buffers", 15, INK, bold=True)
    steps = (
        (24, 150, "init_graph", "allocates buffers\nfor the largest batch", GREY),
        (196, 230, "prepare_capture", "fills them; the graph\nkeeps their addresses", PURPLE),
        (448, 230, "prepare_replay", "fills the same ones\nfor the real batch", GREEN),
        (700, 256, "(replay)", "attend's operations run again,\nno Python between the layers", ORANGE),
    )
    for x, width, name, what, colour in steps:
        c.box(x, 264, width, 36, name, colour, 13.5, mono=True)
        c.text(x + width / 2, 320, what, 12, MUTED, "middle")
        if x > 24:
            c.line([(x - 22, 282), (x - 4, 282)], INK)
    return c
