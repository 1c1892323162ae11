"""What a newcomer meets in every widget: it fits the screen, starts simple, tells five presses, saves its picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.patience import PATIENCE_MS, QUIET, settled
from tests.support.browser.widget_host import more

pytest.importorskip("triton")

from tests.support.browser.every_widget import MAKERS

every_widget = pytest.mark.parametrize("name", list(MAKERS))
FITS = 780
"""px of height, in a window of 1440 × 900."""


@every_widget
def test_it_fits_the_screen_and_a_picture_of_it_is_saved(page: Page, saved: Callable[[str], Path], name: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(saved(name).as_uri())
    widget = page.locator(".sg-widget")
    expect(widget.locator(".sg-body")).to_be_visible()
    settled(page)
    box = widget.bounding_box()
    assert box is not None and box["height"] <= FITS
    assert widget.locator(".sg-toolbar > *:visible").count() <= 5
    expect(widget.locator(".sg-more")).to_be_hidden()
    expect(widget.locator(".sg-legend, .stm-legend, .ssm-key").first).to_be_visible()
    more(widget)
    for kind, begin in (("PNG", b"\x89PNG"), ("SVG", b"<svg")):
        with page.expect_download() as download:
            widget.get_by_role("button", name=kind, exact=True).click()
        assert Path(download.value.path()).read_bytes().startswith(begin)


CANVASES = """svg => Promise.all(
  [...new DOMParser().parseFromString(svg, "image/svg+xml").querySelectorAll("img")]
    .filter(image => image.getAttribute("src"))  // others were never shown
    .map(async image => {
      const drawn = Object.assign(new Image(), { src: image.getAttribute("src") });
      await drawn.decode();
      return drawn.naturalWidth / parseFloat(image.style.width);
    }))"""


@pytest.mark.parametrize("name", ["PageTable", "WarpRoles", "OnlineSoftmax", "SharedMemory", "TensorMemory", "Layout"])
def test_canvases_of_a_saved_picture_have_two_pixels_for_one(
    page: Page, saved: Callable[[str], Path], name: str
) -> None:
    page.goto(saved(name).as_uri())
    settled(page)
    widget = page.locator(".sg-widget")
    more(widget)
    with page.expect_download() as download:
        widget.get_by_role("button", name="SVG", exact=True).click()
    ratios = page.evaluate(CANVASES, Path(download.value.path()).read_text())
    assert ratios and min(ratios) > 1.9
    settled(page)
    shown = "canvases => canvases.filter(each => each.clientWidth).map(each => each.width / each.clientWidth)"
    assert max(widget.locator("canvas").evaluate_all(shown)) < 1.1  # again as the screen needs them


def test_panes_are_dragged_and_put_back(page: Page, saved: Callable[[str], Path]) -> None:
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(saved("WarpRoles").as_uri())
    settled(page)
    details, bar = page.locator(".sg-details"), page.get_by_role("separator", name="Width of the details")
    before = details.bounding_box()
    bar.focus()
    page.keyboard.press("ArrowLeft")
    wider = details.bounding_box()
    assert before is not None and wider is not None and wider["width"] == pytest.approx(before["width"] + 24, abs=1)
    bar.dblclick()
    again = details.bounding_box()
    assert again is not None and again["width"] == pytest.approx(before["width"], abs=1)


@pytest.mark.parametrize("name", ["PageTable", "SharedMemory", "TensorMemory"])
def test_after_a_press_in_a_picture_arrows_still_step(page: Page, saved: Callable[[str], Path], name: str) -> None:
    page.goto(saved(name).as_uri())
    settled(page)
    widget = page.locator(".sg-widget")
    widget.press("Home")
    widget.locator(".sg-cells, .stm-map").first.click(position={"x": 150, "y": 60})
    page.keyboard.press("ArrowRight")
    expect(widget.locator(".sg-counter")).not_to_have_text("step 0 of")
    expect(widget.locator(".sg-counter")).to_contain_text("step 1 of")


def test_the_first_steps_are_told_one_by_one_skipped_and_told_again(
    browser: Browser, saved: Callable[[str], Path]
) -> None:
    """In a browser that has seen none of them."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(path=QUIET)
    page = context.new_page()
    page.goto(saved("PageTable").as_uri())
    tour, widget = page.locator(".sg-tour"), page.locator(".sg-widget")
    expect(tour).to_contain_text("1 of 5 Press →")
    widget.press("ArrowRight")
    expect(tour).to_contain_text("2 of 5")
    do_it = tour.get_by_role("button", name="Do it")
    do_it.click()
    expect(tour).to_contain_text("3 of 5 Press Space")
    do_it.click()  # plays
    expect(widget.get_by_role("button", name="Pause")).to_be_visible()
    expect(tour).to_contain_text("3 of 5")
    do_it.click()  # and stops
    expect(widget.get_by_role("button", name="Play")).to_be_visible()
    expect(tour).to_contain_text("4 of 5")
    do_it.click()
    expect(tour).to_contain_text("5 of 5")
    tour.get_by_role("button", name="Skip").click()
    expect(tour).to_be_hidden()
    assert widget.evaluate("e => e === document.activeElement"), "keys stay with the widget, not JupyterLab's cells"
    page.reload()
    settled(page)
    expect(tour).to_be_hidden()
    widget.press("?")
    page.get_by_role("dialog").get_by_role("button", name="first steps").click()
    expect(tour).to_contain_text("1 of 5")
    context.close()


@pytest.mark.parametrize(("name", "step"), [("SharedMemory", 3), ("TensorMemory", 2)])
def test_the_first_steps_press_in_pictures_and_begin_at_the_beginning(
    page: Page, saved: Callable[[str], Path], name: str, step: int
) -> None:
    """A widget of a launch that has ended stands at the end, where a step would show nothing."""
    page.goto(saved(name).as_uri())
    settled(page)
    widget, tour = page.locator(".sg-widget"), page.locator(".sg-tour")
    widget.press("End")
    settled(page)
    widget.press("?")
    page.get_by_role("dialog").get_by_role("button", name="first steps").click()
    expect(tour).to_contain_text("1 of 5 Press Home, then →")
    do_it = tour.get_by_role("button", name="Do it")
    do_it.click()
    expect(widget.locator(".sg-counter")).to_contain_text("step 1 of")
    for at in range(2, step + 1):
        expect(tour).to_contain_text(f"{at} of 5")
        expect(widget.locator(".sg-details")).to_contain_text("Press a c")
        do_it.click()
        settled(page)
    expect(widget.locator(".sg-details")).not_to_contain_text("Press a c")
