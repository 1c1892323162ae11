"""Different widgets, each with its own bundle, in one page: one selection, no clashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytest.importorskip("triton")

import sglab
from sglab.labs.pipelines import Pipeline
from sglab.widgets import (
    Barriers,
    KernelDebugger,
    PageTable,
    RadixTree,
    Scheduler,
    SharedMemory,
    SplitKV,
    TensorMemory,
    WarpRoles,
    html_page,
    selection,
)
from tests.support.browser.every_widget import recording
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host
from tests.support.launches.memory_sessions import corpus, product
from tests.support.launches.recorded import mla_sm100_session


def test_selecting_a_request_in_one_widget_selects_it_in_the_other(page: Page, tmp_path: Path) -> None:
    batch = sglab.decode_batch([300, 1000, 77], page_size=64, kv_lora_rank=16, qk_rope_head_dim=16)
    path = tmp_path / "report.html"
    path.write_text(html_page([PageTable(batch), SplitKV(batch)], "One batch"), encoding="utf-8")
    page.goto(path.as_uri())
    table, split = page.locator(".sg-widget").nth(0), page.locator(".sg-widget").nth(1)
    expect(table.locator(".sg-counter")).to_have_text("step 0 of 29")
    table.press("ArrowDown")
    table.press("ArrowDown")
    expect(split.locator(".sg-details")).to_contain_text("1,000")
    split.press("ArrowDown")
    expect(table.locator(".sg-details")).to_contain_text("Request r2")


def test_a_saved_page_leads_from_a_page_of_the_pool_to_its_copies(page: Page, tmp_path: Path) -> None:
    batch = sglab.decode_batch([300], num_heads=128, page_size=128, dtype="float16", seed=0)
    roles = WarpRoles(sglab.trace(batch, backend="cutlass_mla"))
    path = tmp_path / "trail.html"
    path.write_text(html_page([PageTable(batch), roles], "Trail"), encoding="utf-8")
    assert path.stat().st_size < 5_000_000
    page.goto(path.as_uri())
    table, timeline = page.locator(".sg-widget").nth(0), page.locator(".sg-widget").nth(1)
    expect(timeline.locator(".sg-timeline-label").first).to_be_visible()
    field = table.get_by_label("Find a request")
    field.fill("page 2")
    field.press("Enter")
    details = timeline.locator(".sg-details")
    expect(details).to_contain_text("Of request r0. 34 instructions read it here")
    expect(timeline.locator(".sg-timeline-label[aria-pressed=true]")).to_have_text(["9 load", "9 load"])
    timeline.press("Shift+ArrowRight")  # the first that reads it
    timeline.press("Enter")
    expect(details).to_contain_text("page 2, tokens")
    expect(table.locator(".sg-details")).to_contain_text("Page 2")
    timeline.press("Escape")
    expect(details).to_contain_text("Press an instruction")


def test_a_moment_of_one_launch_is_none_of_anothers(page: Page, tmp_path: Path) -> None:
    """The steps of one lesson's pipeline must not move the widgets of another's; those of the same launch follow."""
    two, four = (Pipeline(f"{stages}_stages", tiles=4).record() for stages in (2, 4))
    path = tmp_path / "launches.html"
    path.write_text(html_page([WarpRoles(two), Barriers(two), Barriers(four)], "Launches"), encoding="utf-8")
    page.goto(path.as_uri())
    roles, same, other = (page.locator(".sg-widget").nth(i) for i in range(3))
    expect(other.locator(".sg-timeline-label").first).to_be_visible()
    roles.press("/")
    roles.get_by_role("searchbox").fill("mbarrier.arrive.shared")
    roles.get_by_role("searchbox").press("Enter")
    expect(roles.locator(".sg-details")).to_contain_text("mbarrier.arrive")
    step = roles.locator(".sg-counter").inner_text()
    assert not step.startswith("step 0 ")
    expect(same.locator(".sg-counter")).to_have_text(step)
    expect(other.locator(".sg-counter")).to_contain_text("step 0 of")


def test_a_widget_looks_the_same_beside_others(page: Page, tmp_path: Path) -> None:
    """Each brings its style sheet; none may reach into another's frame."""
    page.set_viewport_size({"width": 1800, "height": 1000})
    batch = sglab.decode_batch([300, 1000, 77], page_size=64, kv_lora_rank=16, qk_rope_head_dim=16)
    sizes = []
    for name, widgets in (("alone", [SplitKV(batch)]), ("together", [SplitKV(batch), PageTable(batch)])):
        path = tmp_path / f"{name}.html"
        path.write_text(html_page(widgets, name), encoding="utf-8")
        page.goto(path.as_uri())
        expect(page.locator(".skv-gantt").first).to_be_visible()
        sizes.append([each.bounding_box() for each in page.locator(".skv-bars, .skv-gantt, .skv-totals").all()])
    assert sizes[0] == sizes[1]


