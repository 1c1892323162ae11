"""The trail in a real JupyterLab, on one launch of the SM100 MLA kernel: page → split → CTA → warp → instruction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("triton")

CELLS = [
    "import sglab\n"
    "from sglab.labs import mla_sm100 as lab\n"
    "batch = sglab.decode_batch([300, 1000, 77], num_heads=128, page_size=128, dtype='float16', seed=0)\n"
    "session = lab.Launched(batch, sms=10).session()",
    "sglab.widgets.PageTable(batch)",
    "sglab.widgets.SplitKV(batch, 'sglab_mla_sm100', sm_count=10)",
    "sglab.widgets.WarpRoles(session, batch=batch)",
    "sglab.widgets.KernelDebugger(session)",
    "print('selected', dict(sglab.widgets.selection.value), 'at', session.now)",
]


def widget(lab: LabNotebook, cell: int) -> Locator:
    """The widget of a cell, in sight: what is not follows once it is seen."""
    lab.page.evaluate("n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n }", cell)
    found = lab.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".sg-widget")
    found.scroll_into_view_if_needed()
    return found


def test_from_a_page_to_the_instruction_that_copies_it(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS, height=1400)
    for cell in range(5):
        lab.run(cell)
        if cell:
            expect(widget(lab, cell).locator(".sg-counter")).to_be_visible()

    pages = widget(lab, 1)
    pages.get_by_label("Find a request").fill("page 7")  # tokens 384 … 511 of r1: the first of its second split
    pages.get_by_label("Find a request").press("Enter")
    expect(pages.locator(".sg-details")).to_contain_text("r1: tokens 384 … 511")

    plan = widget(lab, 2)
    expect(plan.locator(".sg-details")).to_contain_text("[384, 768): 384")
    plan.press(".")  # takes the split that is outlined

    roles = widget(lab, 3)
    expect(roles.locator(".sg-timeline-group")).to_have_text(["CTA 4", "CTA 5"])
    expect(roles.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text(["9 load"])
    expect(roles.locator(".sg-details")).to_contain_text("Page 7")
    roles.locator(".swr-reads button", has_text="(64, 0, 7)").first.click()
    details = roles.locator(".sg-details")
    expect(details).to_contain_text("CTA 4 warp 9 (load)")
    expect(details).to_contain_text("cp.async.bulk.tensor.3d")
    expect(details).to_contain_text("page 7, tokens 384 … 447 of r1")

    debugger = widget(lab, 4)
    expect(debugger.locator("output.sg-sentence")).to_contain_text("cp.async.bulk.tensor.3d")
    expect(debugger.locator(".kd-line", has_text="cp.async.bulk.tensor.3d").first).to_be_visible()

    lab.run(5)
    said = lab.page.locator(".jp-OutputArea-output").last
    expect(said).to_contain_text("'page': 7")
    expect(said).to_contain_text("'split': 1")
    expect(said).to_contain_text("'cta': 4")
    expect(said).to_contain_text("'warp': 9")


def test_from_an_instruction_back_to_its_page(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab([*CELLS[:4]], height=1400)
    for cell in range(4):
        lab.run(cell)
        if cell:
            expect(widget(lab, cell).locator(".sg-counter")).to_be_visible()
    roles = widget(lab, 3)
    expect(roles.locator(".sg-timeline-label").first).to_be_visible()
    roles.press("/")
    roles.get_by_role("searchbox").fill("cp.async.bulk.tensor.3d")
    for _ in range(19):  # after the nine copies of Q of each CTA
        roles.get_by_role("searchbox").press("Enter")
    expect(roles.locator(".sg-details")).to_contain_text("page 1, tokens")
    expect(widget(lab, 1).locator(".sg-details")).to_contain_text("Page 1")
    expect(widget(lab, 2).locator(".sg-details")).to_contain_text("[0, 300): 300")
