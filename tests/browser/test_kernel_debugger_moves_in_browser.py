"""KernelDebugger in a real browser: moves: steps, runs, the slider, what others have selected and what Python does."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytest.importorskip("torch")

from sglab.emulator import moves
from sglab.widgets import KernelDebugger, selection
from sglab.widgets.kernel_debugger import jobs
from tests.support.browser.debugger_page import at, frame, here, make, ptx_line, show, source_line
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host
from tests.support.launches.session_lines import ATOMIC, SYNC


@pytest.fixture
def widget() -> KernelDebugger:
    return make()


def test_a_step_moves_both_listings_and_says_what_happened(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    for position in range(1, 4):
        frame(page).press("ArrowRight")
        at(page, position)
    last = widget.session.last
    assert last is not None
    expect(page.locator("output.sg-sentence")).to_have_text(
        f"Warp 0 of CTA 0 executed {last.instruction.opcode} (session.cu:{last.instruction.source[1]})."
    )
    expect(ptx_line(page, here(widget).ptx_line)).to_have_attribute("data-current", "now")
    expect(source_line(page, here(widget).source[1])).to_have_attribute("data-current", "now")
    frame(page).press("ArrowLeft")
    at(page, 2)


@pytest.mark.parametrize("size", ["warp", "line", "event"])
def test_step_sizes_are_the_sessions(host: Host, widget: KernelDebugger, size: str) -> None:
    page = show(host, widget)
    page.get_by_label("Step size").select_option(size)
    other = make()
    expected = [other.go(size, {"cta": 0, "warp": 0})["position"] for _ in range(4)]
    page.locator(".kd-warp").first.click()
    for position in expected:
        frame(page).press("ArrowRight")
        at(page, position)


def test_the_slider_seeks_and_the_end_is_reached(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.get_by_label("Position").fill("300")
    at(page, 300)
    frame(page).press("End")
    expect(page.locator("output.sg-sentence")).to_contain_text("The launch has ended after")
    frame(page).press("Home")
    at(page, 0)


def test_warps_are_focused_by_press_key_and_selection(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.locator(".kd-warp").nth(2).click()
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 2 of CTA 0")
    expect(page.locator(".kd-warps")).to_contain_text("chosen by you · Esc: the one that runs")
    assert selection.value == {"cta": 0, "warp": 2, "moment": 0, "launch": widget.launch_name}
    frame(page).press("ArrowDown")
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 3 of CTA 0")
    selection.set(cta=0, warp=1)
    host.flush()
    expect(page.locator(".kd-warp[aria-pressed=true]")).to_contain_text("1")
    frame(page).press("Escape")
    assert selection.value == {}
    expect(page.locator(".kd-warps")).to_contain_text("nothing has run: the first is shown")
    frame(page).press("ArrowRight")
    expect(page.locator(".kd-warps")).to_contain_text("the one that ran last is shown")


def test_opened_after_its_end_a_launch_offers_no_cta_and_names_no_warp(host: Host) -> None:
    """An empty list stood there, and a hint about the warp that is shown."""
    widget = make()
    widget.session.run()
    page = show(host, widget)
    warps = page.locator(".sg-details")
    expect(warps).to_contain_text("No CTA is running")
    assert warps.locator("select").evaluate_all("all => all.filter(one => one.offsetParent).length") == 0
    assert "shown" not in warps.inner_text()


def test_opening_a_debugger_moves_nothing(host: Host) -> None:
    """A cell that shows a session which has run must not drag along what the reader looks at elsewhere."""
    widget = make()
    selection.set(cta=0, warp=3, moment=123)
    widget.session.seek(40)  # later than the selection, which would be gone to: test_widgets_together
    page = show(host, widget)
    at(page, 40)
    assert selection.value == {"cta": 0, "warp": 3, "moment": 123}
    frame(page).press("ArrowRight")
    expect(page.locator(".sg-widget")).not_to_have_attribute("data-position", "40")
    assert selection.value["moment"] == widget.session.now


def test_a_moment_selected_elsewhere_is_gone_to(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    selection.set(cta=0, warp=3, moment=123)
    host.flush()
    at(page, 123)
    assert widget.session.now == 123
    frame(page).press("ArrowRight")
    at(page, 124)
    assert selection.value["moment"] == 124


def test_playing_steps_on_until_it_is_paused(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.get_by_label("Speed").select_option("20")
    frame(page).press(" ")
    page.wait_for_function("document.querySelector('.sg-widget').dataset.position >= 3")
    frame(page).press(" ")
    expect(page.get_by_role("button", name="Play (Space)")).to_be_visible()
    assert widget.session.now >= 3


def test_a_long_run_shows_how_far_it_is_and_can_be_stopped(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    widget = make(grid=200)
    monkeypatch.setattr(jobs, "BUDGET_S", 0.0)
    monkeypatch.setattr(moves, "SLICE_S", 0.0)  # slices stay as short as they are
    widget._jobs._mover.slices.size = 64
    page = show(host, widget)
    frame(page).press("r")
    expect(page.locator(".sg-toolbar [role=status]")).to_contain_text("Running: at")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()
    assert 0 < widget.session.now < widget._jobs.length
    at(page, widget.session.now)


def test_run_to_the_cursor(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, ATOMIC).locator(".kd-text").click()
    frame(page).press("t")
    expect(page.locator("output.sg-sentence")).to_contain_text(f"(session.cu:{ATOMIC})")
    assert here(widget).source[1] == ATOMIC


def test_python_moves_the_session_and_the_page_follows(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    widget.session.step(count=7)
    host.flush()
    at(page, 7)


def test_two_views_show_the_same_moment(host: Host, widget: KernelDebugger) -> None:
    show(host, widget, "one")
    page = show(host, widget, "two")
    page.locator("#one .sg-widget").press("ArrowRight")
    for view in ("one", "two"):
        expect(page.locator(f"#{view} .sg-widget")).to_have_attribute("data-position", "1")


def test_a_step_asks_python_once(host: Host, widget: KernelDebugger) -> None:
    """What a step shows comes with the answer to it."""
    page = show(host, widget)
    settled(page)
    for _ in range(5):
        asked, position = host.questions, widget.session.now
        frame(page).press("ArrowRight")
        expect(frame(page)).to_have_attribute("data-position", str(position + 1))
        settled(page)
        assert host.questions == asked + 1


def test_what_is_selected_crosses_with_a_step(host: Host, widget: KernelDebugger) -> None:
    """A message of its own would make the notebook busy once more."""
    page = show(host, widget)
    selection.set(cta=0, warp=1, moment=4)
    host.flush()
    at(page, 4)
    settled(page)
    messages: list[object] = []
    widget.observe(messages.append, "selected")
    frame(page).press("ArrowRight")
    at(page, 5)
    settled(page)
    assert selection.value == {"cta": 0, "warp": 1, "moment": 5, "launch": widget.launch_name}
    assert messages == []
    source_line(page, SYNC).locator(".kd-line-number").click()
    frame(page).press("r")  # it stops for another warp, which is then the one that is selected
    expect(page.locator("output.sg-sentence")).to_contain_text("Breakpoint 1")
    settled(page)
    assert selection.value["moment"] == widget.session.now
