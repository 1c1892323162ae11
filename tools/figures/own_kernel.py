"""Figures of the notebook on the reader's own kernels."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def four_ways_to_a_launch() -> Canvas:
    """Four languages, one PTX, two places to run it, and what looks at it."""
    c = Canvas(900, 250)
    for i, (name, maker) in enumerate(
        (("@triton.jit", "Triton"), ("%%cuda", "nvcc"), ("@cute.jit", "CuTe DSL"), ("sglab.ptx(…)", "by hand"))
    ):
        y = 28 + 54 * i
        c.box(24, y, 150, 38, name, BLUE, 13.5, mono=True)
        c.line([(176, y + 19), (332, 124)], MUTED)
        c.text(184, y + (14 if i < 2 else 36), maker, 12, MUTED)
    c.box(336, 92, 130, 64, "PTX\nfor one launch", GREEN, 13.5)
    c.line([(468, 108), (548, 62)], MUTED)
    c.line([(468, 140), (548, 186)], MUTED)
    c.box(552, 36, 150, 50, "a GPU\nif the tensors lie there", GREY, 12)
    c.box(552, 158, 150, 58, "the emulator\nstep, back, sanitize", ORANGE, 13)
    c.line([(704, 62), (756, 104)], MUTED)
    c.line([(704, 186), (756, 142)], MUTED)
    c.box(760, 96, 116, 52, "your tensors", PURPLE, 13)
    c.text(627, 238, "every instruction of every lane is kept", 12, MUTED, "middle")
    return c


def turn_race() -> Canvas:
    """Who writes and who reads the tile of `turn`: warp 0 needs what warp 3 writes."""
    c = Canvas(900, 250)
    c.text(24, 34, "turn: tile[i] is written by thread i, and read by thread 127 − i", 15, INK, bold=True)
    for warp in range(4):
        x = 110 + 192 * warp
        c.box(x, 54, 184, 34, f"warp {warp} writes {32 * warp} … {32 * warp + 31}", BLUE, 12.5)
        c.box(x, 120, 184, 30, f"tile[{32 * warp} … {32 * warp + 31}]", GREY, 12.5, mono=True)
        c.box(x, 184, 184, 34, f"warp {3 - warp} reads them", ORANGE, 12.5)
        c.line([(x + 92, 90), (x + 92, 118)], MUTED)
        c.line([(x + 92, 152), (x + 92, 182)], RED)
    c.line([(110, 167), (870, 167)], RED, arrow=False, dashed=True)
    c.text(24, 171, "a barrier?", 13, RED, bold=True)
    c.text(
        24,
        240,
        "Without __syncthreads() nothing makes warp 0 wait until warp 3 has written. Often it is late enough.",
        12.5,
        INK,
    )
    return c
