"""Figures of the notebook on the debugger."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, Canvas


def decode_block_threads() -> Canvas:
    """The CTA's 128 threads as (x, y, z): which warp is where, which head, which keys."""
    c = Canvas(900, 330)
    c.text(24, 34, "128 threads, counted x first, then y, then z", 15, INK, bold=True)
    for z in range(2):
        top = 62 + 118 * z
        for y in range(4):
            row = top + 24 * y
            c.cells(110, row, [str(x) if x in (0, 15) else "" for x in range(16)], 22, GREEN if y % 2 else BLUE, 22, 10)
            c.text(100, row + 16, f"y = {y}", 12, MUTED, "end")
            c.text(474, row + 16, f"query head {y}", 12.5, INK)
        for half in range(2):
            c.brace_right(580, top + 48 * half, 46, f"warp {2 * z + half}")
        c.text(24, top + 52, f"z = {z}", 13.5, INK, bold=True)
        c.text(700, top + 36, f"{'first' if z == 0 else 'second'} 4 keys\nof every tile of 8", 12.5, MUTED)
    c.brace(110, 278, 352, "x: 16 lanes share a head's 128 dims, 8 dims (16 bytes) each")
    return c


def xor_shuffles() -> Canvas:
    """Three rounds of xor shuffles over eight lanes: every lane ends with the sum of all."""
    c = Canvas(900, 320)
    c.text(24, 34, "a sum over 8 lanes in 3 rounds; every lane ends with it", 15, INK, bold=True)
    held = [[i] for i in range(8)]
    xs = (60, 268, 476, 684)
    for column, distance in enumerate((0, 4, 2, 1)):
        if distance:
            held = [sorted(held[i] + held[i ^ distance]) for i in range(8)]
        x = xs[column]
        c.text(x + 60, 62, f"+ lane ^ {distance}" if distance else "parts", 13, MUTED, "middle")
        for i in range(8):
            y = 72 + 27 * i
            text = f"{held[i][0]}" if len(held[i]) == 1 else " ".join(map(str, held[i]))
            c.box(x, y, 130, 22, text, (BLUE, GREY, GREEN, ORANGE)[column], 11.5, mono=True)
            if not column:
                c.text(x - 10, y + 16, str(i), 12, MUTED, "end")
            if column < 3:
                to = i ^ (4, 2, 1)[column]
                c.line([(x + 132, y + 11), (xs[column + 1] - 3, 72 + 27 * to + 11)], MUTED)
    c.text(
        24,
        308,
        "A box names the lanes whose parts its sum has. At the end nobody has to send it around.",
        12.5,
        INK,
    )
    return c