def test_widgets_of_one_session_stand_at_the_same_instruction(host: Host) -> None:
    """Each has moments of its own; none may pull the session back to the last of its own."""
    host.page.set_viewport_size({"width": 1200, "height": 3000})  # all of them in sight
    selection.clear()
    session = product().session
    shared, tensor, debugger = SharedMemory(session), TensorMemory(session), KernelDebugger(session)
    for name, widget in (("shared", shared), ("tensor", tensor), ("debugger", debugger)):
        host.show(widget, name)
    counter = host.page.locator("#shared .sg-counter")
    for step in range(1, 6):
        host.page.locator("#shared .sg-widget").press("ArrowRight")
        expect(counter).to_contain_text(f"step {step:,} of")
        host.flush()
        settled(host.page)
        expect(counter).to_contain_text(f"step {step:,} of")
        expected = int(shared._moments[step - 1]) + 1
        assert session.now == shared.frames[0]["position"] == tensor.frames[0]["position"] == expected
        assert selection.value["moment"] == expected
        expect(host.page.locator("#debugger .sg-widget")).to_have_attribute("data-position", str(expected))


def test_what_is_out_of_sight_asks_nothing_while_another_steps_and_is_right_once_it_is_seen(host: Host) -> None:
    """A page may hold dozens: in a step they sent a message each, and moved sessions that nobody was looking at."""
    session, elsewhere = product().session, product().session
    tensor = TensorMemory(session)
    unseen = {
        "shared": SharedMemory(session),
        "debugger": KernelDebugger(session),
        "other": KernelDebugger(elsewhere),
        "barriers": Barriers(elsewhere),
    }
    host.show(tensor, "tensor")
    expect(host.page.locator("#tensor .sg-counter")).to_contain_text("step 0 of")
    host.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<div style=\"height: 2000px\"></div>')")
    for name, widget in unseen.items():
        host.show(widget, name)
    expect(host.page.locator("#barriers .sg-timeline-label").first).to_be_attached()
    settled(host.page)
    host.asked.clear()
    for step in range(1, 4):
        host.page.locator("#tensor .sg-widget").press("ArrowRight")
        expect(host.page.locator("#tensor .sg-counter")).to_contain_text(f"step {step:,} of")
        host.flush()
        settled(host.page)
    position = session.now
    assert position == selection.value["moment"] > 0
    assert {model for model, _ in host.asked} == {tensor.model_id}
    # One message a step moves and selects: another would make the notebook busy, and idle, once more.
    assert all(data["method"] != "update" for _, data in host.asked)
    asked = [data["content"]["command"] for _, data in host.asked]
    assert [command for command in asked if command != "slices"] == ["go"] * 3
    assert elsewhere.now == 0
    for name in ("debugger", "other"):
        host.asked.clear()
        host.page.locator(f"#{name} .sg-header").scroll_into_view_if_needed()
        expect(host.page.locator(f"#{name} .sg-widget")).to_have_attribute("data-position", str(position))
        settled(host.page)
        asked = [data["content"]["command"] for model, data in host.asked if model == unseen[name].model_id]
        assert [command for command in asked if command != "slices"] == (["go"] if name == "other" else ["look"])
    assert session.now == elsewhere.now == position
    host.page.locator("#shared .sg-header").scroll_into_view_if_needed()
    settled(host.page)
    assert unseen["shared"].frames[0]["position"] == position
    host.page.locator("#barriers .sg-transport").scroll_into_view_if_needed()
    last = session.last
    assert last is not None
    expect(host.page.locator("#barriers output.sg-sentence")).to_contain_text(
        f"warp {last.warp}: {last.instruction.opcode}"
    )


