"""Figures of the notebook on page tables."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def page_look_up() -> Canvas:
    """From a position to a slot, in pages of four: the page table has the page, the position has the row."""
    c = Canvas(900, 312)
    c.text(24, 40, "position", 13.5, INK, bold=True)
    c.cells(130, 22, [str(i) for i in range(10)], 34, BLUE, 30, 13, [6], ORANGE)
    for first, count, told in ((0, 4, ""), (4, 4, "6 // 4 = 1"), (8, 2, "")):
        c.brace(132 + 34 * first, 56, 34 * count - 4, told, ORANGE if told else MUTED)
    c.text(24, 140, "page table", 13.5, INK, bold=True)
    c.cells(232, 120, ["5", "2", "6"], 68, GREEN, 32, 15, [1], ORANGE)
    c.line([(334, 86), (334, 118)], ORANGE)
    for i, (name, how, result) in enumerate(
        (("page", "page_table[6 // 4]", "2"), ("row", "6 % 4", "2"), ("slot", "page · 4 + row", "10"))
    ):
        c.text(530, 40 + 24 * i, f"{name:5}= {how:19}= {result}", 14, INK, mono=True)
    c.text(530, 128, "Three numbers say where ten tokens are,", 13, MUTED)
    c.text(530, 147, "for a page is filled from the front:", 13, MUTED)
    c.text(530, 166, "row = position % 4, for every token.", 13, MUTED)
    c.text(24, 198, "pool", 13.5, INK, bold=True)
    tokens = {5: "0123", 2: "4567", 6: "89"}
    for page in range(8):
        x = 24 + 107 * page
        colour = BLUE if page in tokens else PURPLE if page in (1, 4, 7) else GREY
        c.cells(x, 212, list(tokens.get(page, "").ljust(4)), 25.5, colour, 28, 12, [2] if page == 2 else [])
        note = {0: "page 0: dummy", 3: "page 3: free"}.get(page, f"page {page}")
        c.text(x + 51, 256, note, 12, MUTED, "middle")
    c.line([(334, 154), (304, 209)], ORANGE)
    c.text(
        24,
        296,
        "Violet pages are other requests'. Page 6 has room for two more tokens of this request, for nobody else's.",
        13,
        INK,
    )
    return c
