"""PageTable in a plain page: real Python, real bundle, no JupyterLab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more

pytest.importorskip("triton")

import sglab
from sglab.widgets import PageTable, selection

SMALL = {"kv_lora_rank": 16, "qk_rope_head_dim": 16, "num_heads": 16}


@pytest.fixture
def batch() -> Any:
    return sglab.decode_batch([300, 1000, 77], page_size=64, layout="fragmented", seed=0, **SMALL)


@pytest.fixture
def widget(host: Host, batch: Any) -> Locator:
    host.show(PageTable(batch))
    shown = host.page.locator(".sg-widget")
    expect(shown.locator(".sg-counter")).to_have_text("step 0 of 29")
    return shown


def press(widget: Locator, *keys: str) -> None:
    widget.focus()
    for key in keys:
        widget.page.keyboard.press(key)


def test_stepping_says_which_entry_is_read_and_which_is_written(widget: Locator, batch: Any) -> None:
    sentence = widget.locator(".sg-sentence")
    press(widget, "ArrowRight")
    expect(sentence).to_have_text("CTA 0 (r0) read seq_lens[0] = 300 tokens.")
    press(widget, "ArrowRight")
    expect(sentence).to_have_text("CTA 0 (r0) read req_pool_indices[0] = 0, its row of req_to_token.")
    press(widget, "ArrowRight", "ArrowRight")
    slot, page = int(batch.slots(0)[64]), batch.pages(0)[1]
    text = f"read req_to_token[0, 64] = slot {slot:,} and wrote {slot:,} ÷ 64 = page {page} to block_kv_indices[0, 1]."
    expect(sentence).to_contain_text(text)
    press(widget, "ArrowLeft")
    expect(sentence).to_contain_text("block_kv_indices[0, 0]")


def test_rows_that_are_shown_are_whole(widget: Locator) -> None:
    """A bar that scrolls sideways lies below the rows, not over half of the last; three requests need no bar at all."""
    settled(widget.page)
    heights = widget.evaluate(
        "root => [...root.querySelectorAll('.sg-cells')].filter((each) => each.offsetHeight)"
        ".map((each) => [each.scrollHeight - each.clientHeight, each.clientHeight])"
    )
    assert heights[0][0] <= 0
    rows = [height for hidden, height in heights if hidden > 0]  # matrices: 22 pixels a row below a header of 16
    assert rows and all((height - 16 - 1) % 22 == 0 for height in rows), heights


def test_step_sizes_are_page_vector_step_and_request(widget: Locator) -> None:
    counter = widget.locator(".sg-counter")
    widget.get_by_label("Step size").select_option("program")
    press(widget, "ArrowRight")
    expect(counter).to_have_text("step 7 of 29")
    expect(widget.locator(".sg-sentence")).to_have_text(
        "CTA 0 (r0) ran to its end. It read req_to_token[0, 0 … 256] and wrote block_kv_indices[0, 0 … 4]."
    )
    widget.get_by_label("Step size").select_option("step")
    press(widget, "ArrowRight", "ArrowRight", "ArrowRight")
    expect(counter).to_have_text("step 25 of 29")


def test_the_source_lines_of_a_moment_are_marked(widget: Locator) -> None:
    press(widget, "]", "]", "]")
    expect(widget.locator('.pt-line[data-mark="R"]')).to_contain_text("tl.load")
    expect(widget.locator('.pt-line[data-mark="W"]')).to_contain_text("tl.store")


def test_selected_requests_events_are_reached_by_shift_arrows(widget: Locator) -> None:
    press(widget, "ArrowDown", "ArrowDown", "Shift+ArrowRight")
    expect(widget.locator(".sg-counter")).to_have_text("step 8 of 29")
    expect(widget.locator(".sg-details")).to_contain_text("Request r1")
    assert selection.value == {"request": 1, "rid": "r1"}


def test_grids_are_walked_and_selected_with_the_keyboard(widget: Locator, batch: Any) -> None:
    pool = widget.get_by_role("group", name="Pages of the KV pool")
    pool.focus()
    page = batch.pages(1)[0]
    columns = pool.evaluate("grid => Math.round((grid.firstChild.offsetWidth - 45) / 44)")
    for _ in range(page // columns):
        widget.page.keyboard.press("ArrowDown")
    for _ in range(page % columns):
        widget.page.keyboard.press("ArrowRight")
    expect(widget.get_by_role("tooltip")).to_contain_text(f"page {page} · 64 slots")
    expect(widget.get_by_role("tooltip")).to_contain_text("r1: tokens 0 … 63")
    widget.page.keyboard.press("Enter")
    expect(widget.locator(".sg-details")).to_contain_text(f"Slots {page * 64:,} … {page * 64 + 63:,}")
    expect(widget.locator(".sg-counter")).to_have_text("step 0 of 29")
    assert selection.value == {"page": page, "request": 1, "rid": "r1", "token": 0, "tokens": 64}


def test_edits_run_the_real_allocator(widget: Locator, batch: Any) -> None:
    widget.get_by_label("Tokens of the new request").fill("70")
    widget.get_by_role("button", name="Allocate").click()
    expect(widget.get_by_role("alert")).to_contain_text("r3: 70 tokens in 2 pages")
    expect(widget.locator(".pt-caption").first).to_contain_text("int64 [4]")
    assert batch.batch_size == 4
    more(widget)
    widget.get_by_role("button", name="Free").click()
    expect(widget.get_by_role("alert")).to_contain_text("r3 left. 2 pages free again")
    assert batch.batch_size == 3


def test_edits_and_selections_are_undone_with_the_keyboard(widget: Locator, batch: Any) -> None:
    press, pages = widget.page.keyboard.press, [batch.pages(i) for i in range(3)]
    widget.focus()
    press("ArrowDown")
    press("ArrowDown")
    more(widget)
    widget.get_by_role("button", name="Free").click()
    expect(widget.get_by_role("alert")).to_contain_text("r1 left.")
    expect(widget.locator(".sg-details")).not_to_contain_text("Request r")
    press("Control+z")
    expect(widget.get_by_role("alert")).to_contain_text("Undone: free r1.")
    assert [batch.pages(i) for i in range(3)] == pages
    press("Control+z")
    expect(widget.locator(".sg-details")).to_contain_text("Request r0")
    press("Control+y")
    expect(widget.locator(".sg-details")).to_contain_text("Request r1")
    press("Control+Shift+z")
    expect(widget.get_by_role("alert")).to_contain_text("r1 left.")
    assert batch.batch_size == 2


def test_what_is_allocated_is_in_sight_wherever_the_kernel_stands(host: Host) -> None:
    host.show(PageTable(sglab.decode_batch([64] * 20, page_size=64, pool_tokens=64 * 40)))
    widget = host.page.locator(".sg-widget[data-ready]")
    widget.focus()
    for _ in range(3):
        host.page.keyboard.press("ArrowRight")
    expect(widget.locator(".sg-sentence")).to_contain_text("wrote 64")
    widget.get_by_label("Tokens of the new request").fill("70")
    widget.get_by_role("button", name="Allocate").click()
    expect(widget.locator(".sg-details")).to_contain_text("Request r20")
    settled(host.page)
    grid = widget.locator(".pt-picture .sg-cells").first
    assert grid.evaluate("e => e.querySelector('*').scrollTop || e.scrollTop") > 0


def test_an_exhausted_pool_is_reported_and_nothing_is_lost(widget: Locator, batch: Any) -> None:
    pages = [batch.pages(i) for i in range(3)]
    widget.get_by_label("Tokens of the new request").fill("1000")
    widget.get_by_role("button", name="Allocate").click()
    expect(widget.get_by_role("alert")).to_contain_text("Nothing was changed. The KV pool is exhausted")
    expect(widget.locator(".sg-subject")).to_contain_text("3 requests · 1,377 tokens")
    assert [batch.pages(i) for i in range(3)] == pages


def test_the_other_kernel_builds_kv_indices(widget: Locator, batch: Any) -> None:
    widget.get_by_role("radio", name="kv_indices", exact=True).click()
    expect(widget.locator(".sg-counter")).to_have_text(f"step 0 of {1377 + 3 * 3:,}")
    press(widget, "ArrowRight", "ArrowRight", "ArrowRight")
    expect(widget.locator(".sg-sentence")).to_contain_text("kv_indptr[0] = 0, where its entries begin in kv_indices")
    press(widget, "ArrowRight")
    slot = int(batch.slots(0)[0])
    expect(widget.locator(".sg-sentence")).to_contain_text(
        f"read req_to_token[0, 0] = slot {slot:,} and wrote it unchanged to kv_indices[0]."
    )


def test_the_first_picture_of_a_large_batch_asks_python_as_little_as_that_of_a_small_one(
    host: Host, batch: Any
) -> None:
    lens = [(37 * i) % 781 + 1 for i in range(256)]
    large = sglab.decode_batch(lens, page_size=16, layout="fragmented", **SMALL)
    asked = []
    for name, shown in (("small", batch), ("large", large)):
        before = host.questions
        host.show(PageTable(shown), name)
        expect(host.page.locator(f"#{name} .sg-widget[data-ready]")).to_be_visible()
        settled(host.page)
        asked.append(host.questions - before)
    assert asked[0] == asked[1]


def test_of_a_large_batch_only_what_is_visible_crosses(host: Host) -> None:
    lens = [(37 * i) % 781 + 1 for i in range(256)]
    batch = sglab.decode_batch(lens, page_size=16, layout="fragmented", **SMALL)
    widget = PageTable(batch, kernel="flashinfer")
    read = 0
    slices = widget._commands["slices"]

    def counted(self: PageTable, slices_: list[dict[str, Any]]) -> Any:
        nonlocal read
        answer = slices(self, slices_)
        read += sum(len(each.tobytes()) for each in answer)
        return answer

    widget._commands = {**widget._commands, "slices": lambda self, slices: counted(self, slices)}
    host.show(widget)
    shown = host.page.locator(".sg-widget[data-ready]")
    expect(shown).to_be_visible()
    settled(host.page)
    everything = sum(len(tensor.tobytes()) for tensor in widget._tensors.values())
    assert read < everything / 5, f"{read} of {everything} bytes crossed"
    shown.get_by_label("Step size").select_option("program")
    press(shown, *["ArrowRight"] * 3)
    expect(shown.locator(".sg-sentence")).to_contain_text("CTA 2 (r2) ran to its end")
    press(shown, "End")
    expect(shown.locator(".sg-sentence")).to_contain_text("CTA 255 (r255)")


def test_an_empty_batch_still_takes_a_request(host: Host, batch: Any) -> None:
    for _ in range(3):
        batch.free(0)
    host.show(PageTable(batch))
    widget = host.page.locator(".sg-widget")
    expect(widget.locator(".sg-counter")).to_have_text("step 0 of 0")
    more(widget)
    expect(widget.get_by_role("button", name="Extend")).to_be_disabled()
    widget.get_by_role("button", name="Allocate").click()
    expect(widget.get_by_role("alert")).to_contain_text("r3: 200 tokens in 4 pages")


def test_a_saved_page_steps_both_kernels_without_python(page: Page, batch: Any, tmp_path: Path) -> None:
    path = PageTable(batch).save(tmp_path / "page_table.html")
    page.goto(path.as_uri())
    widget = page.locator(".sg-widget")
    expect(widget.locator(".sg-counter")).to_have_text("step 0 of 29")
    press(widget, "End")
    expect(widget.locator(".sg-sentence")).to_contain_text(f"page {batch.pages(2)[1]} to block_kv_indices[2, 1]")
    widget.get_by_role("radio", name="kv_indices", exact=True).click()
    expect(widget.locator(".sg-counter")).to_contain_text(f"of {1377 + 9:,}")
    expect(widget.get_by_role("button", name="Allocate")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [600, 900, 1800])
def test_nothing_overflows_and_axe_finds_nothing(
    page: Page, batch: Any, tmp_path: Path, scheme: str, width: int, axe: Callable[[Page], list[str]]
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(PageTable(batch).save(tmp_path / "page_table.html").as_uri())
    widget = page.locator(".sg-widget[data-ready]")
    expect(widget).to_be_visible()
    press(widget, "ArrowDown", "]", "]", "]")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    overflowing = widget.evaluate(
        "root => [...root.querySelectorAll('.sg-details *, .sg-toolbar *, .sg-readout *')]"
        ".filter((each) => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline'"
        " && each.clientWidth && !each.matches('.sg-cells, .sg-cells *, select, input')).map((each) => each.outerHTML)"
    )
    assert overflowing == []
    assert axe(page) == []


@pytest.mark.parametrize("kind", ["request", "token", "page", "slot"])
def test_slash_finds_requests_tokens_pages_and_slots(widget: Locator, batch: Any, kind: str) -> None:
    page = batch.pages(1)[3]
    typed, selected = {
        "request": ("r2", {"request": 2, "rid": "r2"}),
        "page": (f"page {page}", {"request": 1, "rid": "r1", "page": page, "token": 192, "tokens": 64}),
        "token": ("r1 197", {"request": 1, "rid": "r1", "page": page, "slot": page * 64 + 5, "token": 197}),
        "slot": (
            f"slot {page * 64 + 5}",
            {"request": 1, "rid": "r1", "page": page, "slot": page * 64 + 5, "token": 197},
        ),
    }[kind]
    press(widget, "/")
    widget.page.keyboard.type(typed)
    widget.page.keyboard.press("Enter")
    expect(widget.locator(".sg-details")).to_contain_text("Request r2" if kind == "request" else f"Page {page}")
    assert selection.value == selected


@pytest.mark.parametrize(
    ("typed", "text"),
    [("r9", "no request"), ("tokens", "no request"), ("page 999", "pool has pages"), ("r2 77", "r2 has tokens 0 … 76")],
)
def test_what_is_not_there_is_not_found(widget: Locator, typed: str, text: str) -> None:
    press(widget, "/")
    widget.page.keyboard.type(typed)
    widget.page.keyboard.press("Enter")
    expect(widget.get_by_role("alert")).to_contain_text(text)
    assert selection.value == {}
    press(widget, "/")
    widget.page.keyboard.type("r2 76")
    widget.page.keyboard.press("Enter")
    expect(widget.locator(".sg-notice")).to_be_empty()


def test_a_token_leads_to_its_slot_its_page_and_the_lane_that_wrote_the_entry(widget: Locator, batch: Any) -> None:
    press(widget, "/")
    widget.page.keyboard.type("r1 257")
    widget.page.keyboard.press("Enter")
    slot, page = int(batch.slots(1)[257]), batch.pages(1)[4]
    details = widget.locator(".sg-details")
    expect(details).to_contain_text(f"Slot {slot:,}")
    expect(details).to_contain_text(f"{page} × 64 + {slot % 64}")
    expect(details).to_contain_text("token 257 of r1")
    expect(details).to_contain_text("block_kv_indices[1, 4] · CTA 1, warp 0 lane 4 writes it in step 14.")
    details.get_by_role("button", name="Go to step 14").click()
    expect(widget.locator(".sg-sentence")).to_contain_text(f"page {page} to block_kv_indices[1, 4]")
    widget.page.keyboard.press("ArrowRight")  # the widget kept the focus
    expect(widget.locator(".sg-counter")).to_have_text("step 15 of 29")


def test_an_edit_describes_the_run_after_it(widget: Locator, batch: Any) -> None:
    press(widget, "End")
    more(widget)
    widget.get_by_label("Request to edit").select_option("r1")
    widget.get_by_role("button", name="Free", exact=True).click()
    expect(widget.locator(".sg-counter")).to_have_text("step 11 of 11")
    slot, page = int(batch.slots(1)[64]), batch.pages(1)[1]
    expect(widget.locator(".sg-sentence")).to_contain_text(
        f"CTA 1 (r2), warp 0 lane 1, read req_to_token[2, 64] = slot {slot:,} and wrote {slot:,} ÷ 64 = page {page}"
    )


def test_a_request_keeps_its_colour_when_another_leaves(widget: Locator) -> None:
    swatch = """row => {
        const canvas = document.querySelector('[aria-label="Requests and their pages"] canvas');
        const [x, y] = [8, 34 * row + 17].map((at) => at * devicePixelRatio);
        return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
    }"""
    widget.page.wait_for_function(f"() => ({swatch})(2)[0] !== 255")
    before = widget.page.evaluate(swatch, 2)
    more(widget)
    widget.get_by_label("Request to edit").select_option("r1")
    widget.get_by_role("button", name="Free", exact=True).click()
    expect(widget.locator(".sg-subject")).to_contain_text("2 requests")
    press(widget, "Escape")
    widget.page.wait_for_function(f"([row, colour]) => String(({swatch})(row)) === String(colour)", arg=[1, before])


def test_a_disposed_view_leaves_nothing_behind(host: Host, batch: Any) -> None:
    widget = PageTable(batch)
    listeners = "id => sglabHost.models.get(id).listenerCount"
    for i in range(3):
        host.show(widget, f"view{i}")
        expect(host.page.locator(f"#view{i} .sg-widget[data-ready]")).to_be_visible()
        press(host.page.locator(f"#view{i} .sg-widget"), "ArrowDown", "]", "]", "Space")
        host.page.evaluate("id => document.getElementById(id).sglabDispose()", f"view{i}")
    assert host.page.evaluate(listeners, widget.model_id) == 0
    selection.set(request=0)
    host.flush()
    assert host.page.locator(".sg-widget").count() == 0
