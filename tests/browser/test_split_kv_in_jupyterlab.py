"""SplitKV in a real JupyterLab: dragging a length of a batch of 256 replans while the pointer moves."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

CELLS = [
    "from sglab.widgets import SplitKV\nimport numpy as np\n"
    "lens = np.random.default_rng(0).integers(64, 4096, 256).tolist()",
    "widget = SplitKV(lens)\nwidget",
    "print('sum', int(widget.seq_lens.sum()))",
]


def test_dragging_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    lab.run_all()
    page = lab.page
    expect(page.locator(".skv-gantt").first).to_be_visible()
    lengths = page.get_by_label("Lengths", exact=True)
    before = lengths.input_value()

    bars = page.locator(".skv-bars")
    bars.scroll_into_view_if_needed()
    box = bars.bounding_box()
    assert box is not None
    x, y = box["x"] + 200, box["y"] + 80
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(20):
        page.mouse.move(x, y - step)
    expect(lengths).not_to_have_value(before)
    expect(page.locator(".sg-widget[data-replan-ms]")).to_be_visible()  # while the pointer is down
    page.mouse.up()

    lab.theme(dark=True)
    expect(page.locator(".sg-widget")).to_have_attribute("data-dark", "true")
