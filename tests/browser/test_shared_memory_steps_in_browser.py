"""SharedMemory stepped in a real browser: what a step draws, groups of cp.async, keys."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from playwright.sync_api import expect

from sglab.labs.shared_memory import PagedDecode
from sglab.widgets import SharedMemory, selection
from tests.support.browser.drawings import count_drawings, drawings
from tests.support.browser.patience import settled
from tests.support.browser.shared_memory_pages import show
from tests.support.browser.widget_host import Host
from tests.support.launches.memory_sessions import mla_sm90, mla_sm100, product


def test_a_step_is_one_drawing(host: Host) -> None:
    """The rows that were looked at come with the step, and its own selection draws nothing again."""
    widget = SharedMemory(product(128).session)
    page = show(host, widget)
    count_drawings(page)
    page.get_by_label("follow steps").uncheck()  # another tile needs rows that have not been looked at
    settled(page)
    for step in range(1, 6):
        drawings(page)
        page.locator(".sg-widget").press("ArrowRight")
        expect(page.locator(".sg-counter")).to_contain_text(f"step {step:,} of")
        settled(page)
        assert drawings(page) == 2  # the two grids


CHANGES = """() => {
  window.changes = [];
  const named = ({ className, tagName, parentElement }) => className || `${parentElement.className} ${tagName}`;
  new MutationObserver((records) => {
    for (const { type, target, attributeName } of records)
      if (type === "childList" || /^(width|height)$/.test(attributeName))
        window.changes.push([target.closest?.("[data-panel]")?.dataset.panel ?? "", named(target)].join(" ").trim());
  }).observe(document.querySelector(".sg-widget"), { childList: true, subtree: true, attributes: true });
}"""


def test_a_step_to_another_tile_changes_only_what_differs_in_the_page(host: Host) -> None:
    # each replaced text and rebuilt panel costs a layout, each resized canvas its memory
    widget = SharedMemory(mla_sm100())
    page = show(host, widget)
    page.get_by_label("Step size").select_option("mma")
    page.keyboard.press("ArrowRight")
    settled(page)
    frame, tile = page.locator(".sg-widget"), page.get_by_label("Tile", exact=True)
    before = tile.input_value()
    page.evaluate(CHANGES)
    while tile.input_value() == before:
        frame.press("ArrowRight")
        settled(page)
    changed = set(page.evaluate("window.changes"))
    assert "sg-counter" in changed  # what the step has changed is seen
    assert not changed & {"sg-title", "sg-subject", "sg-badge", "sg-cells-content CANVAS"}
    assert not [name for name in changed if name.startswith(("descriptor", "instruction", "map", "array", "banks"))]


def test_cp_async_groups_are_followed_from_commit_to_wait(host: Host) -> None:
    widget = SharedMemory(PagedDecode(tokens=40).session(), tab="groups")
    page = show(host, widget)
    expect(page.get_by_role("tab", name="cp.async groups")).to_have_attribute("aria-selected", "true")
    panel = page.locator("[data-panel=groups]")
    expect(panel.locator(".ssm-verdict")).to_have_text("These threads have closed no group yet.")
    first = panel.get_by_role("button", name="wait 3").first
    first.click()
    expect(panel.locator(".ssm-verdict")).to_contain_text("Done now: group 0 (512 bytes).")
    expect(panel.locator(".ssm-verdict")).to_contain_text("May still be in flight: groups 1, 2 and 3 (1,536 bytes).")
    expect(panel.locator("th[aria-current=step]")).to_have_text("wait 3")
    assert widget.session.now == widget.pipelines[0]["waits"][0]["event"] + 1
    present = panel.locator("tbody td.ssm-present")
    states = ["done", "flying", "flying", "flying"]
    assert present.evaluate_all("all => all.map(one => one.dataset.state)")[:4] == states
    expect(panel.locator("tfoot td.ssm-present")).to_have_text("3")
    panel.get_by_label("Threads").select_option(label="warp 3, lanes 0–31")
    expect(panel.locator("caption")).to_contain_text("warp 3, lanes 0–31")
    page.locator(".sg-widget").press("Home")
    expect(panel.locator(".ssm-verdict")).to_have_text("These threads have closed no group yet.")


def test_bytes_never_written_are_named_and_hatched(host: Host) -> None:
    widget = SharedMemory(PagedDecode(tokens=8).session(), tab="array")
    page = show(host, widget)
    go = page.get_by_label("Go to an address in shared memory")
    go.fill("smem+0x400")
    go.press("Enter")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("never written")
    empty = page.locator(".sg-cells canvas").first.screenshot()
    page.get_by_label("Step size").select_option("group")
    for _ in range(40):
        page.locator(".sg-widget").press("ArrowRight")
    expect(details).to_contain_text("as f32")  # sums of the warps lie there at the end
    page.get_by_role("tab", name="plain array").click()
    elements = page.get_by_label("elements", exact=True)
    expect(elements).to_have_value("accessed")
    said = page.locator("[data-panel=array] .smv-note")
    expect(said).to_contain_text(": f32, f16.")  # sums lie over a part of the halves
    page.locator(".sg-widget").press("Home")
    expect(said).to_contain_text(": f16, f32.")
    elements.select_option("bf16")
    page.locator(".sg-widget").press("End")
    expect(details).to_contain_text("as bf16")  # what a reader picks stays
    expect(details).not_to_contain_text("never written")
    assert page.locator(".sg-cells canvas").first.screenshot() != empty


def test_without_cp_async_the_tab_says_so(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    page.get_by_role("tab", name="cp.async groups").click()
    expect(page.locator("[data-panel=groups]")).to_contain_text("No warp of this CTA executes cp.async.")


def test_stepping_tiles_and_moments_with_keys(host: Host) -> None:
    widget = SharedMemory(mla_sm90())
    page = show(host, widget)
    frame, tile = page.locator(".sg-widget"), page.get_by_label("Tile", exact=True)
    frame.press("]")
    expect(tile).to_have_value("1")
    frame.press("[")
    expect(tile).to_have_value("0")
    frame.press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text("step 1 of")
    assert widget.session.now == widget._moments[0] + 1
    page.get_by_label("Step size").select_option("mma")
    frame.press("ArrowRight")
    expect(page.locator("output.sg-sentence")).to_contain_text("issues wgmma.mma_async")
    expect(page.locator("output.sg-sentence")).to_contain_text("which reads A at smem+")
    mma = widget._traffic.moments[widget.moment - 1]
    expect(tile).to_have_value(str(mma[5]))  # each step opens the tile that it reads
    page.get_by_label("follow steps").uncheck()
    frame.press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text(f"step {widget.moment:,} of")
    expect(tile).to_have_value(str(mma[5]))
    frame.press("v")
    expect(page.get_by_role("button", name="values")).to_have_attribute("aria-pressed", "true")


def test_the_help_lists_each_key_once(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    page.locator(".sg-widget").press("?")
    keys = page.get_by_role("dialog").locator("kbd").all_inner_texts()
    assert keys.count("[") == keys.count("]") == 1 and len(keys) == len(set(keys))
    expect(page.get_by_role("row", name="] next tile")).to_be_visible()


def test_grids_are_walked_with_the_keyboard(host: Host) -> None:
    page = show(host, SharedMemory(product().session))
    grid = page.locator(".sg-cells").first
    grid.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".sg-spoken").first).to_contain_text("m 1, k 8–15")
    page.keyboard.press("Enter")
    assert selection.value["address"].startswith("smem+0x")
    page.keyboard.press("Escape")
    assert selection.value == {}
