"""Figures of the notebook on online softmax."""

from __future__ import annotations

import math

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, Canvas

_TILES = ((1.0, 3.0), (2.0, 5.0), (4.0, 0.0))


def online_softmax_tiles() -> Canvas:
    """Six scores in three tiles: what m, α and d are after each, computed here."""
    c = Canvas(900, 366)
    titles = ("first tile: nothing to repair", "a larger score: all that was is scaled down", "no larger score: α = 1")
    m, d = -math.inf, 0.0
    for n, (tile, title) in enumerate(zip(_TILES, titles, strict=True)):
        x = 24 + 292 * n
        c.text(x, 34, f"tile {n + 1}", 15, INK, bold=True)
        c.text(x, 56, title, 12.5, MUTED)
        new = max(m, *tile)
        alpha = math.exp(m - new)
        weights = [math.exp(score - new) for score in tile]
        c.text(x, 88, "scores", 12.5, MUTED)
        c.cells(x + 62, 72, [f"{score:g}" for score in tile], 40, BLUE, 26, 13.5)
        old = "−∞" if math.isinf(m) else f"{m:g}"
        lines = (
            f"m  = max({old}, {tile[0]:g}, {tile[1]:g}) = {new:g}",
            f"α  = e^({old} − {new:g}) = {alpha:.3f}",
            f"d  = {alpha:.3f}·{d:.3f} + {weights[0]:.3f} + {weights[1]:.3f}",
        )
        for i, line in enumerate(lines):
            c.text(x, 130 + 25 * i, line, 13, INK, mono=True)
        before, m, d = alpha * d, new, alpha * d + sum(weights)
        c.text(x, 205, f"   = {d:.3f}", 13, INK, mono=True)
        unit, at = 120.0, x
        for part, colour in ((before, GREY), (weights[0], GREEN), (weights[1], ORANGE)):
            if part > 0.004:
                c.box(at, 222, unit * part, 28, "", colour)
                at += unit * part
        if n:
            c.line([(x - 30, 155), (x - 8, 155)])
    c.text(
        24,
        272,
        "the bar is d: grey what came before, after its α; green and orange the tile's two weights",
        12.5,
        MUTED,
    )
    exact = sum(math.exp(score - 5.0) for tile in _TILES for score in tile)
    c.text(24, 304, f"All six at once, with their maximum 5, add up to {exact:.3f}: the same.", 13.5, INK)
    c.text(
        24, 328, "O goes the same way: O ← α · O + Σ weight · value. It is divided by d once, at the end.", 13.5, INK
    )
    c.text(
        24,
        352,
        "What is left of any number of keys is m, d and O: enough to go on, or to merge.",
        13.5,
        INK,
    )
    return c
