"""Figures of the notebook on MLA."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, PURPLE, Canvas


def mla_cache_row() -> Canvas:
    """What 128 heads would keep for a token, and what MLA keeps."""
    c = Canvas(900, 220)
    c.text(24, 34, "one token, one layer of DeepSeek-V3", 15, INK, bold=True)
    c.text(24, 66, "keys and values of 128 heads", 13, INK)
    for i in range(64):
        c.box(24 + 13.3 * i, 76, 11.5, 20, "", GREEN)
        c.box(24 + 13.3 * i, 100, 11.5, 20, "", GREEN)
    c.text(24, 152, "MLA: 576 numbers", 13, INK)
    c.box(24, 162, 21, 20, "", ORANGE)
    c.box(46.5, 162, 2.6, 20, "", BLUE)
    c.text(60, 178, "a latent of 512 and a rotary key of 64, for all heads together (drawn to scale)", 13, INK)
    c.text(24, 206, "a green box: one head's key of 128 + 64 and value of 128", 12, MUTED)
    return c


def mla_absorption() -> Canvas:
    """The same score, with W_UK on either side; the same output, with W_UV before or after."""
    c = Canvas(900, 360)
    c.text(24, 34, "naive: expand the cache, for every token and head", 15, INK, bold=True)
    c.text(24, 204, "absorbed: change the query once, leave the cache as it is", 15, INK, bold=True)
    for y, steps in (
        (
            56,
            (
                ("query\n128 + 64", BLUE),
                ("·", None),
                ("key\n128 + 64", GREEN),
                ("→", None),
                ("softmax", GREY),
                ("→", None),
                ("mix values\n128", PURPLE),
                ("→", None),
                ("output\n128", ORANGE),
            ),
        ),
        (
            226,
            (
                ("query · W_UK\n512 + 64", BLUE),
                ("·", None),
                ("cache row\n512 + 64", GREEN),
                ("→", None),
                ("softmax", GREY),
                ("→", None),
                ("mix latents\n512", PURPLE),
                ("→", None),
                ("· W_UV\n128", ORANGE),
            ),
        ),
    ):
        x = 24
        for text, colour in steps:
            if colour is None:
                c.text(x + 14, y + 32, text, 18, INK, "middle")
                x += 30
            else:
                c.box(x, y, 134, 54, text, colour, 13)
                x += 148
    for x, text in ((202, "W_UK · latent"), (558, "W_UV · latent")):
        c.line([(x + 67, 142), (x + 67, 114)], MUTED)
        c.text(x + 67, 160, text, 12.5, MUTED, "middle")
    c.text(24, 318, "q · (W_UK c)  =  (q W_UK) · c", 14, INK, mono=True)
    c.text(480, 318, "Σ p (W_UV c)  =  W_UV (Σ p c)", 14, INK, mono=True)
    c.text(24, 344, "A product may be bracketed either way; only its cost changes.", 12.5, MUTED)
    return c
