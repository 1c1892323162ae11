"""Widgets of one notebook share a page: a widget's style sheet must not reach into another's frame."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "widgets" / "packages"
SHEETS = sorted(path for path in SOURCES.glob("*/src/*.css") if path.parents[1].name != "core")


def selectors(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    preludes = re.findall(r"([^{};]+)\{", text)
    return [each.strip() for one in preludes if not one.strip().startswith("@") for each in one.split(",")]


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.stem)
def test_every_selector_names_something_of_the_widget_s_own(sheet: Path) -> None:
    """Classes that begin with sg- belong to the core, and so to every widget on the page."""
    for selector in selectors(sheet.read_text(encoding="utf-8")):
        classes = re.findall(r"\.([\w-]+)", selector)
        keyframe = re.fullmatch(r"from|to|[\d.]+%", selector)
        assert keyframe or any(not name.startswith("sg-") for name in classes), selector
