"""KernelDebugger in a real browser: stepping, linked lines, breakpoints, registers, failures, keys, a saved page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more
from tests.support.launches.session_lines import ATOMIC, CLOCK, LOOP_SYNC, SESSION_PTX, SYNC

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator import moves
from sglab.labs.debugging import Decode
from sglab.labs.mla_hang import GuardedDecode
from sglab.labs.pipelines import Pipeline
from sglab.widgets import KernelDebugger, selection
from sglab.widgets.kernel_debugger import jobs

INSIDE = """(line) => {
  const [box, place] = [line.closest("[role=listbox]"), line].map((each) => each.getBoundingClientRect());
  return place.top >= box.top && place.bottom <= box.bottom;
}"""
"""Whether a line is in its listing's window."""


def make(name: str = "reduce", grid: int = 2, **device: Any) -> KernelDebugger:
    out = torch.zeros(1)
    arguments = {
        "reduce": [torch.arange(2000, dtype=torch.float32), out, 2000],
        "clock_and_out_of_bounds": [torch.zeros(128, dtype=torch.int64), 1000],
    }
    emulated = gpu.EmulatedDevice("sm_90a", **device)
    session = gpu.load(SESSION_PTX)[name].session(emulated, grid=grid, block=128, args=arguments[name])
    return KernelDebugger(session, tensors={"out": out})


@pytest.fixture
def widget() -> KernelDebugger:
    return make()


def show(host: Host, widget: KernelDebugger, place: str = "widget") -> Page:
    host.show(widget, place)
    expect(host.page.locator(f"#{place} .kd-line").first).to_be_visible()
    settled(host.page)  # until then lines are drawn again
    shown = host.page.locator(f"#{place} .sg-widget")
    more(shown)
    shown.get_by_label("Step size").select_option("instruction")
    return host.page


def frame(page: Page) -> Locator:
    return page.locator(".sg-widget")


def at(page: Page, position: int) -> None:
    expect(frame(page)).to_have_attribute("data-position", str(position))


def source_line(page: Page, line: int) -> Locator:
    return page.get_by_role("listbox", name="Source").locator(f"[data-line='{line}']")


def ptx_line(page: Page, line: int) -> Locator:
    return page.get_by_role("listbox", name="PTX").locator(f"[data-line='{line}']")


def here(widget: KernelDebugger, warp: int = 0, cta: int = 0) -> Any:
    return widget.session.warp(warp, cta).groups[0].at


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


def test_lines_are_linked_both_ways(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, SYNC).locator(".kd-text").hover()
    linked = page.get_by_role("listbox", name="PTX").locator("[data-linked]")
    source_line(page, SYNC).locator(".kd-text").click()
    expect(linked.first).to_be_visible()
    pcs = widget.session.code.find(line=SYNC)
    shown = {int(row.get_attribute("data-line") or 0) for row in linked.all()}
    assert shown <= {widget.session.code[pc].ptx_line for pc in pcs}
    first = min(shown)
    ptx_line(page, first).locator(".kd-text").hover()
    expect(source_line(page, SYNC)).to_have_attribute("data-linked", "")


