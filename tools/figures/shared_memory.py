"""Figures of the notebook on shared memory."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, RED, Canvas

_MARK = 3
"""The chunk that is read."""


def bank_permutation() -> Canvas:
    """Eight rows of which an ldmatrix takes chunk 3: in plain rows, and with chunk c at place c ^ row."""
    c = Canvas(900, 376)
    for x, title, permuted in (
        (60, "plain: chunk c at place c", False),
        (510, "permuted: chunk c at place c ^ row", True),
    ):
        c.text(x, 34, title, 15, INK, bold=True)
        for place in range(8):
            c.text(x + 20 + 40 * place, 60, f"{4 * place}", 11.5, MUTED, "middle")
        c.text(x - 12, 60, "bank", 11.5, MUTED, "end")
        for row in range(8):
            y = 68 + 28 * row
            texts = [str(place ^ row if permuted else place) for place in range(8)]
            c.cells(x, y, texts, 40, GREY, 26, 12.5, [_MARK ^ row if permuted else _MARK], ORANGE)
            c.text(x - 12, y + 18, f"row {row}", 11.5, MUTED, "end")
    c.brace(180, 294, 40, "8 passes: eight rows want banks 12 to 15", RED)
    c.brace(510, 294, 320, "1 pass: all 32 banks deliver a word each", GREEN)
    c.text(
        24,
        346,
        "A cell is 16 bytes, four banks wide; its number says which chunk of the row lies there.",
        13,
        INK,
    )
    c.text(24, 366, "A product reads the same chunk (here 3) of eight rows at once.", 13, INK)
    return c


def union_over_time() -> Canvas:
    """The same bytes, first tiles of Q, K and V, then the exchange of the warps' states."""
    c = Canvas(900, 190)
    c.text(24, 34, "one allocation, two lives", 15, INK, bold=True)
    c.text(24, 78, "in the loop", 12.5, MUTED)
    c.box(130, 58, 84, 32, "Q", GREEN, 12)
    c.box(214, 58, 330, 32, "K of a tile", BLUE, 13)
    c.box(544, 58, 330, 32, "V of a tile", BLUE, 13)
    c.text(24, 126, "after the loop", 12.5, MUTED)
    c.box(130, 106, 668, 32, "four warps' O, float32", ORANGE, 13)
    c.box(798, 106, 30, 32, "m, d", ORANGE, 10)
    c.line([(130, 98), (130, 150)], MUTED, arrow=False, dashed=True)
    c.text(
        24,
        174,
        "To scale, for 16 query rows and tiles of 64 keys. A barrier lies between: nobody reads K or V any more.",
        12.5,
        INK,
    )
    return c
