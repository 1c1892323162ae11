"""`.sglab` files: saved widgets as data alone. What draws them comes with sglab, not with the file."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .page import Savable

FORMAT = 1
"""Of the file; each widget in it counts its own."""


def recording(widgets: Sequence[Savable], title: str) -> str:
    """The text of a `.sglab` file with these widgets, which share a selection. JupyterLab opens it by a double-click,
    without a kernel."""
    content = {"sglab": "recording", "format": FORMAT, "title": title, "widgets": [each.saved() for each in widgets]}
    return json.dumps(content, separators=(",", ":")) + "\n"
