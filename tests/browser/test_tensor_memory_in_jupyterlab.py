"""TensorMemory in a real JupyterLab: it steps a session, follows it when a cell moves it, and keeps its keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("torch")

CELLS = [
    "from tests.support.launches.memory_sessions import product\nimport sglab\n"
    "session = product(256, pair=True).session",
    "widget = sglab.widgets.TensorMemory(session)\nwidget",
    "session.run(); print('moved')",
]


def test_stepping_a_session_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    page = lab.page
    lab.run(0)
    lab.run(1)
    frame = page.locator(".sg-widget")
    expect(page.locator(".stm-map")).to_have_count(2)
    frame.press("ArrowRight")
    expect(page.locator("output.sg-sentence")).to_contain_text("allocates columns 0–127")
    cells = page.locator(".jp-Cell").count()
    frame.press("b")  # JupyterLab's own shortcut for a new cell
    assert page.locator(".jp-Cell").count() == cells
    lab.run(2)
    expect(page.locator("output.sg-sentence")).to_contain_text("frees columns")
    lab.theme(dark=True)
    expect(frame).to_have_attribute("data-dark", "true")
