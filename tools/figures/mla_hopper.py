"""Figures of the notebook on MLA decode on Hopper."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def hopper_warpgroups() -> Canvas:
    """Who keeps which half of O, and whose P goes where."""
    c = Canvas(900, 342)
    c.text(
        24,
        34,
        "O of 64 heads × 512 columns is 128 KiB of float32: too much for one warpgroup",
        15,
        INK,
        bold=True,
    )
    c.box(24, 120, 150, 76, "loader\nTMA: tiles of\n64 tokens × 576", GREY, 12.5)
    c.line([(176, 158), (232, 158)], MUTED)
    c.box(236, 62, 190, 196, "", GREEN, empty=True)
    c.text(331, 82, "shared memory", 13, INK, "middle")
    c.box(250, 94, 162, 44, "tile 0, 2, 4 …\nK, and V of it", GREEN, 12.5)
    c.box(250, 148, 162, 44, "tile 1, 3, 5 …\nK, and V of it", GREEN, 12.5)
    c.box(250, 202, 162, 46, "P of a tile, in the\nplace of rotary keys", ORANGE, 12.5)
    for y, name, tiles, columns, colour in (
        (62, "even attention", "S and P of even tiles", "O: columns 0 … 255", BLUE),
        (168, "odd attention", "S and P of odd tiles", "O: columns 256 … 511", PURPLE),
    ):
        c.box(560, y, 316, 90, "", colour, empty=True)
        c.text(574, y + 22, name, 13.5, INK, bold=True)
        c.box(574, y + 34, 140, 44, tiles.replace(" of", "\nof"), colour, 12.5)
        c.box(722, y + 34, 142, 44, columns.replace(": ", "\n"), colour, 12.5)
    c.line([(428, 112), (556, 100)], MUTED)
    c.line([(428, 172), (556, 206)], MUTED)
    c.line([(558, 138), (500, 138), (500, 216), (416, 216)], ORANGE)
    c.line([(558, 236), (416, 236)], ORANGE)
    c.text(490, 278, "each writes its P for the other", 12.5, ORANGE, "middle")
    c.text(
        24,
        304,
        "Both need every tile: one makes S and P of it, both multiply P with their half of V's columns.",
        13,
        INK,
    )
    c.text(24, 328, "While one computes exponentials, the tensor cores work for the other.", 13, INK)
    return c


def tile_from_pages() -> Canvas:
    """A tile of 64 tokens out of pages of 32: coordinates for TMA, addresses for cp.async, zeros past the end."""
    c = Canvas(900, 262)
    c.text(24, 34, "the last tile of a request of 77 tokens, pages of 32", 15, INK, bold=True)
    c.text(24, 66, "the pool", 12.5, MUTED)
    for page in range(6):
        c.box(
            24 + 100 * page, 76, 94, 46, f"page {page}", ORANGE if page == 4 else BLUE if page in (1, 3) else GREY, 12.5
        )
    c.text(24, 158, "block table", 12.5, MUTED)
    c.cells(110, 142, ["3", "1", "4", "−1"], 44, GREEN, 26, 13, [2, 3], ORANGE)
    c.text(110, 192, "tokens 0–63: a whole tile; 64–76: 13 rows of page 4", 12.5, MUTED)
    c.line([(220, 140), (440, 124)], ORANGE)
    c.text(660, 62, "in shared memory: 64 rows", 12.5, MUTED)
    c.box(660, 76, 216, 34, "13 rows with a token", ORANGE, 12.5)
    c.box(660, 110, 216, 110, "51 rows without\nzeros, whatever lay there:\n0 · NaN would be NaN", GREY, 12.5)
    c.line([(471, 74), (471, 52), (640, 52), (640, 92), (656, 92)], ORANGE)
    c.text(24, 232, "TMA gets (column, row, page 4) and brings a box; cp.async gets an address per lane.", 13, INK)
    c.text(24, 252, "Neither follows a −1, and neither may trust what lies behind token 76.", 13, INK)
    return c
