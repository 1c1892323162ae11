"""DraftTree in a page: the picture is the recorded tree's at every step, and leads to the pass's pages."""

from __future__ import annotations

import re
from functools import cache

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host

pytest.importorskip("triton")

import sglab
from sglab.widgets import DraftTree
from sglab.workbench import SpeculationRun, record_speculation
from tests.support.browser.every_widget import speculation


@pytest.fixture
def shown(host: Host) -> Locator:
    host.show(DraftTree(speculation(), step=1))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sdt-node").first).to_be_visible()
    settled(host.page)
    return widget


def test_at_the_end_of_a_pass_the_kept_nodes_and_moves_are_the_recorded_ones(shown: Locator) -> None:
    run = speculation()
    for at in (1, 2, 3):
        _, tree = run.of(run.rids[0])[at]
        states = shown.locator(".sdt-node").evaluate_all("all => all.map(each => each.dataset.state)")
        assert [i for i, state in enumerate(states) if state == "kept"] == sorted(tree.kept)
        moved = shown.locator(".sdt-move[data-moves=true]")
        assert moved.count() == len(tree.moves)
        facts = shown.locator(".sg-details")
        expect(facts).to_contain_text(f"{len(tree.said)} token")
        shown.press(".")
        settled(shown.page)


def test_a_pass_is_stepped_from_an_empty_tree_to_its_compaction(shown: Locator) -> None:
    _, tree = speculation().of(speculation().rids[0])[0]
    sentence = shown.locator(".sg-sentence")
    shown.press("Home")
    expect(sentence).to_have_text("Nothing is drafted yet.")
    expect(shown.locator(".sdt-node[data-state=future]")).to_have_count(len(tree.tokens))
    shown.press("ArrowRight")
    expect(sentence).to_contain_text("the root is the request's last token")
    for phase in ("build", "mask", "verify", "accept", "compact"):
        shown.press("]")
        expect(sentence).to_contain_text(f"Pass {speculation().passes[0].number}, {phase}:")
    shown.press("]")
    expect(sentence).to_contain_text(re.compile("Pass 1, build"))
    shown.press("ArrowLeft")
    expect(sentence).to_contain_text("Pass 1, build")


def test_arrays_are_those_of_the_recorded_tree(shown: Locator) -> None:
    one, tree = speculation().of(speculation().rids[0])[1]
    shown.get_by_role("tab", name="Arrays").click()
    rows = shown.locator(".sdt-arrays tbody tr")
    count = len(tree.tokens)
    row = one.trees.index(tree)
    for node in range(count):
        cells = [text.replace("−", "-") for text in rows.nth(node).locator("td").all_text_contents()]
        assert [int(cells[i]) for i in (0, 2, 3, 4, 5, 6)] == [
            node,
            tree.prefix + tree.tree.depths[node],
            row * count + node,
            tree.tree.next_token[node],
            tree.tree.next_sibling[node],
            tree.slots[node],
        ]


def test_a_node_is_selected_with_its_facts_by_key_and_by_pointer(shown: Locator) -> None:
    _, tree = speculation().of(speculation().rids[0])[1]
    details = shown.locator(".sg-details")
    shown.press("ArrowDown")
    expect(details).to_contain_text("Node 0")
    expect(details).to_contain_text("the root")
    shown.locator(".sdt-node").nth(4).click()
    expect(details).to_contain_text("Node 4")
    expect(details).to_contain_text(f"{tree.slots[4]}, page {tree.slots[4] // 16}")
    expect(details.locator(".sdt-choice[data-chosen=true]")).to_have_count(1)
    shown.press("Escape")
    expect(shown.locator(".sdt-node[data-selected=true]")).to_have_count(0)


def test_a_node_is_taken_back_to_the_one_before(shown: Locator) -> None:
    details = shown.locator(".sg-details")
    for node in (3, 5):
        shown.locator(".sdt-node").nth(node).click()
        expect(details).to_contain_text(f"Node {node}")
    shown.page.keyboard.press("Control+z")
    expect(details).to_contain_text("Node 3")
    expect(shown.locator(".sdt-node[data-selected=true]")).to_have_count(1)
    shown.page.keyboard.press("Control+y")
    expect(details).to_contain_text("Node 5")


def test_hover_text_goes_when_a_key_moves_on(shown: Locator) -> None:
    """It would tell of what lay there before; of a node that is not drafted yet it tells no token."""
    tip = shown.locator(".sg-tooltip")
    _, tree = speculation().of(speculation().rids[0])[1]
    shown.locator(".sdt-node").nth(3).click()
    expect(tip).to_contain_text(f"id {tree.tokens[3]}")
    shown.press("Shift")
    expect(tip).to_be_visible()
    shown.press("Home")
    expect(tip).to_be_hidden()
    shown.locator(".sdt-node").nth(2).hover()
    expect(tip).to_have_text("state  not drafted yet")


