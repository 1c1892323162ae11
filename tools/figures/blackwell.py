"""Figures of the notebook on writing a Blackwell kernel."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def blackwell_path() -> Canvas:
    """The way of a tile through an SM, and the two mbarriers on it."""
    c = Canvas(980, 350)
    c.text(24, 34, "the way of a tile", 15, INK, bold=True)
    places = (
        (24, "global\nmemory", "a, b", GREY),
        (216, "shared\nmemory", "tiles, swizzled\n128 bytes a row", BLUE),
        (408, "tensor\ncore", "reads by\ndescriptors", ORANGE),
        (600, "tensor\nmemory", "128 lanes ×\n64 columns", PURPLE),
        (792, "registers", "a thread\nhas a row", GREEN),
    )
    for x, name, what, colour in places:
        c.box(x, 84, 120, 60, name, colour, 14, bold=True)
        c.text(x + 60, 162, what, 12, MUTED, "middle")
    for x, name in ((144, "TMA"), (336, "mma"), (528, "mma"), (720, "ld")):
        c.line([(x + 4, 114), (x + 68, 114)], INK)
        c.text(x + 36, 104, name, 12.5, INK, "middle", bold=True)
    c.line([(852, 84), (852, 60), (84, 60), (84, 80)], INK)
    c.text(468, 54, "st.global: the result", 12.5, INK, "middle", bold=True)

    c.text(24, 226, "who waits", 15, INK, bold=True)
    c.box(120, 246, 150, 40, "mbarrier loaded", RED, 13)
    c.box(504, 246, 150, 40, "mbarrier done", RED, 13)
    c.text(195, 308, "TMA's bytes end its phase:\nexpect says how many", 12, MUTED, "middle")
    c.text(579, 308, "tcgen05.commit arrives when\nall products are complete", 12, MUTED, "middle")
    c.line([(180, 120), (180, 242)], RED, dashed=True)
    c.line([(564, 120), (564, 242)], RED, dashed=True)
    c.line([(270, 266), (420, 266), (420, 194)], RED)
    c.text(282, 259, "then: multiply", 12, RED)
    c.line([(654, 266), (852, 266), (852, 194)], RED)
    c.text(668, 259, "then: read", 12, RED)
    return c


def blackwell_descriptors() -> Canvas:
    """The fields of the two descriptors that tcgen05.mma takes."""
    c = Canvas(980, 300)
    c.text(24, 34, "shared-memory descriptor, 64 bits: one for each operand", 15, INK, bold=True)
    _fields(
        c,
        58,
        (
            ("61–63", "swizzle\n2: 128 bytes", 130, ORANGE),
            ("49–60", "0", 90, GREY),
            ("46–48", "1", 70, GREY),
            ("32–45", "8 rows to the next 8\n1,024 bytes / 16", 220, BLUE),
            ("16–29", "leading offset / 16\nunused with a swizzle", 200, GREY),
            ("0–13", "address / 16\n+ 2 per step of K", 200, GREEN),
        ),
    )
    c.text(24, 176, "instruction descriptor, 32 bits (kind::f16)", 15, INK, bold=True)
    _fields(
        c,
        200,
        (
            ("24–28", "m / 16", 110, ORANGE),
            ("17–22", "n / 8", 110, ORANGE),
            ("16", "b transposed\n0: K-major", 120, GREY),
            ("15", "a transposed\n0: K-major", 120, GREY),
            ("10–12", "format of b\n0 f16, 1 bf16", 140, BLUE),
            ("7–9", "format of a\n0 f16, 1 bf16", 140, BLUE),
            ("4–5", "format of d\n0 f16, 1 f32", 140, GREEN),
        ),
    )
    c.text(956, 286, "fields that are left out are 0 here · source: PTX ISA, tcgen05", 12, MUTED, "end")
    return c


def _fields(c: Canvas, y: float, fields: tuple[tuple[str, str, float, str], ...]) -> None:
    x = 24.0
    for bits, meaning, width, colour in fields:
        c.text(x + width / 2, y + 4, bits, 12, MUTED, "middle", mono=True)
        c.box(x, y + 12, width, 50, meaning, colour, 12.5)
        x += width + 4
