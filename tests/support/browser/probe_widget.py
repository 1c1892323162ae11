"""A widget that uses every part of the core and nothing else; its page side is widgets/tests/probe.ts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sglab.widgets import Widget, command
from sglab.widgets.base import asset

STATIC = Path(__file__).parent / "static"


class Probe(Widget):
    bundle = "probe"
    format = 1
    _module = asset("probe.js", STATIC)
    _css = asset("probe.css", STATIC)

    def __init__(self, steps: Any = range(10)) -> None:
        super().__init__()
        badge = {"text": "measured", "title": "Drawn by the test."}
        header = {"title": "Probe", "subject": "ten steps of nothing in particular", "badge": badge}
        self.publish({"steps": np.asarray(steps)}, header=header)

    @command
    def double(self, by: int) -> dict[str, Any]:
        if by != 2:
            raise ValueError(f"by must be 2, got {by}")
        return {"doubled": self._tensor("steps").array * by}
