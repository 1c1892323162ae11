"""OnlineSoftmax in a real browser: steps, merges in any order, wrong formulas, empty partials, keys, a saved page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.browser.patience import settled, until
from tests.support.browser.widget_host import DRAWN, TEXT_OVERLAPS, Host, more

torch = pytest.importorskip("torch")

import sglab
from sglab.kernels import merge_state, merge_state_v2
from sglab.labs.online_softmax import wrong_merges
from sglab.widgets import OnlineSoftmax, selection

SMALL = {"kv_lora_rank": 64, "qk_rope_head_dim": 16}
Part = tuple[Any, Any]


@pytest.fixture
def widget() -> OnlineSoftmax:
    batch = sglab.decode_batch([150, 400], num_heads=4, page_size=16, seed=3, **SMALL)  # type: ignore[arg-type]
    return OnlineSoftmax(batch, 1, num_splits=4, tile=32, implementation="reference")


BOTH_PANELS = ".sg-widget [role=tabpanel] { display: block !important; }"
"""Tiles and merges are looked at together; which of them is in sight has a test of its own."""


def show(host: Host, widget: OnlineSoftmax) -> Page:
    host.show(widget)
    expect(host.page.locator(".sgs-equations")).to_be_visible()
    host.page.add_style_tag(content=BOTH_PANELS)
    more(host.page.locator(".sg-widget"))
    return host.page


def node(page: Page, number: int) -> str:
    return page.locator(f"[data-node='{number}']").get_attribute("aria-label") or ""


def lse_and_error(page: Page, number: int) -> tuple[float, float]:
    """What the tree says of a node, once everything asked for is drawn."""
    page.evaluate(DRAWN)
    found = re.search(r"LSE (\S+), error (\S+)( %)?", node(page, number))
    assert found, node(page, number)
    lse, error = (float(text.replace("−", "-")) for text in found.group(1, 2))
    return lse, error / 100 if found.group(3) else error


def hold(page: Page, split: int, what: str) -> None:
    page.locator(f"[data-node='{split}']").click()
    page.get_by_label(f"Partial s{split} holds").select_option(what)


def test_a_tile_is_four_operations(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    sentence, frame = page.locator("output.sg-sentence"), page.locator(".sg-widget")
    frame.press("Home")
    expect(sentence).to_have_text("No score has arrived: m = −inf, O = 0.")
    page.locator(".sg-buttons select").first.select_option("operation")
    states, ln2 = widget.recorded.states["online"], math.log(2)
    frame.press("ArrowRight")
    expect(sentence).to_contain_text(f"Split 0, tokens 0 to 31: 32 scores, the largest {states.top[0] * ln2:.4g}")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text("the maximum grows from −inf")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text("d and O are multiplied by 0.")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text(f"d = {states.total[0]:.4g}")
    expect(page.locator(".sgs-equations [aria-current=step]")).to_contain_text("sum")
    frame.press("ArrowLeft")
    expect(sentence).to_contain_text("multiplied by 0.")


def test_a_whole_tile_says_what_it_did_to_the_maximum(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    run = widget.recorded
    tops, tiles = run.states["online"].top, run.tiles.tolist()
    step = page.locator(".sg-widget")
    grew = []
    for i, (split, start, end) in enumerate(tiles):
        first = i == 0 or tiles[i - 1][0] != split
        verb = "is" if first else "grows from" if tops[i] > tops[i - 1] else "stays"
        if verb == "grows from":
            grew.append(i + 1)
        text = rf"Split {split}, tokens {start} to {end - 1}: the maximum {verb} .*; the weights add .*; d = "
        expect(page.locator(".sg-sentence")).to_have_text(re.compile(text))
        step.press("ArrowRight")
        if i + 1 < len(tiles) and tiles[i + 1][0] != split:
            step.press("ArrowRight")  # past the partial
    marks = page.locator(".sg-mark").evaluate_all("marks => marks.map(({ title }) => title)")
    assert [int(found[1]) for mark in marks if (found := re.match(r"tile (\d+) raises the maximum to", mark))] == grew


def test_every_chart_has_axes_that_hold_its_values(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.locator(".sg-widget").press("End")
    page.evaluate(DRAWN)
    tiles = len(widget.recorded.tiles)
    for chart in page.locator(".sgs-chart").all():
        high, low, first, last, unit = chart.locator("text").all_text_contents()
        assert (first, last, unit) == ("1", str(tiles), "tile")
        values = [float(text.replace("−", "-").replace(" %", "")) / (100 if "%" in text else 1) for text in (low, high)]
        assert values[0] < values[1]
        box = chart.locator("svg").bounding_box()
        for text in chart.locator("text").all():
            inside = text.bounding_box()
            assert box and inside and inside["x"] >= box["x"] - 1
            assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 1
    page.set_viewport_size({"width": 760, "height": 1000})
    for caption in page.locator(".sgs-chart figcaption").all():
        assert caption.evaluate("e => e.scrollWidth - e.clientWidth") <= 0
    expect(page.locator(".sgs-heading").first).to_contain_text("Scores of the keys, natural, in tiles")
    page.get_by_role("button", name="base 2").click()
    expect(page.locator(".sgs-heading").first).to_contain_text("Scores of the keys, base 2, in tiles")


def test_the_tree_needs_no_scroll_bars_for_a_few_partials(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    box = page.locator(".sgs-tree-box")
    for order in ("fold", "tree"):
        page.get_by_label("Order of merges").select_option(order)
        assert box.evaluate("e => [e.scrollWidth - e.clientWidth, e.offsetWidth - e.clientWidth]") == [0, 0]


OVERLAPS = """() => {
    const boxes = [...document.querySelectorAll(".sgs-node")].map((node) => node.getBoundingClientRect());
    const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
    return boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => !apart(a, b))).length;
}"""


@pytest.mark.parametrize("order", ["fold", "tree", "once"])
@pytest.mark.parametrize("splits", [5, 32])
def test_boxes_of_the_tree_never_overlap(host: Host, splits: int, order: str) -> None:
    batch = sglab.decode_batch([1100], num_heads=4, page_size=16, seed=3, **SMALL)  # type: ignore[arg-type]
    page = show(host, OnlineSoftmax(batch, 0, num_splits=splits, tile=32, implementation="reference"))
    page.get_by_label("Order of merges").select_option(order)
    expect(page.locator(".sgs-node")).to_have_count(splits + (1 if order == "once" else splits - 1))
    assert page.evaluate(OVERLAPS) == 0
    box = page.locator(".sgs-tree-box")
    assert box.evaluate("e => e.scrollWidth - e.clientWidth") == 0


def test_merges_by_hand_hide_no_other_partial(host: Host) -> None:
    batch = sglab.decode_batch([700], num_heads=4, page_size=16, seed=3, **SMALL)  # type: ignore[arg-type]
    page = show(host, OnlineSoftmax(batch, 0, num_splits=5, tile=32, implementation="reference"))
    page.get_by_label("Order of merges").select_option("hand")
    for node in (0, 4, 1, 3):  # both pairs have s2 in their middle
        page.locator(f"[data-node='{node}']").click()
    expect(page.locator(".sgs-node")).to_have_count(7)
    assert page.evaluate(OVERLAPS) == 0
    waiting, *merged = (page.locator(f"[data-node='{node}']").bounding_box() for node in (2, 5, 6))
    assert waiting
    middle = waiting["x"] + waiting["width"] / 2
    assert all(box and not box["x"] < middle < box["x"] + box["width"] for box in merged)


def test_tiles_and_splits_are_coarser_steps(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    sentence, frame = page.locator("output.sg-sentence"), page.locator(".sg-widget")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text(
        re.compile("tokens 32 to 63: the maximum (grows from .* α = .*|stays .*); the weights add")
    )
    frame.press("]")
    expect(sentence).to_contain_text("Split 0 is done")
    frame.press("End")
    expect(sentence).to_have_text("Merge 3 of 3: s0…s2 with s3.")


RULES: dict[str, tuple[Callable[..., Part], float]] = {
    "merge_state": (merge_state, math.log2(math.e)),
    "merge_state_v2": (merge_state_v2, 1.0),
    "v2_guarded": (lambda *parts: merge_state_v2(*parts, guarded=True), 1.0),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("held", [{}, {0: "empty"}, {0: "empty", 1: "empty"}, {1: "garbage"}, {2: "infinite"}])
def test_the_page_merges_as_the_operators_do(
    host: Host, widget: OnlineSoftmax, rule: str, held: dict[int, str]
) -> None:
    page = show(host, widget)
    page.locator(".sg-widget").press("End")
    page.get_by_label("Merge", exact=True).select_option(rule)
    for split, what in held.items():
        hold(page, split, what)

    merge, unit = RULES[rule]
    parts, truths = [], []
    run = widget.recorded
    for split in range(4):
        o, lse = run.partial_o[split].clone(), run.partial_lse[split].clone()
        if split in held:
            o.fill_(math.nan if held[split] == "garbage" else 0.0)
            lse.fill_(math.inf if held[split] == "infinite" else -math.inf)
        parts.append((o[None, None], (lse * unit)[None, None]))
        truths.append(-math.inf if split in held else run.true_lse[split].item())
    o, lse = reduce(lambda a, b: merge(*a, *b), parts)
    whole = torch.tensor(truths).double()
    truth = torch.softmax(whole, 0) @ run.true_o
    error = ((o[0, 0].double() - truth).norm() / truth.norm()).item()

    page_lse, page_error = lse_and_error(page, 6)
    assert page_lse == pytest.approx(lse.item() / unit, rel=1e-3, nan_ok=True)
    if math.isnan(error):
        assert math.isnan(page_error)
    else:
        assert max(error, page_error) < 1e-5 or page_error == pytest.approx(error, rel=0.02)


@pytest.mark.parametrize("rule", ["divide_by_max", "base2_in_natural", "newcomer_unweighted"])
def test_wrong_merges_make_the_error_that_their_formula_makes(host: Host, widget: OnlineSoftmax, rule: str) -> None:
    page = show(host, widget)
    page.get_by_label("Order of merges").select_option("once")
    page.get_by_label("Merge", exact=True).select_option(rule)
    page.locator(".sg-widget").press("End")
    run = widget.recorded
    truth = torch.softmax(run.true_lse, 0) @ run.true_o
    wrong = wrong_merges(run.true_lse, run.true_o)[rule]
    expected = ((wrong - truth).norm() / truth.norm()).item()
    assert lse_and_error(page, 4)[1] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("order", ["fold", "reverse", "tree", "once"])
def test_every_order_gives_the_same_answer(host: Host, widget: OnlineSoftmax, order: str) -> None:
    page = show(host, widget)
    page.get_by_label("Order of merges").select_option(order)
    page.locator(".sg-widget").press("End")
    lse, error = lse_and_error(page, page.locator(".sgs-node").count() - 1)
    assert error < 1e-6
    assert lse == pytest.approx(widget.recorded.true_lse.logsumexp(0).item(), rel=1e-3)


def test_partials_are_merged_by_hand_and_unmerged(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.get_by_label("Order of merges").select_option("hand")
    for pair in ((3, 1), (4, 0), (2, 5)):
        for number in pair:
            page.locator(f"[data-node='{number}']").click()
    expect(page.locator(".sgs-conclusion")).to_contain_text("against float64")
    assert lse_and_error(page, 6)[1] < 1e-6
    page.get_by_role("button", name="undo").click()
    expect(page.locator(".sgs-node")).to_have_count(6)
    page.get_by_role("button", name="start over").click()
    expect(page.locator(".sgs-node")).to_have_count(4)


def test_hand_merges_need_no_pointer(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.get_by_label("Order of merges").select_option("hand")
    page.locator("[data-node='0']").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-node='0']")).to_have_attribute("aria-pressed", "true")
    page.locator("[data-node='2']").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".sgs-node")).to_have_count(5)


@pytest.mark.parametrize("formula", ["no_rescale", "divides_each_tile", "softmax_times_exp"])
def test_a_wrong_recurrence_shows_its_recorded_error(host: Host, widget: OnlineSoftmax, formula: str) -> None:
    page = show(host, widget)
    page.get_by_label("Recurrence").select_option(formula)
    page.locator(".sg-widget").press("End")
    run = widget.recorded
    for split, step in enumerate(run.last_steps):
        assert lse_and_error(page, split)[1] == pytest.approx(run.states[formula].error[step].item(), rel=0.06)
    expect(page.locator(".sgs-formula").first).to_contain_text("✗ wrong")


def test_base_2_changes_units_and_nothing_else(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.locator(".sg-widget").press("End")
    lse, error = lse_and_error(page, 6)
    page.locator(".sg-widget").press("2")
    expect(page.get_by_role("button", name="base 2")).to_have_attribute("aria-pressed", "true")
    assert lse_and_error(page, 6) == (pytest.approx(lse * math.log2(math.e), rel=1e-3), error)


def test_keys_choose_formulas_and_splits(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    frame = page.locator(".sg-widget")
    frame.press("End")
    frame.press("r")
    expect(page.get_by_label("Recurrence")).to_have_value("d_starts_at_1")
    frame.press("m")
    expect(page.get_by_label("Merge", exact=True)).to_have_value("merge_state")
    frame.press("o")
    expect(page.get_by_label("Order of merges")).to_have_value("reverse")
    frame.press("ArrowDown")
    assert selection.value == {"request": 1, "rid": "r1", "split": 0, "token": 0, "tokens": 128}
    frame.press("e")
    expect(page.get_by_label("Partial s0 holds")).to_have_value("empty")
    frame.press("Escape")
    assert selection.value == {}


def test_selecting_elsewhere_marks_the_split_or_offers_the_request(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    selection.set(request=1, split=2)
    host.flush()
    expect(page.locator("[data-node='2']")).to_have_attribute("aria-pressed", "true")
    selection.set(request=0, split=2)
    host.flush()
    expect(page.locator(".sgs-node[aria-pressed=true]")).to_have_count(0)
    page.get_by_role("button", name="show request r0").click()
    expect(page.locator(".sg-subject")).to_contain_text("request r0, head 0 of 4, 150 keys")
    assert widget.question["request"] == 0


def test_a_token_of_another_plan_marks_the_split_that_contains_it(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    selection.set(request=1, split=7, token=310, tokens=16)  # splits of 128 keys here, shorter ones elsewhere
    host.flush()
    expect(page.locator("[data-node='2']")).to_have_attribute("aria-pressed", "true")
    page.get_by_label("Keys", exact=True).select_option("rising")
    expect(page.locator(".sgs-node[aria-pressed=true]")).to_have_count(0)  # keys are no longer tokens in order


def test_another_head_is_recorded_from_the_page(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.get_by_label("head").fill("3")
    page.get_by_label("head").press("Enter")
    expect(page.locator(".sg-subject")).to_contain_text("head 3 of 4")
    page.get_by_label("splits").fill("40")
    page.get_by_label("splits").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("num_splits: expected an integer from 1 to 32, got 40")
    expect(page.get_by_label("splits")).to_have_value("4")
    page.locator(".sg-widget").focus()
    page.keyboard.press("Control+z")  # what was refused costs none
    expect(page.locator(".sg-subject")).to_contain_text("head 0 of 4")


def test_what_is_chosen_while_python_records_is_recorded_after_it(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    chosen = {"Keys": "rising", "Scores times": "16", "head": "2"}
    page.evaluate(
        """chosen => Object.entries(chosen).forEach(([name, value]) => {
            const label = [...document.querySelectorAll("label")].find(each => each.firstChild.textContent === name);
            const field = document.querySelector(`[aria-label="${name}"]`) ?? label.querySelector("input");
            field.value = value;
            field.dispatchEvent(new Event("change", { bubbles: true }));
        })""",
        chosen,
    )
    settled(page)
    asked = widget.question
    assert (asked["order"], asked["scale_by"], asked["head"]) == ("rising", 16, 2)
    expect(page.get_by_label("Scores times")).to_have_value("16")


def test_sharper_scores_overflow_without_the_maximum(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.get_by_label("Recurrence").select_option("unshifted")
    page.get_by_label("Scores times").select_option("64")
    expect(page.locator(".sgs-axis").first).not_to_have_text("4.3")
    page.locator(".sg-widget").press("End")
    expect(page.locator(".sgs-conclusion")).to_contain_text("Error of O NaN")


def test_splits_without_keys_are_shown_empty(host: Host) -> None:
    batch = sglab.decode_batch([77], num_heads=4, page_size=16, **SMALL)  # type: ignore[arg-type]
    page = show(host, OnlineSoftmax(batch, num_splits=8, implementation="reference"))
    page.locator(".sg-widget").press("End")
    expect(page.locator(".sgs-node[data-empty]")).to_have_count(5)
    assert lse_and_error(page, 7)[0] == -math.inf
    assert lse_and_error(page, 14)[1] < 1e-6


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [900, 1800])
def test_it_is_accessible(
    host: Host, widget: OnlineSoftmax, axe: Callable[[Page], list[str]], scheme: str, width: int
) -> None:
    host.page.set_viewport_size({"width": width, "height": 1000})
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = show(host, widget)
    page.add_style_tag(content=f"body {{ background: {'#15181c' if scheme == 'dark' else 'white'} }}")
    page.get_by_label("Merge", exact=True).select_option("divide_by_max")
    page.locator(".sg-widget").press("End")
    page.locator(".sg-widget").press("ArrowDown")
    expect(page.get_by_label("Partial s0 holds")).to_be_visible()
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_saved_page_steps_and_merges_without_python(page: Page, widget: OnlineSoftmax, tmp_path: Path) -> None:
    saved = widget.save(tmp_path / "softmax.html")
    assert saved.stat().st_size < 5_000_000
    page.goto(saved.as_uri())
    expect(page.locator(".sgs-equations")).to_be_visible()
    expect(page.get_by_label("head")).to_have_count(0)
    page.locator(".sg-widget").press("End")
    assert lse_and_error(page, 6)[1] < 1e-6
    hold(page, 0, "garbage")
    page.get_by_label("Merge", exact=True).select_option("merge_state")
    expect(page.locator(".sgs-conclusion")).to_contain_text("Error of O NaN")


def test_a_saved_page_opens_where_the_reader_was(host: Host, page: Page, widget: OnlineSoftmax, tmp_path: Path) -> None:
    host.show(widget)
    expect(page.locator(".sgs-equations")).to_be_visible()
    page.get_by_label("Merge", exact=True).select_option("merge_state")
    page.locator(".sg-widget").press("End")
    hold(page, 0, "garbage")
    said, wrong = page.locator("output.sg-sentence").inner_text(), page.locator(".sgs-conclusion").inner_text()
    until(page, lambda: widget.place.get("held") == [[0, "garbage"]])
    page.goto(widget.save(tmp_path / "softmax.html").as_uri())
    expect(page.locator("output.sg-sentence")).to_have_text(said)
    expect(page.locator(".sgs-conclusion")).to_have_text(wrong)
    expect(page.get_by_label("Merge", exact=True)).to_have_value("merge_state")


def test_a_request_is_known_by_its_name_where_it_has_another_number(host: Host, widget: OnlineSoftmax) -> None:
    host.show(widget)
    offer = host.page.get_by_role("button", name="show request r0")
    expect(host.page.locator(".sg-subject")).to_contain_text("request r1, ")
    expect(offer).to_be_hidden()
    selection.set(request=1, rid="r0")  # number 1 of some other batch
    host.flush()
    expect(offer).to_be_visible()
    selection.set(request=0, rid="elsewhere")
    host.flush()
    expect(offer).to_be_hidden()


def test_a_disposed_view_leaves_nothing_behind(host: Host, widget: OnlineSoftmax) -> None:
    for i in range(3):
        host.show(widget, f"view{i}")
        expect(host.page.locator(f"#view{i} .sgs-equations")).to_be_visible()
        frame = host.page.locator(f"#view{i} .sg-widget")
        for key in ("ArrowDown", "End", "r", "m", "o", " "):
            frame.press(key)
        host.page.evaluate("id => document.getElementById(id).sglabDispose()", f"view{i}")
    assert host.page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0
    selection.set(request=0)
    host.flush()
    assert host.page.locator(".sg-widget").count() == 0


def test_a_partial_says_where_it_comes_from(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    details = page.locator(".sg-details")
    page.locator(".sg-widget").press("ArrowDown")
    expect(details).to_contain_text("stage 1 of decode_attention_fwd")
    page.get_by_label("Recurrence").select_option("no_rescale")
    expect(details).to_contain_text("the recurrence above, run in torch")
    page.get_by_label("Partial s0 holds").focus()
    page.get_by_label("Partial s0 holds").select_option("empty")
    expect(details).to_contain_text("comes fromyou")
    expect(page.get_by_label("Partial s0 holds")).to_be_focused()


def test_a_masked_split_ruins_the_answer_until_the_recurrence_is_guarded(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    page.get_by_label("Keys", exact=True).select_option("masked")
    expect(page.get_by_label("Keys", exact=True)).to_have_value("masked")
    page.wait_for_function("document.querySelector('.sg-widget').getAttribute('aria-busy') === null")
    assert widget.question["order"] == "masked"
    page.locator(".sg-widget").press("End")
    masks = page.locator(".sgs-masked")
    expect(masks).to_have_count(1)  # all keys of s0 and nothing else
    page.evaluate(DRAWN)
    box, band = masks.bounding_box(), page.locator(".sgs-band").first.bounding_box()
    assert box and band and abs(box["x"] - band["x"]) < 2 and abs(box["width"] - band["width"]) < 3
    page.get_by_label("Recurrence").select_option("divides_each_tile")  # run in torch, like the guarded one
    expect(page.locator(".sgs-conclusion")).to_contain_text("Error of O NaN")
    page.get_by_label("Recurrence").select_option("guarded")
    expect(page.locator(".sgs-conclusion")).not_to_contain_text("NaN")
    lse, _ = lse_and_error(page, 1)
    assert abs(lse - widget.recorded.true_lse[1].item()) < 1e-3


def test_partials_of_the_sm100_kernel_are_recorded_from_the_page(host: Host) -> None:
    batch = sglab.decode_batch([300], num_heads=128, page_size=128, dtype="float16", seed=0)
    widget = OnlineSoftmax(batch, num_splits=3)
    page = show(host, widget)
    kernel = page.get_by_label("Partials of", exact=True)
    kernel.select_option("mla_decode_sm100")
    expect(page.locator(".sg-badge")).to_contain_text("mla_decode_sm100: emulated sm_100a")
    page.locator(".sg-widget").press("End")
    expect(page.locator(".sgs-conclusion")).to_contain_text("The kernel's own combine stored O in float16")
    assert page.get_by_label("Keys", exact=True).locator("option[value=masked]").is_disabled()


def test_a_kernel_that_cannot_run_on_the_batch_is_not_offered(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    option = page.get_by_label("Partials of", exact=True).locator("option[value=mla_decode_sm100]")
    assert option.is_disabled()
    assert option.inner_text() == "mla_decode_sm100: needs MLA with rows of 512 + 64 columns"


def test_tiles_are_in_sight_until_partials_are_merged(host: Host, widget: OnlineSoftmax) -> None:
    host.show(widget)
    shown = host.page.locator(".sg-widget")
    expect(shown.locator(".sgs-chart").first).to_be_visible()
    expect(shown.locator(".sgs-node").first).to_be_hidden()
    shown.press("End")
    expect(shown.locator(".sgs-node").first).to_be_visible()
    expect(shown.locator(".sgs-chart").first).to_be_hidden()
    shown.press("Home")
    expect(shown.locator(".sgs-chart").first).to_be_visible()
    shown.get_by_role("tab", name="Partials and merges").click()
    shown.press("ArrowRight")  # keys step, and what the reader has opened stays
    expect(shown.locator(".sg-counter")).to_contain_text("step 4 of")
    expect(shown.locator(".sgs-node").first).to_be_visible()


def test_a_single_key_in_a_single_tile_is_drawn_without_texts_over_each_other(host: Host) -> None:
    batch = sglab.decode_batch([1], num_heads=4, page_size=16, seed=3, **SMALL)  # type: ignore[arg-type]
    host.show(OnlineSoftmax(batch, 0, num_splits=1, tile=64, implementation="reference"))
    page = host.page
    expect(page.locator(".sg-subject")).to_contain_text("1 key,")
    page.add_script_tag(path=TEXT_OVERLAPS)
    settled(page)
    assert page.evaluate("textOverlaps()") == []


@pytest.mark.parametrize("splits", [4, 8])
def test_a_merge_is_in_sight_below_a_message(host: Host, splits: int) -> None:
    batch = sglab.decode_batch([1000], num_heads=4, page_size=16, seed=3, **SMALL)  # type: ignore[arg-type]
    host.page.set_viewport_size({"width": 1200, "height": 900})
    host.show(OnlineSoftmax(batch, 0, num_splits=splits, tile=64, implementation="reference"))
    widget = host.page.locator(".sg-widget")
    more(widget)
    widget.focus()
    host.page.keyboard.press("End")
    field = widget.get_by_label("splits", exact=True)
    field.fill("99")
    field.press("Enter")
    expect(widget.get_by_role("alert")).to_contain_text("num_splits")
    settled(host.page)
    view, last = (widget.locator(name).bounding_box() for name in (".sg-view", f"[data-node='{2 * splits - 2}']"))
    assert view and last
    assert view["y"] <= last["y"] and last["y"] + last["height"] <= view["y"] + view["height"] + 1
    widget.press("Home")
    expect(widget.locator(".sgs-chart").first).to_be_visible()
    assert widget.locator(".sg-view").evaluate("view => view.scrollTop") == 0  # the tiles' keys, not what is below them


def test_choices_recordings_and_merges_by_hand_are_undone(host: Host, widget: OnlineSoftmax) -> None:
    page = show(host, widget)
    press, box = page.keyboard.press, page.locator(".sg-widget")
    box.get_by_label("Merge", exact=True).select_option("divide_by_max")
    field = box.get_by_label("splits", exact=True)
    field.fill("3")
    field.press("Enter")
    expect(box.locator(".sg-subject")).to_contain_text("3 splits")
    box.get_by_label("Order of merges").select_option("hand")
    for each in (0, 2):
        box.locator(f"[data-node='{each}']").click()
    expect(box.locator("[data-node='3']")).to_be_visible()
    box.focus()
    press("Control+z")
    expect(box.locator("[data-node='3']")).to_have_count(0)
    press("Control+z")
    expect(box.get_by_label("Order of merges")).to_have_value("fold")
    press("Control+z")
    expect(box.locator(".sg-subject")).to_contain_text("4 splits")
    press("Control+z")
    expect(box.get_by_label("Merge", exact=True)).to_have_value("v2_guarded")
