"""Widgets on a page of 1,000 px: what stands in one line does, and nothing touches."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Page

pytest.importorskip("torch")

TEXT_EDGES = """elements => elements.map(element => {
  const range = document.createRange();
  range.selectNodeContents(element);
  const { left, right } = range.getBoundingClientRect();
  return [left, right];
})"""


@pytest.fixture
def opened(page: Page, saved: Callable[[str], Path]) -> Callable[[str], Page]:
    def open_page(name: str) -> Page:
        page.set_viewport_size({"width": 1000, "height": 800})
        page.goto(saved(name).as_uri())
        return page

    return open_page


def test_registers_are_in_sight_in_a_low_narrow_notebook(opened: Callable[[str], Page]) -> None:
    """JupyterLab leaves a cell's output 860 of 1,000 pixels, where panes stood one below the other."""
    page = opened("KernelDebugger")
    page.set_viewport_size({"width": 880, "height": 760})
    registers = page.locator(".kd-registers")
    registers.get_by_text("Registers of warp 0").wait_for()
    box = registers.bounding_box()
    transport = page.locator(".sg-transport").bounding_box()
    assert box is not None
    assert transport is not None
    assert box["height"] >= 100
    assert box["y"] + box["height"] <= transport["y"] + 1, (box, transport)


def test_headings_of_barriers_do_not_touch(opened: Callable[[str], Page]) -> None:
    headings = opened("Barriers").locator(".sbr-heading > span")
    headings.first.wait_for()
    edges = headings.evaluate_all(TEXT_EDGES)
    assert len(edges) == 4
    assert all(left - right >= 8 for (_, right), (left, _) in pairwise(edges)), edges


def test_the_menus_of_registers_stand_beside_their_heading(opened: Callable[[str], Page]) -> None:
    bar = opened("KernelDebugger").locator(".kd-registers .kd-bar")
    bar.get_by_text("Registers of warp 0").wait_for()
    boxes = [bar.locator(selector).bounding_box() for selector in (".sg-heading", ".kd-filter", "select >> nth=-1")]
    middles = [box["y"] + box["height"] / 2 for box in boxes if box is not None]
    assert len(middles) == 3
    assert max(middles) - min(middles) < 4, boxes
