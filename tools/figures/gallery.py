"""The figure of the gallery: which widget looks at what."""

from __future__ import annotations

from .canvas import BLUE, GREEN, INK, MUTED, ORANGE, PURPLE, Canvas


def gallery_map() -> Canvas:
    """Four groups of widgets, by the question that one has."""
    c = Canvas(900, 320)
    c.text(24, 36, "what do you want to know?", 15, INK, bold=True)
    groups = (
        (
            "where do data lie,\nwho is to do what?",
            ("PageTable", "SplitKV", "BackendExplorer", "SparseAttention"),
            "before a launch",
            GREEN,
        ),
        (
            "what happens in it,\nand when?",
            ("KernelDebugger", "WarpRoles", "Barriers", "OnlineSoftmax", "Roofline"),
            "a launch",
            BLUE,
        ),
        (
            "what lies where,\nand who wrote it?",
            ("SharedMemory", "TensorMemory", "Layout", "NanSpread"),
            "its memory",
            PURPLE,
        ),
        (
            "who runs, who waits,\nwho goes?",
            ("Scheduler", "RadixTree", "Graph", "DraftTree", "Experts", "Ranks"),
            "a server",
            ORANGE,
        ),
    )
    for i, (question, names, what, colour) in enumerate(groups):
        x = 24 + 216 * i
        c.text(x + 98, 66, what, 13.5, INK, "middle", bold=True)
        c.text(x + 98, 90, question, 12.5, MUTED, "middle")
        for j, name in enumerate(names):
            c.box(x, 120 + 30 * j, 196, 25, name, colour, 12.5)
    return c
