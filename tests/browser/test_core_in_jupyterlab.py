"""The core in a real JupyterLab: display, keys, theme, a restarted kernel."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

CELLS = [
    "from tests.support.browser.probe_widget import Probe\nfrom sglab.widgets import selection\nprobe = Probe()",
    "probe",
]


def test_widget_works_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    lab.run_all()
    widget = lab.page.locator(".sg-widget")
    expect(widget.locator(".probe-values")).to_have_text("10")

    widget.focus()
    cells = lab.page.locator(".jp-Notebook .jp-Cell").count()
    for key in ("b", "a", "ArrowRight", "ArrowDown"):  # b and a insert cells where JupyterLab hears them
        lab.page.keyboard.press(key)
    expect(widget.locator(".sg-counter")).to_have_text("step 1 of 10")
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells

    lab.theme(dark=True)
    expect(widget).to_have_attribute("data-dark", "true")

    lab.execute("notebook:restart-kernel")
    lab.page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(widget).to_have_attribute("data-connection", "lost")
    widget.get_by_role("button", name="Double").click()
    expect(widget.get_by_role("alert")).to_contain_text("Disconnected: the Python kernel was restarted")
