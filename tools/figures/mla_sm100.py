"""Figures of the notebook on the SM100 MLA decode kernel."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def sm100_roles() -> Canvas:
    """The way of a tile through one CTA of a pair: memories as boxes, warps as arrows."""
    c = Canvas(900, 372)
    c.text(24, 34, "one CTA of the pair, which has 64 of the 128 heads; arrows are warps", 15, INK, bold=True)
    c.box(24, 128, 130, 84, "global memory\nthe pool's pages,\nQ", GREY, 12.5)
    c.box(300, 96, 170, 164, "shared memory", GREEN, 13, empty=True)
    for y, text in ((104, "Q"), (134, "ring of K, V"), (228, "P")):
        c.box(312, y, 146, 26, text, GREEN, 12.5)
    c.box(600, 96, 170, 164, "tensor memory", PURPLE, 13, empty=True)
    for y, text in ((104, "S, of two tiles"), (226, "O")):
        c.box(612, y, 146, 26, text, PURPLE, 12.5)
    c.line([(156, 148), (296, 148)], BLUE)
    c.text(226, 140, "load (9): TMA", 12.5, BLUE, "middle")
    c.box(24, 270, 130, 34, "page table", GREY, 12.5)
    c.line([(156, 287), (214, 287), (214, 154)], MUTED, dashed=True)
    c.text(222, 291, "page table (10): which page", 12.5, MUTED)
    c.line([(472, 130), (596, 118)], ORANGE)
    c.text(534, 104, "mma (8): Q·Kᵀ", 12.5, ORANGE, "middle")
    c.line([(472, 240), (596, 240)], ORANGE)
    c.text(534, 258, "mma (8): P·V", 12.5, ORANGE, "middle")
    c.line([(685, 94), (685, 66), (276, 66), (276, 241), (308, 241)], BLUE)
    c.text(480, 60, "softmax (0–3): S to registers, exponentials, P to shared memory", 12.5, BLUE, "middle")
    c.line([(772, 250), (800, 250), (800, 230), (774, 230)], BLUE)
    c.text(784, 196, "epilogue (4–7)\nrescales O", 12.5, BLUE)
    c.line([(685, 262), (685, 320), (570, 320)], BLUE)
    c.text(560, 324, "epilogue (4–7): O / d to global memory, at the end", 12.5, BLUE, "end")
    c.text(
        24,
        356,
        "mma is one warp of the pair: what it starts reads both SMs' shared memory and writes both tensor memories.",
        12.5,
        INK,
    )
    return c


def sm100_gaps() -> Canvas:
    """Products in the obvious order: the tensor cores wait for every softmax."""
    c = Canvas(900, 186)
    c.text(24, 34, "in the obvious order the tensor cores wait for every softmax", 15, INK, bold=True)
    for name, y in (("tensor cores", 60), ("softmax", 104)):
        c.text(24, y + 21, name, 13, MUTED)
    for i in range(3):
        x = 130 + 250 * i
        c.box(x, 60, 70, 32, f"S of tile {i}", PURPLE, 11.5)
        c.box(x + 72, 60, 94, 32, "idle", GREY, 12.5, empty=True, dashed=True)
        c.box(x + 72, 104, 92, 32, f"P of tile {i}", BLUE, 12)
        c.box(x + 168, 60, 78, 32, "O += P·V", ORANGE, 11.5)
    c.line([(130, 156), (876, 156)], MUTED)
    c.text(876, 174, "time, schematic", 12, MUTED, "end")
    c.text(
        130, 174, "What could the tensor cores do in the gaps? It must not need the P that is being made.", 12.5, INK
    )
    return c
