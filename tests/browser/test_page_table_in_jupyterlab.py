"""A user's path through PageTable in a real JupyterLab."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook
from tests.support.browser.widget_host import DRAWN

pytest.importorskip("triton")

CELLS = [
    "import sglab, sglab.widgets\n"
    "batch = sglab.decode_batch(seq_lens=[300, 1000, 77], page_size=64, layout='fragmented', seed=0)",
    "sglab.widgets.PageTable(batch)",
    "batch.extend_by_token(2)",
    "print('selected', sglab.widgets.selection.value)",
]


def keep(lab: LabNotebook, name: str) -> None:
    """Leaves a screenshot in $SGLAB_SCREENSHOTS, for people to look at."""
    folder = os.environ.get("SGLAB_SCREENSHOTS")
    if folder:
        lab.page.evaluate(DRAWN)
        lab.page.screenshot(path=Path(folder) / f"{name}.png")


def test_a_user_steps_edits_and_follows_other_cells(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS, height=1300)
    lab.run(0)
    expect(lab.page.locator(".jp-InputPrompt").first).to_have_text("[1]:")
    lab.run(1)
    widget = lab.page.locator(".sg-widget[data-ready]")
    widget.focus()
    for _ in range(5):
        lab.page.keyboard.press("ArrowRight")
    expect(widget.locator(".sg-sentence")).to_contain_text("wrote")
    keep(lab, "page_table_lab_light")

    widget.get_by_label("Tokens of the new request").fill("150")
    widget.get_by_role("button", name="Allocate").click()
    expect(widget.get_by_role("alert")).to_contain_text("r3: 150 tokens in 3 pages")
    expect(widget.locator(".sg-subject")).to_contain_text("4 requests")
    lab.theme(dark=True)
    keep(lab, "page_table_lab_dark")

    widget.get_by_label("Tokens of the new request").fill("999999")
    widget.get_by_role("button", name="Allocate").click()
    expect(widget.get_by_role("alert")).to_contain_text("Nothing was changed")
    expect(widget.locator(".sg-subject")).to_contain_text("4 requests · 1,527 tokens")

    lab.run(2)
    expect(widget.locator(".sg-subject")).to_contain_text("1,528 tokens")
    lab.page.evaluate(DRAWN)  # a redraw may not take the focus away between the two
    widget.focus()
    lab.page.keyboard.press("ArrowUp")
    lab.page.evaluate(DRAWN)
    lab.run(3)
    expect(lab.page.locator(".jp-OutputArea-output", has_text="selected")).to_have_text(
        "selected {'request': 2, 'rid': 'r2'}\n"
    )


def test_a_killed_kernel_shows_as_disconnected(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab([*CELLS[:2], "import os; os._exit(1)"])
    lab.run(0)
    lab.run(1)
    widget = lab.page.locator(".sg-widget")
    expect(widget.locator(".sg-counter")).to_have_text("step 0 of 29")
    lab.run(2)
    expect(widget).to_have_attribute("data-connection", "lost")
    lab.page.get_by_role("dialog").get_by_role("button", name="Ok").click()  # JupyterLab's own notice
    expect(widget.get_by_role("alert")).to_contain_text("Disconnected")
    expect(widget.get_by_role("button", name="Allocate")).to_be_disabled()
    widget.focus()
    lab.page.keyboard.press("ArrowRight")
    expect(widget.locator(".sg-counter")).to_have_text("step 1 of 29")
    keep(lab, "page_table_lab_lost")


@pytest.mark.parametrize(("width", "rows"), [(1000, 2), (1440, 2), (1920, 6)])
def test_what_a_step_writes_is_in_sight(open_lab: Callable[..., LabNotebook], width: int, rows: int) -> None:
    many = "import sglab\nbatch = sglab.decode_batch([300, 1000, 77, 2048] * 8, page_size=64)"
    lab = open_lab([many, "sglab.widgets.PageTable(batch)"], width=width, height=900)
    lab.run(0)
    lab.run(1)
    widget = lab.page.locator(".sg-widget[data-ready]")
    widget.focus()
    for _ in range(3):
        lab.page.keyboard.press("ArrowRight")
    expect(widget.locator(".sg-sentence")).to_contain_text("wrote 64")
    view, written = (widget.locator(name).bounding_box() for name in (".sg-view", ".pt-output .sg-cells"))
    assert view and written
    assert written["y"] + written["height"] <= view["y"] + view["height"] + 1
    assert written["height"] >= 16 + 22 * rows  # the columns' numbers, and the rows


@pytest.mark.parametrize("width", [1000, 1440, 1920])
def test_the_line_that_a_step_runs_is_in_sight(open_lab: Callable[..., LabNotebook], width: int) -> None:
    lab = open_lab(CELLS[:2], width=width, height=900)
    lab.run(0)
    lab.run(1)
    widget = lab.page.locator(".sg-widget[data-ready]")
    widget.get_by_role("tab", name="Source of the kernel").click()
    widget.focus()
    lab.page.keyboard.press("End")
    expect(widget.locator(".pt-line[data-mark=W]")).to_be_attached()
    lab.page.evaluate(DRAWN)
    view, marked = (widget.locator(name).bounding_box() for name in (".sg-view", ".pt-line[data-mark=W]"))
    assert view and marked
    assert view["y"] <= marked["y"] and marked["y"] + marked["height"] <= view["y"] + view["height"] + 1
