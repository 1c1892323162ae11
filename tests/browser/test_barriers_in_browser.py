"""Barriers in a real browser: the table at any step, waiting warps, history, a session, failures, a saved page."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.patience import settled, until
from tests.support.browser.widget_host import DRAWN, Host, in_issue_order, more

pytest.importorskip("torch")

import torch

from sglab import gpu
from sglab.events.log import EventLog
from sglab.events.modelled import modelled
from sglab.events.tables import CLUSTER, MBARRIER
from sglab.gpu import KernelError
from sglab.labs.pipelines import Pipeline
from sglab.widgets import Barriers, WarpRoles, selection
from tests.support.launches.recorded import mla_sm100, mla_sm100_session
from tests.support.launches.session_lines import SESSION_PTX

CUT = """(cell) => [cell, ...cell.querySelectorAll("span")]
  .filter((part) => part.scrollWidth > part.clientWidth + 1 && part.clientWidth > 0)
  .map((part) => part.textContent)"""
"""Texts that are not shown whole."""


@pytest.fixture(scope="module")
def widget() -> Barriers:
    return Barriers(mla_sm100())


def show(host: Host, widget: Barriers) -> Page:
    host.show(widget)
    expect(host.page.locator(".sg-timeline-label").first).to_be_visible()
    more(host.page.locator(".sg-widget"))
    in_issue_order(host.page.locator(".sg-widget"))
    return host.page


@cache
def pipeline() -> EventLog:
    return Pipeline("2_stages", tiles=4).record()


def part_lists(page: Page) -> dict[str, list[str]]:
    """The lists of the details, by their headings."""
    pairs = page.locator(".sg-details").evaluate(
        "pane => [...pane.querySelectorAll('.sg-part + ul')].map(list => "
        "[list.previousElementSibling.textContent, [...list.children].map(entry => entry.textContent)])"
    )
    return dict(pairs)


def line(page: Page, name: str) -> dict[str, str]:
    """What is beside a barrier's name, once what was done last is drawn."""
    page.evaluate(DRAWN)
    cells = page.locator(".sg-timeline-line").filter(has=page.get_by_role("button", name=name, exact=True))
    return {part: cells.locator(f".sbr-{part}").inner_text() for part in ("phase", "pending", "tx", "waiting")}