def test_a_step_of_one_session_moves_no_session_of_another_launch(host: Host) -> None:
    selection.clear()
    here, there = product().session, corpus("wgmma_gemm.sm_90a")
    first, second = SharedMemory(here), SharedMemory(there)
    assert first.launch_name == TensorMemory(here.log).launch_name != second.launch_name
    host.show(first, "first")
    host.show(second, "second")
    host.page.locator("#first .sg-widget").press("End")
    length = len(first._moments)
    expect(host.page.locator("#first .sg-counter")).to_contain_text(f"step {length:,} of {length:,}")
    host.flush()
    settled(host.page)
    assert there.now == 0
    assert here.now == selection.value["moment"] == int(first._moments[-1]) + 1
    assert selection.value["launch"] == first.launch_name
    host.page.locator("#second .sg-widget").press("ArrowRight")
    expect(host.page.locator("#second .sg-counter")).to_contain_text("step 1 of")
    assert here.now == int(first._moments[-1]) + 1
    selection.set(moment=3)  # Python names no launch: both go there
    host.flush()
    settled(host.page)
    assert here.now == there.now == 3


@pytest.mark.parametrize("kind", [KernelDebugger, WarpRoles, Barriers, SharedMemory, TensorMemory])
def test_a_moment_that_a_cell_selects_while_a_widget_loads_is_not_lost(
    kind: type[KernelDebugger | WarpRoles | Barriers | SharedMemory | TensorMemory], host: Host
) -> None:
    """As after Run All, which does not wait for widgets; run one by one, the same cells led elsewhere."""
    session = mla_sm100_session()
    widget = kind(session)
    selection.set(cta=0, warp=8, moment=9000)
    host.show(widget)
    counter = host.page.locator(".sg-counter")
    expect(counter).not_to_contain_text("step 0 of")
    settled(host.page)
    assert session.now == 9000
    widget.close()


def test_a_session_that_was_moved_after_a_selection_stays_where_it_is(host: Host) -> None:
    session = mla_sm100_session()
    widget = KernelDebugger(session)
    selection.set(cta=0, warp=8, moment=9000)
    session.seek(40)
    host.show(widget)
    expect(host.page.locator(".sg-counter")).to_contain_text("step 40 of")
    settled(host.page)
    assert session.now == 40


def test_a_request_chosen_in_the_scheduler_marks_its_nodes_in_the_tree(page: Page, tmp_path: Path) -> None:
    """By its name: a batch of some of the engine's requests numbers them otherwise."""
    run = recording()
    tree = RadixTree(run)
    path = tmp_path / "engine.html"
    path.write_text(html_page([Scheduler(run), tree], "One engine"), encoding="utf-8")
    page.goto(path.as_uri())
    board, drawn = page.locator(".sg-widget").nth(0), page.locator(".sg-widget").nth(1)
    choice = board.get_by_role("combobox", name="Request", exact=True)
    op = next(op for op in reversed(run.tree.ops) if op.kind == "insert" and op.path)
    choice.select_option(label=op.rid)
    lit = drawn.locator(".srt-node:not(.srt-dim):has(.srt-selected)")
    shown = set(run.tree.nodes_at(len(run.tree.ops))) - {0}
    expect(lit).to_have_count(len(shown & set(op.path)))
    expect(drawn.locator(".srt-dim")).to_have_count(len(shown - set(op.path)))
    drawn.get_by_role("tab", name="Node").click()
    expect(drawn.get_by_role("tabpanel", name="Node")).to_contain_text(op.rid)
    drawn.locator(f'[data-node="{op.path[-1]}"]').click()
    expect(choice).to_have_value("")  # a node is no request
    drawn.press("Control+z")
    expect(choice.locator("option:checked")).to_have_text(op.rid)
    drawn.get_by_role("tabpanel", name="Node").get_by_role("button", name=str(op.path[0]), exact=True).click()
    expect(drawn.locator(".srt-dim")).to_have_count(0)
