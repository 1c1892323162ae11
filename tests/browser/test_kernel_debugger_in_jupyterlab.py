"""KernelDebugger in a real JupyterLab: steps reach the screen, Python and page move one session."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook
from tests.support.launches.session_lines import SESSION_PTX

pytest.importorskip("torch")

CELLS = [
    "import torch\n"
    "from sglab import gpu\n"
    "from sglab.widgets import KernelDebugger\n"
    "out = torch.zeros(1)\n"
    f"kernel = gpu.load({str(SESSION_PTX)!r})['reduce']\n"
    "device = gpu.EmulatedDevice('sm_90a')\n"
    "session = kernel.session(device, grid=2, block=128, args=[torch.arange(2000.), out, 2000])",
    "KernelDebugger(session, tensors={'out': out})",
    "session.seek(200)",
    "print('at', session.now)",
]


def test_stepping_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    lab.run(0)
    lab.run(1)
    page = lab.page
    frame = page.locator(".sg-widget")
    expect(page.locator(".kd-line").first).to_be_visible()
    expect(page.locator("output.sg-sentence")).to_have_text("Nothing has run yet.")
    frame.get_by_label("Step size").select_option("instruction")
    for position in range(1, 10):
        frame.press("ArrowRight")
        expect(frame).to_have_attribute("data-position", str(position))
    cells = page.locator(".jp-Cell").count()
    frame.press("b")  # JupyterLab's own shortcut for a new cell
    assert page.locator(".jp-Cell").count() == cells
    lab.run(2)
    expect(frame).to_have_attribute("data-position", "200")
    frame.press("ArrowLeft")
    expect(frame).to_have_attribute("data-position", "199")
    lab.run(3)
    expect(page.locator(".jp-OutputArea-output").last).to_contain_text("at 199")
    lab.theme(dark=True)
    expect(frame).to_have_attribute("data-dark", "true")
