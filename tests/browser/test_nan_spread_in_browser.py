"""NanSpread in a real browser: steps, marks to press, the way, the debugger that follows, nothing to show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from sglab.widgets import NanSpread, nan_spread
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more
from tests.support.launches.nan_sessions import LANES, empty_row, softmax


def show(host: Host, widget: NanSpread) -> Locator:
    host.show(widget)
    shown = host.page.locator("#widget .sg-widget")
    settled(host.page)
    return shown


def test_it_begins_at_the_first_and_walks_to_readers_and_writers(host: Host) -> None:
    shown = show(host, NanSpread(empty_row()))
    sentence = shown.locator(".sg-sentence")
    expect(sentence).to_have_text("sub.f32 made NaN in %f3 of all lanes: nothing that it read was.")
    shown.press("ArrowDown")
    expect(sentence).to_have_text("mul.f32 of all lanes read it in %f3 and wrote it to %f3.")
    shown.press("End")
    expect(shown.locator(".snn-list li").last).to_contain_text("st.global.f32 of all lanes stored it to")
    expect(shown.locator(".snn-list li").first).to_contain_text("sub.f32 made NaN")
    expect(shown.locator(".sg-details")).to_contain_text("NaN left in")
    shown.press("ArrowUp")
    expect(sentence).to_contain_text("div.rn.f32 of all lanes read it")
    shown.press("Home")
    expect(sentence).to_have_text("No NaN yet.")
    shown.press("f")
    expect(sentence).to_contain_text("sub.f32 made NaN")


def test_a_step_of_the_way_is_pressed_and_the_session_follows(host: Host) -> None:
    widget = NanSpread(empty_row())
    shown = show(host, widget)
    shown.press("End")
    shown.get_by_role("button", name="ex2.approx.f32").first.click()
    expect(shown.locator(".sg-details")).to_contain_text("ex2.approx.f32")
    event = next(each for each in widget.trace if each.instruction.opcode == "ex2.approx.f32")
    shown.get_by_role("button", name="Move the session to this instruction").click()
    expect(shown.get_by_role("link", name="Kernel debugger of")).to_be_focused()  # no JupyterLab: as a page
    assert widget.session.now == event.position


def test_what_is_counted_of_a_part_says_so(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nan_spread, "DRAWN", 4)
    shown = show(host, NanSpread(empty_row()))
    expect(shown.locator(".sg-notice")).to_contain_text("The first 4 of ")
    expect(shown.get_by_text("From here it reached 3 later events of those drawn.")).to_be_visible()


def test_a_mark_is_pressed(host: Host) -> None:
    widget = NanSpread(empty_row())
    shown = show(host, widget)
    marks = shown.locator(".snn-picture svg path[opacity]")
    box = marks.last.bounding_box()
    assert box is not None
    host.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(shown.locator(".sg-counter")).to_contain_text(f"step {len(widget.trace):,} of {len(widget.trace):,}")


def test_without_nan_it_says_so_and_infinities_can_be_followed(host: Host) -> None:
    x = torch.zeros(1, LANES)
    x[0, 3] = -torch.inf
    shown = show(host, NanSpread(softmax(x)[0]))
    expect(shown.locator(".sg-placeholder")).to_contain_text("No NaN in this launch")
    buttons = [shown.get_by_text(text, exact=True) for text in ("first NaN", "open it in the debugger")]
    for button in buttons:
        expect(button).to_be_disabled()
        expect(button).to_have_attribute("title", re.compile("^No NaN in this launch"))
    more(shown)
    shown.get_by_label("infinities, too").check()
    expect(shown.locator(".sg-sentence")).to_contain_text("NaN or infinity came in from")
    for button in buttons:
        expect(button).to_be_enabled()
        expect(button).to_have_attribute("title", re.compile("^(Go|Move) "))


def test_a_saved_page_without_nan_asks_for_nothing_that_it_lacks(page: Page, tmp_path: Path) -> None:
    page.goto(NanSpread(softmax(torch.zeros(1, LANES))[0]).save(tmp_path / "clean.html").as_uri())
    expect(page.locator(".sg-remedy")).to_have_text("In the notebook, infinities can be followed, too.")
    expect(page.get_by_text("first NaN", exact=True)).to_be_disabled()
