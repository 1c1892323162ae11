"""RadixTree in Chromium: matches, splits, locks and evictions as the recorded run has them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser.widget_host import Host

pytest.importorskip("triton")

from sglab.engine import PagedTokenToKVPoolAllocator, RadixCache, ReqToTokenPool
from sglab.engine.cache import RadixKey
from sglab.engine.recording import TreeLog, TreeOp
from sglab.serving import Engine
from sglab.widgets import RadixTree
from tests.support.browser.every_widget import recording


@pytest.fixture
def tree(host: Host) -> Locator:
    host.show(RadixTree(recording()))
    return host.page.locator("#widget .sg-widget")


def first(kind: str) -> tuple[int, TreeOp]:
    """Of the recording; of evictions one in which something went."""
    ops = enumerate(recording().tree.ops)
    return next((i, op) for i, op in ops if op.kind == kind and (kind != "evict" or op.evicted))


def nodes(tree: Locator) -> list[int]:
    drawn = tree.locator(".srt-svg [data-node]:not(:has(.srt-gone))")
    return sorted(int(str(each.get_attribute("data-node"))) for each in drawn.all())


def test_every_operation_shows_the_nodes_that_the_tree_has(tree: Locator) -> None:
    log = recording().tree
    tree.press("Home")
    for index in (1, len(log.ops) // 3, len(log.ops) // 2, len(log.ops) - 1):
        tree.locator(".sg-slider").fill(str(index))
        expect(tree.locator(".sg-counter")).to_contain_text(f"step {index:,} of")
        assert nodes(tree) == sorted(log.nodes_at(index + 1))


def test_an_eviction_says_what_went_in_which_order_and_why(tree: Locator) -> None:
    index, op = first("evict")
    tree.press("Home")
    tree.press("e")
    expect(tree.locator(".sg-counter")).to_contain_text(f"step {index:,} of")
    rows = tree.get_by_label("Evicted nodes").locator("tbody tr")
    expect(rows).to_have_count(len(op.evicted))
    expect(rows.first).to_contain_text("the least recently used leaf that no request locks")
    for row, gone in zip(rows.all(), op.evicted, strict=True):
        expect(row.locator("td").first).to_have_text(str(gone.node))
        expect(tree.locator(f'[data-node="{gone.node}"] .srt-gone')).to_be_visible()


def test_a_split_is_told_with_its_page_border(tree: Locator) -> None:
    index, op = first("split")
    tree.press("Home")
    tree.get_by_role("button", name="next split").click()
    expect(tree.locator(".sg-counter")).to_contain_text(f"step {index:,} of")
    expect(tree.locator(".sg-sentence")).to_contain_text(f"after {op.found} of its {op.tokens} tokens")
    expect(tree.locator(".sg-sentence")).to_contain_text("the border of a page of 16")
    expect(tree.locator(f'[data-node="{op.path[0]}"] .srt-cut')).to_be_attached()


def test_a_match_lights_its_path(tree: Locator) -> None:
    ops = enumerate(recording().tree.ops)
    index, op = next((i, op) for i, op in ops if op.kind == "match" and op.path)
    tree.locator(".sg-slider").fill(str(index))
    for node in op.path:
        expect(tree.locator(f'[data-node="{node}"] .srt-path')).to_be_visible()
    expect(tree.locator(".srt-path")).to_have_count(len(op.path))


def test_a_node_tells_who_locks_it_and_leads_to_its_operations(tree: Locator) -> None:
    index, op = first("lock")
    tree.locator(".sg-slider").fill(str(index))
    tree.locator(f'[data-node="{op.path[-1]}"]').click()
    details = tree.locator(".sg-details")
    expect(details).to_contain_text("Locked by")
    expect(details.locator(".sge-row").get_by_role("button", name=op.rid)).to_be_visible()
    events = tree.get_by_label(re.compile("Operations on node"))
    events.get_by_role("button").first.click()
    expect(tree.locator(".sg-counter")).not_to_contain_text(f"step {index:,} of")


def test_the_attention_of_an_operations_step_opens(tree: Locator) -> None:
    log = recording()
    index, op = next((i, op) for i, op in enumerate(log.tree.ops) if op.kind == "insert" and op.step in log.pools)
    tree.locator(".sg-slider").fill(str(index))
    tree.press("o")
    tree.get_by_role("button", name="Page table").click()
    expect(tree.get_by_role("link", name=f"Page table of step {op.step}, layer 0")).to_be_visible()


def test_an_operation_that_no_step_followed_has_no_attention_to_open(tree: Locator) -> None:
    log = recording()
    assert log.tree.ops[-1].step == len(log.steps)
    details = tree.locator(".sg-details")
    expect(details).to_contain_text(f"after step{len(log.steps) - 1}")
    tree.press("o")
    expect(details).to_contain_text("No step has followed this operation")
    expect(tree.get_by_role("button", name="Page table")).to_be_disabled()


def top(part: Locator) -> float:
    box = part.bounding_box()
    assert box
    return box["y"]


def test_the_pool_stays_in_place_and_no_hole_is_left_around_it(tree: Locator) -> None:
    canvas, order = tree.locator(".srt-pool"), tree.locator(".srt-order")
    picture = tree.locator(".srt-scroll")
    places = set()
    for index in (0, first("split")[0], first("evict")[0]):
        tree.locator(".sg-slider").fill(str(index))
        expect(tree.locator(".sg-counter")).to_contain_text(f"step {index:,} of")
        places.add(top(canvas))
        below, around = picture.bounding_box(), canvas.bounding_box()
        assert below and around
        assert below["y"] - around["y"] - around["height"] < 12
        assert top(order) - below["y"] - below["height"] < 12
    assert len(places) == 1


def test_a_pool_of_which_little_is_used_says_up_to_where_it_is_drawn(host: Host) -> None:
    engine = Engine("tiny", page_size=4)
    shown = RadixTree(engine)
    engine.generate([5, 6, 7, 8, 9], {"max_new_tokens": 1})
    assert "1 node evicted" not in shown.header["subject"]
    assert "4 tokens cached · 0 nodes evicted" in shown.header["subject"]
    host.show(shown)
    label = str(host.page.locator(".srt-pool").get_attribute("aria-label"))
    assert "4 evictable" in label
    assert "drawn up to 8" in label


def test_a_tree_of_long_prefixes_is_seen_whole_and_names_its_namespaces(host: Host) -> None:
    allocator = PagedTokenToKVPoolAllocator(8192, 16)
    cache = RadixCache(ReqToTokenPool(4, 64), allocator, 16)
    log = TreeLog(cache)
    for last, space in ((0, None), (1, None), (2, "lora-a")):
        slots = allocator.alloc(1616)
        assert slots is not None
        allocator.free(slots[: cache.insert(RadixKey([7] * 1600 + [last] * 16, space), slots)])
    host.show(RadixTree(log))
    picture = host.page.locator(".srt-scroll")
    expect(picture.locator("[data-node]")).to_have_count(5)
    assert picture.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    expect(picture).to_contain_text("lora-a")


def test_what_is_selected_is_scrolled_to_and_stays_in_sight(host: Host) -> None:
    """Also where the operation that is shown is about a node far below."""
    host.page.set_viewport_size({"width": 600, "height": 620})
    log = recording().tree
    low = [i for i, op in enumerate(log.ops) if op.path and op.path[-1] == max(log.nodes_at(i + 1))]  # drawn last
    index = max(low, key=lambda i: len(log.nodes_at(i + 1)))
    host.show(RadixTree(recording()))
    tree = host.page.locator("#widget .sg-widget")
    tree.locator(".sg-slider").fill(str(index))
    tree.press("ArrowDown")
    for _ in range(40):
        tree.press("ArrowUp")
    chosen = tree.locator(".srt-node:has(.srt-selected)")
    expect(chosen).to_have_count(1)
    box, room = chosen.locator(".srt-selected").bounding_box(), tree.locator(".srt-scroll").bounding_box()
    assert box and room and room["y"] - 1 <= box["y"] and box["y"] + box["height"] <= room["y"] + room["height"] + 1
