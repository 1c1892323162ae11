"""SplitKV in a real browser: panes, stepping, dragging, keys, arrays, a saved page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sglab.planning import PLANNERS
from sglab.widgets import SplitKV, selection
from tests.support.browser.drawings import count_drawings, drawings
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more


def show(host: Host, widget: SplitKV) -> Page:
    host.show(widget)
    expect(host.page.locator(".skv-gantt").first).to_be_visible()
    return host.page


def totals_row(page: Page, planner: str) -> str:
    return page.locator(".skv-totals tr", has_text=planner).inner_text()


def test_planners_stand_side_by_side_with_their_totals(host: Host) -> None:
    page = show(host, SplitKV([8192] * 4, ("cutlass_mla_individual", "flashinfer_cutlass_mla"), sm_count="B200"))
    expect(page.locator(".skv-gantt")).to_have_count(2)
    expect(page.locator(".sg-badge")).to_have_text("planner · modelled time")
    assert "2 × 4 × 32" in totals_row(page, "CUTLASS MLA, individual")
    assert "1.73" in totals_row(page, "CUTLASS MLA, individual")
    assert "16,384 rows" in totals_row(page, "CUTLASS MLA, individual")
    assert "8,192 rows" in totals_row(page, "FlashInfer's CUTLASS MLA")


def test_the_first_picture_of_a_large_batch_asks_and_draws_like_that_of_a_small_one(host: Host) -> None:
    """64 times the requests, but no more questions; a busy machine may draw a picture again, not once per request."""
    asked_for, drawn = [], []
    count_drawings(host.page)
    for batch in (4, 256):
        asked = host.questions
        host.show(SplitKV([64 + 15 * i for i in range(batch)]), f"of{batch}")
        expect(host.page.locator(f"#of{batch} .skv-gantt").first).to_be_visible()
        settled(host.page)
        asked_for.append(host.questions - asked)
        drawn.append(drawings(host.page))
    assert asked_for[0] == asked_for[1]
    assert drawn[1] <= 4 * drawn[0]


def test_stepping_through_rounds_and_back(host: Host) -> None:
    page = show(host, SplitKV([8192] * 4, "cutlass_mla_individual", sm_count="B200"))
    sentence, widget = page.locator("output.sg-sentence"), page.locator(".sg-widget")
    expect(sentence).to_contain_text("individual: 0 running, 256 of 256 work units done")
    widget.press("Home")
    expect(sentence).to_have_text("Nothing is launched yet.")
    widget.press("ArrowRight")
    expect(sentence).to_contain_text("individual: 148 running, 0 of 256 work units done")
    widget.press("ArrowRight")
    expect(sentence).to_contain_text("individual: 108 running, 148 of 256 work units done")
    widget.press("ArrowLeft")
    expect(sentence).to_contain_text("individual: 148 running, 0 of")


def test_waves_are_the_launch_s_alone(host: Host) -> None:
    """A persistent CTA does several units, and CTAs without work are launched: "wave 13 of 13" stood beside 1.00."""
    page = show(host, SplitKV([300, 7000, 900] * 40, "flash_attention_3", num_heads=32, num_kv_heads=8))
    assert "1.00" in totals_row(page, "FlashAttention-3")
    expect(page.locator("output.sg-sentence")).not_to_contain_text("wave")
    page.locator(".sg-widget").press("ArrowDown")
    page.locator(".sg-widget").press(".")
    expect(page.locator(".sg-details")).to_contain_text(
        re.compile(r"round\s*\d+: the \d+(st|nd|rd|th) work unit there")
    )


def test_keys_select_requests_and_pieces_of_work(host: Host) -> None:
    page = show(host, SplitKV([300, 9000], "flash_mla"))
    widget, details = page.locator(".sg-widget"), page.locator(".sg-details")
    widget.press("ArrowDown")
    widget.press("ArrowDown")
    expect(details).to_contain_text("Request r1")
    assert selection.value == {"request": 1}
    widget.press(".")
    expect(details).to_contain_text("Work unit")
    assert selection.value["split"] == 0
    widget.press("Escape")
    expect(details).not_to_contain_text("Request r1")
    assert selection.value == {}


def test_a_length_can_be_changed_by_keys(host: Host) -> None:
    widget = SplitKV([800, 9000], "flash_mla")
    page = show(host, widget)
    page.locator(".sg-widget").press("ArrowDown")
    page.locator(".sg-widget").press("+")
    expect(page.get_by_label("Tokens of request 0")).to_have_value("900")
    page.get_by_label("Tokens of request 0").fill("1234")
    page.get_by_label("Tokens of request 0").press("Enter")
    expect(page.get_by_label("Lengths", exact=True)).to_have_value("1234, 9000")
    assert widget.seq_lens.tolist() == [1234, 9000]


def drag_the_first_bar(page: Page) -> None:
    box = page.locator(".skv-bars").bounding_box()
    assert box is not None
    x, y = box["x"] + 46 + 20, box["y"] + 80
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 6):
        page.mouse.move(x, y - 6 * step)
    page.mouse.up()


def test_dragging_a_bar_replans(host: Host) -> None:
    widget = SplitKV([1000, 4000, 2000], "flash_mla")
    page = show(host, widget)
    drag_the_first_bar(page)
    expect(page.locator(".skv-measured")).to_contain_text("replanned in")
    page.wait_for_function("document.querySelector('.skv-lengths').value.split(',')[0] > 2000")
    dragged = widget.seq_lens
    assert dragged[0] > 2000
    assert dragged[1:].tolist() == [4000, 2000]
    expected = PLANNERS["flash_mla"](dragged, num_heads=128, num_kv_heads=1, sm_count=132)
    assert (widget.plans["flash_mla"].arrays["num_splits"] == expected.arrays["num_splits"]).all()
    assert f"{expected.makespan:,}" in totals_row(page, "FlashMLA")


def test_a_press_without_movement_only_selects(host: Host) -> None:
    widget = SplitKV([1000, 4000], "flash_mla")
    page = show(host, widget)
    page.locator(".skv-bars").click(position={"x": 60, "y": 80})
    expect(page.locator(".sg-details")).to_contain_text("Request r0")
    assert widget.seq_lens.tolist() == [1000, 4000]


def test_hovering_says_what_is_under_the_pointer(host: Host) -> None:
    page = show(host, SplitKV([1000] * 4, "flashinfer_decode", num_heads=8, num_kv_heads=8, sm_count=8))
    page.locator(".skv-gantt").hover(position={"x": 60, "y": 8})
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_contain_text("request  r0")
    expect(tooltip).to_contain_text("SM  0, slot 0")
    expect(tooltip).to_contain_text("modelled time  0 to")


def test_a_page_selected_elsewhere_shows_the_piece_of_work_that_attends_to_it(host: Host) -> None:
    page = show(host, SplitKV([1000, 300], "sglab_mla_sm100", sm_count=8))
    selection.set(request=0, page=9, token=512, tokens=128)
    host.flush()
    details = page.locator(".sg-details")
    expect(details).to_contain_text("[384, 768): 384")
    page.locator(".sg-widget").press(".")
    assert selection.value["page"] == 9
    assert selection.value["split"] == 1
    assert selection.value["token"] == 512
    page.locator(".sg-widget").press(",")  # another split does not hold the page
    assert "page" not in selection.value
    assert (selection.value["split"], selection.value["token"], selection.value["tokens"]) == (0, 0, 384)


def test_pressing_a_piece_of_work_selects_it(host: Host) -> None:
    page = show(host, SplitKV([1000] * 4, "flashinfer_decode", num_heads=8, num_kv_heads=8, sm_count=8))
    page.locator(".skv-gantt").click(position={"x": 60, "y": 8})
    expect(page.locator(".sg-details")).to_contain_text("Work unit")
    assert selection.value == {"request": 0, "split": 0, "cta": 0, "sm": 0, "token": 0, "tokens": 1000}


def test_planners_are_added_replaced_focused_and_closed(host: Host) -> None:
    widget = SplitKV([300, 9000], "flash_mla")
    page = show(host, widget)
    page.get_by_role("button", name="+ compare").click()
    expect(page.locator(".skv-gantt")).to_have_count(2)
    page.get_by_label("Planner 2").select_option("flashinfer_mla")
    expect(page.get_by_label("Planner 2")).to_have_value("flashinfer_mla")
    assert list(widget.plans) == ["flash_mla", "flashinfer_mla"]
    page.locator(".sg-widget").press("2")
    expect(page.locator(".skv-arrays > .sg-heading")).to_have_text("Plan of FlashInfer MLA (fa2, fa3)")
    page.get_by_role("button", name="Close FlashMLA").click()
    expect(page.locator(".skv-gantt")).to_have_count(1)
    assert list(widget.plans) == ["flashinfer_mla"]


def test_what_was_changed_is_undone_and_a_drag_is_one_change(host: Host) -> None:
    widget = SplitKV([1000, 4000, 2000], ["flash_mla", "flashinfer_mla"])
    page = show(host, widget)
    page.get_by_role("button", name="Close FlashMLA").click()
    expect(page.locator(".skv-gantt")).to_have_count(1)
    drag_the_first_bar(page)
    lengths = page.locator(".skv-lengths")
    expect(lengths).not_to_have_value("1000, 4000, 2000")
    page.locator(".sg-widget").focus()
    page.keyboard.press("Control+z")  # the drag's selection, where it made one after its lengths
    page.keyboard.press("Control+z")
    expect(lengths).to_have_value("1000, 4000, 2000")
    page.keyboard.press("Control+z")
    expect(page.locator(".skv-gantt")).to_have_count(2)
    assert list(widget.plans) == ["flash_mla", "flashinfer_mla"]
    page.keyboard.press("Control+y")
    expect(page.locator(".skv-gantt")).to_have_count(1)


def test_a_saved_picture_has_no_buttons_that_close(host: Host) -> None:
    page = show(host, SplitKV([300, 9000], ["flash_mla", "flashinfer_mla"]))
    if not page.get_by_role("button", name="SVG", exact=True).is_visible():
        more(page.locator(".sg-widget"))
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG", exact=True).click()
    picture = download.value.path().read_text()
    assert "FlashInfer MLA" in picture and "skv-pane" in picture
    assert "Close this pane" not in picture


def test_the_focus_stays_on_its_planner_when_others_come(host: Host) -> None:
    page = show(host, SplitKV([16384, 2000, 900, 5000], ("cutlass_mla_individual", "flashinfer_mla"), sm_count="B200"))
    page.locator(".sg-widget").press("2")
    page.get_by_role("button", name="all", exact=True).click()
    expect(page.locator(".skv-pane")).to_have_count(len(PLANNERS))
    expect(page.locator(".skv-arrays > .sg-heading")).to_have_text("Plan of FlashInfer MLA (fa2, fa3)")


def test_the_focused_plan_says_why_it_cuts_so(host: Host) -> None:
    page = show(host, SplitKV([16384, 2000, 900, 5000], ("cutlass_mla_individual", "flashinfer_mla"), sm_count="B200"))
    expect(page.locator(".skv-why")).to_contain_text("148 SMs // 4 requests = 37. ceil(128 / 37) = 4 tiles per split")
    expect(page.locator(".sg-heading").first).to_contain_text("into n splits by CUTLASS MLA, individual")
    page.locator(".sg-widget").press("2")
    expect(page.locator(".skv-why")).to_contain_text("rounded up to 512 tokens (kv_len_limit)")
    expect(page.locator(".sg-heading").first).to_contain_text("into n splits by FlashInfer MLA")


def test_a_long_length_is_readable_in_its_field(host: Host) -> None:
    page = show(host, SplitKV([131072, 300], "flash_mla"))
    page.locator(".sg-widget").press("ArrowDown")
    field = page.get_by_label("Tokens of request 0")
    expect(field).to_have_value("131072")
    text = "e => { const c = document.createElement('canvas').getContext('2d'); c.font = getComputedStyle(e).font; "
    digits = field.evaluate(text + "return c.measureText(e.value).width; }")
    padding = field.evaluate("e => 2 * parseFloat(getComputedStyle(e).paddingLeft)")
    spinner = 18
    assert field.evaluate("e => e.clientWidth") >= digits + padding + spinner


def test_all_planners_that_fit_the_heads_stand_side_by_side(host: Host) -> None:
    widget = SplitKV([300, 9000], "flash_mla")
    page = show(host, widget)
    page.get_by_role("button", name="all", exact=True).click()
    expect(page.locator(".skv-pane")).to_have_count(len(PLANNERS))
    refused = page.locator(".skv-totals tr", has_text="refuses this batch")
    expect(refused).to_have_count(len(PLANNERS) - len(widget.plans))
    more(page.locator(".sg-widget"))
    page.get_by_label("KV heads").fill("16")
    page.get_by_label("KV heads").press("Enter")
    expect(page.locator(".skv-totals tr", has_text="FlashInfer decode")).not_to_contain_text("refuses")


def test_arrays_are_the_plan_s_and_mark_the_selected_request(host: Host) -> None:
    widget = SplitKV([300, 9000, 40], "flash_mla")
    page = show(host, widget)
    page.get_by_role("tab", name="Plan").click()
    page.locator(".skv-arrays summary", has_text="num_splits").click()
    values = page.locator(".skv-arrays details", has_text="num_splits").locator(".skv-values")
    expected = widget.plans["flash_mla"].arrays["num_splits"].tolist()
    expect(values).to_have_text(" ".join(map(str, expected)))
    page.locator(".sg-widget").press("ArrowDown")
    expect(values.locator("mark")).to_have_text(f"{expected[0]} {expected[1]}")


def test_a_tab_that_is_pressed_shows_what_it_holds(host: Host) -> None:
    """With panes one below the other the numbers begin below the fold: pressing a tab changed nothing in sight."""
    host.page.set_viewport_size({"width": 1000, "height": 800})
    page = show(host, SplitKV([4000, 120, 16000, 800, 2500, 9], sm_count="B200"))
    for name, inside in (("Plan", ".skv-why"), ("Totals", ".skv-totals tr >> nth=-1")):
        tab = page.get_by_role("tab", name=name)
        tab.evaluate("tab => { tab.scrollIntoView({ block: 'end' }); tab.click(); }")  # at the lower edge of the view
        expect(page.locator(inside)).to_be_in_viewport(ratio=0.9)


def test_a_planner_that_refuses_says_why_beside_one_that_goes_on(host: Host) -> None:
    page = show(host, SplitKV([300, 9000], ("flash_mla", "sglang_triton")))
    more(page.locator(".sg-widget"))
    page.get_by_label("KV heads").fill("8")
    page.get_by_label("KV heads").press("Enter")
    expect(page.locator(".skv-sentence")).to_contain_text("num_kv_heads: expected 1, since flash_mla plans MLA")
    expect(page.locator(".skv-gantt")).to_have_count(1)
    assert "refuses this batch" in totals_row(page, "FlashMLA")


def test_bad_input_is_explained_and_changes_nothing(host: Host) -> None:
    widget = SplitKV([300, 9000], "flash_mla")
    page = show(host, widget)
    page.get_by_label("Lengths", exact=True).fill("300, many")
    page.get_by_label("Lengths", exact=True).press("Enter")
    expect(page.get_by_role("alert")).to_contain_text('such as 300, 1000, 77 or 4096×32; got "300, many"')
    more(page.locator(".sg-widget"))
    sms = page.get_by_role("spinbutton", name="SMs")
    sms.fill("0")
    sms.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("sm_count: expected an integer from 2 to 2048, got 0")
    assert widget.question["sm_count"] == 132
    assert widget.seq_lens.tolist() == [300, 9000]


def test_a_refused_change_costs_no_undo(host: Host) -> None:
    page = show(host, SplitKV([300], "flash_mla"))
    lengths = page.get_by_label("Lengths", exact=True)
    lengths.fill("1e3, 2.0")
    lengths.press("Enter")
    expect(page.locator(".sg-subject")).to_contain_text("1,002 KV tokens")
    lengths.fill("99999999999")
    lengths.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("must fit int32")
    page.locator(".sg-widget").focus()
    page.keyboard.press("Control+z")
    expect(page.locator(".sg-subject")).to_contain_text("300 KV tokens")


def test_without_python_what_is_shown_stays(host: Host) -> None:
    page = show(host, (widget := SplitKV([300, 100], "flash_mla")))
    page.locator(".sg-widget").press("ArrowDown")
    host.alive = False
    page.evaluate("id => sglabHost.models.get(id).emit('comm:close')", widget.model_id)
    page.locator(".sg-widget").press("+")
    expect(page.get_by_role("alert")).to_contain_text("What was loaded stays")
    expect(page.locator(".skv-gantt")).to_be_visible()
    expect(page.get_by_label("Tokens of request 0")).to_have_value("300")


def test_lengths_are_written_in_runs(host: Host) -> None:
    widget = SplitKV([300], "flash_mla")
    page = show(host, widget)
    page.get_by_label("Lengths", exact=True).fill("4096×3 77")
    page.get_by_label("Lengths", exact=True).press("Enter")
    expect(page.locator(".sg-subject")).to_contain_text("decode of 4 requests, 12,365 KV tokens")
    assert widget.seq_lens.tolist() == [4096, 4096, 4096, 77]


def test_planning_again_in_python_reaches_the_page(host: Host) -> None:
    widget = SplitKV([300], "flash_mla")
    page = show(host, widget)
    widget.replan([4096] * 3)
    host.flush()
    expect(page.get_by_label("Lengths", exact=True)).to_have_value("4096×3")


def test_a_saved_page_steps_and_shows_arrays_without_python(page: Page, tmp_path: Path) -> None:
    widget = SplitKV([300, 9000], ("flash_mla", "flashinfer_mla"))
    page.goto(widget.save(tmp_path / "split.html").as_uri())
    expect(page.locator(".skv-gantt")).to_have_count(2)
    expect(page.get_by_label("Lengths", exact=True)).to_have_count(0)
    page.locator(".sg-widget").press("Home")
    expect(page.locator("output.sg-sentence")).to_have_text("Nothing is launched yet.")
    page.locator(".sg-widget").press("ArrowRight")
    expect(page.locator("output.sg-sentence")).to_contain_text("FlashMLA: ")
    first = str(widget.plans["flash_mla"].arrays["begin_req_idx"].tolist()[0])
    expect(page.locator(".skv-values").first).to_contain_text(first)
    box = page.locator(".skv-bars").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 60, box["y"] + 80)
    expect(page.locator(".sg-details")).to_contain_text("Request r0")
    page.locator(".sg-widget").press("?")
    expect(page.get_by_role("dialog")).to_contain_text("select the next request")
    expect(page.get_by_role("dialog")).not_to_contain_text("lengthen")  # a page cannot plan


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_work_is_drawn_in_its_request_s_colour(host: Host, scheme: str) -> None:
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = show(host, SplitKV([4096], "flash_mla", num_heads=64, sm_count=2))
    page.wait_for_function("document.querySelector('.skv-gantt').width > 300")
    pixel = page.evaluate(
        """() => {
          const canvas = document.querySelector(".skv-gantt");
          return [...canvas.getContext("2d").getImageData(200, 17, 1, 1).data];
        }"""
    )
    assert pixel == [0xE6, 0x9F, 0x00, 255]


@pytest.mark.parametrize("width", [940, 1060, 1180])
def test_totals_are_whole_beside_the_details(page: Page, tmp_path: Path, width: int) -> None:
    """Widths between those at which the details fold below and those of a wide screen."""
    page.set_viewport_size({"width": width, "height": 900})
    widget = SplitKV([300, 9000, 77, 2000], ("flash_mla", "flashinfer_mla"))
    page.goto(widget.save(tmp_path / "page.html").as_uri())
    totals = page.locator(".skv-totals")
    expect(totals).to_be_visible()
    settled(page)
    assert totals.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")


TEXTS = """() => {
  window.texts = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
    const half = this.measureText(text).width / 2;
    const right = x + (this.textAlign === "center" ? half : this.textAlign === "right" ? 0 : 2 * half);
    window.texts.push({ text, right, y, room: this.canvas.clientWidth });
    return fillText.call(this, text, x, y, ...rest);
  };
}"""


@pytest.mark.parametrize("width", [970, 1240, 1700])
def test_every_tick_has_its_number_and_every_cut_request_its_splits(host: Host, width: int) -> None:
    page = host.page
    page.evaluate(TEXTS)
    page.set_viewport_size({"width": width, "height": 900})
    show(host, SplitKV([300, 1000, 77, 2048] * 8, ("cutlass_mla_individual", "flashinfer_mla"), sm_count="H100"))
    settled(page)
    texts = page.evaluate("window.texts")
    unit = next(each for each in texts if each["text"] == "KV tokens, modelled")
    ticks = [each for each in texts if unit["y"] - 14 < each["y"] < unit["y"]]
    # the last CTA ends at 640 tokens
    last = max(int(each["text"].replace(",", "")) for each in ticks)
    assert last >= 500, "the axis is numbered up to its end"
    assert all(each["right"] <= each["room"] for each in ticks)
    assert sum(each["text"] == "×4" for each in texts) >= 16
    assert any(each["text"] == "×3" for each in texts)


def test_a_request_that_the_batch_has_no_longer_dims_nothing(host: Host) -> None:
    page = show(host, SplitKV([300, 9000, 77], "flash_mla"))
    expect(page.locator(".sg-details")).not_to_contain_text("Request r2")
    page.locator(".sg-widget").press("ArrowUp")  # the last
    expect(page.locator(".sg-details")).to_contain_text("Request r2")
    lengths = page.get_by_label("Lengths", exact=True)
    lengths.fill("300, 9000")
    lengths.press("Enter")
    expect(page.locator(".sg-subject")).to_contain_text("2 requests")
    settled(page)
    expect(page.get_by_label("Tokens of request 2")).to_be_hidden()
    colour = "e => [...e.getContext('2d').getImageData(e.width * 0.3 | 0, e.height * 0.3 | 0, 1, 1).data].join()"
    before = page.locator(".skv-gantt").first.evaluate(colour)
    page.locator(".sg-widget").press("Escape")
    settled(page)
    assert page.locator(".skv-gantt").first.evaluate(colour) == before
