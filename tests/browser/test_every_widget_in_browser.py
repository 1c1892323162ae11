"""What all widgets have to keep, each on a real run: room, accessibility, keyboard, saved pages, messages."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import TEXT_OVERLAPS, Host

pytest.importorskip("triton")

from sglab import widgets
from sglab.widgets import Widget, selection
from tests.support.browser.every_widget import MAKERS, OF_SESSIONS
from tests.support.launches.memory_sessions import failing, no_tensor_memory

TALL = 2400
every_widget = pytest.mark.parametrize("name", list(MAKERS))

OUTLINES = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return `${outlineStyle} ${outlineWidth}`;
}"""
FOCUS_NEXT = """() => {
  const { activeElement } = document;
  const again = activeElement === document.body || activeElement.dataset.reached;
  activeElement.dataset.reached = "yes";
  return !again;
}"""
UNREACHED = """() => {
  const skipped = (each) => {
    // Arrows go from one to the next.
    const group = each.closest("[role=radiogroup], [role=tablist], .sg-timeline, .sbe-table, .kd-warps");
    return group && (group.matches(".sg-timeline") || group.querySelector("[data-reached]"));
  };
  return [...document.querySelectorAll(".sg-widget :is(button, select, input, a[href], summary)")]
    .filter((each) => each.checkVisibility() && !each.disabled && !each.dataset.reached && !skipped(each))
    .map((each) => each.outerHTML);
}"""

TRANSITIONS = """() => {
  const all = [...document.querySelectorAll(".sg-widget *")];
  return [...new Set(all.map((each) => getComputedStyle(each).transitionDuration))];
}"""


def show(host: Host, widget: Widget, place: str = "widget") -> Locator:
    host.show(widget, place)
    return drawn(host.page, f"#{place} .sg-widget")


def drawn(page: Page, selector: str = ".sg-widget") -> Locator:
    """The widget, once it has read what it shows and drawn it."""
    widget = page.locator(selector)
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    expect(widget.locator(".sg-body")).to_be_visible()
    settled(page)
    return widget


@every_widget
@pytest.mark.parametrize("width", [900, 1800])
def test_axe_finds_nothing_and_no_text_overlaps_another(
    page: Page, saved: Callable[[str], Path], axe: Callable[[Page], list[str]], name: str, width: int
) -> None:
    page.add_init_script(path=TEXT_OVERLAPS)
    page.set_viewport_size({"width": width, "height": TALL})
    page.goto(saved(name).as_uri())
    widget = drawn(page)
    for key in ("Home", "ArrowDown", "ArrowRight", "End"):
        widget.press(key)
        settled(page)
        assert page.evaluate("textOverlaps()") == [], key
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), key
    for _ in ("light", "dark"):
        assert axe(page) == []
        page.locator("#theme").click()
        settled(page)


@every_widget
def test_tab_reaches_every_control_and_shows_where_it_is(page: Page, saved: Callable[[str], Path], name: str) -> None:
    page.set_viewport_size({"width": 1200, "height": TALL})
    page.goto(saved(name).as_uri())
    widget = drawn(page)
    widget.press("ArrowDown")
    widget.press("ArrowRight")
    settled(page)
    page.locator("#theme").focus()
    page.keyboard.press("Tab")
    while page.evaluate(FOCUS_NEXT):
        assert page.evaluate(OUTLINES) == "solid 2px"
        page.keyboard.press("Tab")
    assert page.evaluate(UNREACHED) == []


@every_widget
def test_nothing_moves_by_itself_where_motion_is_reduced(page: Page, saved: Callable[[str], Path], name: str) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(saved(name).as_uri())
    widget = drawn(page)
    for key in ("ArrowRight", "ArrowDown", "End", "Home"):
        widget.press(key)
        assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate(TRANSITIONS) == ["0s"]


@every_widget
def test_a_saved_page_is_small_fetches_nothing_and_steps(page: Page, saved: Callable[[str], Path], name: str) -> None:
    path = saved(name)
    assert path.stat().st_size < 5_000_000
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    widget = drawn(page)
    counter = widget.locator(".sg-counter")
    widget.press("Home")
    expect(counter).to_have_text(re.compile(r"step 0\b"))
    before = counter.inner_text()
    widget.press("ArrowRight")
    expect(counter).not_to_have_text(before)
    assert [url for url in requested if not url.startswith(("file:", "blob:", "data:"))] == []


