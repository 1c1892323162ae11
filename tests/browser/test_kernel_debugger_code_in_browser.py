"""KernelDebugger in a real browser: code panes: linked lines, breakpoints, the line in sight, search."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

pytest.importorskip("torch")

from sglab import gpu
from sglab.compilers.vouched import vouch
from sglab.labs.debugging import Decode
from sglab.widgets import KernelDebugger, selection
from tests.support.browser.debugger_page import at, frame, here, make, ptx_line, show, source_line
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host
from tests.support.launches.session_lines import CLOCK, LOOP_SYNC, SYNC

INSIDE = """(line) => {
  const [box, place] = [line.closest("[role=listbox]"), line].map((each) => each.getBoundingClientRect());
  return place.top >= box.top && place.bottom <= box.bottom;
}"""
"""Whether a line is in its listing's window."""
PTX_HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
COUNT_ROWS = """() => {
  window.rows = new Map();
  const count = ({ dataset }) => window.rows.set(dataset.line, 1 + (window.rows.get(dataset.line) ?? 0));
  const seen = new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(count)));
  seen.observe(document.querySelector("[aria-label=Source] .kd-rows"), { childList: true });
}"""
"""How often each line of the source is drawn."""


@pytest.fixture
def widget() -> KernelDebugger:
    return make()


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
    expect(source_line(page, SYNC).locator(".kd-stop")).to_have_count(0)
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


def test_a_breakpoint_is_limited_to_a_warp_and_removed(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, SYNC).locator(".kd-line-number").click()
    page.get_by_label("Warps that breakpoint 1 stops").select_option(label="warp 2 of CTA 0")
    expect(page.get_by_label("Warps that breakpoint 1 stops")).to_have_value("1")
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_contain_text("warp 2 of CTA 0 is about")
    page.get_by_role("button", name="Remove breakpoint 1").click()
    expect(page.get_by_role("tab", name="Breakpoints", exact=True)).to_be_visible()


def test_a_breakpoint_asks_for_values_and_says_what_is_no_condition(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    source_line(page, SYNC).locator(".kd-line-number").click()
    field = page.get_by_label("Condition of breakpoint 1")
    field.fill("tid = 3")
    field.press("Enter")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("when must compare registers or the lane with numbers")
    expect(field).to_have_value("tid = 3")  # to be mended
    frame(page).press("ArrowRight")
    expect(field).to_have_value("tid = 3")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(alert).to_be_visible()
    field.press("End")
    field.press("Backspace")
    expect(alert).to_be_hidden()
    field.press("3")
    expect(alert).to_be_visible()
    field.fill("")  # dropped
    field.press("Enter")
    expect(alert).to_be_hidden()
    expect(field).not_to_have_attribute("aria-invalid", "true")
    field.fill("lane < 0")
    field.press("Enter")
    expect(page.get_by_role("tab", name="Breakpoints 1")).to_be_visible()
    host.page.wait_for_function("document.querySelector('.kd-when').value === 'lane < 0'")
    assert [each.when for each in widget.session.breakpoints] == ["lane < 0"]
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_contain_text("The launch has ended")
    frame(page).press("Control+z")
    expect(field).to_have_value("")
    frame(page).press("Shift+R")
    expect(page.locator("output.sg-sentence")).to_contain_text("Breakpoint 1")


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
    expect(source_line(page, SYNC).locator(".kd-stop")).to_have_count(0)
    source_line(page, LOOP_SYNC).locator(".kd-line-number").click()
    expect(page.get_by_role("tab", name="Breakpoints 2")).to_be_visible()
    assert [each.label for each in session.breakpoints] == ["atom.", f"session.cu:{LOOP_SYNC}"]


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


def test_line_numbers_stay_while_the_code_scrolls_sideways(host: Host, widget: KernelDebugger) -> None:
    """And are no layers of their own where it does not: every step would pay for them."""
    page = host.page
    page.set_viewport_size({"width": 900, "height": 1000})
    show(host, widget)
    listing = page.get_by_role("listbox", name="PTX")
    gutter = listing.locator(".kd-gutter").first
    expect(gutter).to_have_css("position", "static")
    before = gutter.bounding_box()
    listing.evaluate("listing => listing.scrollLeft = 30")
    expect(gutter).to_have_css("position", "sticky")
    assert listing.evaluate("listing => listing.scrollLeft") == 30
    assert gutter.bounding_box() == before
    listing.evaluate("listing => listing.scrollLeft = 0")
    expect(gutter).to_have_css("position", "static")
    assert gutter.bounding_box() == before


def test_a_step_into_another_file_draws_each_line_once(host: Host, tmp_path: Path) -> None:
    names = ("outer.cu", "inner.cu")
    for name in names:
        (tmp_path / name).write_text("".join(f"// {name} {line}\n" for line in range(9)))
    files = "".join(f'.file {number} "{tmp_path / name}"\n' for number, name in enumerate(names, 1))
    code = "".join(f".loc {number} {line} 1\nmov.u32 %r1, {line};\n" for line in range(1, 5) for number in (1, 2))
    text = f"{PTX_HEAD}{files}.visible .entry two() {{ .reg .b32 %r<2>;\n{code}ret; }}"
    vouch(text)
    session = gpu.load(text)["two"].session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[])
    page = show(host, KernelDebugger(session))
    file = page.get_by_label("Source file")
    page.evaluate(COUNT_ROWS)
    for key, most in (("ArrowRight", 2), ("ArrowLeft", 1)):  # on the way back both texts are there
        for _ in range(4):
            before = file.input_value()
            page.evaluate("window.rows.clear()")
            frame(page).press(key)
            expect(file).not_to_have_value(before)
            settled(page)
            assert page.evaluate("Math.max(...window.rows.values())") <= most


@pytest.mark.parametrize("height", [900, 700, 620])
def test_listings_above_each_other_both_show_where_the_warp_is(host: Host, widget: KernelDebugger, height: int) -> None:
    """In a low and narrow window the PTX's line lay behind the transport."""
    page = host.page
    page.set_viewport_size({"width": 700, "height": height})
    show(host, widget)
    widget.session.seek(26)
    host.flush()
    at(page, 26)
    settled(page)
    body = page.locator(".sg-body").bounding_box()
    assert body is not None
    for name in ("Source", "PTX"):
        line = page.get_by_role("listbox", name=name).locator("[data-current]:not([data-current=''])").bounding_box()
        assert line is not None
        assert line["y"] + line["height"] <= body["y"] + body["height"]


def test_what_was_taken_away_by_mistake_comes_back(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    line = source_line(page, SYNC)
    line.locator(".kd-line-number").click()
    expect(line.locator(".kd-stop")).to_have_text("●")
    page.get_by_label("Warps that breakpoint 1 stops").select_option(label="warp 1 of CTA 0")
    page.get_by_role("button", name="Remove breakpoint 1").click()
    expect(line.locator(".kd-stop")).to_have_count(0)
    page.keyboard.press("Control+z")  # the button that had the focus is gone
    expect(line.locator(".kd-stop")).to_have_text("●")
    expect(page.get_by_label("Warps that breakpoint 1 stops").locator("option:checked")).to_have_text("warp 1 of CTA 0")
    frame(page).press("Control+y")
    expect(line.locator(".kd-stop")).to_have_count(0)
    page.get_by_role("tab", name="Memory").click()
    page.locator(".kd-names").get_by_role("button", name="out", exact=True).click()
    page.get_by_role("button", name="Stop watching out").click()
    expect(page.locator(".kd-watch")).to_have_count(0)
    frame(page).press("Control+z")
    expect(page.locator(".kd-watch")).to_have_count(1)
