"""SharedMemory in a real JupyterLab: it steps a session together with TensorMemory, and descriptors are edited."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("torch")

CELLS = [
    "from tests.support.launches.memory_sessions import product\nimport sglab\n"
    "session = product().session\nlog = session.record()",
    "sglab.widgets.SharedMemory(session, log)",
    "sglab.widgets.TensorMemory(session, log)",
]


def test_two_views_of_one_session_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS, height=2200)
    page = lab.page
    for cell in range(3):
        lab.run(cell)
    shared, tensor = page.locator(".sg-widget").first, page.locator(".sg-widget").nth(1)
    expect(tensor.locator(".stm-map")).to_have_count(1)
    expect(shared.locator(".sg-cells canvas").first).to_be_visible()
    shared.get_by_label("Step size").select_option("mma")
    shared.press("ArrowRight")
    expect(shared.locator("output.sg-sentence")).to_contain_text("issues tcgen05.mma")
    expect(tensor.locator("output.sg-sentence")).to_contain_text("issues tcgen05.mma")
    shared.get_by_role("tab", name="smem descriptor").click()
    start = shared.get_by_label("start address in bytes")
    start.fill("2048")
    start.press("Enter")
    expect(shared.locator(".ssm-sides")).to_contain_text("smem+0x800")
    lab.theme(dark=True)
    expect(shared).to_have_attribute("data-dark", "true")
