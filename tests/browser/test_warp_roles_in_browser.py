"""WarpRoles in a real browser: rows, stepping, cause and effect, search, zoom, rings, a saved page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import DRAWN, Host, in_issue_order, more

pytest.importorskip("torch")

import torch

import sglab
from sglab.events.log import EventLog
from sglab.events.modelled import modelled
from sglab.labs.pipelines import Pipeline
from sglab.widgets import WarpRoles, selection
from tests.support.launches.recorded import mla_sm90, mla_sm100
from tests.support.launches.shared_sum import SHARED_SUM
from tests.support.timing import events_of, kernel, record


@pytest.fixture(scope="module")
def widget() -> WarpRoles:
    return WarpRoles(mla_sm100())


def show(host: Host, widget: WarpRoles) -> Page:
    host.show(widget)
    expect(host.page.locator(".sg-timeline-label").first).to_be_visible()
    more(host.page.locator(".sg-widget"))
    in_issue_order(host.page.locator(".sg-widget"))
    host.page.locator(".swr-pipelines").evaluate("each => { each.open = true }")
    host.page.evaluate(DRAWN)
    return host.page


def visible_range(page: Page) -> tuple[int, int]:
    start, end = page.locator(".sg-timeline").get_attribute("data-range").split()  # type: ignore[union-attr]
    return int(start), int(end)


def row_y(page: Page, label: str, nth: int = 0) -> float:
    """The middle of a row, from the canvas' top."""
    row = page.locator(".sg-timeline-label", has_text=label).nth(nth).bounding_box()
    canvas = page.locator(".sg-timeline-canvas").bounding_box()
    assert row is not None
    assert canvas is not None
    return row["y"] + row["height"] / 2 - canvas["y"]


def at_warp(log: EventLog, event: int, cta: int, warp: int) -> bool:
    return bool(log.cta[event] == cta and log.warp[event] == warp)


def barrier_of(log: EventLog, wait: int) -> str:
    """The name of the barrier at which a wait was."""
    phase = log.waits.phase[wait]
    return log.roles.barrier(int(log.phases.cta[phase]), int(log.phases.kind[phase]), int(log.phases.object[phase]))


def search(page: Page, text: str) -> None:
    page.locator(".sg-widget").press("/")
    page.get_by_role("searchbox").fill(text)
    page.get_by_role("searchbox").press("Enter")


