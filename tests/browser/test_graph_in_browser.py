"""Graph in Chromium: captures, padded replays with their inputs, launches, and the stale pointer."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import DRAWN, Host
from tests.support.serving.tiny import prompts
from tests.support.serving.widget_lines import GREEDY, graph_engine

pytest.importorskip("triton")

from sglab.serving.graph_log import GraphLog
from sglab.widgets import Graph
from tests.support.browser.every_widget import graphs, recording


@pytest.fixture
def graph(host: Host) -> Locator:
    recording()
    host.show(Graph(graphs()))
    return host.page.locator("#widget .sg-widget")


def test_the_largest_size_is_captured_first(graph: Locator) -> None:
    graph.press("Home")
    graph.press("ArrowRight")
    expect(graph.locator(".sg-sentence")).to_contain_text("Size 8 captured after 2 runs to warm up")
    expect(graph.locator(".sgr-below")).to_contain_text("Captured in this order: 8, 4, 2, 1.")


def test_a_padded_replay_lists_its_dummy_slots(graph: Locator) -> None:
    index, replay = next((i, each) for i, each in enumerate(graphs().replays) if each.raw_bs < each.bs)
    graph.locator(".sg-slider").fill(str(4 + index + 1))
    expect(graph.locator(".sg-sentence")).to_contain_text(f"padded by {replay.bs - replay.raw_bs} slot")
    rows = graph.get_by_label("Inputs").locator("tbody tr")
    expect(rows).to_have_count(replay.bs)
    last = rows.last.locator("td")
    expect(last.nth(1)).to_contain_text("padding")
    expect(last.nth(4)).to_have_text("1")
    expect(last.nth(6)).to_have_text("0")
    for i, rid in enumerate(replay.rids):
        expect(rows.nth(i)).to_contain_text(rid)
        expect(rows.nth(i).locator("td").nth(4)).to_have_text(str(replay.inputs["seq_lens"][i]))


def test_a_slot_and_the_names_of_its_inputs_stay_in_sight(host: Host) -> None:
    """Of a large batch: of 64 slots some are below the edge of the picture and of the table."""
    engine = graph_engine(cuda_graph_bs=(64,), max_running_requests=64, max_total_tokens=4096)
    log = GraphLog(engine)
    engine.generate(prompts(60, 4), {"temperature": 0, "max_new_tokens": 3})
    host.show(Graph(log))
    graph = host.page.locator("#widget .sg-widget")
    graph.press("End")
    for _ in range(50):
        graph.page.keyboard.press("ArrowDown")
    settled(graph.page)
    head = graph.get_by_label("Inputs").locator("th").first
    details, at = graph.locator(".sg-details").bounding_box(), head.bounding_box()
    assert details is not None and at is not None
    assert details["y"] - 1 <= at["y"] <= details["y"] + 60
    scrolled = graph.locator(".sg-view .sg-cells").evaluate("e => [e.scrollTop, e.clientHeight]")
    assert scrolled[0] <= 50 * 12 <= scrolled[0] + scrolled[1]
    below = graph.locator(".sgr-below").bounding_box()
    legend = graph.locator(".sg-legend").bounding_box()
    assert below is not None and legend is not None
    assert legend["y"] - below["y"] - below["height"] < 20, "the picture has the room that there is"


def test_a_launch_tells_its_addresses_and_its_neighbours(graph: Locator) -> None:
    graph.press("l")
    name = "attention of layer 0"
    graph.get_by_role("button", name=name).click()
    expect(graph.locator(".sgr-chosen")).to_contain_text(name)
    expect(graph.locator(".sg-details")).to_contain_text("input seq_lens (0x")
    expect(graph.locator(".sgr-near").filter(has_text="writes what it reads").first).to_be_attached()


def test_what_a_launch_reads_stays_in_sight_and_keys_go_on(graph: Locator) -> None:
    graph.press("l")
    launch = graph.locator(".sgr-launches button").last
    launch.scroll_into_view_if_needed()
    launch.click()
    expect(graph.locator(".sgr-about")).to_contain_text("reads")
    details, about = graph.locator(".sg-details").bounding_box(), graph.locator(".sgr-about").bounding_box()
    assert details is not None and about is not None
    assert about["y"] >= details["y"] - 1 and about["height"] > 40
    sentence = graph.locator(".sg-sentence").inner_text()
    graph.page.keyboard.press("ArrowLeft")
    expect(graph.locator(".sg-sentence")).not_to_have_text(sentence)


def test_a_launch_stays_where_it_is_while_the_page_changes_its_size(graph: Locator) -> None:
    """A list that is made again between the press and the release of the pointer loses the click."""
    graph.press("l")
    launch = graph.locator(".sgr-launches button").first.element_handle()
    page, size = graph.page, graph.page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": size["width"] - 40, "height": size["height"]})
    page.evaluate(DRAWN)
    page.evaluate(DRAWN)
    assert launch.evaluate("each => each.isConnected")


def test_a_link_of_the_details_keeps_the_focus_of_the_keyboard(graph: Locator) -> None:
    graph.press("End")
    slot = graph.get_by_label("Inputs").locator("button").first
    slot.focus()
    graph.page.keyboard.press("Enter")
    expect(graph.locator("tr b")).to_have_text("0")
    expect(slot).to_be_focused()


def test_the_stale_pointer_and_the_size_of_a_batch(graph: Locator) -> None:
    graph.press("p")
    expect(graph.locator(".sg-details")).to_contain_text("logits change by 0: not seen")
    expect(graph.locator(".sg-details")).to_contain_text("expected a tensor at an address that the graph reads")
    field = graph.get_by_label("Requests")
    field.fill("5")
    expect(graph.locator(".sg-toolbar")).to_contain_text("requests: replays size 8, 3 slots padded")
    field.fill("9")
    expect(graph.locator(".sg-toolbar")).to_contain_text("requests: runs without a graph, the largest is 8")


def test_the_attention_of_a_replay_opens(host: Host) -> None:
    engine = graph_engine(page_size=16)
    widget = Graph(engine)
    engine.generate(prompts(3), GREEDY)
    widget.refresh()
    host.show(widget)
    view = host.page.locator("#widget .sg-widget")
    view.press("Home")
    view.press("ArrowRight")
    view.press("o")
    expect(view.get_by_role("button", name="Page table")).to_be_disabled()
    expect(view.locator(".sg-details")).to_contain_text("A capture attends to the dummy page alone")
    view.press("End")
    view.get_by_role("button", name="Page table").click()
    step = widget.graphs.replays[-1].step
    expect(view.get_by_role("link", name=f"Page table of step {step}, layer 0")).to_be_visible()


def test_replays_from_before_the_log_are_in_the_legend(host: Host, graph: Locator) -> None:
    earlier = "ran before it was recorded"
    expect(graph.locator(".sg-legend")).to_contain_text("padding")
    expect(graph.locator(".sg-legend")).not_to_contain_text(earlier)
    engine = graph_engine(page_size=16)
    engine.generate(prompts(3), GREEDY)
    host.show(Graph(engine), "late")
    expect(host.page.locator("#late .sg-legend")).to_contain_text(earlier)