def test_what_just_happened_and_what_is_chosen_is_in_sight_in_a_large_tree(host: Host) -> None:
    host.page.set_viewport_size({"width": 1440, "height": 900})
    host.show(DraftTree(large_speculation()))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sdt-node").first).to_be_visible()
    settled(host.page)
    rid = large_speculation().rids[0]
    tree = large_speculation().of(rid)[0][1]
    node, place = tree.moves[-1][0], len(tree.kept) - 1
    inside(widget.locator(f".sdt-node[data-node='{node}']"), widget.locator(".sdt-tree"))
    inside(widget.locator(".sdt-slot").nth(len(tree.tokens) + place), widget.locator(".sdt-slots"))
    widget.press("ArrowUp")  # from the last node
    settled(host.page)
    last = len(tree.tokens) - 1
    inside(widget.locator(f".sdt-node[data-node='{last}']"), widget.locator(".sdt-tree"))
    inside(widget.locator(".sdt-slot").nth(last), widget.locator(".sdt-slots"))
    mask = widget.locator(".sdt-upper .sg-cells")
    assert mask.evaluate("box => box.scrollHeight - box.scrollTop - box.clientHeight") <= 1
    mask.evaluate("box => { box.scrollTop = 0 }")
    host.page.mouse.move(5, 5)
    settled(host.page)
    assert mask.evaluate("box => box.scrollTop") == 0, "a reader's scrolling stays"
    widget.get_by_role("tab", name="Arrays").click()
    inside(widget.locator(f".sdt-arrays tr[data-node='{last}']"), widget.locator(".sdt-arrays"))


def inside(part: Locator, whole: Locator) -> None:
    one, other = part.bounding_box(), whole.bounding_box()
    assert one is not None and other is not None
    assert one["x"] >= other["x"] - 1 and one["x"] + one["width"] <= other["x"] + other["width"] + 1
    assert one["y"] >= other["y"] - 1 and one["y"] + one["height"] <= other["y"] + other["height"] + 1


@cache
def large_speculation() -> SpeculationRun:
    """Trees of 64 nodes, ten drafts deep."""
    drafts = {"speculative_num_steps": 10, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 64}
    pool = {"page_size": 16, "max_total_tokens": 1024}
    engine = sglab.Engine("tiny", speculative_algorithm="STANDALONE", draft_model="tiny", **drafts, **pool)
    with engine, record_speculation(engine) as run:
        engine.generate(["The cat sat on the mat."], {"temperature": 0, "max_new_tokens": 20})
    return run


def test_another_request_is_shown(shown: Locator, host: Host) -> None:
    run = speculation()
    shown.get_by_label("Request").select_option("1")
    expect(shown.locator(".sg-subject")).to_contain_text(run.rids[1])
    expect(shown.get_by_label("Pass", exact=True).locator("option")).to_have_count(len(run.of(run.rids[1])))


def test_a_node_leads_to_its_page_in_the_page_table(shown: Locator, host: Host) -> None:
    widget = DraftTree(speculation(), step=1)
    host.show(widget.page_table(1), "pages")
    _, tree = speculation().of(speculation().rids[0])[1]
    table = host.page.locator("#pages .sg-widget")
    expect(table.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    shown.locator(".sdt-node").nth(3).click()
    expect(table.locator(".sg-details")).to_contain_text(f"Page {tree.slots[3] // 16}")
    expect(table.locator(".sg-details")).to_contain_text(f"token {tree.prefix + 3} of")


def test_tree_and_mask_are_whole_in_a_small_window(shown: Locator) -> None:
    shown.page.set_viewport_size({"width": 1000, "height": 680})
    settled(shown.page)
    view = shown.locator(".sg-view").bounding_box()
    assert view is not None
    for part in (shown.locator(".sdt-node").last, shown.locator(".sg-cells")):
        box = part.bounding_box()
        assert box is not None and box["y"] + box["height"] <= view["y"] + view["height"]


def test_the_passes_are_numbered_in_sight_beside_jupyterlabs_cells(shown: Locator) -> None:
    """820 px are what a window of 1000 leaves to a widget."""
    shown.page.set_viewport_size({"width": 836, "height": 900})
    settled(shown.page)
    assert shown.locator(".sg-view").evaluate("e => e.scrollHeight - e.clientHeight") <= 1


def test_small_trees_leave_no_empty_room_below_them(host: Host) -> None:
    """The room is the largest tree's, so that nothing moves between passes."""
    host.page.set_viewport_size({"width": 1920, "height": 1080})
    host.show(DraftTree(speculation(), step=1))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sdt-node").first).to_be_visible()
    settled(host.page)
    tree, mask = widget.locator(".sdt-tree"), widget.locator(".sdt-upper .sg-cells")
    boxes, largest = set(), 0
    for rid, option in zip(speculation().rids, widget.get_by_label("Request").locator("option").all(), strict=True):
        widget.get_by_label("Request").select_option(option.get_attribute("value"))
        for _ in speculation().of(rid):
            settled(host.page)
            assert mask.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), "rows of the mask are out of sight"
            assert tree.evaluate("e => e.scrollHeight <= e.clientHeight + 1"), "nodes are out of sight"
            boxes.add(tree.evaluate("e => e.clientHeight"))
            largest = max(largest, tree.evaluate("e => e.firstElementChild.clientHeight"))
            widget.press(".")
    (height,) = boxes
    assert height <= largest + 30
