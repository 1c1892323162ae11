"""Figures of the notebook on split-KV."""

from __future__ import annotations

from .canvas import BLUE, GREEN, INK, LINE, MUTED, ORANGE, PURPLE, Canvas


def split_timeline() -> Canvas:
    """One long and two short requests on four SMs: a CTA per request, then split."""
    c = Canvas(900, 400)
    c.text(24, 34, "a CTA for each request: the long one decides", 15, INK, bold=True)
    c.text(24, 196, "the long one in four splits, and a merge", 15, INK, bold=True)
    for top, bars in (
        (48, ((0, 0, 720, "request 0", BLUE), (1, 0, 120, "request 1", GREEN), (2, 0, 180, "request 2", PURPLE))),
        (
            210,
            (
                (0, 0, 180, "0, split 0", BLUE),
                (1, 0, 180, "0, split 1", BLUE),
                (2, 0, 180, "0, split 2", BLUE),
                (3, 0, 180, "0, split 3", BLUE),
                (0, 184, 120, "request 1", GREEN),
                (1, 184, 180, "request 2", PURPLE),
                (2, 184, 60, "merge 0", ORANGE),
            ),
        ),
    ):
        for sm in range(4):
            y = top + 30 * sm
            c.text(24, y + 18, f"SM {sm}", 12.5, MUTED)
            c.line([(72, y + 25), (876, y + 25)], LINE, arrow=False)
            for at, start, width, text, colour in bars:
                if at == sm:
                    c.box(74 + start, y, width, 23, text, colour, 12)
    c.line([(640, 346), (876, 346)], MUTED)
    c.text(630, 350, "time", 12.5, MUTED, "end")
    c.text(24, 368, "A split leaves a partial: O of its keys, already divided, and their LSE.", 13, INK)
    c.text(24, 388, "The merge weighs partials by exp(LSE of the part − LSE of all). No key is read again.", 13, INK)
    return c
