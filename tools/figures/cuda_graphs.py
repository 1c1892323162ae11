"""Figures of the notebook on CUDA graphs."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, RED, Canvas


def graph_launches() -> Canvas:
    """Host and GPU with a launch per kernel, and with one for all."""
    c = Canvas(900, 270)
    for y, title in ((34, "a launch per kernel: the GPU waits for the host"), (160, "one launch for all: a graph")):
        c.text(24, y, title, 15, INK, bold=True)
        c.text(24, y + 32, "host", 13, INK)
        c.text(24, y + 74, "GPU", 13, INK)
    for i in range(6):
        c.box(80 + 126 * i, 48, 122, 28, f"launch {i + 1}", ORANGE, 12.5)
        c.box(202 + 126 * i, 90, 44, 28, str(i + 1), BLUE, 12.5)
    for i in range(5):
        c.box(248 + 126 * i, 90, 78, 28, "idle", GREY, 12, empty=True, dashed=True)
    c.box(80, 174, 122, 28, "launch graph", ORANGE, 12.5)
    for i in range(6):
        c.box(202 + 46 * i, 216, 44, 28, str(i + 1), BLUE, 12.5)
    c.box(206, 174, 272, 28, "free to plan the next step", GREEN, 12.5, empty=True, dashed=True)
    c.text(500, 236, "the same six kernels, none of them quicker", 12.5, MUTED)
    return c


def graph_padding() -> Canvas:
    """A batch of three in a graph of four: what each array holds."""
    c = Canvas(900, 300)
    c.text(24, 34, "three requests replay the graph of size 4", 15, INK, bold=True)
    rows = (
        ("input_ids", ("116", "32", "10", "104"), "the last tokens; the padding's is stale"),
        ("req_pool_indices", ("0", "1", "2", "3"), "rows of req_to_token; the padding's is stale"),
        ("seq_lens", ("13", "11", "11", "1"), "tokens that each attends to"),
        ("out_cache_loc", ("44", "38", "42", "0"), "where the new keys go"),
    )
    for i, title in enumerate(("request 1", "request 2", "request 3", "padding")):
        c.text(230 + 90 * i, 66, title, 12.5, RED if i == 3 else BLUE, "middle")
    for i, (name, values, meaning) in enumerate(rows):
        y = 78 + 42 * i
        c.text(24, y + 23, name, 13, INK, mono=True)
        c.cells(185, y, values, 90, BLUE, 36, 13, marked=(3,), mark=RED)
        c.text(565, y + 23, meaning, 12.5, MUTED)
    c.line([(500, 240), (500, 266), (560, 266)], RED)
    c.text(568, 270, "slot 0: the dummy page, which nobody reads", 12.5, RED)
    c.text(24, 284, "One token, slot 0: a padded row computes, and disturbs nobody.", 12.5, MUTED)
    return c


def graph_pieces() -> Canvas:
    """An extend pass cut at its attention layers."""
    c = Canvas(900, 220)
    c.text(24, 34, "an extend pass of 37 tokens, cut at its attention", 15, INK, bold=True)
    x = 24
    for i in range(3):
        c.box(x, 58, 168, 60, f"piece {i}\n48 tokens", BLUE, 13)
        x += 168
        if i < 2:
            c.line([(x, 88), (x + 16, 88)])
            c.box(x + 20, 58, 136, 60, f"attention {i}\n37 tokens", PURPLE, 13)
            c.line([(x + 156, 88), (x + 172, 88)])
            x += 176
    c.text(24, 150, "Pieces are replayed: products, norms, MLPs. They depend on the number of tokens alone,", 13, INK)
    c.text(24, 170, "padded to the next captured size.", 13, INK)
    c.text(24, 200, "Attention depends on every request's lengths, and runs as it is, on the real tokens.", 13, PURPLE)
    return c
