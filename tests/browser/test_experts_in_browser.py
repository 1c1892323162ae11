"""Experts in a page: the picture is the recorded routing's, step by step, and what it leads to."""

from __future__ import annotations

from functools import cache

import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser.patience import settled, until
from tests.support.browser.widget_host import Host, more

pytest.importorskip("triton")

import sglab
from sglab.models import from_config
from sglab.widgets import Experts, selection
from sglab.workbench import RoutingRun, record_experts
from tests.support.browser.every_widget import routing
from tests.support.tiny_configs import QWEN3_MOE


@pytest.fixture
def shown(host: Host) -> Locator:
    host.show(Experts(routing()))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    return widget


def test_a_token_is_routed_step_by_step_as_it_was(shown: Locator) -> None:
    routed = routing().passes[0].layers[0]
    sentence = shown.locator(".sg-sentence")
    shown.press("Home")
    expect(sentence).to_have_text("The router has not looked at any token yet.")
    expect(shown.locator(".sex-heading").nth(1)).to_contain_text("0 of")
    for phrase in ("become scores", "correction bias", "groups", "the best 2 are", "weights"):
        shown.press("ArrowRight")
        expect(sentence).to_contain_text(phrase)
    for expert, weight in zip(routed.ids[0].tolist(), routed.weights[0].tolist(), strict=True):
        expect(sentence).to_contain_text(f"e{expert} {weight:.3f}")
    rows = shown.locator(".sex-table tr[data-chosen=true]")
    expect(rows).to_have_count(2)
    assert {int(text[1:]) for text in rows.locator("td:nth-child(2)").all_text_contents()} == set(
        routed.ids[0].tolist()
    )


def test_a_token_is_of_its_request_by_name(shown: Locator) -> None:
    name = routing().passes[0].rids[0]
    shown.press("Home")
    shown.press("ArrowDown")
    expect(shown.locator(".sg-details .sg-heading").first).to_contain_text(f" of {name}, position 0")
    assert selection.value == {"request": 0, "rid": name, "token": 0, "tokens": 1}


