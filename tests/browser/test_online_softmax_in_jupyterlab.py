"""OnlineSoftmax in a real JupyterLab: another head is recorded from the page, merges step, the theme follows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook
from tests.support.browser.widget_host import more

pytest.importorskip("torch")

CELLS = [
    "import sglab\n"
    "batch = sglab.decode_batch([300, 77], num_heads=4, page_size=16, kv_lora_rank=64, qk_rope_head_dim=16)",
    "widget = sglab.widgets.OnlineSoftmax(batch, implementation='reference')\nwidget",
    "print('head', widget.recorded.head)",
]


def test_recording_another_head_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    lab.run_all()
    page = lab.page
    frame = page.locator(".sg-widget")
    expect(page.locator(".sgs-equations")).to_be_visible()
    more(frame)
    page.get_by_label("head", exact=True).fill("3")
    page.get_by_label("head", exact=True).press("Enter")
    expect(page.locator(".sg-subject")).to_contain_text("head 3 of 4")
    frame.press("End")
    expect(page.locator(".sgs-conclusion")).to_contain_text("against float64")
    cells = page.locator(".jp-Cell").count()
    frame.press("b")  # JupyterLab's own shortcut for a new cell
    assert page.locator(".jp-Cell").count() == cells
    lab.theme(dark=True)
    expect(frame).to_have_attribute("data-dark", "true")
