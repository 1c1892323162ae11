"""BackendExplorer in a page: rows, SGLang's choice, questions, what opens, and a page without Python."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host

pytest.importorskip("triton")

from sglab.widgets import BackendExplorer, SplitKV


@pytest.fixture
def explorer() -> BackendExplorer:
    return BackendExplorer([300, 1000, 77], model="DeepSeek-V3", machine="H200")


@pytest.fixture
def shown(host: Host, explorer: BackendExplorer) -> Locator:
    host.show(explorer)
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    return widget


def test_every_backend_has_a_row_and_the_choice_comes_first(shown: Locator, explorer: BackendExplorer) -> None:
    rows = shown.locator("tr[data-backend]")
    expect(rows).to_have_count(len(explorer.rows))
    expect(rows.first).to_have_attribute("data-backend", "fa3")
    expect(rows.first).to_have_attribute("data-selected", "true")
    expect(shown.locator(".sbe-choice[aria-pressed='true']")).to_contain_text("MLA on Hopper")
    refused = shown.locator("tr[data-backend='fa4']")
    expect(refused).to_contain_text("expected an MHA batch for fa4")
    fa3 = next(row for row in explorer.rows if row["name"] == "fa3")
    expect(rows.first).to_contain_text(f"{len(fa3['arrays'])} · ")


def test_at_1000_px_every_column_is_seen(host: Host) -> None:
    """With a sinks model, whose rows are the widest, and what opens beside the figures."""
    host.page.set_viewport_size({"width": 1000, "height": 900})
    host.show(BackendExplorer([300, 1000, 77], model="GPT-OSS", machine="MI300X"))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    scroll = widget.locator(".sbe-scroll")
    assert scroll.evaluate("each => each.scrollWidth - each.clientWidth") <= 0


SCROLL = """widget => {
  const area = [...widget.querySelectorAll(".sg-view, .sg-body")].find((each) => {
    each.scrollTop = 250;
    return each.scrollTop > 0;
  });
  return area.getBoundingClientRect().top;
}"""


@pytest.mark.parametrize("width", [850, 1200])
def test_heads_of_columns_stay_in_sight(host: Host, width: int) -> None:
    """Below 900 px the whole body scrolls, above it the view."""
    host.page.set_viewport_size({"width": width, "height": 600})
    host.show(BackendExplorer([300, 1000, 77], model="DeepSeek-V3", machine="B200"))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    top = widget.evaluate(SCROLL)
    assert widget.locator("thead th").first.evaluate("each => each.getBoundingClientRect().top") >= top - 1


def test_a_drawing_leaves_the_page_where_its_reader_has_it(
    host: Host, shown: Locator, explorer: BackendExplorer
) -> None:
    """In a long notebook each drawing pulled the selected row back into view: one could not scroll past the widget."""
    page = shown.page
    page.set_viewport_size({"width": 1200, "height": 300})
    page.evaluate("document.body.style.paddingBottom = '3000px'")
    settled(page)
    page.evaluate("window.scrollTo(0, 2500)")
    assert page.evaluate("scrollY") > shown.evaluate("each => each.offsetTop + each.offsetHeight")
    before = page.evaluate("scrollY")
    explorer.ask(machine="B200")
    host.flush()
    expect(shown.locator(".sbe-choice[aria-pressed='true']")).not_to_contain_text("Hopper")
    settled(page)
    assert page.evaluate("scrollY") == before


def test_keys_walk_sort_and_fold(shown: Locator, explorer: BackendExplorer) -> None:
    selected = shown.locator("tr[data-selected='true']")
    shown.press("ArrowDown")
    expect(selected).to_have_attribute("data-backend", "flashmla")
    expect(shown.locator(".sg-details .sg-heading").first).to_have_text("flashmla")
    shown.press("End")
    expect(selected).to_have_attribute("data-backend", "hpc_ops")
    expect(shown.locator(".sg-sentence")).to_contain_text("hpc_ops refuses: batch: expected an MHA batch")
    expect(shown.locator(".sbe-refusal[data-by='backend']")).to_contain_text("expected an MHA batch")
    shown.press("f")
    expect(shown.locator("tr.sbe-out")).to_have_count(0)
    expect(selected).to_have_count(0)
    shown.press("c")
    expect(selected).to_have_attribute("data-backend", "fa3")
    shown.press("s")
    settled(shown.page)
    names = shown.locator("tr[data-backend]").evaluate_all("all => all.map(each => each.dataset.backend)")
    size = {row["name"]: row["cost"]["bytes"] for row in explorer.rows if "cost" in row}
    runs = [name for name in names if not next(row for row in explorer.rows if row["name"] == name)["refusals"]]
    assert [size[name] for name in runs] == sorted(size[name] for name in runs)


def test_details_show_the_arrays_that_were_built(shown: Locator, explorer: BackendExplorer) -> None:
    shown.locator("tr[data-backend='flashmla'] .sbe-name").click()
    row = next(each for each in explorer.rows if each["name"] == "flashmla")
    arrays = shown.locator(".sbe-array")
    expect(arrays).to_have_count(len(row["arrays"]))
    for i, array in enumerate(row["arrays"]):
        expect(arrays.nth(i).locator("summary")).to_contain_text(array["name"])
        arrays.nth(i).locator("summary").click()
        expect(arrays.nth(i).locator("p")).to_contain_text(" ".join(map(str, array["head"][:5])))


def test_another_machine_or_version_is_asked_about(shown: Locator, explorer: BackendExplorer) -> None:
    shown.get_by_label("Machine").select_option("B200")
    expect(shown.locator("tr[data-backend]").first).to_have_attribute("data-backend", "trtllm_mla")
    shown.locator(".sbe-choice", has_text="0.5.5.post1").click()
    expect(shown.locator(".sbe-choice[aria-pressed='true']")).to_contain_text("0.5.5.post1")
    assert (explorer.question["machine"], explorer.question["version"]) == ("B200", "0.5.5.post1")
    lengths = shown.get_by_label("Lengths")
    lengths.fill("64×3")
    lengths.press("Enter")
    expect(shown.locator(".sg-subject")).to_contain_text("3 requests, 192 KV tokens")
    lengths.fill("none")
    lengths.press("Enter")
    expect(shown.locator(".sg-notice")).to_contain_text("write tokens per request")
    lengths.fill("9999999")
    lengths.press("Enter")
    expect(shown.locator(".sg-notice")).to_contain_text("seq_lens: expected")
    assert explorer.question["seq_lens"] == (64, 64, 64)


def test_flags_are_behind_more_and_refusals_follow_them(shown: Locator) -> None:
    shown.get_by_label("More controls").click()
    shown.get_by_label("CUDA graph").check()
    expect(shown.locator("tr[data-backend='torch_native']")).to_contain_text("no CUDA graph")
    shown.get_by_label("Page size").select_option("16")
    expect(shown.locator("tr[data-backend='flashmla']")).to_contain_text("page_size: expected 64")


def test_a_plan_opens_from_its_cell_and_a_backend_runs(shown: Locator, explorer: BackendExplorer) -> None:
    shown.locator("tr[data-backend='flashmla'] [data-opens='SplitKV']").click()
    link = shown.locator(".sbe-made a")
    expect(link).to_have_text(re.compile("Split KV of flashmla"))
    opened = explorer._opened[-1]
    assert isinstance(opened, SplitKV) and opened.panes[0]["name"] == "flash_mla"
    shown.locator("tr[data-backend='torch_native'] .sbe-name").click()
    shown.get_by_role("button", name="Run it here").click()
    expect(shown.locator(".sg-details")).to_contain_text("largest error against float64")
    expect(shown.locator(".sg-details")).to_contain_text("scaled_dot_product_attention")


def test_a_saved_page_selects_and_sorts_without_python(page: Page, explorer: BackendExplorer, tmp_path: Path) -> None:
    page.goto(explorer.save(tmp_path / "backends.html").as_uri())
    widget = page.locator(".sg-widget")
    expect(widget.locator("tr[data-backend]")).to_have_count(len(explorer.rows))
    widget.press("ArrowDown")
    expect(widget.locator(".sg-details .sg-heading").first).to_have_text("flashmla")
    expect(widget.locator("[data-opens]")).to_have_count(0)
    expect(widget.get_by_label("Machine")).to_have_count(0)


def test_it_opens_at_its_cards_and_stays_there_when_drawn_again(host: Host) -> None:
    """In so little room that its choice stands below what is in sight."""
    host.page.set_viewport_size({"width": 1000, "height": 760})
    host.page.add_style_tag(content="#widget { --sg-max-height: 330px }")
    host.show(BackendExplorer([300, 1000, 77], model="DeepSeek-V3", machine="H200"))
    widget = host.page.locator("#widget .sg-widget")
    expect(widget.locator(".sg-placeholder")).to_be_empty()
    settled(host.page)
    scrolled = "widget => [...widget.querySelectorAll('*')].map((each) => each.scrollTop).filter((top) => top > 0)"
    assert widget.evaluate(scrolled) == []
    host.page.set_viewport_size({"width": 960, "height": 760})
    settled(host.page)
    assert widget.evaluate(scrolled) == []
    widget.locator("tr[data-backend] .sbe-name").last.click()
    settled(host.page)
    expect(widget.locator("tr[data-selected='true']")).to_be_in_viewport()


def test_ranks_that_share_are_chosen_behind_more(shown: Locator, host: Host, explorer: BackendExplorer) -> None:
    shown.get_by_role("button", name="More controls").click()
    contexts, prompts = shown.get_by_label("dcp_size", exact=True), shown.get_by_label("attn_cp_size", exact=True)
    contexts.select_option("4")
    expect(shown.locator(".sg-subject")).to_contain_text("dcp_size 4")
    expect(shown.locator("tr[data-backend='fa3']")).to_contain_text("dcp_size: expected 1 for fa3, got 4")
    shown.locator("tr[data-backend='flashmla']").click()
    expect(shown.locator(".sg-details")).to_contain_text("Of rank 0 of 4")
    shown.get_by_label("Mode", exact=True).select_option("extend")
    expect(shown.locator("tr[data-backend='flashmla'] .sbe-moved")).to_have_text("–")
    expect(shown.locator("tr[data-backend='flashmla'] .sbe-open")).to_have_count(0)
    prompts.select_option("2")  # one of the two at once
    expect(shown.locator(".sg-subject")).to_contain_text("attn_cp_size 2")
    expect(contexts).to_have_value("1")
    assert (explorer.question["dcp_size"], explorer.question["attn_cp_size"]) == (1, 2)


def test_code_breaks_before_a_value_and_a_sign_stays_with_its_name(shown: Locator, host: Host) -> None:
    code = shown.locator(".sg-details code").filter(has_text="flash_attn").first
    assert code.evaluate("each => [...each.childNodes].map((one) => one.nodeName)") == ["#text", "WBR", "#text"]
    for row in shown.locator("tr[data-backend]").all():
        tops = row.locator(".sbe-sign, .sbe-name").evaluate_all("all => all.map((e) => e.getBoundingClientRect())")
        assert tops[0]["top"] < tops[1]["bottom"]
        assert tops[1]["top"] < tops[0]["bottom"]


def test_what_is_selected_is_in_sight_after_another_question(
    shown: Locator, host: Host, explorer: BackendExplorer
) -> None:
    host.page.set_viewport_size({"width": 1200, "height": 600})
    shown.press("End")
    shown.press("f")  # folded away: nothing is selected
    shown.press("f")
    shown.locator(".sg-view, .sg-body").evaluate_all("all => all.forEach(each => { each.scrollTop = 1e6 })")
    explorer.ask(machine="B200")
    host.flush()
    chosen = shown.locator("tr[data-selected='true']")
    expect(chosen).to_have_attribute("data-backend", "trtllm_mla")
    expect(chosen).to_be_in_viewport()
