"""The figure of the first notebook: the way of one token, and which notebooks are about which part of it."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def start_map() -> Canvas:
    """From the requests to the next token, station by station, with the numbers of the notebooks."""
    c = Canvas(900, 330)
    c.text(24, 36, "one decode step: every request gets its next token", 15, INK, bold=True)
    stations = (
        ("scheduler", "which requests\nrun now?", "06 · 17 · 18", BLUE),
        ("page table", "where do their\ntokens lie?", "02", GREEN),
        ("plan", "which SM reads\nwhich keys?", "04", ORANGE),
        ("kernel", "keys through\nshared memory\nto tensor cores", "07–15 · 23", PURPLE),
        ("merge", "parts of a request\nbecome one", "03", GREY),
    )
    for i, (title, what, numbers, colour) in enumerate(stations):
        x = 24 + 150 * i
        c.text(x + 62, 76, title, 13.5, INK, "middle", bold=True)
        c.box(x, 88, 124, 78, what, colour, 12)
        c.text(x + 62, 190, numbers, 13, colour, "middle", bold=True)
        c.line([(x + 125, 127), (x + 148, 127)])
    c.text(826, 76, "next token", 13.5, INK, "middle", bold=True)
    c.box(776, 88, 100, 78, "one per\nrequest", BLUE, 12)
    c.line([(826, 168), (826, 224), (86, 224), (86, 204)])
    c.text(456, 218, "and again, for each token of the answer", 12.5, MUTED, "middle")
    c.text(24, 262, "what is computed: 01 · 03 · 05", 12.5, INK)
    c.text(24, 284, "who may look inside, and how: 08 · 09 · 11 · 25", 12.5, INK)
    c.text(24, 306, "what bounds it, what makes it less: 16 · 19 · 21", 12.5, INK)
    c.text(470, 262, "several GPUs: 20", 12.5, INK)
    c.text(470, 284, "build one yourself: 22 (backend) · 23 (kernel)", 12.5, INK)
    c.text(470, 306, "what many believe of it: 24", 12.5, INK)
    return c
