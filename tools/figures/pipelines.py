"""Figures of the notebook on mbarriers and pipelines."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def ring_of_two() -> Canvas:
    """Two stages between a load warp and four sum warps, each with a full and an empty barrier."""
    c = Canvas(900, 236)
    c.box(24, 88, 130, 60, "load warp\nstarts TMA", BLUE, 13.5)
    c.box(746, 88, 130, 60, "4 sum warps\nadd rows", PURPLE, 13.5)
    for stage in range(2):
        y = 48 + 92 * stage
        c.box(370, y, 160, 48, f"tile[{stage}]\n8,192 bytes", GREEN if stage == 0 else GREY, 13)
        c.line([(156, 108 + 16 * stage), (366, y + 24)], MUTED)
        c.line([(532, y + 24), (742, 108 + 16 * stage)], MUTED)
    c.text(240, 56, "full[i]: bytes are there", 12.5, MUTED, "middle")
    c.text(650, 56, "wait for full[i], read", 12.5, MUTED, "middle")
    c.line([(810, 150), (810, 218), (90, 218), (90, 152)], ORANGE, dashed=True)
    c.text(450, 210, "empty[i]: an arrival of each sum warp; the tile may be overwritten", 12.5, ORANGE, "middle")
    c.text(24, 32, "a ring of two stages", 15, INK, bold=True)
    return c


def parities() -> Canvas:
    """Phases of full[0] and empty[0] over tiles 0, 2, 4, and the parity that each wait names."""
    c = Canvas(900, 300)
    c.text(24, 34, "stage 0 of two: its phases, and the parity that each wait names", 15, INK, bold=True)
    start, width = 128, 236
    c.text(24, 92, "full[0]", 13.5, INK, mono=True)
    c.text(24, 192, "empty[0]", 13.5, INK, mono=True)
    for i in range(3):
        x, shade = start + width * i, (BLUE, GREEN)[i % 2]
        c.box(x, 68, width - 4, 40, f"phase {i}: parity {i % 2}\ntile {2 * i} arrives", shade, 12.5)
        c.text(x + width - 10, 126, f"sums wait for parity {i % 2}", 12, MUTED, "end")
        at = x + 60
        c.box(at, 168, width - 4, 40, f"phase {i}: parity {i % 2}\ntile {2 * i} is read", shade, 12.5)
    c.box(start - 26, 168, 82, 40, "“before”\nparity 1", ORANGE, 12, dashed=True)
    for i in range(3):
        c.text(start + 56 + width * i, 228, f"load waits for {1 - i % 2}", 12, ORANGE if i == 0 else MUTED, "middle")
    c.text(
        24,
        264,
        "A wait names its phase by the parity. What was before the first phase counts as over, with parity 1:",
        13,
        INK,
    )
    c.text(
        24,
        284,
        "so the load warp's first wait returns at once. In every round it names the other parity than the sums do.",
        13,
        INK,
    )
    return c
