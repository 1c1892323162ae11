"""Widgets at 1000, 1440 and 1920 px: nothing is cut, and what is asked for is in sight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.every_widget import MAKERS
from tests.support.browser.patience import settled

pytest.importorskip("triton")
import torch

import sglab
from sglab.widgets import KernelDebugger

NARROW = 836
"""px of page that give a widget what JupyterLab at 1000 px does"""
Saved = Callable[[str], Path]
PARTS_IN_SIGHT = """(subject) => {
  const box = subject.getBoundingClientRect();
  const parts = [...subject.querySelectorAll("span")].map((each) => [each, each.getBoundingClientRect()]);
  const seen = parts.filter(([, part]) => part.top < box.bottom - 2);
  return {
    seen: seen.length,
    all: parts.length,
    cut: seen.filter(([each, part]) => part.right > box.right + 1 || each.scrollWidth > each.clientWidth + 1)
      .map(([each]) => each.textContent),
  };
}"""


def opened(page: Page, path: Path, width: int, height: int = 900) -> Locator:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(path.as_uri())
    settled(page)
    return page.locator(".sg-widget").first


def bottom(widget: Locator, selector: str) -> float:
    box = widget.locator(selector).first.bounding_box()
    assert box is not None
    return box["y"] + box["height"]


@pytest.mark.parametrize("name", ["BackendExplorer", "WarpRoles", "Barriers", "SplitKV", "TensorMemory"])
def test_what_is_shown_is_said_in_whole_parts(name: str, page: Page, saved: Saved) -> None:
    widget = opened(page, saved(name), NARROW)
    subject = widget.locator(".sg-subject")
    parts = subject.evaluate(PARTS_IN_SIGHT)
    assert parts["seen"] >= 1
    assert parts["cut"] == []
    assert subject.get_attribute("title") == subject.text_content(), "what has no room is read on hover"
    page.set_viewport_size({"width": 1440, "height": 900})
    settled(page)
    parts = subject.evaluate(PARTS_IN_SIGHT)
    assert parts["seen"] == parts["all"]


@pytest.mark.parametrize("width", [NARROW, 1440])
def test_the_ring_of_the_picture_in_focus_lies_across_none_of_its_texts(width: int, page: Page, saved: Saved) -> None:
    widget = opened(page, saved("SplitKV"), width)
    view = widget.locator(".sg-view")
    view.focus()
    page.keyboard.press("ArrowRight")
    assert view.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    assert view.evaluate("e => getComputedStyle(e).outlineOffset") == "1px"
    cut = """(view) => {
      let box = view;
      while ((box = box.parentElement)) {
        if (getComputedStyle(box).overflowX === "visible") continue;
        const [inner, outer] = [view, box].map((each) => each.getBoundingClientRect());
        return inner.left - 3 < outer.left || inner.right + 3 > outer.right;
      }
      return false;
    }"""
    assert not view.evaluate(cut), "the box around it cuts the ring off"


@pytest.mark.parametrize("width", [NARROW, 1440])
def test_the_last_merge_and_what_it_comes_to_are_in_sight(width: int, page: Page, saved: Saved) -> None:
    widget = opened(page, saved("OnlineSoftmax"), width)
    if width == NARROW:
        widget.press("Escape")  # the notice that a saved page has
    widget.press("End")
    settled(page)
    expect(widget.locator(".sgs-node")).to_have_count(7)
    edge = bottom(widget, ".sg-view") if width > NARROW else bottom(widget, ".sg-body")
    assert bottom(widget, '.sgs-node[data-node="6"]') <= edge
    assert bottom(widget, ".sgs-conclusion") <= edge


def test_the_axis_of_an_error_has_one_notation(page: Page, saved: Saved) -> None:
    widget = opened(page, saved("OnlineSoftmax"), 1440)
    widget.press("Home")
    for _ in range(8):
        widget.press("ArrowRight")
    settled(page)
    charts = widget.locator(".sgs-chart")
    for chart in charts.all():
        ends = [text for text in chart.locator(".sgs-axis").all_text_contents() if not text.isdigit()]
        assert len({"%" in text for text in ends if text != "tile"}) <= 1, ends


@pytest.mark.parametrize("width", [NARROW, 1440, 1920])
def test_a_small_radix_tree_leaves_no_hole(width: int, page: Page, saved: Saved) -> None:
    widget = opened(page, saved("RadixTree"), width)
    widget.press("End")  # the tree at its tallest asks for its room
    widget.press("Home")
    widget.press("e")
    settled(page)
    below = bottom(widget, ".srt-order")
    if width > NARROW:
        pool, picture, order = (widget.locator(f".srt-{each}").bounding_box() for each in ("pool", "scroll", "order"))
        assert pool is not None and picture is not None and order is not None
        assert picture["y"] - pool["y"] - pool["height"] < 12, "the tree follows the pool"
        assert order["y"] - picture["y"] - picture["height"] < 12, "what would go follows the tree"
    else:
        tabs = widget.locator(".sg-details .sg-tabs").bounding_box()
        assert tabs is not None
        assert tabs["y"] - below < 60, "the details follow the picture"
        legend = widget.locator(".sg-legend").bounding_box()
        assert legend is not None
        assert legend["y"] - tabs["y"] > 150, "and are in sight"


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "KernelDebugger"])
def test_the_details_of_a_narrow_widget_are_in_sight(name: str, page: Page, saved: Saved) -> None:
    """They were far below the picture, so that a press in it seemed to do nothing."""
    widget = opened(page, saved(name), NARROW)
    if widget.get_by_label("Dismiss (Esc)").count():
        widget.get_by_label("Dismiss (Esc)").first.click()  # the notice that a saved page has
    expect(widget.locator(".sg-view")).to_be_visible()  # Roofline's comes with its library
    settled(page)
    view, details, body = (widget.locator(each).bounding_box() for each in (".sg-view", ".sg-details", ".sg-body"))
    assert view is not None and details is not None and body is not None
    assert view["height"] >= 140
    assert details["height"] >= 110
    assert details["y"] + details["height"] <= body["y"] + body["height"] + 1


@pytest.mark.parametrize(("name", "last"), [("RadixTree", ".srt-order"), ("Graph", ".sgr-below")])
def test_what_stands_below_a_picture_ends_before_the_details(name: str, last: str, page: Page, saved: Saved) -> None:
    widget = opened(page, saved(name), NARROW)
    widget.press("End")
    settled(page)
    details = widget.locator(".sg-details").bounding_box()
    assert details is not None
    assert bottom(widget, last) <= details["y"]


def test_a_rooflines_tabs_and_their_first_lines_are_in_sight_below_a_narrow_picture(page: Page, saved: Saved) -> None:
    widget = opened(page, saved("Roofline"), NARROW)
    expect(widget.locator(".main-svg").first).to_be_visible()
    settled(page)
    tabs = widget.locator(".sg-details .sg-tabs").bounding_box()
    legend = widget.locator(".sg-legend").bounding_box()
    assert tabs is not None and legend is not None
    assert legend["y"] - tabs["y"] > 120


@pytest.mark.parametrize("width", [NARROW, 1440])
def test_collectives_are_named_in_full_below_their_bars(width: int, page: Page, saved: Saved) -> None:
    widget = opened(page, saved("Ranks"), width)
    axis = widget.get_by_label("axis")
    if axis.input_value() != "order":
        axis.select_option("order")
    settled(page)
    names = widget.locator(".srk-timeline .srk-axis").all_text_contents()
    assert any("SUM_LEN" in name for name in names)
    assert [name for name in names if "…" in name] == []


@pytest.mark.parametrize("name", ["Experts", "SparseAttention"])
def test_the_darkest_swatch_has_an_edge(name: str, page: Page, saved: Saved) -> None:
    page.emulate_media(color_scheme="dark")
    widget = opened(page, saved(name), 1000)
    shadow = widget.locator(".sg-legend .sg-swatch").first.evaluate("e => getComputedStyle(e).boxShadow")
    assert "inset" in shadow


def test_the_axis_of_sparse_attentions_chart_is_whole(page: Page, saved: Saved) -> None:
    widget = opened(page, saved("SparseAttention"), NARROW)
    overlap = """(chart) => {
      const all = [...chart.querySelectorAll("text")].map((each) => each.getBoundingClientRect());
      const svg = chart.querySelector("svg").getBoundingClientRect();
      const lowest = Math.max(...all.map(({ bottom }) => bottom));
      const name = all.find(({ bottom }) => bottom === lowest);
      return { cut: lowest - svg.bottom, over: Math.max(...all.filter((each) => each !== name
        && each.right > name.left && each.left < name.right).map((each) => each.bottom - name.top)) };
    }"""
    found = widget.locator(".ssp-chart").evaluate(overlap)
    assert found["cut"] <= 0
    assert found["over"] <= 1


def test_the_choice_of_warps_stays_while_their_list_scrolls(page: Page, saved: Saved) -> None:
    widget = opened(page, saved("KernelDebugger"), 1440)
    pane = widget.locator(".sg-details")
    pane.evaluate("e => { e.scrollTop = e.scrollHeight }")
    assert pane.evaluate("e => e.scrollTop") > 20
    box, bar = pane.bounding_box(), pane.locator(".kd-bar").first.bounding_box()
    assert box is not None and bar is not None
    assert bar["y"] >= box["y"] - 1


def test_ptx_without_a_source_has_the_room_for_it_in_a_low_pane(page: Page, tmp_path: Path) -> None:
    kernel = sglab.ptx(
        ".version 8.5\n.target sm_90\n.address_size 64\n.visible .entry one(.param .u64 x) {\n"
        ".reg .b64 %d<4>;\n.reg .b32 %r<3>;\nld.param.u64 %d1, [x];\nmov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %d2, %r1, 4;\nadd.u64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r1;\nret;\n}"
    )
    saved = KernelDebugger(sglab.step(kernel[1, 64], torch.zeros(64))).save(tmp_path / "ptx.html")
    widget = opened(page, saved, 1440, 560)
    codes = widget.locator(".kd-codes")
    expect(codes).to_contain_text("no line information")
    ptx = widget.get_by_label("PTX", exact=True).last.bounding_box()
    assert ptx is not None
    assert ptx["height"] > 50, "three lines"
