"""On paper a widget is laid out as on the screen, scaled to the page: nothing lies across anything, nothing is cut."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import TEXT_OVERLAPS

pytest.importorskip("triton")

from tests.support.browser.every_widget import MAKERS

PAPER = 718
"""CSS pixels between the margins of A4 as Chromium prints it."""
OUTSIDE = """() => {
  const widget = document.querySelector(".sg-widget");
  const whole = widget.getBoundingClientRect();
  const parts = [...widget.children].filter((each) => each.checkVisibility()
    && !each.matches(".sg-spoken, .sg-tooltip"));
  return parts.filter((each) => {
    const box = each.getBoundingClientRect();
    return box.height > 0 && (box.right > whole.right + 1 || box.bottom > whole.bottom + 1);
  }).map((each) => each.className);
}"""
ACROSS = """() => {
  const parts = [...document.querySelectorAll(".sg-widget > *")].filter((each) => each.checkVisibility());
  const boxes = parts.map((each) => [each.className, each.getBoundingClientRect()]).filter(([, box]) => box.height > 0);
  return boxes.slice(1).flatMap(([name, box], i) => box.top < boxes[i][1].bottom - 1 ? [[boxes[i][0], name]] : []);
}"""

LOST = """() => {
  const marks = [...document.querySelectorAll(".sg-widget :is(i, span, div):empty")].filter((each) =>
    each.checkVisibility() && !each.matches(".sg-splitter, .sg-grip"));
  return marks.filter((each) => {
    const { backgroundColor, backgroundImage, printColorAdjust } = getComputedStyle(each);
    const painted = backgroundColor !== "rgba(0, 0, 0, 0)" || backgroundImage !== "none";
    return painted && printColorAdjust !== "exact";
  }).map((each) => each.className);
}"""


def test_paper_is_light_where_the_screen_is_dark(page: Page, saved: Callable[[str], Path]) -> None:
    """The whole picture: what is DOM, and what was drawn for the screen in colours of its own."""
    page.goto(saved("Roofline").as_uri())
    settled(page)
    page.get_by_role("button", name="Dark theme").click()
    page.wait_for_function("getComputedStyle(document.querySelector('.annotation text')).fill == 'rgb(230, 232, 235)'")
    name = page.locator(".annotation text").first
    dark = [page.locator(".sg-widget").evaluate("each => getComputedStyle(each).backgroundColor")]
    dark.append(name.evaluate("each => getComputedStyle(each).fill"))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # nothing is awaited: a browser prints at once
    light = page.evaluate(
        "[getComputedStyle(document.querySelector('.sg-widget')).backgroundColor,"
        " getComputedStyle(document.querySelector('.annotation text')).fill]"
    )
    assert dark == ["rgb(21, 24, 28)", "rgb(230, 232, 235)"]
    assert light == ["rgb(255, 255, 255)", "rgb(31, 35, 40)"]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.wait_for_function("getComputedStyle(document.querySelector('.annotation text')).fill == 'rgb(230, 232, 235)'")


@pytest.mark.parametrize("width", [800, 1440])
@pytest.mark.parametrize("name", list(MAKERS))
def test_a_widget_on_paper(name: str, width: int, page: Page, saved: Callable[[str], Path]) -> None:
    page.add_init_script(path=TEXT_OVERLAPS)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(saved(name).as_uri())
    settled(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate("document.querySelector('.sg-widget').getBoundingClientRect().width") <= PAPER
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(ACROSS) == []
    assert page.evaluate("textOverlaps()") == []
    adjusted = [page.locator(each).first for each in (".sg-widget", ".sg-legend")]
    assert [each.evaluate("each => getComputedStyle(each).printColorAdjust") for each in adjusted] == ["exact"] * 2
    assert [each for each in page.locator(".sg-help, [aria-label^=Dismiss]").all() if each.is_visible()] == []
    assert page.evaluate(LOST) == [], "browsers leave out backgrounds on paper unless told that they carry the meaning"
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.querySelector('.sg-widget').style.cssText").find("print") == -1
