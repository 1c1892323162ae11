"""The figure of the notebook on sparse attention."""

from __future__ import annotations

from .canvas import BLUE, GREY, INK, MUTED, ORANGE, Canvas


def sparse_patterns() -> Canvas:
    """Which keys a query sees: all, lines and slashes, chosen tokens."""
    c = Canvas(900, 360)
    size, n = 17, 14
    patterns = (
        ("dense", "every key before it", lambda q, k: True),
        (
            "vertical and slash",
            "some keys for all queries,\nsome distances",
            lambda q, k: k in (0, 4) or q - k in (0, 1, 6),
        ),
        ("chosen by an indexer", "each query its own", lambda q, k: (5 * q + 3 * k) % 11 < 3 or k == q),
    )
    for i, (name, what, seen) in enumerate(patterns):
        x, y = 40 + 290 * i, 62
        c.text(x, 40, name, 15, INK, bold=True)
        for q in range(n):
            for k in range(q + 1):
                chosen = seen(q, k)
                c.box(
                    x + size * k,
                    y + size * q,
                    size - 2,
                    size - 2,
                    "",
                    ORANGE if chosen and i else BLUE if chosen else GREY,
                )
        c.text(x + size * n + 4, y + 12, "", 12)
        c.text(x, y + size * n + 18, what.replace("\\\n", "\n"), 12, MUTED)
    return c
