"""TensorMemory in a real JupyterLab: it steps a session, follows it when a cell moves it, and keeps its keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jupyterlab_host import LabNotebook
from playwright.sync_api import expect

pytest.importorskip("torch")

TESTS = Path(__file__).parent.parent
CELLS = [
    f"import sys; sys.path[:0] = [{str(TESTS / 'browser')!r}, {str(TESTS / 'emulator')!r}]\n"
    "from memory_sessions import product\nimport sglab\nsession = product(256, pair=True).session",
    "widget = sglab.widgets.TensorMemory(session)\nwidget",
    "session.run(); print('moved')",
]


def test_stepping_a_session_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    page = lab.page
    lab.run(0)
    lab.run(1)
    frame = page.locator(".sg-widget")
    expect(page.locator(".stm-map")).to_have_count(2, timeout=60_000)
    frame.press("ArrowRight")
    expect(page.locator("output.sg-sentence")).to_contain_text("allocates columns 0–127")
    cells = page.locator(".jp-Cell").count()
    frame.press("b")  # JupyterLab's own shortcut for a new cell
    assert page.locator(".jp-Cell").count() == cells
    lab.run(2)
    expect(page.locator("output.sg-sentence")).to_contain_text("frees columns")
    lab.theme(dark=True)
    expect(frame).to_have_attribute("data-dark", "true")
