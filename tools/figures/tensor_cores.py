"""Figures of the notebook on tensor cores."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def tensor_cores_generations() -> Canvas:
    """Where the operands and the result of a product lie, by instruction, and who starts it."""
    c = Canvas(900, 342)
    c.text(24, 34, "D = A · B + D: who starts it, where things lie", 15, INK, bold=True)
    heads = (("mma.sync", "Ampere and later"), ("wgmma", "Hopper"), ("tcgen05.mma", "Blackwell"))
    starts = ("a warp:\n32 lanes together", "a warpgroup:\n128 threads together", "one thread,\nfor one or two SMs")
    places = (
        ("registers", (("A", BLUE), ("B", GREEN), ("D", ORANGE)), (), ()),
        ("registers", (("D", ORANGE),), (("A", BLUE), ("B", GREEN)), ()),
        ("registers", (), (("A", BLUE), ("B", GREEN)), (("D", ORANGE),)),
    )
    for y, name in ((132, "registers"), (190, "shared memory"), (248, "tensor memory")):
        c.text(24, y + 29, name, 13.5, INK, bold=True)
    for i, ((name, chip), start, (_, *rows)) in enumerate(zip(heads, starts, places, strict=True)):
        x = 170 + 240 * i
        c.text(x, 66, name, 14.5, INK, bold=True, mono=True)
        c.text(x + 10 * len(name) + 14, 66, chip, 12.5, MUTED)
        c.text(x, 92, start, 13, INK)
        for y, things in zip((132, 190, 248), rows, strict=True):
            exists = y < 248 or i == 2
            c.box(x, y, 216, 48, "" if exists else "none", GREY, 12.5, empty=True, dashed=not exists)
            for j, (operand, colour) in enumerate(things):
                c.box(x + 14 + 66 * j, y + 9, 56, 30, operand, colour, 14, bold=True)
    c.text(
        24,
        324,
        "A may also come from registers (wgmma) or from tensor memory (tcgen05): so P does in attention.",
        12.5,
        MUTED,
    )
    return c


def tensor_cores_swizzle() -> Canvas:
    """Eight rows of 128 bytes with the swizzle, and the descriptor that says so."""
    c = Canvas(900, 356)
    c.text(24, 34, "rows of 128 bytes: which chunk of 16 bytes lies where", 15, INK, bold=True)
    for n, (title, swizzled) in enumerate(
        (("plain", False), ("128-byte swizzle: chunk c at place c ^ (row mod 8)", True))
    ):
        x = 70 + 430 * n
        c.text(x, 64, title, 13, INK)
        for r in range(8):
            if not n:
                c.text(58, 92 + 22 * r, f"row {r}", 12, MUTED, "end")
            texts = [str(place ^ r if swizzled else place) for place in range(8)]
            marked = [place for place in range(8) if texts[place] == "2"]
            c.cells(x, 76 + 22 * r, texts, 44, BLUE, 22, 12, marked)
    c.text(24, 290, "a descriptor, bits", 13.5, INK, bold=True)
    fields = (
        ("63–61", "swizzle", 92, PURPLE),
        ("47–46", "version", 92, GREY),
        ("45–32", "SBO: 8 rows further", 220, GREEN),
        ("29–16", "LBO: the other way", 200, GREY),
        ("13–0", "start", 110, ORANGE),
    )
    x = 170.0
    for bits, name, width, colour in fields:
        c.box(x, 272, width - 4, 30, name, colour, 12.5)
        c.text(x + width / 2 - 2, 318, bits, 11.5, MUTED, "middle")
        x += width
    c.text(24, 342, "Start and offsets count in 16 bytes. The rest is zero here.", 12.5, MUTED)
    return c


def tensor_cores_tmem() -> Canvas:
    """Tensor memory of the attention tile, and of FlashAttention-4."""
    c = Canvas(900, 334)
    c.text(24, 34, "tensor memory: 128 lanes × 512 columns of 32 bits", 15, INK, bold=True)
    scale = 1.36
    for title, y, parts in (
        (
            "here: 128 queries, tiles of 64 keys, head dim 64",
            64,
            ((0, 32, "P", PURPLE), (32, 32, "S", BLUE), (64, 64, "O", ORANGE)),
        ),
        (
            "FlashAttention-4: two times 128 queries, tiles of 128 keys, head dim 128",
            196,
            (
                (0, 64, "S0", BLUE),
                (64, 64, "S0, P0", PURPLE),
                (128, 64, "S1", BLUE),
                (192, 64, "S1, P1", PURPLE),
                (256, 128, "O0", ORANGE),
                (384, 128, "O1", ORANGE),
            ),
        ),
    ):
        c.text(150, y - 6, title, 13, INK)
        c.box(150, y, 512 * scale, 84, "", GREY, empty=True, dashed=True)
        for warp in range(4):
            c.text(140, y + 16 + 21 * warp, f"lanes {32 * warp}–{32 * warp + 31}", 11, MUTED, "end")
            if warp:
                c.line([(150, y + 21 * warp), (150 + 512 * scale, y + 21 * warp)], MUTED, arrow=False, dashed=True)
        for start, width, name, colour in parts:
            c.box(150 + start * scale, y, width * scale, 84, name, colour, 13)
        for column in (0, 64, 128, 256, 384, 512):
            c.text(150 + column * scale, y + 98, str(column), 11, MUTED, "middle")
    c.text(
        24,
        320,
        "A warp reaches the 32 lanes that its number mod 4 allows. P in halves takes half the columns of S.",
        12.5,
        MUTED,
    )
    return c
