"""Layout in a real browser: typing, choosing, picking on both sides, conflicts, stepping."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, expect

from sglab.widgets import Layout
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more


def show(host: Host, widget: Layout) -> Locator:
    host.show(widget)
    shown = host.page.locator("#widget .sg-widget")
    expect(shown.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    return shown


def grid(shown: Locator, number: int) -> Locator:
    return shown.locator(".sg-cells").nth(number)


def details(shown: Locator) -> Locator:
    return shown.locator(".sg-details")


def test_a_typed_layout_is_shown_and_a_wrong_one_is_explained(host: Host) -> None:
    shown = show(host, Layout("(8,8):(8,1)", "f32", lane_bytes=4))
    field = shown.get_by_label("Layout in CuTe's notation")
    field.fill("(4,(4,2)):(4,(1,32))")
    field.press("Enter")
    expect(shown.locator(".sg-subject")).to_have_text("(4,(4,2)):(4,(1,32)), 4 × 8 of f32")
    field.fill("(4,4):(1,(2,3))")
    field.press("Enter")
    expect(shown.locator(".sg-notice")).to_contain_text("nested differently")
    expect(shown.locator(".sg-subject")).to_have_text("(4,(4,2)):(4,(1,32)), 4 × 8 of f32")
    shown.get_by_label("or", exact=True).select_option("mma.m16n8k16.f16.A")
    expect(shown.locator(".sg-subject")).to_have_text("mma.m16n8k16.f16.A, 16 × 16")
    expect(shown.get_by_label("of", exact=True)).to_be_hidden()


def test_a_press_says_address_bank_lane_and_who_is_in_the_way(host: Host) -> None:
    shown = show(host, Layout("(32,64):(64,1)"))
    grid(shown, 0).click(position={"x": 32, "y": 20 + 19 * 3 + 8})  # row 3, its first column
    for text in ("row 3, column 0", "base + 0x180 (byte 384)", "lane 3 in access 1", "lanes 0–2, 4–7"):
        expect(details(shown)).to_contain_text(text)
    field = shown.get_by_label("Layout in CuTe's notation")
    field.fill("Sw<3,3,3> o (32,64):(64,1)")
    field.press("Enter")
    expect(shown.locator(".sg-subject")).to_contain_text("Sw<3,3,3>")
    grid(shown, 0).click(position={"x": 32, "y": 20 + 19 * 3 + 8})
    expect(details(shown)).to_contain_text("base + 0x1b0")
    expect(details(shown)).to_contain_text("no lane: no bank conflict")
    expect(details(shown)).to_contain_text("216 elements of f16")


def test_the_other_side_names_the_same_element(host: Host) -> None:
    shown = show(host, Layout("mma.m16n8k16.f16.A"))
    grid(shown, 1).click(position={"x": 60, "y": 20 + 19 * 5 + 8})  # lane 5, the low half of register 0
    expect(details(shown)).to_contain_text("row 1, column 2")
    expect(details(shown)).to_contain_text("lane 5")
    expect(details(shown)).to_contain_text("0, bits 0–15")


def test_accesses_are_stepped_and_their_banks_counted(host: Host) -> None:
    shown = show(host, Layout("(32,64):(64,1)"))
    sentence = shown.locator(".sg-sentence")
    shown.press("Home")
    expect(sentence).to_have_text("Nothing has been taken yet.")
    shown.press("ArrowRight")
    expect(sentence).to_have_text(re.compile("Access 1: 32 lanes of 16 bytes in 4 phases: 32 passes instead of 4"))
    banks = grid(shown, 2)
    banks.hover(position={"x": 70, "y": 8})
    expect(shown.locator(".sg-tooltip")).to_have_text("phase 1, bank 0: 8 different words, for lanes 0–7")
    shown.press("ArrowDown")
    shown.press("End")
    shown.press("Shift+ArrowLeft")
    expect(shown.locator(".sg-counter")).to_contain_text("step 1 of 8")


def test_more_changes_how_a_warp_reads(host: Host) -> None:
    shown = show(host, Layout("(32,64):(64,1)"))
    more(shown)
    expect(details(shown)).to_contain_text("256 passes through the banks, 32 without conflicts")
    shown.get_by_label("a warp reads").select_option("rows")
    expect(details(shown)).to_contain_text("32 passes through the banks, 32 without conflicts")
    shown.get_by_label("a lane takes").select_option("4")
    expect(details(shown)).to_contain_text("in 32 accesses of a warp, 4 bytes a lane")


def test_keys_walk_the_elements(host: Host) -> None:
    shown = show(host, Layout("(8,8):(8,1)", "f32", lane_bytes=4))
    shown.press("ArrowDown")
    expect(details(shown)).to_contain_text("row 0, column 0")
    shown.press("ArrowDown")
    shown.press(".")
    expect(details(shown)).to_contain_text("row 1, column 1")
    shown.press("Escape")
    expect(details(shown)).to_contain_text("Press an element")
    shown.press("/")
    expect(shown.get_by_label("Layout in CuTe's notation")).to_be_focused()
