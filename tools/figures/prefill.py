"""Figures of the notebook on prefill."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def prefill_tiles() -> Canvas:
    """Which tiles of scores a causal prefill computes, of a whole prompt and of a chunk."""
    c = Canvas(900, 330)
    for x, title, rows, columns, before in (
        (24, "a prompt of 512", 4, 8, 0),
        (470, "its second half, as a chunk", 2, 8, 2),
    ):
        c.text(x, 34, title, 15, INK, bold=True)
        c.text(x + 96, 62, "keys, tiles of 64", 12.5, MUTED)
        for row in range(rows):
            y = 72 + 44 * row
            c.text(x + 88, y + 26, f"CTA {row}", 12.5, MUTED, "end")
            for column in range(columns):
                place = row + before
                if column < 2 * place:
                    colour, text = GREEN, ""
                elif column < 2 * place + 2:
                    colour, text = ORANGE, "mask"
                else:
                    colour, text = GREY, ""
                skipped = column >= 2 * place + 2
                c.box(x + 96 + 38 * column, y, 36, 40, text, colour, 10.5, empty=skipped, dashed=skipped)
    c.text(24, 96, "128", 11.5, MUTED)
    c.text(24, 112, "queries", 11.5, MUTED)
    for i, (colour, text) in enumerate(
        ((GREEN, "computed, no mask"), (ORANGE, "computed, masked"), (GREY, "never touched"))
    ):
        c.box(120 + 200 * i, 270, 22, 18, "", colour, empty=colour == GREY, dashed=colour == GREY)
        c.text(150 + 200 * i, 284, text, 12.5, INK)
    c.text(24, 316, "Queries are the last positions: in a chunk the diagonal begins further to the right.", 12.5, MUTED)
    return c


def prefill_roles() -> Canvas:
    """Who does what in FlashAttention-3 and -4."""
    c = Canvas(900, 400)
    c.text(24, 34, "FlashAttention-3, Hopper: 384 threads", 15, INK, bold=True)
    c.box(24, 50, 170, 56, "producer warpgroup\nTMA: Q, K, V", BLUE, 12.5)
    c.box(300, 44, 260, 44, "warpgroup 1: S, softmax, P·V\nO in its registers", GREEN, 12)
    c.box(300, 94, 260, 44, "warpgroup 2: the same,\nfor the other queries", GREEN, 12)
    c.line([(194, 70), (294, 66)])
    c.line([(194, 86), (294, 116)])
    c.text(244, 58, "tiles", 12, MUTED, "middle")
    c.line([(570, 66), (600, 66), (600, 116), (570, 116)], RED)
    c.text(612, 88, "ping-pong: named barriers let one\nmultiply while the other exponentiates", 12.5, MUTED)
    c.text(24, 186, "FlashAttention-4, Blackwell: 16 warps", 15, INK, bold=True)
    c.box(24, 204, 130, 56, "load, warp 14\nTMA", BLUE, 12.5)
    c.box(204, 204, 130, 56, "mma, warp 12\none thread", ORANGE, 12.5)
    c.box(384, 200, 170, 132, "tensor memory\n\nS0, P0    S1, P1\n\nO0    O1", GREY, 12.5)
    c.box(624, 190, 252, 40, "softmax 0, warps 0–3", GREEN, 12.5)
    c.box(624, 236, 252, 40, "softmax 1, warps 4–7", GREEN, 12.5)
    c.box(624, 290, 252, 46, "correction, warps 8–11\nrescale O where a maximum grew", PURPLE, 12)
    c.box(624, 350, 252, 34, "epilogue, warp 13: store O", PURPLE, 12.5)
    c.line([(154, 232), (198, 232)])
    c.line([(334, 232), (378, 232)])
    c.line([(554, 214), (618, 210)])
    c.line([(618, 256), (560, 244)])
    c.line([(618, 306), (560, 306)])
    c.line([(554, 318), (586, 318), (586, 367), (618, 367)])
    c.text(586, 200, "S", 12, MUTED, "middle")
    c.text(590, 270, "P", 12, MUTED, "middle")
    c.text(24, 300, "Two tiles of 128 queries take turns.", 12.5, INK)
    c.text(24, 322, "Nobody holds O in registers, so", 12.5, INK)
    c.text(24, 342, "rescaling it is a job of its own.", 12.5, INK)
    return c
