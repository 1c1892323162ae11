"""Ranks in a page: collectives in their order, why they are needed, and the shards of every weight."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host

pytest.importorskip("triton")

from sglab.widgets import Ranks
from tests.support.browser.every_widget import ranks


@pytest.fixture
def shown(host: Host) -> Locator:
    host.show(Ranks(ranks()))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    return widget


SCROLLING = """widget => [
  ...widget.querySelectorAll(".sg-body, .sg-view, .srk-timeline, .srk-table-box"),
].filter((each) => {
  const { overflowX, overflowY } = getComputedStyle(each);
  const scrolls = (overflow) => overflow === "auto" || overflow === "scroll";
  return (scrolls(overflowY) && each.scrollHeight > each.clientHeight + 1) ||
    (scrolls(overflowX) && each.scrollWidth > each.clientWidth + 1);
}).map((each) => each.className)"""


@pytest.mark.parametrize("width", [880, 1000])
def test_no_list_scrolls_within_another_that_does(shown: Locator, width: int) -> None:
    """A page of 1,000 px had three scrollbars, one within the other."""
    shown.page.set_viewport_size({"width": width, "height": 660})
    shown.get_by_label("Axis", exact=True).select_option("order")
    settled(shown.page)
    scrolling = set(shown.evaluate(SCROLLING)) - {"srk-timeline"}
    assert len(scrolling) <= 1, scrolling


def test_below_900_px_the_table_follows_the_step(shown: Locator) -> None:
    shown.page.set_viewport_size({"width": 880, "height": 520})
    shown.press("Home")
    shown.press("ArrowRight")
    settled(shown.page)
    row = shown.locator(".srk-table tr[data-now=true]")
    row.scroll_into_view_if_needed()
    for _ in ranks().of_pass(0)[1:]:
        shown.press("ArrowRight")
    settled(shown.page)
    expect(row).to_contain_text(str(len(ranks().of_pass(0))))
    seen = "row => { const b = row.closest('.sg-body').getBoundingClientRect(), r = row.getBoundingClientRect();"
    assert row.evaluate(seen + " return r.top >= b.top - 1 && r.bottom <= b.bottom + 1; }")


def test_ranks_keep_their_names_when_the_order_is_scrolled(shown: Locator) -> None:
    shown.page.set_viewport_size({"width": 420, "height": 700})
    shown.get_by_label("Axis", exact=True).select_option("order")
    shown.press("End")
    settled(shown.page)
    timeline = shown.locator(".srk-timeline")
    assert timeline.evaluate("box => box.scrollLeft") > 0
    left = timeline.evaluate("box => box.getBoundingClientRect().left")
    for name in shown.locator(".srk-label").all():
        assert 0 <= name.evaluate("text => text.getBoundingClientRect().left") - left < 10


def test_w_goes_on_from_the_tab_that_was_pressed(shown: Locator) -> None:
    shown.get_by_role("tab", name="Shards").click()
    shown.press("w")
    expect(shown.get_by_role("tab", name="Collectives")).to_have_attribute("aria-selected", "true")


def test_the_tables_heads_lie_over_what_scrolls(shown: Locator) -> None:
    heads = shown.locator(".srk-table thead tr > *").all()
    assert len({head.evaluate("each => getComputedStyle(each).position") for head in heads}) == 1


def test_collectives_are_stepped_in_order_with_their_reasons(shown: Locator) -> None:
    joints = ranks().of_pass(0)
    shown.press("Home")
    expect(shown.locator(".sg-sentence")).to_have_text("The pass begins: no collective has run.")
    for at, joint in enumerate(joints):
        shown.press("ArrowRight")
        heading = shown.locator(".sg-details .sg-heading").first
        expect(heading).to_contain_text(f"{at + 1}. ")
        expect(shown.locator(".sg-details")).to_contain_text(joint.any.module or "the pass")
        if joint.any.what.startswith("gather"):
            expect(shown.locator(".sg-details")).to_contain_text("every rank gets the tokens of all groups")
    rows = shown.locator(".srk-table tr[data-joint]")
    expect(rows).to_have_count(len(joints))
    expect(rows.last).to_have_attribute("data-now", "true")


def test_the_controls_stay_under_the_pointer_from_step_to_step(shown: Locator) -> None:
    """Every other collective has less to say; what it leaves free stays free until something else is pressed."""
    bar = shown.locator(".sg-transport")
    body = shown.locator(".sg-body")
    shown.press("Home")
    shown.press("ArrowRight")
    settled(shown.page)
    first = bar.bounding_box()
    heights = set()
    for _ in ranks().of_pass(0)[1:4]:
        shown.press("ArrowRight")
        settled(shown.page)
        assert bar.bounding_box() == first
        heights.add(shown.locator(".sg-details").evaluate("e => e.lastElementChild.getBoundingClientRect().bottom"))
    assert len(heights) > 1
    before = body.bounding_box()
    shown.locator(".sg-title").click()
    settled(shown.page)
    after = body.bounding_box()
    assert before and after and after["height"] < before["height"]


def test_a_collective_is_pressed_on_the_timeline_and_in_the_table(shown: Locator) -> None:
    shown.get_by_label("Axis", exact=True).select_option("order")
    shown.locator(".srk-joint[data-joint='2'][data-rank='1'] .srk-move").click()
    expect(shown.locator(".sg-details .sg-heading").first).to_contain_text("3. ")
    shown.locator(".srk-table tr[data-joint='0']").click()
    expect(shown.locator(".sg-details .sg-heading").first).to_contain_text("1. ")
    for rank, one in ranks().of_pass(0)[0].on.items():
        row = shown.locator(".sg-details .srk-small").first.locator("tbody tr").nth(rank)
        expect(row).to_contain_text(" × ".join(map(str, one.shape)))


def test_shards_of_a_layer_are_those_that_each_rank_holds(shown: Locator) -> None:
    shown.get_by_role("tab", name="Shards").click()
    shown.get_by_label("Weights of").select_option("1")
    names = [shard.name for shard in ranks().shards[0] if ".layers.1." in shard.name]
    rows = shown.locator(".srk-shards tbody tr")
    expect(rows).to_have_count(len(names))
    experts = rows.filter(has_text="mlp.experts")
    expect(experts.locator("td").nth(0)).to_contain_text("e0 e1 e2 e3")
    expect(experts.locator("td").nth(1)).to_contain_text("e4 e5 e6 e7")
    shown.press("ArrowDown")
    expect(shown.get_by_label("Weights of")).to_have_value("2")


def test_another_pass_is_shown(shown: Locator) -> None:
    shown.press(".")
    expect(shown.locator(".srk-heading")).to_contain_text("Pass 1, decode")
    expect(shown.get_by_label("Pass", exact=True)).to_have_value("1")
    shown.press(",")
    expect(shown.locator(".srk-heading")).to_contain_text("Pass 0, extend")


def test_names_of_collectives_do_not_run_into_each_other(shown: Locator) -> None:
    shown.page.set_viewport_size({"width": 600, "height": 900})
    shown.press("t")
    settled(shown.page)
    names = shown.locator(".srk-timeline svg text").evaluate_all(
        "all => all.map(each => [each.textContent, each.getBoundingClientRect().toJSON()])"
    )
    assert any(text.endswith("…") for text, _ in names)
    for text, box in names:
        for other, beside in names:
            if abs(box["top"] - beside["top"]) < 2 and box["left"] < beside["left"]:
                assert box["right"] <= beside["left"], (text, other)