@pytest.mark.parametrize("width", [900, 1100, 1300, 1800])
def test_the_gutter_leaves_the_room_to_the_code(host: Host, widget: KernelDebugger, width: int) -> None:
    page = host.page
    page.set_viewport_size({"width": width, "height": 1000})
    show(host, widget)
    for name in ("Source", "PTX"):
        listing = page.get_by_role("listbox", name=name)
        mark = listing.locator(".kd-marks").filter(has=page.locator(".kd-mark")).first
        assert mark.evaluate("marks => marks.scrollWidth <= marks.clientWidth + 1"), "marks are cut"
        gutter = listing.locator(".kd-gutter").first.bounding_box()
        whole = listing.bounding_box()
        assert gutter is not None and whole is not None
        assert gutter["width"] < 90
        assert gutter["width"] < 0.25 * whole["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_breakpoint_is_set_by_click_and_by_key_and_stops_the_run(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, SYNC).locator(".kd-line-number").click()
    expect(source_line(page, SYNC).locator(".kd-stop")).to_have_text("●")
    expect(page.get_by_role("tab", name="Breakpoints 1")).to_be_visible()
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_contain_text(
        f"Breakpoint 1, session.cu:{SYNC}: warp 0 of CTA 0 is about"
    )
    first = widget.session.now
    frame(page).press("r")
    expect(frame(page)).not_to_have_attribute("data-position", str(first))
    frame(page).press("R")
    at(page, first)
    source_line(page, SYNC).locator(".kd-text").click()
    frame(page).press("b")
    expect(source_line(page, SYNC).locator(".kd-stop")).to_have_text("")
    page.get_by_role("listbox", name="PTX").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("b")
    expect(page.get_by_role("tab", name="Breakpoints 1").or_(page.get_by_role("alert"))).to_be_visible()


def test_a_press_on_a_line_without_instructions_says_where_the_breakpoint_went(
    host: Host, widget: KernelDebugger
) -> None:
    page = show(host, widget)
    source_line(page, LOOP_SYNC - 1).scroll_into_view_if_needed()
    lines = {place.line for one in widget.session.code if one.ptx_line for place in one.chain}
    bare = next(at for at in range(SYNC, CLOCK) if at not in lines and at + 1 in lines)
    source_line(page, bare).locator(".kd-line-number").click()
    expect(page.locator("output.sg-sentence")).to_have_text(
        f"Line {bare} has no instruction: breakpoint 1 is set at the next that has one, session.cu:{bare + 1}."
    )
    expect(source_line(page, bare + 1).locator(".kd-stop")).to_have_text("●")
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_contain_text("Breakpoint 1")


def test_a_stop_inside_an_inlined_call_shows_the_line_of_the_breakpoint(host: Host) -> None:
    widget = KernelDebugger(Decode().session())
    source = widget._tables.sources[0].text
    assert source is not None
    line = 1 + next(i for i, text in enumerate(source.splitlines()) if "wait_group<2 * kStages - 2>" in text)
    widget.edit_stops("toggle_line", {}, file=0, line=line)
    page = show(host, widget)
    frame(page).press("r")
    expect(source_line(page, line)).to_have_attribute("data-current", "call")
    expect(source_line(page, line)).to_be_in_viewport()


def test_the_line_stays_in_sight_when_the_window_changes_until_the_reader_scrolls(host: Host) -> None:
    widget = KernelDebugger(Decode().session())
    host.page.set_viewport_size({"width": 1440, "height": 1000})
    page = show(host, widget)
    current = page.get_by_role("listbox", name="Source").locator("[data-current='now'], [data-current='call']")
    for width, height in ((1000, 700), (900, 620), (1440, 640)):
        page.set_viewport_size({"width": width, "height": height})
        settled(page)
        expect(current).to_be_attached()
        assert current.evaluate(INSIDE), (width, height)
    source = page.get_by_role("listbox", name="Source")
    source.hover()
    page.mouse.wheel(0, -10_000)
    expect(source_line(page, 1)).to_be_in_viewport()
    page.set_viewport_size({"width": 1000, "height": 700})
    settled(page)
    assert source.evaluate("box => box.scrollTop") == 0


def test_the_instruction_that_was_executed_last_is_marked_and_shown_to_who_selects_its_moment(
    host: Host, widget: KernelDebugger
) -> None:
    page = show(host, widget)
    session = widget.session
    session.run_to(opcode="bar.sync", warp=2)
    session.step(warp=2)
    barrier, after = session.last, session.now
    assert barrier is not None
    session.seek(0)
    host.flush()
    selection.set(cta=barrier.cta, warp=2, moment=after)
    host.flush()
    at(page, after)
    line = ptx_line(page, barrier.instruction.ptx_line)
    expect(line).to_have_attribute("data-ran", "")
    expect(line).to_have_attribute("aria-selected", "true")
    expect(line).to_contain_text("executed last")


def test_who_wrote_a_register_is_one_press_away(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.get_by_label("Position").fill("40")
    at(page, 40)
    grid = page.get_by_role("group", name="Registers by lane")
    grid.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    name = page.locator(".kd-lanes strong").inner_text().split(" ")[0]
    writer = page.get_by_role("button", name="who wrote it")
    writer.click()
    expect(page.locator("output.sg-sentence")).to_contain_text("is about to execute")
    ahead = widget.session.next
    assert ahead is not None
    assert ahead.instruction.text.split(",")[0].endswith(name)
    expect(writer).to_be_focused()


def test_a_breakpoint_is_limited_to_a_warp_and_removed(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, SYNC).locator(".kd-line-number").click()
    page.get_by_label("Warps that breakpoint 1 stops").select_option(label="warp 2 of CTA 0")
    expect(page.get_by_label("Warps that breakpoint 1 stops")).to_have_value("1")
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_contain_text("warp 2 of CTA 0 is about")
    page.get_by_role("button", name="Remove breakpoint 1").click()
    expect(page.get_by_role("tab", name="Breakpoints", exact=True)).to_be_visible()


def test_breakpoints_of_cells_show_in_the_page_and_the_other_way_round(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    session = widget.session
    number = session.break_at(line=SYNC)
    session.break_at(opcode="atom.")
    host.flush()
    expect(source_line(page, SYNC).locator(".kd-stop")).to_have_text("●")
    expect(page.get_by_role("tab", name="Breakpoints 2")).to_be_visible()
    page.get_by_role("button", name="Show atom.").click()
    expect(
        ptx_line(page, session.code[session.code.find(opcode="atom.")[0]].ptx_line).locator(".kd-stop")
    ).to_have_text("●")
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_contain_text(f"Breakpoint 1, session.cu:{SYNC}: warp")
    session.unbreak(number)
    host.flush()
    expect(source_line(page, SYNC).locator(".kd-stop")).to_have_text("")
    source_line(page, LOOP_SYNC).locator(".kd-line-number").click()
    expect(page.get_by_role("tab", name="Breakpoints 2")).to_be_visible()
    assert [each.label for each in session.breakpoints] == ["atom.", f"session.cu:{LOOP_SYNC}"]


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
    assert selection.value == {"cta": 0, "warp": 2, "moment": 0, "launch": widget.launch_name}
    frame(page).press("ArrowDown")
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 3 of CTA 0")
    selection.set(cta=0, warp=1)
    host.flush()
    expect(page.locator(".kd-warp[aria-pressed=true]")).to_contain_text("1")
    frame(page).press("Escape")
    assert selection.value == {}
    expect(page.locator(".kd-warps")).to_contain_text("focus follows")


def test_opening_a_debugger_moves_nothing(host: Host) -> None:
    """A cell that shows a session which has run must not drag along what the reader looks at elsewhere."""
    widget = make()
    widget.session.seek(40)
    selection.set(cta=0, warp=3, moment=123)
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


def test_registers_show_values_and_what_changed(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.get_by_label("Position").fill("40")
    at(page, 40)
    grid = page.get_by_role("group", name="Registers by lane")
    grid.focus()
    page.keyboard.press("ArrowRight")
    spoken = page.locator(".kd-registers .sg-spoken")
    expect(spoken).to_contain_text(", lane 1: ")
    name, values = spoken.inner_text().split(" ")[0], widget.session.registers(0)
    shown = re.findall(r"0x[0-9a-f]+", spoken.inner_text())[0]
    assert int(shown, 16) == int(values[name].values.view(values[name].values.dtype)[1])
    page.keyboard.press("Enter")
    expect(page.locator(".kd-lane")).to_have_count(32)
    page.get_by_label("Filter registers").fill("no such register")
    expect(page.locator(".kd-registers")).to_contain_text("No register matches.")


def test_memory_is_watched_and_a_wrong_expression_explained(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    frame(page).press("w")
    page.keyboard.type("nothing")
    page.keyboard.press("Enter")
    wrong = page.locator(".kd-watches").get_by_role("alert")
    expect(wrong).to_contain_text("'nothing' names nothing here. Write a tensor: out[0:8], or memory:")
    page.get_by_label("Memory to watch").fill("%r1")
    page.keyboard.press("Enter")
    expect(wrong).to_contain_text("'%r1' is a register")
    page.get_by_label("Memory to watch").fill("out")
    page.keyboard.press("Enter")
    expect(page.locator(".kd-value")).to_have_text("0")
    expect(wrong).to_be_hidden()
    frame(page).press("End")
    expect(page.locator(".kd-value")).to_have_text(
        f"{widget._parser.tensors['out'].item():.0f}".replace("1999000", "1.999e+6")
    )
    expect(page.locator(".kd-value")).to_have_attribute("data-changed", "")


def test_without_registers_it_is_said_what_to_do(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    note = page.locator(".kd-registers .kd-note").first
    expect(note).to_contain_text("step (→)")
    frame(page).press("End")
    expect(note).to_contain_text("step back (←)")


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


def test_an_address_selected_elsewhere_is_offered_to_be_watched(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    selection.set(address="smem+0x400")
    host.flush()
    page.get_by_role("tab", name="Memory").click()
    expect(page.get_by_label("Memory to watch")).to_have_value("smem+0x400")
    page.get_by_label("Memory to watch").press("Enter")
    expect(page.locator(".kd-watch")).to_contain_text("u32 at smem+0x400")


def test_search_and_go_to_line(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.get_by_role("listbox", name="PTX").click(position={"x": 300, "y": 30})
    frame(page).press("/")
    page.get_by_label("Search in PTX").fill("atom.global.add")
    page.keyboard.press("Enter")
    expect(page.get_by_role("listbox", name="PTX").locator("[aria-selected=true]")).to_contain_text("atom.global.add")
    page.get_by_label("Search in PTX").fill("30")
    page.keyboard.press("Enter")
    expect(ptx_line(page, 30)).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search in PTX")).to_be_hidden()


def test_run_to_the_cursor(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, ATOMIC).locator(".kd-text").click()
    frame(page).press("t")
    expect(page.locator("output.sg-sentence")).to_contain_text(f"(session.cu:{ATOMIC})")
    assert here(widget).source[1] == ATOMIC


def test_a_press_is_not_lost_where_the_line_changes_meanwhile(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    line = source_line(page, here(widget).source[1])
    line.locator(".kd-text").hover()
    settled(page)
    page.mouse.down()
    widget.session.step(count=7)
    host.flush()
    at(page, 7)
    settled(page)
    page.mouse.up()
    expect(line).to_have_attribute("aria-selected", "true")
    expect(line).not_to_have_attribute("data-current", "now")


def test_a_failure_is_shown_and_stepped_back_from(host: Host) -> None:
    widget = make("clock_and_out_of_bounds", grid=1)
    page = show(host, widget)
    frame(page).press("r")
    expect(page.get_by_role("alert")).to_contain_text("Step back (←)")
    expect(page.locator("output.sg-sentence")).to_have_text("The kernel failed: out of bounds.")
    expect(page.locator(".kd-finding").first).to_contain_text("out of bounds")
    expect(page.locator(".kd-line[data-failed]").first).to_be_visible()
    frame(page).press("ArrowLeft")
    expect(page.locator(".kd-line[data-failed]")).to_have_count(0)
    expect(page.locator("output.sg-sentence")).to_contain_text("executed")


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [900, 1800])
def test_it_is_accessible(host: Host, axe: Callable[[Page], list[str]], scheme: str, width: int) -> None:
    host.page.set_viewport_size({"width": width, "height": 1000})
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    widget = make("clock_and_out_of_bounds", grid=1)
    widget.edit_stops("toggle_line", {}, file=0, line=CLOCK)
    widget.watch("arg0*4:u64", {})
    page = show(host, widget)
    page.add_style_tag(content=f"body {{ background: {'#15181c' if scheme == 'dark' else 'white'} }}")
    for tab in ("Memory", "Barriers", "In flight", "Output", "Breakpoints"):
        page.get_by_role("tab", name=tab).click()
        assert axe(page) == []
    frame(page).press("End")
    expect(page.locator(".kd-finding").first).to_be_visible()
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_saved_page_steps_between_its_moments(page: Page, widget: KernelDebugger, tmp_path: Path) -> None:
    widget.edit_stops("toggle_line", {}, file=0, line=SYNC)
    widget.watch("out", {})
    widget.go("seek", {}, position=300)
    saved = widget.save(tmp_path / "debugger.html")
    assert saved.stat().st_size < 5_000_000
    page.goto(saved.as_uri())
    expect(page.locator(".kd-line").first).to_be_visible()
    at(page, 300)
    page.get_by_label("Step size").select_option("instruction")
    frame(page).press("ArrowRight")
    at(page, 301)
    widget.session.seek(301)
    expect(
        ptx_line(
            page,
            here(
                widget, *reversed(widget.session.last and (widget.session.last.cta, widget.session.last.warp))
            ).ptx_line,  # type: ignore[arg-type]
        )
    ).to_have_attribute("data-current", "now")
    page.get_by_label("Step size").select_option("line")
    frame(page).press("ArrowLeft")
    expect(frame(page)).not_to_have_attribute("data-position", "301")
    page.locator(".kd-warp").nth(3).click()
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 3")
    frame(page).press("Home")
    at(page, 0)
    frame(page).press("End")
    expect(page.locator("output.sg-sentence")).to_contain_text("The launch has ended")
    expect(page.get_by_role("button", name="Run ▸")).to_have_count(0)


def test_a_disposed_view_leaves_nothing_behind(host: Host, widget: KernelDebugger) -> None:
    for i in range(3):
        page = show(host, widget, f"view{i}")
        view = page.locator(f"#view{i} .sg-widget")
        for key in ("ArrowRight", "ArrowDown", "r", "Home", " "):
            view.press(key)
        page.evaluate("id => document.getElementById(id).sglabDispose()", f"view{i}")
    assert host.page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0
    selection.set(cta=0, warp=1)
    host.flush()
    assert host.page.locator(".sg-widget").count() == 0


def test_without_python_what_is_shown_stays(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    frame(page).press("ArrowRight")
    at(page, 1)
    host.alive = False
    page.evaluate("id => sglabHost.models.get(id).emit('comm_live_update')", widget.model_id)
    frame(page).press("ArrowRight")
    expect(page.get_by_role("alert")).to_contain_text("Disconnected: the Python kernel")
    at(page, 1)


def test_a_connection_that_was_closed_without_a_word_is_reported(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    page.evaluate("id => { sglabHost.models.get(id).send = () => { throw new Error('Cannot send') } }", widget.model_id)
    frame(page).press("ArrowRight")
    expect(page.get_by_role("alert")).to_contain_text("Disconnected: the Python kernel")
    at(page, 0)


def test_a_deadlock_is_drawn_as_its_circle(host: Host, axe: Callable[[Page], list[str]]) -> None:
    page = show(host, KernelDebugger(Pipeline("one_arrival").session()))
    frame(page).press("End")
    ring = page.get_by_role("group", name="Deadlock:")
    expect(ring).to_have_attribute(
        "aria-label",
        "Deadlock: load w0 waits for compute→load empty[0], which compute w1 has to end; "
        "compute w1 waits for load→compute full[0], which load w0 has to end.",
    )
    expect(page.get_by_role("alert")).to_contain_text("no warp can continue")
    ring.get_by_role("button", name="compute w1: ").click()
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 1 of CTA 0 (compute)")
    assert axe(page) == []


def test_the_hang_of_vllm_26026_is_a_circle_of_three_roles(host: Host) -> None:
    widget = KernelDebugger(GuardedDecode().session())
    page = show(host, widget)
    frame(page).press("r")
    ring = page.get_by_role("group", name="Deadlock:")
    expect(ring).to_be_visible()
    sentence = ring.get_attribute("aria-label") or ""
    first = re.search(r"Deadlock: (\w+) w(\d+) waits", sentence)
    assert first is not None
    expect(page.locator(".kd-registers")).to_contain_text(f"Registers of warp {first[2]} of CTA 0 ({first[1]})")
    expect(page.locator(".kd-party button").first).to_contain_text(re.compile(r"^warp 2 of CTA 0 \(softmax\) at"))
    for role, barrier in (
        ("softmax", "mma→softmax full"),
        ("mma", "load→mma full"),
        ("load", "softmax+load barrier 2"),
    ):
        assert re.search(rf"\b{role} w\d+ waits for {re.escape(barrier)}", sentence), sentence
    page.get_by_role("tab", name="Barriers").click()
    named = page.get_by_role("row", name=re.compile("softmax.load barrier 2")).first
    expect(named).to_contain_text("128 of 160 threads")
    expect(named).to_contain_text("w1 w9; 64 threads of these came twice")
    expect(page.get_by_role("row", name=re.compile("softmax barrier 1")).first).to_contain_text("none yet")
    page.get_by_role("tab", name="Findings").click()
    page.get_by_role("button", name=re.compile("^load w9: ")).click()
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 9 of CTA 0 (load)")
    line = page.get_by_role("listbox", name="Source").locator("[data-current=now]")
    expect(line).to_contain_text("if (tiles == 0) continue;")


def test_a_finding_leads_to_both_parties(host: Host) -> None:
    widget = KernelDebugger(Pipeline("early_arrival").session(sanitize=True))
    page = show(host, widget)
    page.get_by_role("tab", name="Findings").click()
    [finding, *_] = widget.look({})["findings"]
    parties = page.locator(".kd-finding").first.locator(".kd-party button")
    for number, party in enumerate((finding["at"], finding["other"])):
        parties.nth(number).click()
        at(page, party["position"])
        line = widget.session.code[party["pc"]].ptx_line
        expect(ptx_line(page, line).locator(".kd-party-mark").first).to_be_visible()
        expect(page.locator(".kd-registers")).to_contain_text(f"Registers of warp {party['warp']} of CTA")
