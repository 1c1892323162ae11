"""Short texts that say what to write, or how long somebody waits, are not cut off."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.browser.patience import settled

pytest.importorskip("triton")

SEARCH_BUTTON = 18
"""px that Chromium keeps for the button that clears a search field"""
CUT_PLACEHOLDERS = """(button) => {
  const pen = document.createElement("canvas").getContext("2d");
  const fields = [...document.querySelectorAll(".sg-widget input[placeholder]")];
  return fields.filter((each) => {
    const style = getComputedStyle(each);
    pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    const room = each.clientWidth - padding - (each.type === "search" ? button : 0);
    return each.checkVisibility() && pen.measureText(each.placeholder).width > room;
  }).map((each) => each.placeholder);
}"""
CUT_WAITS = """() => [...document.querySelectorAll(".sbr-since")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"""


@pytest.mark.parametrize("width", [800, 1440])
@pytest.mark.parametrize("name", ["KernelDebugger", "PageTable", "SharedMemory", "TensorMemory", "WarpRoles"])
def test_placeholders(name: str, width: int, page: Page, saved: Callable[[str], Path]) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(saved(name).as_uri())
    page.get_by_role("button", name="More controls").first.click()
    settled(page)
    assert page.evaluate(CUT_PLACEHOLDERS, SEARCH_BUTTON) == []


@pytest.mark.parametrize("width", [800, 1200, 1440])
def test_how_long_a_barriers_warps_have_waited(width: int, page: Page, saved: Callable[[str], Path]) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(saved("Barriers").as_uri())
    settled(page)
    page.locator(".sg-widget").first.click(position={"x": 300, "y": 10})
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    settled(page)
    assert page.locator(".sbr-since:not(:empty)").count() > 0
    assert page.evaluate(CUT_WAITS) == []


@pytest.mark.parametrize("width", [970, 1440])
@pytest.mark.parametrize(
    ("name", "texts"), [("Barriers", ".sg-timeline-label > span:last-child"), ("BackendExplorer", ".sbe-reason")]
)
def test_names_of_barriers_and_reasons_of_refusals_are_whole(
    name: str, texts: str, width: int, page: Page, saved: Callable[[str], Path]
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(saved(name).as_uri())
    settled(page)
    found = page.locator(texts)
    assert found.count() > 3
    assert found.evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent)") == []