def test_a_layer_chosen_while_a_pass_is_awaited_is_shown(host: Host) -> None:
    widget = Experts(routing())
    host.show(widget)
    shown = host.page.locator("#widget .sg-widget")
    expect(shown.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    shown.evaluate(
        """widget => {
          for (const [label, value] of [["Pass", "1"], ["Layer", "2"]]) {
            const select = widget.querySelector(`[aria-label=${label}]`);
            select.value = value;
            select.dispatchEvent(new Event("change"));
          }
        }"""
    )
    until(host.page, lambda: (widget.shown["step"], widget.shown["layer"]) == (1, 2))
    expect(shown.get_by_label("Layer")).to_have_value("2")


def test_nothing_is_told_of_a_token_before_it_has_run(shown: Locator) -> None:
    details = shown.locator(".sg-details")
    shown.press("Home")
    expect(details).to_contain_text("Not routed yet.")
    shown.press("ArrowRight")
    expect(details.locator("tbody tr")).to_have_count(8)
    expect(details.locator("tr[data-chosen=true], tr[data-out=true]")).to_have_count(0)
    shown.press("ArrowDown")  # the next token is selected
    expect(details).to_contain_text("Token 1 ")
    expect(details).to_contain_text("Not routed yet.")


def test_the_last_token_and_block_are_in_sight_at_the_end(host: Host) -> None:
    host.page.set_viewport_size({"width": 1200, "height": 500})
    host.show(Experts(routing(), block_size=4))
    shown = host.page.locator("#widget .sg-widget")
    expect(shown.locator(".sg-placeholder")).to_be_empty()
    shown.get_by_role("tab", name="Blocks").click()
    settled(shown.page)
    bottom = "box => box.scrollHeight - box.scrollTop - box.clientHeight"
    for cells in shown.locator(".sg-cells").all():
        assert cells.evaluate(bottom) > 20, "it opens at the top"
    shown.press("Home")
    settled(shown.page)  # in one frame the two would change nothing: it opens at the end
    shown.press("End")
    settled(shown.page)
    for cells in shown.locator(".sg-cells").all():
        shown.page.wait_for_function(f"box => ({bottom})(box) <= 20", arg=cells.element_handle())


def test_b_goes_on_from_the_tab_that_was_pressed(shown: Locator) -> None:
    shown.get_by_role("tab", name="Ranks and EPLB").click()
    shown.press("b")
    expect(shown.get_by_role("tab", name="Load")).to_have_attribute("aria-selected", "true")


def test_an_undone_selection_is_the_token_before(shown: Locator) -> None:
    for _ in range(3):
        shown.press("ArrowDown")
    expect(shown.locator(".sg-details")).to_contain_text("Token 2 ")
    shown.press("Control+z")
    expect(shown.locator(".sg-details")).to_contain_text("Token 1 ")


def test_many_experts_are_named_and_keep_their_place_sideways(host: Host) -> None:
    host.show(Experts(many_experts(), ranks=8))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    expect(widget.locator(".sex-load svg").first.get_by_text("e0", exact=True)).to_be_visible()
    assert 4 <= widget.locator(".sex-load svg").first.get_by_text("e").count() <= 16
    cells = widget.locator(".sg-cells").first
    cells.evaluate("box => { box.scrollLeft = 150 }")
    widget.press("ArrowDown")
    settled(host.page)
    assert cells.evaluate("box => box.scrollLeft") == 150
    widget.press("e")  # the first expert, out of sight
    settled(host.page)
    assert cells.evaluate("box => box.scrollLeft") == 0


def test_a_smaller_pass_leaves_the_transport_where_it_is(shown: Locator) -> None:
    transport = shown.locator(".sg-transport")
    shown.locator(".sg-cells").first.click(position={"x": 200, "y": 60})
    settled(shown.page)
    before = transport.bounding_box()
    shown.press(".")
    expect(shown.locator(".sg-subject")).to_contain_text("pass 1")
    settled(shown.page)
    after = transport.bounding_box()
    assert before is not None and after is not None and abs(after["y"] - before["y"]) <= 1


@cache
def many_experts() -> RoutingRun:
    """One pass over a random model's 64 experts."""
    config = {**QWEN3_MOE, "num_experts": 64, "num_experts_per_tok": 4}
    model = from_config(config)
    with record_experts(model) as run:
        sglab.prompt_batch([[3, 4, 5, 6, 7]], model, page_size=4)
    return run


def test_loads_grow_with_the_tokens_and_end_at_the_recorded_ones(shown: Locator) -> None:
    run = routing()
    bars = shown.locator(".sex-load svg").first.locator(".sex-number")
    shown.press("End")
    expect(bars.first).to_be_visible()
    assert [int(text) for text in bars.all_text_contents()] == run.passes[0].layers[0].load.tolist()
    whole = shown.locator(".sex-load svg").nth(1).locator(".sex-number")
    assert [int(text) for text in whole.all_text_contents()] == run.load[0].tolist()


def test_the_mean_goes_through_no_number(shown: Locator) -> None:
    crossed = """svg => { const mean = svg.querySelector(".sex-mean").getBBox().y;
      return [...svg.querySelectorAll(".sex-number")].filter(number => {
        const { y, height } = number.getBBox(); return mean > y + 2 && mean < y + height - 2; }).length; }"""
    for end in range(12):
        assert [shown.locator(".sex-load svg").nth(i).evaluate(crossed) for i in range(2)] == [0, 0], end
        shown.press("[")
        settled(shown.page)


def test_blocks_say_what_is_padding(shown: Locator) -> None:
    routed = routing().passes[0].layers[0]
    shown.get_by_role("tab", name="Blocks").click()
    post_pad = int(routed.align(16).num_tokens_post_pad)
    padding = post_pad - routed.ids.numel()
    expect(shown).to_contain_text(f"num_tokens_post_pad is {post_pad}, {padding} of it padding")
    more(shown)
    shown.get_by_label("Block size").select_option("64")
    post_pad = int(routed.align(64).num_tokens_post_pad)
    expect(shown).to_contain_text(f"num_tokens_post_pad is {post_pad}")


def test_eplb_is_shown_beside_the_order_and_follows_the_ranks(shown: Locator) -> None:
    shown.get_by_role("tab", name="Ranks and EPLB").click()
    before, after = routing().place(2, 2)
    for svg, spread in zip((0, 1), (before[0], after[0]), strict=True):
        segments = shown.locator(".sex-ranks svg").nth(svg).locator(".sex-segment")
        experts = segments.evaluate_all("all => all.map(each => Number(each.dataset.expert))")
        assert experts == spread.physical.tolist()
    shown.get_by_label("Ranks", exact=True).select_option("4")
    expect(shown.locator(".sex-ranks svg").first.locator(".sex-axis", has_text="rank 3")).to_be_visible()


def test_another_pass_and_layer_are_shown(shown: Locator) -> None:
    shown.press(".")
    expect(shown.locator(".sg-subject")).to_contain_text("pass 1 (decode)")
    shown.press("l")
    expect(shown.locator(".sg-subject")).to_contain_text("model.layers.2.mlp")
    shown.press(",")
    expect(shown.locator(".sg-subject")).to_contain_text("pass 0 (extend)")


def test_tokens_and_experts_are_selected_by_key(shown: Locator) -> None:
    details = shown.locator(".sg-details")
    shown.press("ArrowDown")
    expect(details).to_contain_text("Token 0")
    shown.press("e")
    expect(details).to_contain_text("Expert 0")
    shown.press("Escape")
    expect(details).not_to_contain_text("Expert 0")


def test_the_grouped_gemm_is_opened_with_a_press(shown: Locator) -> None:
    more(shown)
    shown.get_by_role("button", name="Warp roles").click()
    link = shown.get_by_role("link", name="Warp roles of model.layers.1.mlp, pass 0")
    expect(link).to_be_visible()
    text = shown.page.evaluate("(url) => fetch(url).then((answer) => answer.text())", link.get_attribute("href"))
    assert '"widget":"warp_roles"' in text and "fused_moe_kernel" in text


def test_all_tokens_are_in_sight_where_there_is_room(host: Host) -> None:
    host.page.set_viewport_size({"width": 1920, "height": 1080})
    host.show(Experts(routing()))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    rows = widget.locator(".sg-cells").first
    assert rows.evaluate("e => e.scrollHeight - e.clientHeight") <= 1
    assert widget.locator(".sg-view").evaluate("e => e.scrollHeight - e.clientHeight") <= 1


def test_a_heading_of_two_lines_leaves_the_last_tokens_in_sight(host: Host) -> None:
    host.page.set_viewport_size({"width": 1000, "height": 900})
    host.show(Experts(routing()))
    view = host.page.locator("#widget .sg-view")
    expect(view.locator(".sg-cells").first).to_be_visible()
    settled(host.page)
    assert view.evaluate("e => e.scrollHeight - e.clientHeight") <= 1
