"""SparseAttention in a page: budgets are stepped, rules and queries chosen, and what is drawn is what was computed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.browser.drawings import count_drawings, drawings
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host

pytest.importorskip("triton")

from sglab.attention.sparse.choices import RULES
from sglab.widgets import SparseAttention
from sglab.workbench import record_attention

PROMPT = "A little cat sat on a mat."


@pytest.fixture(scope="module")
def sparse() -> SparseAttention:
    return SparseAttention(record_attention(PROMPT, layers=[0, 1]))


@pytest.fixture
def shown(host: Host, sparse: SparseAttention) -> Locator:
    host.show(sparse)
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    return widget


def chosen(shown: Locator) -> list[int]:
    tokens = shown.locator(".ssp-token[data-chosen='true']")
    return [int(at) for at in tokens.evaluate_all("all => all.map(each => each.dataset.token)")]


def test_frames_in_the_text_are_the_chosen_keys_at_every_budget(shown: Locator, sparse: SparseAttention) -> None:
    last = len(sparse.texts) - 1
    shown.press("Home")
    for step in range(len(sparse.budgets)):
        settled(shown.page)
        mask = sparse.outcomes["dsa"][step].mask[0, last]
        assert chosen(shown) == mask.nonzero()[:, 0].tolist()
        expect(shown.locator(".sg-sentence")).to_contain_text("DSA indexer keeps")
        shown.press("ArrowRight")


def test_rules_and_queries_are_chosen_by_key_and_by_press(shown: Locator, sparse: SparseAttention) -> None:
    shown.press("r")
    expect(shown.get_by_label("Rule", exact=True)).to_have_value("2")
    expect(shown.locator(".ssp-rules tr[data-now='true']")).to_have_attribute("data-rule", "nsa")
    expect(shown.locator(".ssp-point").last).to_have_attribute("data-rule", "2")  # not below another rule's
    shown.locator(".ssp-rule", has_text="sinks and recent").click()
    shown.locator(".ssp-token[data-token='9']").click()
    expect(shown.locator(".sg-details .sg-heading").first).to_contain_text("(9)")
    shown.press("ArrowUp")
    expect(shown.locator(".sg-details .sg-heading").first).to_contain_text("(8)")
    settled(shown.page)
    step = min(2, len(sparse.budgets) - 1)
    assert chosen(shown) == sparse.outcomes["recent"][step].mask[0, 8].nonzero()[:, 0].tolist()
    expect(shown.locator(".ssp-token[data-state='later']")).to_have_count(len(sparse.texts) - 9)


def test_keys_go_on_after_a_rule_is_pressed_in_the_list(shown: Locator) -> None:
    shown.locator(".ssp-rule", has_text="vertical-slash").click()
    settled(shown.page)
    shown.page.keyboard.press("Home")
    expect(shown.locator(".sg-counter")).to_contain_text("step 0")


def test_a_query_is_taken_back_and_one_picked_elsewhere_is_followed(shown: Locator, sparse: SparseAttention) -> None:
    query = shown.locator(".sg-details .sg-heading").first
    shown.locator(".ssp-token[data-token='9']").click()
    shown.locator(".ssp-token[data-token='4']").click()
    expect(query).to_contain_text("(4)")
    shown.page.keyboard.press("Control+z")
    expect(query).to_contain_text("(9)")
    shown.page.keyboard.press("Control+z")
    expect(query).to_contain_text(f"({len(sparse.texts) - 1})")
    shown.page.keyboard.press("Control+y")
    expect(query).to_contain_text("(9)")


def test_what_is_copied_from_the_text_is_the_text(shown: Locator) -> None:
    copied = shown.locator(".ssp-text").evaluate(
        """text => {
            const token = at => text.querySelector(`[data-token="${at}"]`);
            getSelection().setBaseAndExtent(token(1).firstChild.firstChild, 0, token(12).firstChild.firstChild, 1);
            const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), bubbles: true });
            token(1).dispatchEvent(event);
            return event.clipboardData.getData("text/plain");
        }"""
    )
    assert copied == PROMPT[:12]


def test_a_long_prompt_leaves_the_maps_their_room(host: Host, page: Page) -> None:
    page.set_viewport_size({"width": 1000, "height": 900})
    host.show(SparseAttention(record_attention((PROMPT * 10)[:239], layers=[0])))
    widget = page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(page)
    text = widget.locator(".ssp-text").bounding_box()
    assert text is not None and text["height"] < 110, "a line takes little more than its letters"
    for each in widget.locator(".ssp-maps .sg-cells").all():
        room = each.evaluate("e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]")
        assert max(room) <= 0, "all of a map is seen without scrolling in it"


def test_a_point_of_the_chart_is_a_rule_at_a_budget(shown: Locator, sparse: SparseAttention) -> None:
    expect(shown.locator(".ssp-line")).to_have_count(len(RULES))
    expect(shown.locator(".ssp-point")).to_have_count(len(RULES) * len(sparse.budgets))
    shown.locator(".ssp-point[data-rule='0'][data-step='1']").dispatch_event("click", {"bubbles": True})
    expect(shown.get_by_label("Rule", exact=True)).to_have_value("0")
    expect(shown.locator(".sg-counter")).to_contain_text("step 1 ")
    error = sparse.rules[0]["error"][1]
    row = shown.locator(".ssp-rules tr[data-rule='top_k'] td").last
    expect(row).to_have_text(f"{100 * error:.0f} %" if error >= 0.1 else f"{100 * error:.1f} %")


def test_the_colours_of_probabilities_have_a_scale_with_its_decades(shown: Locator) -> None:
    scale = shown.locator(".sg-legend .sg-legend-scale")
    assert scale.locator(".sg-legend-ticks span").all_text_contents() == ["≤ 0.001", "0.01", "0.1", "1"]
    assert "linear-gradient" in scale.locator(".sg-legend-bar").evaluate("e => getComputedStyle(e).backgroundImage")


def test_another_layer_and_head_are_shown(shown: Locator, sparse: SparseAttention) -> None:
    shown.get_by_label("Layer", exact=True).select_option("1")
    expect(shown.locator(".sg-subject")).to_contain_text("layer 1")
    assert sparse.shown["layer"] == 1
    shown.press("h")
    expect(shown.get_by_label("Head", exact=True)).to_have_value("1")
    expect(shown.locator(".sg-details .sg-heading").first).to_contain_text("head 1")
    shown.get_by_label("Layer", exact=True).select_option("0")
    expect(shown.locator(".sg-subject")).to_contain_text("layer 0")


def test_a_layer_that_is_asked_for_is_said_until_it_is_shown(shown: Locator) -> None:
    """A long prompt's takes seconds."""
    heading = shown.locator(".ssp-maps .sg-heading").first
    heading.evaluate(
        """e => {
            window.said = [];
            new MutationObserver(() => said.push(e.textContent)).observe(e, { childList: true });
        }"""
    )
    shown.press("l")
    expect(shown.locator(".sg-subject")).to_contain_text("layer 1")
    expect(heading).to_have_text("Dense")
    assert "Dense · layer 1 is being compared …" in shown.page.evaluate("said")