def test_every_used_barrier_of_a_cta_has_a_line(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    names = [each.strip() for each in page.locator(".sg-timeline-label").all_inner_texts()]
    assert [f"load→mma full[{stage}]" for stage in range(7)] == [name for name in names if "load→mma full[" in name]
    assert names[-1] == "cluster barrier"
    page.get_by_label("unused ones, too").check()
    assert page.locator(".sg-timeline-label").count() > len(names)
    page.get_by_label("Barriers of").select_option("all")
    expect(page.locator(".sg-timeline-group")).to_have_text(["CTA 0", "CTA 1", "cluster"])


def test_modelled_time_is_an_axis_of_its_own_and_keeps_the_moment(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    frame = page.locator(".sg-widget")
    for _ in range(9):
        frame.press("ArrowRight")
    before = page.locator(".sg-counter").inner_text()
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-badge")).to_have_text("emulated · modelled time, B200")
    expect(page.locator(".sg-timeline-plot")).to_have_attribute("aria-label", "Barriers over modelled time")
    expect(page.locator(".sg-counter")).to_contain_text("µs")
    page.get_by_label("Axis").select_option("issue")
    expect(page.locator(".sg-badge")).to_have_text("emulated · issue order")
    expect(page.locator(".sg-counter")).to_have_text(before)


def test_over_modelled_time_a_full_barrier_counts_as_its_changes_do(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-badge")).to_contain_text("modelled time")
    page.locator(".sg-widget").press("End")
    expect(page.locator(".sbr-phase").first).not_to_have_text("–")
    last = widget._tensor("timed.states").array
    number = next(i for i, each in enumerate(widget.launch["barriers"]) if each["name"] == "load→mma full[0]")
    _, parity, pending, expected, _ = last[:, last[0] == number][:, -1]
    shown = line(page, "load→mma full[0]")
    assert shown["pending"] == f"{pending}/{expected}"
    assert int(shown["phase"]) % 2 == parity


def test_over_modelled_time_the_clusters_barrier_holds_until_its_last_arrival_is_known(
    host: Host, widget: Barriers
) -> None:
    """That takes 300 ns; the table was in the next phase meanwhile, and said that no warp waits."""
    timed = modelled(mla_sm100(), None)
    assert timed is not None
    (end, *_) = timed.phases[mla_sm100().phases.kind == CLUSTER]
    page = show(host, widget)
    page.get_by_label("Axis").select_option("timed")
    expect(page.locator(".sg-badge")).to_contain_text("modelled time")
    page.get_by_role("button", name="cluster barrier", exact=True).click()
    frame, counter = page.locator(".sg-widget"), page.locator(".sg-counter")
    frame.press("ArrowRight")
    expect(page.locator("output.sg-sentence")).to_contain_text("Phase 0 of cluster barrier ended by CTA")
    assert line(page, "cluster barrier")["phase"] == "1"
    assert float(counter.inner_text().split("·")[1].split()[0]) * 1000 >= end
    page.get_by_label("Step size").select_option("instruction")
    frame.press("ArrowLeft")
    before = line(page, "cluster barrier")
    assert float(counter.inner_text().split("·")[1].split()[0]) * 1000 < end
    assert before["phase"] == "0"
    assert before["waiting"].split()[0] == f"×{2 * widget.launch['warps'] - 1}"


def test_the_table_agrees_with_a_session_at_random_positions(host: Host, widget: Barriers) -> None:
    page, session = show(host, widget), mla_sm100_session()
    objects = {each["object"]: each["name"] for each in widget.launch["barriers"] if each["rank"] == 0}
    shown = {each.strip() for each in page.locator(".sg-timeline-label").all_inner_texts()}
    total = len(mla_sm100())
    for position in sorted(np.random.default_rng().integers(1200, total - 1, 6).tolist()):
        session.seek(position)
        selection.set(moment=position)
        host.flush()
        expect(page.locator(".sg-counter")).to_have_text(f"step {position:,} of {total:,}")
        for barrier in session.mbarriers(0):
            if objects[barrier.offset] not in shown:
                continue
            cells = line(page, objects[barrier.offset])
            assert cells["pending"].split()[-1] == f"{barrier.pending}/{barrier.expected}", (position, barrier)
            assert int(cells["phase"]) % 2 == barrier.phase
            kib = barrier.tx_count / 1024
            assert cells["tx"] == ("" if not barrier.tx_count else f"{kib:.{0 if kib >= 100 else 1}f} KiB")


def test_who_waits_and_since_when(host: Host, widget: Barriers) -> None:
    """The longest wait of the tensor cores' warp at a full barrier, looked at in its middle."""
    page, log = show(host, widget), mla_sm100()
    waits, names = log.waits, {}
    for each in log.roles.barriers:
        names[each.cta, each.kind, each.object] = each.name
    rows = [
        row
        for row in range(len(waits.event))
        if waits.phase[row] >= 0
        and log.warp[waits.event[row]] == 8
        and log.cta[waits.event[row]] == 0
        and log.phases.kind[waits.phase[row]] == MBARRIER
    ]
    row = max(rows, key=lambda each: int(waits.event[each]) - int(waits.since[each]))
    phase = int(waits.phase[row])
    name = names[int(log.phases.cta[phase]), MBARRIER, int(log.phases.object[phase])]
    middle = (int(waits.since[row]) + int(waits.event[row])) // 2
    selection.set(moment=middle)
    host.flush()
    page.get_by_role("button", name=name, exact=True).click()
    expect(page.locator(".sg-details")).to_contain_text(f"CTA 0 warp 8 (mma) since {int(waits.since[row]):,}")
    assert line(page, name)["waiting"].split() == ["w8", f"{middle - int(waits.since[row]):,}"]


@pytest.mark.parametrize("width", [1000, 1440])
def test_how_many_wait_is_whole_when_their_roles_are_several(host: Host, widget: Barriers, width: int) -> None:
    """At the cluster's barrier warps of several roles wait: counts of each did not fit and were cut to "w" and "×"."""
    host.page.set_viewport_size({"width": width, "height": 900})
    page = show(host, widget)
    waits = page.locator(".sg-timeline-line").filter(has=page.get_by_role("button", name="cluster barrier", exact=True))
    several = 0
    for position in range(1000, len(mla_sm100()), 1500):
        selection.set(moment=position)
        host.flush()
        page.evaluate(DRAWN)
        if waits.locator(".sbr-chip .sg-swatch").count() > 1:
            several += 1
            assert waits.locator(".sbr-waiting").evaluate(CUT) == []
    assert several


def test_who_has_arrived_and_who_has_still_to(host: Host) -> None:
    """Four warps free a stage of the lesson's pipeline; after the second one's arrival two are missing."""
    log = pipeline()
    (barrier,) = (each for each in log.roles.barriers if each.name == "compute→load empty[0]")
    table = log.barriers
    mine = np.flatnonzero((table.kind == MBARRIER) & (table.object == barrier.object))
    arrive = [int(table.event[row]) for row in mine if "arrive" in log.code.rows[log.pc[table.event[row]]][1]]
    page = show(host, Barriers(log))
    selection.set(cta=0, barrier=f"0/mbarrier/{barrier.object:#x}", moment=arrive[1] + 1)
    host.flush()
    expect(page.locator(".sg-counter")).to_contain_text(f"step {arrive[1] + 1:,} of")
    settled(page)  # the details follow the counter
    parts = part_lists(page)
    assert parts["Arrived in this phase"] == [
        f"CTA 0 warp {log.warp[each]} (compute) at {each:,}" for each in arrive[:2]
    ]
    assert parts["Still to arrive"] == [f"CTA 0 warp {log.warp[each]} (compute) at {each:,}" for each in arrive[2:4]]


def test_a_released_warp_does_not_wait(host: Host) -> None:
    """When a phase has ended, those that waited for it continue one after the other; none of them waits any more."""
    log = pipeline()
    (barrier,) = (each for each in log.roles.barriers if each.name == "load→compute full[0]")
    waits, phases = log.waits, log.phases
    (phase,) = np.flatnonzero((phases.kind == MBARRIER) & (phases.object == barrier.object) & (phases.number == 1))
    released = np.flatnonzero(waits.phase == phase)
    assert len(released) == 4
    page = show(host, Barriers(log))
    selection.set(cta=0, barrier=f"0/mbarrier/{barrier.object:#x}", moment=int(phases.position[phase]) + 1)
    host.flush()
    expect(page.locator(".sg-details")).to_contain_text("No warp waits")
    still = [int(log.warp[waits.event[row]]) for row in released if waits.event[row] > phases.position[phase]]
    assert [entry.split(" since")[0] for entry in part_lists(page)["Released, and not gone on yet"]] == [
        f"CTA 0 warp {warp} (compute)" for warp in still
    ]
    assert line(page, barrier.name)["waiting"] == ""


def test_a_phase_that_never_ends_says_so(host: Host) -> None:
    """Only one of four warps frees a stage: the rest of its phase never comes."""
    session = Pipeline("one_arrival").session()
    with suppress(KernelError):
        session.run()
    page = show(host, Barriers(session))
    page.get_by_role("button", name="compute→load empty[0]", exact=True).click()
    page.locator(".sg-widget").press("End")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("pending3 of 4 arrivals")
    expect(details).to_contain_text("None until the recording ends.")
    expect(details).to_contain_text("This phase does not end in the recording.")


def test_a_barrier_selected_by_key_comes_into_sight(host: Host, widget: Barriers) -> None:
    host.page.set_viewport_size({"width": 1300, "height": 500})
    page = show(host, widget)
    page.locator(".sg-widget").press("ArrowUp")
    row = page.locator(".sg-timeline-label[aria-pressed=true]")
    expect(row).to_be_in_viewport()
    box, transport = row.bounding_box(), page.locator(".sg-transport").bounding_box()
    assert box is not None
    assert transport is not None
    assert box["y"] + box["height"] <= transport["y"]


def test_the_transport_stays_where_it_is_while_a_barrier_is_stepped(host: Host) -> None:
    page = show(host, Barriers(pipeline()))
    page.get_by_role("button", name="load→compute full[0]", exact=True).click()
    page.locator(".sg-widget").press("End")
    bar = page.locator(".sg-transport")
    expect(page.locator(".sg-details")).to_contain_text("ended at")
    below = bar.bounding_box()
    page.locator(".sg-widget").press("Home")
    expect(page.locator(".sg-details")).to_contain_text("not initialised yet")
    assert bar.bounding_box() == below


def test_steps_go_from_phase_to_phase_and_say_who_ended_it(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    frame, sentence = page.locator(".sg-widget"), page.locator("output.sg-sentence")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text("Phase 0 of cluster barrier ended by CTA")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text("Phase 0 of page table→load full[0] ended by CTA 0 warp 10 (page table)")
    frame.press("ArrowLeft")
    expect(sentence).to_contain_text("Phase 0 of cluster barrier ended")


def test_a_selected_barrier_is_stepped_by_its_own_changes(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    page.get_by_role("button", name="load→mma full[0]", exact=True).click()
    assert selection.value["cta"] == 0
    assert selection.value["barrier"].startswith("0/mbarrier/0x")
    page.locator(".sg-widget").press("Shift+ArrowRight")
    page.locator(".sg-widget").press("Shift+ArrowRight")
    expect(page.locator(".sg-details")).to_contain_text("CTA 0 warp 9 (load) arrived at")
    link = page.locator(".sg-details").get_by_role("button", name="CTA 0 warp 9 (load)").first
    link.click()
    assert selection.value["warp"] == 9
    assert selection.value["barrier"].startswith("0/mbarrier/0x")


def test_a_barrier_of_another_cta_selected_elsewhere_is_shown(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    other = next(each for each in widget.launch["barriers"] if each["rank"] == 1 and "mma→load" in each["name"])
    selection.set(cta=1, barrier=f"1/mbarrier/{other['object']:#x}")
    host.flush()
    expect(page.get_by_label("Barriers of")).to_have_value("1")
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text(other["name"])


def test_selecting_a_warp_stresses_what_it_waits_for(host: Host, widget: Barriers) -> None:
    page, log = show(host, widget), mla_sm100()
    row = next(
        each
        for each in range(len(log.waits.event))
        if log.waits.phase[each] >= 0
        and log.phases.kind[log.waits.phase[each]] == MBARRIER
        and log.cta[log.waits.event[each]] == 0
    )
    event = int(log.waits.event[row])
    phase = int(log.waits.phase[row])
    name = log.roles.barrier(int(log.phases.cta[phase]), MBARRIER, int(log.phases.object[phase]))
    selection.set(cta=0, warp=int(log.warp[event]), moment=int(log.waits.since[row]) + 1)
    host.flush()
    expect(page.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text(name)


def test_hovering_the_history_shows_the_state_there(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    label = page.get_by_role("button", name="load→mma full[2]", exact=True).bounding_box()
    canvas = page.locator(".sg-timeline-canvas").bounding_box()
    assert label is not None
    assert canvas is not None
    y = label["y"] + label["height"] / 2 - canvas["y"]
    page.locator(".sg-timeline-canvas").hover(position={"x": canvas["width"] / 2, "y": y})
    expect(page.get_by_role("tooltip")).to_contain_text("load→mma full[2]")
    expect(page.get_by_role("tooltip")).to_contain_text("of 2 pending")


def test_a_session_moves_with_the_widget_and_the_widget_with_it(host: Host) -> None:
    session = mla_sm100_session(128)
    widget = Barriers(session)
    page = show(host, widget)
    session.seek(3000)
    host.flush()
    expect(page.locator(".sg-counter")).to_contain_text("step 3,000 of")
    page.locator(".sg-widget").press("ArrowRight")
    expect(page.locator(".sg-counter")).not_to_contain_text("step 3,000 of")
    position = int(page.locator(".sg-counter").inner_text().split()[1].replace(",", ""))
    until(page, lambda: session.now == position)


def test_a_kernel_that_failed_shows_why_and_what_happened_until_then(host: Host) -> None:
    kernel = gpu.load(SESSION_PTX)["clock_and_out_of_bounds"]
    device = gpu.EmulatedDevice("sm_90a")
    session = kernel.session(device, grid=1, block=32, args=[torch.zeros(32, dtype=torch.int64), 1])
    host.show(WarpRoles(session), "roles")
    expect(host.page.get_by_role("alert").first).to_contain_text("The kernel failed: access to 8 bytes")
    expect(host.page.get_by_role("alert").first).to_contain_text("past the end")
    expect(host.page.locator("#roles .sg-timeline-label")).to_have_count(1)
    expect(host.page.get_by_role("alert").first).to_contain_text("KernelDebugger(session) of the same launch stops")
    host.show(Barriers(session), "barriers")
    expect(host.page.locator("#barriers .sg-placeholder")).to_contain_text("had passed a barrier here when it failed")


def test_a_saved_page_is_small_and_works_alone(page: Page, tmp_path: Path) -> None:
    path = Barriers(mla_sm100(512)).save(tmp_path / "barriers.html")
    assert path.stat().st_size < 5_000_000
    page.goto(path.as_uri())
    expect(page.locator(".sg-timeline-label").first).to_be_visible()
    page.locator(".sg-widget").press("End")
    first = page.get_by_role("button", name="load→mma full[0]", exact=True)
    ended = page.locator(".sg-timeline-line").filter(has=first).locator(".sbr-phase")
    log = mla_sm100(512)
    (barrier,) = (each for each in log.roles.barriers if each.name == "load→mma full[0]")
    expect(ended).to_have_text(str((log.phases.object == barrier.object).sum()))


def test_a_saved_page_opens_where_its_session_was(page: Page, tmp_path: Path) -> None:
    session = mla_sm100_session(512)
    session.seek(3000)
    page.goto(Barriers(session).save(tmp_path / "moment.html").as_uri())
    expect(page.locator(".sg-counter")).to_contain_text("step ")
    expect(page.locator(".sg-counter")).not_to_contain_text("step 0 of")


def test_in_a_narrow_notebook_the_picture_has_more_room_than_the_table(host: Host, widget: Barriers) -> None:
    host.page.set_viewport_size({"width": 850, "height": 900})
    page = show(host, widget)
    plot, whole = (page.locator(name).first.bounding_box() for name in (".sg-timeline-plot", ".sg-timeline"))
    assert plot and whole
    assert plot["width"] > whole["width"] / 2


@pytest.mark.parametrize("width", [970, 1240, 1800])
def test_counts_of_many_arrivals_are_not_cut(host: Host, widget: Barriers, width: int) -> None:
    host.page.set_viewport_size({"width": width, "height": 900})
    page = show(host, widget)
    page.locator(".sg-widget").press("End")
    settled(page)
    cut = page.evaluate(
        """() => [...document.querySelectorAll('.sbr-pending')].filter((cell) => {
          cell.lastChild.textContent = '704/704';
          return cell.querySelector('.sbr-bar') && cell.scrollWidth > cell.clientWidth;
        }).length"""
    )
    assert page.locator(".sbr-bar").count()
    assert cut == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 900), ("dark", 1800)])
def test_nothing_overflows_and_axe_finds_nothing(
    host: Host, widget: Barriers, axe: Callable[[Page], list[str]], scheme: str, width: int
) -> None:
    host.page.set_viewport_size({"width": width, "height": 1000})
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = show(host, widget)
    page.locator(".sg-widget").press("ArrowDown")
    expect(page.locator(".sg-details")).to_contain_text("pending")
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_disposed_view_leaves_nothing_behind(host: Host, widget: Barriers) -> None:
    page = show(host, widget)
    host.show(widget, "second")
    expect(page.locator("#second .sg-timeline-label").first).to_be_visible()
    for place in ("widget", "second"):
        page.evaluate("place => document.getElementById(place).sglabDispose()", place)
    assert page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0
    expect(page.locator(".sg-widget")).to_have_count(0)


def test_the_focus_goes_along_with_the_row_that_a_key_selects(host: Host, widget: Barriers) -> None:
    """It stayed on the row that was pressed, so that two looked selected."""
    page = show(host, widget)
    labels = page.locator(".sg-timeline-label")
    labels.nth(2).click()
    page.keyboard.press("ArrowDown")
    expect(labels.nth(3)).to_have_attribute("aria-pressed", "true")
    expect(labels.nth(3)).to_be_focused()
    page.keyboard.press("Escape")
