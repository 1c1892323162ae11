"""Figures of the primer: attention, the KV cache, a GPU."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def primer_attention() -> Canvas:
    """One query looks back at four keys, and the weights mix their values."""
    c = Canvas(900, 330)
    for x, number, title in ((150, "1", "compare"), (400, "2", "softmax"), (640, "3", "mix")):
        c.text(x, 34, f"{number}  {title}", 15, INK, bold=True)
    c.text(24, 84, "the new token's\nquery", 13, MUTED)
    c.cells(24, 112, [""] * 4, 22, BLUE)
    words, scores, weights = ("The", "robot", "saw", "a"), ("1.2", "3.1", "0.4", "−0.3"), (0.12, 0.80, 0.05, 0.03)
    for i, word in enumerate(words):
        y = 62 + 60 * i
        c.text(150, y - 5, f"key of “{word}”", 12, MUTED)
        c.cells(150, y, [""] * 4, 22, GREEN)
        c.line([(114, 123), (146, y + 11)], BLUE)
        c.text(262, y + 16, f"q · k = {scores[i]}", 13, INK, mono=True)
        c.line([(368, y + 11), (396, y + 11)])
        c.box(400, y, 150 * weights[i] + 2, 22, "", ORANGE)
        c.text(410 + 150 * weights[i], y + 16, f"{weights[i]:.2f}", 13, INK, mono=True)
        c.line([(586, y + 11), (636, y + 11)])
        c.text(640, y - 5, f"value of “{word}”", 12, MUTED)
        c.cells(640, y, [""] * 4, 22, PURPLE)
        c.line([(732, y + 11), (774, 153)], ORANGE)
    c.text(778, 130, "output", 13, MUTED)
    c.cells(778, 142, [""] * 4, 22, ORANGE)
    c.text(24, 312, "scores are dot products", 12.5, MUTED)
    c.text(400, 312, "weights are positive and add up to 1", 12.5, MUTED)
    c.text(690, 312, "output = Σ weight · value", 12.5, MUTED)
    return c


def primer_cache() -> Canvas:
    """Prefill computes the prompt's keys and values together; every later step adds one row and reads all."""
    c = Canvas(900, 300)
    steps = (
        ("prefill: the prompt, in one pass", 4, 4),
        ("decode: one token", 5, 1),
        ("decode: one token", 6, 1),
    )
    words = ("The", "robot", "saw", "a", "red", "ball")
    for n, (title, rows, new) in enumerate(steps):
        x = 24 + 296 * n
        c.text(x, 34, title, 14, INK, bold=True)
        for i in range(rows):
            fresh = i >= rows - new
            y = 52 + 30 * i
            c.text(x + 44, y + 17, words[i], 12.5, INK if fresh else MUTED, "end")
            c.cells(x + 52, y, [""] * 4, 22, ORANGE if fresh else GREEN)
            c.cells(x + 150, y, [""] * 4, 22, ORANGE if fresh else PURPLE)
        c.text(x + 96, 250, "keys", 12.5, MUTED, "middle")
        c.text(x + 194, 250, "values", 12.5, MUTED, "middle")
        if n:
            c.line([(x - 40, 140), (x - 12, 140)])
    c.cells(24, 268, [""], 16, ORANGE)
    c.text(48, 281, "computed in this pass", 12.5, INK)
    c.cells(210, 268, ["", ""], 16, GREEN)
    c.cells(242, 268, [""], 16, PURPLE)
    c.text(266, 281, "read from the KV cache, computed in an earlier pass", 12.5, INK)
    return c