def test_a_saved_page_steps_and_changes_rules(page: Page, sparse: SparseAttention, tmp_path: Path) -> None:
    page.goto(sparse.save(tmp_path / "sparse.html").as_uri())
    widget = page.locator(".sg-widget")
    expect(widget.locator(".ssp-token")).to_have_count(len(sparse.texts))
    widget.press("r")
    expect(widget.get_by_label("Rule", exact=True)).to_have_value("2")
    widget.press("End")
    expect(widget.locator(".sg-counter")).to_contain_text(f"step {len(sparse.budgets) - 1} ")
    expect(widget.get_by_label("Layer", exact=True)).to_have_count(0)


def test_maps_of_a_prompt_are_whole_on_a_small_screen_beside_the_first_steps(browser: Browser, tmp_path: Path) -> None:
    prompt = "Once upon a time there was a little cat who liked to sleep. The cat had a friend, a dog."
    path = SparseAttention(record_attention(prompt, layers=[0])).save(tmp_path / "sparse.html")
    page = browser.new_page(viewport={"width": 1280, "height": 900})  # of 1440 px, beside a notebook's prompts
    try:
        page.goto(path.as_uri())
        expect(page.locator(".sg-tour")).to_be_visible()
        expect(page.locator(".ssp-point").first).to_be_visible()
        page.evaluate("() => { document.querySelector('.sg-widget').style.maxHeight = '780px' }")
        page.set_viewport_size({"width": 1270, "height": 900})  # so that it is laid out anew
        maps = page.locator(".sg-cells")
        expect(maps).to_have_count(2)
        page.wait_for_function(
            "() => [...document.querySelectorAll('.sg-cells')].every((one) => one.scrollHeight <= one.clientHeight)"
        )
        page.wait_for_function(
            "() => { const view = document.querySelector('.sg-view'); return view.scrollHeight <= view.clientHeight }"
        )
    finally:
        page.close()


def test_a_step_draws_the_map_that_it_changes(shown: Locator) -> None:
    page = shown.page
    shown.press("Home")
    settled(page)
    count_drawings(page)
    shown.press("ArrowRight")
    expect(shown.locator(".sg-counter")).to_contain_text("step 1 ")
    settled(page)
    assert drawings(page) == 1  # what is dense stays
    shown.press("ArrowUp")
    settled(page)
    assert drawings(page) == 2


SAVED_PIXELS = """() => {
  window.savedPixels = [];
  const plain = HTMLCanvasElement.prototype.toDataURL;
  HTMLCanvasElement.prototype.toDataURL = function (...all) {
    if (this.isConnected && this.clientWidth) savedPixels.push(this.width / this.clientWidth);
    return plain.apply(this, all);
  };
}"""


def test_maps_of_a_saved_picture_are_drawn_with_its_pixels(shown: Locator) -> None:
    """They were those of the screen, enlarged: what is drawn already was not drawn again."""
    page = shown.page
    page.evaluate(SAVED_PIXELS)
    shown.get_by_role("button", name="More controls").click()
    with page.expect_download():
        shown.get_by_role("button", name="SVG").click()
    ratios = page.evaluate("savedPixels")
    assert len(ratios) >= 2
    assert min(ratios) > 1.9


def test_maps_that_scroll_show_a_query_with_the_keys_before_it_and_scroll_together(host: Host, page: Page) -> None:
    page.set_viewport_size({"width": 300, "height": 900})
    text = "The quick brown fox jumps over the lazy dog. " * 6
    host.show(SparseAttention(record_attention(text[:255], layers=[0])))
    widget = page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(page)
    maps = widget.locator(".ssp-maps .sg-cells")
    hidden = "e => [e.scrollWidth - e.clientWidth - e.scrollLeft, e.scrollHeight - e.clientHeight - e.scrollTop]"
    for each in maps.all():
        right, below = each.evaluate(hidden)
        assert right < 40 and below < 3, "the last query's row is seen where its latest keys are"
    maps.first.evaluate("e => e.scrollTo(17, 23)")
    settled(page)
    assert maps.last.evaluate("e => [e.scrollLeft, e.scrollTop]") == [17, 23]
    maps.first.click(position={"x": 60, "y": 60})
    settled(page)
    assert maps.first.evaluate("e => [e.scrollLeft, e.scrollTop]") == [17, 23], "a press leaves what is in sight"
