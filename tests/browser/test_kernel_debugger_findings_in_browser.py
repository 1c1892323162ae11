"""KernelDebugger in a real browser: failures, deadlocks and what the sanitizers find."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.labs.mla_hang import GuardedDecode
from sglab.labs.pipelines import Pipeline
from sglab.widgets import KernelDebugger
from tests.support.browser.debugger_page import at, frame, make, ptx_line, show
from tests.support.browser.widget_host import Host

PAST_END = """
.version 8.8
.target sm_90a
.address_size 64
.entry past_end(.param .u64 out) {
  .reg .b32 %r<2>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""


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


def test_the_registers_are_those_of_the_warp_that_failed(host: Host) -> None:
    """Also where the reader had chosen another one."""
    kernel = gpu.Module(PAST_END, "past_end.ptx")["past_end"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=96, args=[torch.zeros(70)])
    page = show(host, KernelDebugger(session))
    page.locator(".kd-warp").first.click()
    expect(page.locator(".kd-warps")).to_contain_text("chosen by you")
    frame(page).press("r")
    expect(page.locator("output.sg-sentence")).to_have_text("The kernel failed: out of bounds.")
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 2 of CTA 0")
    expect(page.locator(".kd-warps")).to_contain_text("the one that failed · Esc: the one that runs")
    page.locator(".kd-warp").nth(1).click()
    expect(page.locator(".kd-warps")).to_contain_text("chosen by you")


def test_no_other_warp_is_called_the_one_that_failed(host: Host) -> None:
    """That of a later CTA does not run yet where one goes back to."""
    later = PAST_END.replace(".b32 %r<2>", ".b32 %r<4>").replace(
        "mad.wide.u32 %rd2, %r1,", "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mad.wide.u32 %rd2, %r3,"
    )
    kernel = gpu.Module(later, "later.ptx")["past_end"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=2, block=32, args=[torch.zeros(40)])
    page = show(host, KernelDebugger(session))
    frame(page).press("r")
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 0 of CTA 1")
    expect(page.locator(".kd-warps")).to_contain_text("the one that failed")
    frame(page).press("Home")
    expect(page.locator(".kd-registers")).to_contain_text("Registers of warp 0 of CTA 0")
    expect(page.locator(".kd-warps")).to_contain_text("nothing has run")


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


@pytest.mark.parametrize(
    ("sanitize", "said"),
    [(False, "No sanitizer looks on: only what ends the launch"), (True, "Nothing is wrong up to")],
)
def test_that_nothing_is_wrong_is_said_where_a_sanitizer_looks_on(host: Host, sanitize: bool, said: str) -> None:
    page = show(host, make(sanitize=sanitize))
    page.get_by_role("tab", name="Findings").click()
    expect(page.get_by_role("tabpanel", name="Findings")).to_contain_text(said)