def primer_gpu() -> Canvas:
    """An H100: memory, 132 SMs, and what one SM has."""
    c = Canvas(900, 400)
    c.text(24, 34, "a GPU (H100)", 15, INK, bold=True)
    for i in range(132):
        c.box(24 + 26 * (i % 12), 48 + 22 * (i // 12), 22, 18, "", ORANGE if i == 35 else BLUE)
    c.text(24, 308, "132 SMs, each a processor of its own", 12.5, MUTED)
    c.box(24, 324, 312, 50, "global memory (HBM): 80 GB\nweights, KV cache, inputs, outputs", GREY, 13)
    c.line([(330, 100), (400, 54)], ORANGE, arrow=False)
    c.line([(330, 100), (400, 370)], ORANGE, arrow=False)
    c.box(400, 46, 476, 330, "", ORANGE, empty=True)
    c.text(416, 70, "one SM (streaming multiprocessor)", 15, INK, bold=True)
    for i in range(4):
        x = 416 + 112 * i
        c.box(x, 84, 106, 156, "", BLUE, empty=True)
        c.box(x + 8, 94, 90, 30, "scheduler", GREY, 12.5)
        c.box(x + 8, 130, 90, 30, "32 lanes", BLUE, 12.5)
        c.box(x + 8, 166, 90, 30, "tensor core", PURPLE, 12.5)
        c.box(x + 8, 202, 90, 30, "registers 64 KB", GREEN, 10.5)
    c.box(416, 252, 442, 40, "shared memory: up to 227 KB for a CTA", GREEN, 13)
    c.text(416, 316, "A warp is 32 threads that execute the same instruction together.", 12.5, INK)
    c.text(416, 336, "Each of its threads is a lane. The four schedulers choose, cycle by", 12.5, INK)
    c.text(416, 356, "cycle, which warp goes on; up to 64 warps live on an SM.", 12.5, INK)
    return c


def primer_launch() -> Canvas:
    """How the kernel `scores` divides its work: a grid of CTAs, warps, lanes."""
    c = Canvas(900, 330)
    c.text(24, 34, "a grid of 3 CTAs", 15, INK, bold=True)
    for i in range(3):
        c.box(24, 52 + 78 * i, 170, 66, f"CTA {i}\n128 threads", BLUE, 13)
    c.line([(194, 85), (286, 50)], arrow=False, dashed=True)
    c.line([(194, 85), (286, 290)], arrow=False, dashed=True)
    c.text(290, 34, "CTA 0: its threads share an SM's shared memory", 15, INK, bold=True)
    c.box(290, 48, 586, 36, "shared memory: q, 128 numbers", GREEN, 13)
    for i in range(4):
        y = 96 + 50 * i
        c.text(294, y + 23, f"warp {i}", 13.5, INK, bold=True)
        c.cells(350, y + 4, [str(j) if j in (0, 31) else "" for j in range(32)], 12.5, BLUE, 26, 8.5)
        c.line([(754, y + 17), (774, y + 17)])
        c.text(780, y + 22, f"score of key {i}", 13, INK)
    c.brace(350, 286, 400, "32 lanes: each multiplies 4 of the 128 dims, then they add up")
    c.text(24, 296, "CTA 1 has keys 4 to 7,\nCTA 2 keys 8 and 9", 12.5, MUTED)
    return c


def primer_tensor_core() -> Canvas:
    """What an instruction of one warp does: 32 products, or a product of matrices."""
    c = Canvas(900, 280)
    c.text(24, 34, "fma: a lane, a product", 15, INK, bold=True)
    c.cells(24, 60, [""] * 32, 11, BLUE, 20)
    c.text(24, 104, "32 lanes, 32 multiplications with an addition", 12.5, MUTED)
    c.text(430, 34, "mma.m16n8k16: a warp, on its tensor core", 15, INK, bold=True)
    for r in range(16):
        c.cells(430, 52 + 11 * r, [""] * 16, 11, GREEN)
        c.cells(746, 52 + 11 * r, [""] * 8, 11, ORANGE)
        c.cells(632, 52 + 11 * r, [""] * 8, 11, PURPLE)
    c.text(614, 146, "×", 18, INK, "middle")
    c.text(732, 146, "=", 18, INK, "middle")
    c.text(518, 250, "16 × 16", 12.5, MUTED, "middle")
    c.text(676, 250, "16 × 8", 12.5, MUTED, "middle")
    c.text(790, 250, "16 × 8, added to", 12.5, MUTED, "middle")
    c.text(24, 150, "Attention is full of such products:", 13, INK)
    c.text(24, 172, "queries × keys, weights × values.", 13, INK)
    c.text(24, 194, "On an H100 tensor cores do about 15 times", 13, INK)
    c.text(24, 214, "as many operations a second in bfloat16 as", 13, INK)
    c.text(24, 234, "lanes do in float32.", 13, INK)
    return c
