"""KernelDebugger in a real browser: registers, memory, a saved page, no Python, accessibility."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytest.importorskip("torch")

from sglab.widgets import KernelDebugger, selection
from tests.support.browser.debugger_page import at, frame, here, make, ptx_line, show
from tests.support.browser.widget_host import Host
from tests.support.launches.session_lines import CLOCK, SYNC


@pytest.fixture
def widget() -> KernelDebugger:
    return make()


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


def test_an_address_selected_elsewhere_is_offered_to_be_watched(host: Host, widget: KernelDebugger) -> None:
    page = show(host, widget)
    selection.set(address="smem+0x400")
    host.flush()
    page.get_by_role("tab", name="Memory").click()
    expect(page.get_by_label("Memory to watch")).to_have_value("smem+0x400")
    page.get_by_label("Memory to watch").press("Enter")
    expect(page.locator(".kd-watch")).to_contain_text("u32 at smem+0x400")


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


@pytest.mark.parametrize("size", [(1000, 800), (1440, 900)])
def test_the_bars_of_the_registers_are_in_sight(host: Host, size: tuple[int, int]) -> None:
    """One box scrolls: a grid higher than its pane had the bar that scrolls sideways below the edge."""
    page = host.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    widget = make()
    widget.session.seek(200)
    show(host, widget)
    registers = page.locator(".kd-registers")
    expect(registers.locator(".sg-cells")).to_be_visible()
    assert registers.evaluate("pane => pane.scrollHeight <= pane.clientHeight")
    assert registers.evaluate(
        "pane => pane.querySelector('.sg-cells').getBoundingClientRect().bottom"
        " <= pane.getBoundingClientRect().bottom + 1"
    )


@pytest.mark.parametrize("lacking", ["code", "warps"])
def test_a_recording_of_another_version_says_so(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """One that lacks what is read at once, and one whose moments lack a field."""
    widget = make()
    saved = widget.saved()
    if lacking == "code":
        del saved["state"]["code"]
    else:
        packed = saved["tensors"]["moments"]
        content = json.loads(gzip.decompress(base64.b64decode(packed["data"])))
        for moment in content["moments"]:
            del moment[lacking]
        data = json.dumps(content).encode()
        packed |= {"shape": [len(data)], "data": base64.b64encode(gzip.compress(data)).decode()}
    monkeypatch.setattr(widget, "saved", lambda: saved)
    page.goto(widget.save(tmp_path / "older.html").as_uri())
    expect(page.locator(".sg-widget")).to_contain_text("another version wrote it, or it is damaged")
    expect(page.locator(".sg-widget")).not_to_contain_text("undefined")
