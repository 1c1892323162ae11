"""Figures of the notebook on speculation."""

from __future__ import annotations

from .canvas import BLUE, GREEN, GREY, INK, MUTED, ORANGE, RED, Canvas


def draft_and_verify() -> Canvas:
    """The same five tokens: one a pass, and drafted and verified together."""
    c = Canvas(900, 300)
    c.text(24, 34, "plain decoding: every token waits for a pass of the large model", 15, INK, bold=True)
    for i, token in enumerate(("o", "n", "c", "e", "_")):
        c.box(24 + 168 * i, 52, 128, 40, "target, 1 token", BLUE, 13)
        c.line([(152 + 168 * i, 72), (168 + 168 * i, 72)])
        c.text(172 + 168 * i, 77, token, 14, INK, bold=True, mono=True)
    c.text(
        24, 148, "with drafts: a small model guesses, one pass of the large one checks all of them", 15, INK, bold=True
    )
    for i, token in enumerate(("o", "n", "s", "t")):
        c.box(24 + 74 * i, 166, 50, 40, "draft", ORANGE, 12.5)
        c.text(80 + 74 * i, 191, token, 14, INK, bold=True, mono=True)
    c.line([(320, 186), (336, 186)])
    c.box(340, 166, 176, 40, "target, 5 tokens", BLUE, 13)
    c.text(340, 230, "says after:  ^  o  n  s  t", 13, INK, mono=True)
    c.text(340, 250, "             o  n  c  …  …", 13, INK, mono=True)
    c.line([(516, 186), (552, 186)])
    c.cells(556, 170, ["o", "n"], 32, GREEN, 32, 14)
    c.cells(628, 170, ["s", "t"], 32, RED, 32, 14)
    c.cells(700, 170, ["c"], 32, BLUE, 32, 14)
    c.text(588, 224, "kept", 12.5, GREEN, "middle")
    c.text(660, 224, "dropped", 12.5, RED, "middle")
    c.text(700, 224, "bonus: what the target\nsays instead of s", 12.5, BLUE)
    c.text(
        24,
        282,
        "Three tokens from one pass of the target. A guess that is wrong costs work, and never a word.",
        12.5,
        MUTED,
    )
    return c


def draft_tree_mask() -> Canvas:
    """The example's tree, its mask, and the positions."""
    c = Canvas(900, 330)
    c.text(24, 34, "a tree of five nodes", 15, INK, bold=True)
    places = {0: (60, 150), 1: (170, 90), 2: (170, 210), 3: (290, 90), 4: (290, 210)}
    tokens = ("50", "11", "12", "13", "14")
    for parent, child in ((0, 1), (0, 2), (1, 3), (2, 4)):
        (x0, y0), (x1, y1) = places[parent], places[child]
        c.line([(x0 + 64, y0 + 20), (x1 - 4, y1 + 20)])
    for node, (x, y) in places.items():
        c.box(x, y, 64, 40, tokens[node], GREY if node == 0 else ORANGE, 14, bold=True)
        c.text(x + 32, y + 56, f"node {node}", 12, MUTED, "middle")
    for x, text in ((60, "position 7"), (170, "8"), (290, "9")):
        c.text(x + 32, 300, text, 12.5, INK, "middle")
    c.text(440, 34, "its mask: who sees whom", 15, INK, bold=True)
    rows = ("10000", "11000", "10100", "11010", "10101")
    c.text(500, 66, "7 tokens of the prefix", 12.5, MUTED, "middle")
    for column in range(5):
        c.text(640 + 36 * column, 66, str(column), 12.5, MUTED, "middle")
    for node, row in enumerate(rows):
        y = 76 + 36 * node
        c.text(424, y + 23, str(node), 12.5, MUTED, "middle")
        c.box(440, y, 130, 36, "all", GREEN, 12.5)
        c.cells(622, y, ["✓" if bit == "1" else "" for bit in row], 36, GREY, 36, 15,
                marked=[i for i, bit in enumerate(row) if bit == "1"], mark=GREEN)  # fmt: skip
    note = "Nodes 1 and 2 are both at position 8: guesses for the same place in\nthe text. Neither sees the other"
    note += ", nor what hangs below the other."
    c.text(440, 288, note, 12.5, MUTED)
    return c


def kept_rows_move() -> Canvas:
    """KV rows of the accepted path close up behind the prefix."""
    c = Canvas(900, 210)
    c.text(24, 34, "KV rows of the five nodes, in the slots that the pass was given", 15, INK, bold=True)
    names = ["node 0", "node 1", "node 2", "node 3", "node 4"]
    for i in range(5):
        c.text(259 + 110 * i, 62, f"slot {40 + i}", 12.5, MUTED, "middle")
    c.text(24, 91, "after the pass", 13, INK)
    c.cells(204, 70, names, 110, GREY, 32, 13, marked=(0, 2, 4), mark=GREEN)
    c.line([(479, 102), (369, 142)], GREEN)
    c.line([(699, 102), (479, 142)], GREEN)
    c.text(24, 167, "after the moves", 13, INK)
    c.cells(204, 146, ["node 0", "node 2", "node 4"], 110, GREEN, 32, 13)
    c.cells(534, 146, ["free", "free"], 110, GREY, 32, 13)
    c.text(
        24,
        198,
        "The request's tokens must follow each other in req_to_token, whatever branch they grew on.",
        12.5,
        MUTED,
    )
    return c
