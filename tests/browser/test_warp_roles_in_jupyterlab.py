"""WarpRoles in a real JupyterLab: it keeps its keys, steps, and follows the selection of a cell."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("torch")

CELLS = [
    "from tests.support.launches.recorded import mla_sm100\nimport sglab\nlog = mla_sm100()",
    "sglab.widgets.WarpRoles(log)",
    "sglab.widgets.selection.set(cta=1, warp=9, moment=5000)",
]


def test_stepping_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    page = lab.page
    lab.run(0)
    lab.run(1)
    frame = page.locator(".sg-widget")
    expect(page.locator(".sg-timeline-label").first).to_be_visible()
    frame.press("ArrowRight")
    cells = page.locator(".jp-Cell").count()
    frame.press("b")  # JupyterLab's own shortcut for a new cell
    assert page.locator(".jp-Cell").count() == cells
    frame.press("Control+s")  # what is a host's in every part of it
    expect(page.locator(".lm-TabBar-tab.jp-mod-dirty")).to_have_count(0)
    frame.press("Control+Shift+C")
    expect(page.locator(".jp-ModalCommandPalette input")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".jp-ModalCommandPalette")).to_be_hidden()
    page.get_by_label("Axis").select_option("issue")
    counter = page.locator(".sg-counter")
    for _ in range(15):
        before = counter.inner_text()
        frame.press("ArrowRight")
        expect(counter).not_to_have_text(before)
    lab.run(2)
    expect(page.locator(".sg-counter")).to_contain_text("step 5,000 of")
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text("9 load")
    lab.theme(dark=True)
    expect(frame).to_have_attribute("data-dark", "true")


def test_rows_follow_the_room_until_all_is_in_sight(open_lab: Callable[..., LabNotebook]) -> None:
    width, high = 1440, 1000  # at 900 the rows are as low as they go, and all in sight, too
    lab = open_lab(CELLS[:2], width=width, height=high)
    lab.run(0)
    lab.run(1)
    view = lab.page.locator(".sg-widget .sg-view")
    expect(view.locator("summary")).to_be_visible()
    hidden = "e => e.scrollHeight - e.clientHeight"
    view_hidden = f"({hidden})(document.querySelector('.sg-widget .sg-view'))"
    expect(lab.page.locator(".sg-legend")).not_to_be_empty()
    assert view.evaluate(hidden) <= 1
    heights = "() => [...document.querySelectorAll('.sg-timeline-line')].map((line) => line.offsetHeight)"
    tall = lab.page.evaluate(heights)[0]
    lab.page.set_viewport_size({"width": width, "height": 640})
    lab.page.wait_for_function(f"(tall) => ({heights})()[0] < tall", arg=tall)
    lab.page.set_viewport_size({"width": width, "height": 900})
    lab.page.wait_for_function(f"(tall) => ({heights})()[0] <= tall && {view_hidden} <= 1", arg=tall)
    lab.page.set_viewport_size({"width": width, "height": high})
    lab.page.wait_for_function(f"(tall) => ({heights})()[0] === tall", arg=tall)
    assert view.evaluate(hidden) <= 1


def test_below_the_picture_details_have_room_and_rows_are_as_low_as_they_go(
    open_lab: Callable[..., LabNotebook],
) -> None:
    """In a narrow page both stay in sight; the picture scrolls by what is left of its rows."""
    lab = open_lab(CELLS[:2], width=1000, height=900)
    lab.run(0)
    lab.run(1)
    view, details = (lab.page.locator(f".sg-widget .sg-{part}") for part in ("view", "details"))
    expect(view.locator("summary")).to_be_attached()
    lab.page.wait_for_function("() => document.querySelector('.sg-timeline-line')?.offsetHeight === 12")
    assert details.evaluate("e => e.offsetHeight") >= 120
    assert view.evaluate("e => e.scrollHeight - e.clientHeight") < 120
    view.evaluate("e => e.scrollTo(0, e.scrollHeight)")
    expect(view.locator("summary")).to_be_in_viewport()