def test_every_warp_of_the_pair_has_a_row_with_its_role(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    expect(page.locator(".sg-badge")).to_have_text("emulated · issue order")
    labels = page.locator(".sg-timeline-label").all_inner_texts()
    assert [label.strip() for label in labels[:14]] == [
        *(f"{warp} softmax" for warp in range(4)),
        *(f"{warp} epilogue" for warp in range(4, 8)),
        *("8 mma", "9 load", "10 page table"),
        *("copies", "matrix products", "tensor memory"),
    ]
    expect(page.locator(".sg-timeline-group")).to_have_text(["CTA 0", "CTA 1"])


def test_steps_go_by_instruction_line_event_and_role_and_back(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    frame, counter, size = page.locator(".sg-widget"), page.locator(".sg-counter"), page.get_by_label("Step size")
    total = len(mla_sm100())
    expect(counter).to_contain_text(f"step 0 of {total:,}")
    size.select_option("instruction")
    frame.press("ArrowRight")
    expect(counter).to_contain_text(f"step 1 of {total:,}")
    for step in ("line", "event", "role"):
        size.select_option(step)
        frame.press("Home")
        frame.press("ArrowRight")
        first = counter.inner_text()
        frame.press("ArrowRight")
        expect(counter).not_to_have_text(first)
        frame.press("ArrowLeft")
        expect(counter).to_have_text(first)
    frame.press("End")
    expect(counter).to_contain_text(f"step {total:,} of {total:,}")


def test_a_wait_names_its_cause_and_the_link_goes_there_and_back(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    search(page, "mbarrier.try_wait softmax→mma")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("CTA 0 warp 8 (mma)")
    expect(details).to_contain_text("softmax→mma full")
    details.get_by_role("button", name="(softmax)").click()
    expect(details).to_contain_text("mbarrier.arrive")
    expect(details).to_contain_text("ended phase 0 of softmax→mma full")
    details.get_by_role("button", name="CTA 0 warp 8 (mma)").click()
    expect(details).to_contain_text("mbarrier.try_wait")
    page.locator(".sg-widget").press("c")
    expect(details).to_contain_text("mbarrier.arrive")
    page.locator(".sg-widget").press("e")
    expect(details).to_contain_text("mbarrier.try_wait")


def test_pressing_an_operation_shows_what_is_in_flight(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    search(page, "cp.async.bulk.tensor")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("In flight")
    expect(details).to_contain_text("72.0 KiB (73,728)")
    expect(details).to_contain_text("load→mma full")


def test_searching_finds_source_lines_and_counts(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    search(page, "bar.sync")
    expect(page.locator(".swr-answer")).to_have_text("1 of 16")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator(".swr-answer")).to_have_text("2 of 16")
    page.get_by_role("searchbox").press("Shift+Enter")
    expect(page.locator(".swr-answer")).to_have_text("1 of 16")
    search(page, "no such thing")
    expect(page.locator(".swr-answer")).to_have_text("nothing found")
    search(page, "mla_decode.cu")
    expect(page.locator(".swr-answer")).to_contain_text(" of ")


def test_zooming_and_panning_keep_the_place(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    total = len(mla_sm100())
    assert visible_range(page) == (0, total)
    box = page.locator(".sg-timeline-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 60)
    page.keyboard.down("Control")
    for _ in range(6):
        page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function(f"!document.querySelector('.sg-timeline').dataset.range.endsWith(' {total}')")
    start, end = visible_range(page)
    assert abs(start + (end - start) / 4 - total / 4) < total / 200
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4 - 100, box["y"] + 60)
    page.mouse.up()
    assert visible_range(page)[0] > start
    page.locator(".sg-widget").press("0")
    expect(page.locator(".sg-timeline")).to_have_attribute("data-range", f"0 {total}")
    page.locator(".sg-minimap").click(position={"x": 10, "y": 10})
    expect(page.locator(".sg-timeline")).to_have_attribute("data-range", f"0 {total}")


def test_the_page_scrolls_over_the_timeline(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    before = visible_range(page)
    page.locator(".sg-timeline-canvas").hover()
    page.mouse.wheel(0, 120)
    page.wait_for_function("scrollY > 0 || document.querySelector('.sg-view').scrollTop > 0")
    assert visible_range(page) == before


def test_rings_follow_the_steps(host: Host, widget: WarpRoles) -> None:
    """K and V blocks: empty at first; some are read in the middle; at the end every filled one was freed."""
    page = show(host, widget)
    ring = page.locator(".swr-ring", has_text="load→mma ×7")
    sectors = ring.locator(".swr-sector")
    expect(sectors).to_have_count(7)

    def states() -> set[str | None]:
        return {sectors.nth(i).get_attribute("data-state") for i in range(7)}

    assert states() == {"empty"}
    search(page, "tcgen05.mma")
    expect(sectors.first).to_have_attribute("data-state", "read")
    page.locator(".sg-widget").press("End")
    expect(sectors.first).to_have_attribute("data-state", "empty")
    assert "stage 0 empty, filled" in (ring.locator("svg").get_attribute("aria-label") or "")


def test_the_stages_of_rings_are_selected_by_key_or_press(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    sectors = page.locator(".swr-ring", has_text="load→mma ×7").locator(".swr-sector")
    page.locator(".sg-widget").press("p")
    page.locator(".sg-widget").press("p")
    expect(sectors.nth(1)).to_have_class("swr-sector swr-chosen")
    page.locator(".sg-widget").press("P")
    expect(sectors.nth(0)).to_have_class("swr-sector swr-chosen")
    sectors.nth(4).click()
    names = {f"0/mbarrier/{each['object']:#x}": each["name"] for each in widget.launch["barriers"] if not each["rank"]}
    assert names[selection.value["barrier"]] == "load→mma full[4]"


def test_a_stage_says_what_it_holds_and_leads_to_both_of_its_barriers(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    ring = page.locator(".swr-ring", has_text="load→mma ×7")
    expect(ring.locator(".swr-stage")).to_have_text([str(stage) for stage in range(7)])
    page.locator(".sg-widget").press("End")
    log = mla_sm100()
    full = {each.name: each.object for each in log.roles.barriers if each.cta == 0}
    filled = [int((log.phases.object == full[f"load→mma full[{stage}]"]).sum()) for stage in range(7)]
    expect(ring.locator(".swr-filled")).to_have_text("filled " + " ".join(map(str, filled)))
    sector = ring.locator(".swr-sector").nth(2)
    sector.hover()
    expect(page.get_by_role("tooltip")).to_contain_text(f"stage 2: empty, filled {filled[2]} times")
    expect(page.get_by_role("tooltip")).to_contain_text(f"load→mma full[2]: phase {filled[2]}, parity {filled[2] % 2}")
    sector.click()
    expect(page.locator(".sg-details")).to_contain_text("load→mma full[2]")
    sector.click()
    expect(page.locator(".sg-details")).to_contain_text("mma→load empty[2]")


def test_a_warps_name_says_what_it_waited_for(host: Host, widget: WarpRoles) -> None:
    page, log = show(host, widget), mla_sm100()
    page.locator(".sg-timeline-label", has_text="8 mma").first.click()
    details = page.locator(".sg-details")
    waits = log.waits
    mine = [i for i in range(len(waits.event)) if log.cta[waits.event[i]] == 0 and log.warp[waits.event[i]] == 8]
    length = {i: int(waits.event[i]) - int(waits.since[i]) for i in mine}
    blocks = [i for i in mine if waits.phase[i] >= 0 and barrier_of(log, i).startswith("load→mma full[")]
    total = sum(length[i] for i in blocks)
    expect(details).to_contain_text(f"load→mma full[…]: {len(blocks)} ×, {total:,} instructions")
    longest = max(mine, key=lambda i: length[i])
    details.get_by_role("button", name=f"{length[longest]:,} instructions").click()
    expect(page.locator(".sg-counter")).to_contain_text(f"step {int(waits.event[longest]) + 1:,} of")
    expect(details).to_contain_text(f"for {length[longest]:,} instructions")


def test_what_is_said_of_a_row_follows_the_view(host: Host, widget: WarpRoles) -> None:
    page, log = show(host, widget), mla_sm100()
    page.locator(".sg-timeline-label", has_text="9 load").first.click()
    details = page.locator(".sg-details")
    expect(details).to_contain_text(f"In view, 0 to {len(log):,}")
    page.locator(".sg-widget").press("+")
    expect(details).to_contain_text(f"In view, 0 to {(len(log) + 1) // 2:,}")
    count = sum(at_warp(log, event, 0, 9) for event in range((len(log) + 1) // 2))
    expect(details).to_contain_text(f"instructions{count:,}")


def test_the_row_of_matrix_products_leads_to_why_they_paused(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-badge")).to_contain_text("modelled time")
    page.locator(".sg-timeline-label", has_text="matrix products").first.click()
    details = page.locator(".sg-details")
    expect(details).to_contain_text(f"operations{int((mla_sm100().mmas.event >= 0).sum())}")
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text("matrix products")
    whole = visible_range(page)
    details.get_by_role("button", name=" from ").click()
    page.wait_for_function(f"document.querySelector('.sg-timeline').dataset.range !== '{whole[0]} {whole[1]}'")
    details.get_by_role("button", name="CTA 0 warp 8 (mma) at").click()
    expect(details).to_contain_text("mbarrier.try_wait")
    expect(details).to_contain_text("released by")


def test_a_pause_without_a_wait_says_how_little_was_executed(host: Host, widget: WarpRoles) -> None:
    """In issue order the other warps' instructions take places, too."""
    page = show(host, widget)
    page.locator(".sg-timeline-label", has_text="matrix products").first.click()
    details = page.locator(".sg-details")
    meanwhile = re.compile(r"CTA 0 warp 8 \(mma\) waited for nothing and executed (\d+) instructions")
    expect(details).to_contain_text(meanwhile)
    text, log = details.inner_text(), mla_sm100()
    length, start = (int(each.replace(",", "")) for each in re.findall(r"([\d,]+) instructions from ([\d,]+)", text)[0])
    executed = sum(at_warp(log, i, 0, 8) for i in range(start, start + length))
    assert meanwhile.findall(text) == [str(executed)]


def test_a_bundle_of_bars_says_what_is_in_it_and_is_zoomed_to(host: Host, widget: WarpRoles) -> None:
    page, log = show(host, widget), mla_sm100()
    box = page.locator(".sg-timeline-canvas").bounding_box()
    assert box is not None
    events = [i for i in range(len(log)) if at_warp(log, i, 0, 9)]
    dense = events[len(events) // 2]
    page.mouse.click(box["x"] + box["width"] * (dense + 0.5) / len(log), box["y"] + row_y(page, "9 load"))
    details = page.locator(".sg-details")
    expect(details).to_contain_text("A bundle: ")
    count = int(details.inner_text().split("A bundle: ")[1].split()[0].replace(",", ""))
    page.locator(".sg-widget").press("z")
    page.wait_for_function(f"!document.querySelector('.sg-timeline').dataset.range.endsWith(' {len(log)}')")
    start, end = visible_range(page)
    assert start <= dense <= end
    assert sum(start - 1 <= event <= end + 1 for event in events) >= count


def test_a_barrier_selected_elsewhere_is_described_and_its_warps_are_highlighted(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    (barrier,) = (
        each for each in widget.launch["barriers"] if each["name"] == "softmax→mma full[0]" and not each["rank"]
    )
    selection.set(cta=0, barrier=f"0/mbarrier/{barrier['object']:#x}", moment=len(mla_sm100()) // 2)
    host.flush()
    expect(page.locator(".sg-details")).to_contain_text("Still to arrive")
    pressed = page.locator(".sg-timeline-label[aria-pressed=true]").all_inner_texts()
    assert {each.split()[1] for each in pressed} == {"softmax", "mma"}


def test_an_instruction_selected_elsewhere_is_picked(host: Host, widget: WarpRoles) -> None:
    page, log = show(host, widget), mla_sm100()
    event = next(i for i in range(3000, len(log)) if at_warp(log, i, 0, 9))
    selection.set(cta=0, warp=9, moment=event + 1)
    host.flush()
    expect(page.locator(".sg-details")).to_contain_text("CTA 0 warp 9 (load)")
    expect(page.locator(".sg-details")).to_contain_text(f"event{event:,}")


def test_selecting_a_warp_stresses_it_everywhere(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    page.locator(".sg-timeline-label", has_text="8 mma").first.click()
    assert selection.value == {"cta": 0, "warp": 8}
    page.locator(".sg-widget").press("ArrowDown")
    assert selection.value == {"cta": 0, "warp": 9}
    selection.set(cta=1)
    host.flush()
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_count(11)
    page.locator(".sg-widget").press("Escape")
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_count(0)


def test_a_selected_moment_moves_the_transport(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    selection.set(moment=4321)
    host.flush()
    expect(page.locator(".sg-counter")).to_contain_text("step 4,321 of")


def test_modelled_time_is_an_axis_of_its_own(host: Host, widget: WarpRoles) -> None:
    """Its badge says so, steps go forward in time, and the moment stays when the axis changes."""
    page = show(host, widget)
    search(page, "tcgen05.mma")
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-badge")).to_have_text("emulated · modelled time, B200")
    assert visible_range(page)[1] <= round(widget.launch["timed"]["total"])  # as far as this cluster runs
    expect(page.locator("output.sg-sentence")).to_contain_text("tcgen05.mma")
    times = []
    for _ in range(8):
        page.locator(".sg-widget").press("ArrowRight")
        text = page.locator(".sg-counter").inner_text().split(" · ")[1]
        number, unit = text.split()
        times.append(float(number) * {"ns": 1, "µs": 1000}[unit])
    assert times == sorted(times)
    assert times[-1] > 1000
    page.get_by_label("Axis").select_option("issue")
    expect(page.locator(".sg-badge")).to_have_text("emulated · issue order")
    page.get_by_label("Axis").select_option("timed")
    search(page, "tcgen05.mma")
    page.get_by_label("Axis").select_option("issue")
    expect(page.locator("output.sg-sentence")).to_contain_text("tcgen05.mma")


def test_in_modelled_time_the_kinds_that_take_longest_stand_first_and_what_takes_none_says_why(
    host: Host, widget: WarpRoles
) -> None:
    page = show(host, widget)
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-legend")).to_contain_text("pale: in between")
    page.locator(".sg-timeline-label", has_text="5 epilogue").first.click()
    details = page.locator(".sg-details")
    kinds = details.locator(".sg-list").last.locator("li")
    expect(kinds.first).to_have_text(re.compile(r"× float, [\d.]+ µs"))
    expect(details).to_contain_text("together they are what is busy")
    texts = kinds.all_inner_texts()  # conversions, which ptxas issues ahead of their stores, read "0 ns"
    assert not any(text.endswith(", 0 ns") for text in texts), texts


def test_waits_in_modelled_time_name_their_cause(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-badge")).to_contain_text("modelled time")
    search(page, "mbarrier.try_wait softmax→mma")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("released by")
    expect(details).to_contain_text("ns")
    page.locator(".sg-widget").press("c")
    expect(details).to_contain_text("mbarrier.arrive")


def test_in_modelled_time_a_wait_for_cp_async_groups_is_no_work(host: Host) -> None:
    """The emulator carries the copies out there; the warp was said to be busy for as long as they take."""
    body = """
  mov.u32 %bar, memory; mad.lo.u32 %bar, %t, 16, %bar;
  cp.async.cg.shared.global [%bar], [%out], 16; cp.async.commit_group; cp.async.wait_group 0;
"""
    log = record(kernel(body, ".reg .b32 %bar;", 512))
    timed = modelled(log, "sm_90")
    assert timed is not None
    (wait,) = events_of(log, "cp.async.wait_group").tolist()
    waited = float(timed.end[wait] - timed.start[wait])
    assert waited > 200
    host.show(WarpRoles(log, arch="sm_90"))
    page = host.page
    page.get_by_role("button", name="warp 0").click()
    details = page.locator(".sg-details")
    expect(details).to_contain_text(f"asynchronous operations: 1 ×, {round(waited)} ns")
    busy = re.search(r"busy(\d+)", details.inner_text().replace("\n", ""))
    assert busy is not None
    assert int(busy[1]) < 0.5 * waited


def test_hovering_says_what_is_under_the_pointer(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    y = row_y(page, "tensor memory")
    page.locator(".sg-timeline-canvas").hover(position={"x": 400, "y": y - 6})
    expect(page.get_by_role("tooltip")).to_contain_text("tensor memory: alloc")


def test_another_cluster_is_chosen_in_the_toolbar(host: Host) -> None:
    page = show(host, WarpRoles(mla_sm100(128, 3)))
    page.get_by_label("Cluster").select_option("2")
    expect(page.locator(".sg-timeline-group")).to_have_text(["CTA 4", "CTA 5"])
    expect(page.locator(".sg-subject")).to_contain_text("CTA 4, 5")


def test_a_cta_of_another_cluster_selected_elsewhere_is_shown(host: Host) -> None:
    page = show(host, WarpRoles(mla_sm100(128, 3)))
    selection.set(request=1, cta=3)
    host.flush()
    expect(page.locator(".sg-timeline-group")).to_have_text(["CTA 2", "CTA 3"])
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_count(11)


def test_a_cta_that_the_grid_lacks_changes_nothing(host: Host) -> None:
    page = show(host, WarpRoles(mla_sm100(128, 3)))
    selection.set(cta=6)
    host.flush()
    settled(page)
    expect(page.locator(".sg-timeline-group")).to_have_text(["CTA 0", "CTA 1"])
    expect(page.locator(".sg-notice")).to_be_hidden()


def test_a_launch_without_clusters_shows_one_cta(host: Host) -> None:
    page = show(host, WarpRoles(mla_sm90()))
    expect(page.locator(".sg-timeline-group")).to_have_text(["CTA 0"])
    expect(page.locator(".sg-timeline-label", has_text="math")).to_have_count(8)


@pytest.mark.parametrize("width", [1000, 1440])
def test_selections_and_long_sentences_leave_the_height_as_it_is(host: Host, widget: WarpRoles, width: int) -> None:
    host.page.set_viewport_size({"width": width, "height": 900})
    host.show(widget)
    frame = host.page.locator(".sg-widget")
    expect(frame.locator(".sg-timeline-label").first).to_be_visible()
    heights = set()
    for key in ["ArrowDown"] * 4 + ["Shift+ArrowRight"] * 3 + ["c", "e"] * 6 + ["p"] * 6 + ["Escape"]:
        frame.press(key)
        host.page.evaluate(DRAWN)
        heights.add(frame.evaluate("each => each.offsetHeight"))
    assert len(heights) == 1


def test_the_last_to_arrive_did_not_release_itself(host: Host) -> None:
    """It was said to be released by itself, and to have come later than itself."""
    launch = sglab.step(sglab.ptx(SHARED_SUM)[1, 64], torch.zeros(64))
    page = show(host, WarpRoles(launch))
    expect(page.locator(".sg-legend")).not_to_contain_text("in flight")  # of which this launch has nothing
    page.get_by_label("Search").fill("bar.sync")
    details = page.locator(".sg-details")
    for _ in range(2):  # both warps': the second is the last
        page.get_by_label("Search").press("Enter")
        page.evaluate(DRAWN)
        if "Effect" in details.inner_text():
            break
    expect(details).to_contain_text("not at all: it was the last to arrive")
    expect(details.locator("li")).to_have_count(1)
    expect(details.locator("li")).to_contain_text("had waited")


def test_where_it_failed_is_the_wait_that_the_error_names(host: Host) -> None:
    """It selected the last instruction, the `bra` of the loop around the wait."""
    page = show(host, WarpRoles(Pipeline("one_arrival").session()))
    expect(page.get_by_role("alert").first).to_contain_text("CTA (0, 0, 0) warp 0 (load) waits at PTX line")
    page.get_by_role("button", name="Go to where it failed").click()
    details = page.locator(".sg-details")
    expect(details).to_contain_text("CTA 0 warp 0 (load)")
    expect(details.locator(".swr-code")).to_contain_text("mbarrier.try_wait")
    expect(details).to_contain_text("compute→load empty[0]")


@pytest.mark.parametrize("height", [700, 800])
def test_the_overview_stays_in_sight_and_every_row_can_be_scrolled_above_it(
    host: Host, widget: WarpRoles, height: int
) -> None:
    """The rows of a pair of CTAs were higher than the view, and the overview below them, out of sight."""
    host.page.set_viewport_size({"width": 1000, "height": height})
    page = host.page
    host.show(widget)
    expect(page.locator(".sg-timeline-label").first).to_be_visible()
    settled(page)
    places = """() => {
      const box = (selector) => [...document.querySelectorAll(selector)].at(-1).getBoundingClientRect();
      const [view, strip, row] = [".sg-view", ".sg-minimap", ".sg-timeline-label"].map(box);
      return { view: [view.top, view.bottom], strip: [strip.top, strip.bottom], row: row.bottom };
    }"""
    before = page.evaluate(places)
    assert before["strip"][1] <= before["view"][1] + 1
    page.locator(".sg-view").evaluate("view => view.scrollTo(0, view.scrollHeight)")
    after = page.evaluate(places)
    assert after["row"] <= after["strip"][0]
    assert after["strip"][1] <= after["view"][1] + 1


def test_a_saved_page_is_small_and_works_alone(page: Page, tmp_path: Path) -> None:
    path = WarpRoles(mla_sm100(512)).save(tmp_path / "roles.html")
    assert path.stat().st_size < 5_000_000
    page.goto(path.as_uri())
    expect(page.locator(".sg-timeline-label").first).to_be_visible()
    search(page, "bar.sync")
    expect(page.locator(".sg-details")).to_contain_text("bar.sync")


@pytest.mark.parametrize(("scheme", "width"), [("light", 900), ("dark", 1800)])
def test_nothing_overflows_and_axe_finds_nothing(
    host: Host, widget: WarpRoles, axe: Callable[[Page], list[str]], scheme: str, width: int
) -> None:
    host.page.set_viewport_size({"width": width, "height": 1000})
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = show(host, widget)
    search(page, "mbarrier.try_wait")
    expect(page.locator(".sg-details")).to_contain_text("Barrier")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_disposed_view_leaves_nothing_behind(host: Host, widget: WarpRoles) -> None:
    page = show(host, widget)
    host.show(widget, "second")
    expect(page.locator("#second .sg-timeline-label").first).to_be_visible()
    for place in ("widget", "second"):
        page.evaluate("place => document.getElementById(place).sglabDispose()", place)
    assert page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0
    expect(page.locator(".sg-widget")).to_have_count(0)