@every_widget
def test_two_views_disposed_of_leave_nothing_behind(host: Host, name: str) -> None:
    widget = MAKERS[name]()
    for place in ("first", "second", "reopened"):
        show(host, widget, place).press("ArrowRight")
        if place == "second":
            dispose(host, "first")
            dispose(host, "second")
    dispose(host, "reopened")
    assert host.page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0
    assert host.page.locator(".sg-widget").count() == 0


def dispose(host: Host, place: str) -> None:
    host.page.evaluate("place => document.getElementById(place).sglabDispose()", place)


@every_widget
def test_a_closed_widget_is_forgotten_by_python(name: str) -> None:
    widget = MAKERS[name]()
    session, alive = getattr(widget, "session", None), weakref.ref(widget)
    selection.set(request=0)
    widget.close()
    del widget
    gc.collect()
    assert alive() is None
    if session:
        session.step()  # notifies its followers
        assert session.now > 0


@every_widget
def test_a_trace_of_another_version_says_what_to_do(host: Host, name: str) -> None:
    widget = MAKERS[name]()
    widget.version = 99
    host.show(widget)
    alert = host.page.get_by_role("alert")
    expect(alert).to_contain_text(f"{widget.header['title']} cannot show this trace: it has format 99")
    expect(alert).to_contain_text("restart the kernel and run the cells again")


@every_widget
def test_a_restarted_kernel_is_reported_and_the_picture_stays(host: Host, name: str) -> None:
    widget = MAKERS[name]()
    shown = show(host, widget)
    host.alive = False
    host.page.evaluate("id => sglabHost.models.get(id).emit('comm_live_update')", widget.model_id)
    for key in ("ArrowRight", "End"):
        shown.press(key)
        settled(host.page)
    if name in ("WarpRoles", "Barriers"):  # a whole recording is loaded
        expect(shown.get_by_role("button", name="To the end (End)")).to_be_disabled()
    notice = shown.locator(".sg-notice")
    expect(notice).to_contain_text("the Python kernel was restarted or stopped")
    expect(notice).to_contain_text("run the cells again from the top")
    expect(shown.locator(".sg-body")).to_be_visible()


@pytest.mark.parametrize("name", OF_SESSIONS)
def test_a_failed_kernel_is_reported_with_what_to_do(host: Host, name: str) -> None:
    host.show(getattr(widgets, name)(failing()))
    shown = host.page.locator("#widget .sg-widget")
    settled(host.page)  # without barriers there is a sentence in the picture's place
    shown.press("End")
    expect(shown.locator(".sg-notice")).to_contain_text("the kernel executed trap")
    expect(shown.locator(".sg-notice")).to_contain_text(re.compile("steps? back", re.IGNORECASE))


@pytest.mark.parametrize("name", ["TensorMemory", "SharedMemory"])
def test_a_failed_kernel_stays_reported_until_the_reader_closes_it(host: Host, name: str) -> None:
    host.show(getattr(widgets, name)(failing()))
    shown = host.page.locator("#widget .sg-widget")
    notice = shown.locator(".sg-notice")
    expect(notice).to_contain_text("the kernel executed trap")
    shown.press("ArrowRight")
    shown.press("Escape")  # clears the selection
    expect(notice).to_contain_text("the kernel executed trap")
    shown.press("Control+z")
    shown.press("Control+z")
    expect(notice).to_contain_text("There is nothing to undo here.")
    shown.press("Escape")
    expect(notice).to_contain_text("the kernel executed trap")
    notice.get_by_role("button").click()
    expect(notice).to_be_empty()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Barriers", "record a kernel whose warps wait for each other"),
        ("TensorMemory", "SharedMemory shows this launch's other memory"),
        ("SharedMemory", "WarpRoles and KernelDebugger show what this launch does"),
    ],
)
def test_a_launch_without_what_a_widget_shows_says_what_would_show_it(host: Host, name: str, text: str) -> None:
    host.show(getattr(widgets, name)(no_tensor_memory()))
    expect(host.page.locator(".sg-placeholder")).to_contain_text(text)
