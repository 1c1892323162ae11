"""Barriers in a real JupyterLab: beside WarpRoles, with the same selection and moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("torch")

CELLS = [
    "from tests.support.launches.recorded import mla_sm100\nimport sglab\nlog = mla_sm100(128)",
    "sglab.widgets.WarpRoles(log)",
    "sglab.widgets.Barriers(log)",
]


def test_barriers_follow_warp_roles_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS, height=1400)
    page = lab.page
    for cell in range(3):
        lab.run(cell)
    roles, barriers = page.locator(".sg-widget").nth(0), page.locator(".sg-widget").nth(1)
    expect(roles.locator(".sg-timeline-label").first).to_be_visible()
    expect(barriers.locator(".sg-timeline-label").first).to_be_visible()
    roles.press("/")
    roles.get_by_role("searchbox").fill("mbarrier.try_wait load→mma full[0]")
    roles.get_by_role("searchbox").press("Enter")
    step = roles.locator(".sg-counter").inner_text().split()[1]
    expect(barriers.locator(".sg-counter")).to_contain_text(f"step {step} of")
    expect(barriers.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text("load→mma full[0]")
    barriers.press("ArrowDown")
    expect(barriers.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text("load→mma full[1]")
    cells = page.locator(".jp-Cell").count()
    barriers.press("b")  # JupyterLab's own shortcut for a new cell
    assert page.locator(".jp-Cell").count() == cells
    lab.theme(dark=True)
    expect(barriers).to_have_attribute("data-dark", "true")
