"""TensorMemory in a real browser: modes, cells, zoom, keys, stepping, a saved page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from playwright.sync_api import Page, expect

from sglab.events.tensor_memory.writes import KINDS
from sglab.gpu import KernelError
from sglab.widgets import TensorMemory, selection
from tests.support.browser.drawings import count_drawings, drawings
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more
from tests.support.launches.memory_sessions import freed_too_early, mla_sm100, no_tensor_memory, product

LEFT, TOP = 58, 40  # the heads of lanes and columns


ZOOM_IN_AND_OUT = """async () => {
  const map = document.querySelector(".stm-map");
  const box = map.getBoundingClientRect();
  const at = { clientX: box.left + 200, clientY: box.top + 150, bubbles: true, cancelable: true, ctrlKey: true };
  for (let i = 0; i < 90; i++) {
    map.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: i < 45 ? -16 : 16 }));
    map.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: i < 45 ? -16 : 16 }));
    await new Promise(requestAnimationFrame);
  }
  return 90;
}"""
"""Two turns of the wheel in each of so many frames."""


def moment_after(widget: TensorMemory, kind: str, number: int = 0) -> int:
    return int(np.flatnonzero(widget._traffic.moments[:, 4] == KINDS.index(kind))[number]) + 1


def show(host: Host, widget: TensorMemory) -> Page:
    host.show(widget)
    expect(host.page.locator(".stm-map canvas").first).to_be_visible()
    more(host.page.locator(".sg-widget"))
    return host.page


def pixel(page: Page, lane: int, column: int, rank: int = 0) -> list[int]:
    """The colour of a cell in the overview."""
    found: list[int] = page.evaluate(
        """([rank, lane, column, left, top]) => {
          const canvas = document.querySelectorAll(".stm-map canvas")[rank];
          const x = left + ((column + 0.5) / 512) * (canvas.width - left);
          const y = top + ((lane + 0.5) / 128) * (canvas.height - top);
          return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data.slice(0, 3)];
        }""",
        [rank, lane, column, LEFT, TOP],
    )
    return found


def test_a_pair_is_side_by_side_with_its_allocation_and_matrices(host: Host) -> None:
    widget = TensorMemory(mla_sm100(256))
    widget.go(moment_after(widget, "mma", 95))
    page = show(host, widget)
    expect(page.locator(".stm-map")).to_have_count(2)
    expect(page.locator(".sg-badge")).to_have_text("emulated sm_100a")
    expect(page.locator(".stm-legend")).to_contain_text("S0 (128×128 f32)")
    expect(page.locator(".sg-details")).to_contain_text("O0 (128×256 f32) at tmem[0,128]")
    page.get_by_role("button", name=re.compile(r"O0 \(128×256 f32\)")).click()
    expect(page.locator(".sg-details")).to_contain_text(
        "rows 64–127, columns 128–255: CTA 1, lanes 64–127, columns 128–255"
    )


def test_a_cell_shows_its_value_its_place_in_the_matrix_and_its_writer(host: Host) -> None:
    made = product(128, pair=True)
    widget = TensorMemory(made.session)
    widget.go(moment_after(widget, "ld"))
    page = show(host, widget)
    go = page.get_by_label("Go to a cell")
    go.fill("tmem[70,5]")
    go.press("Enter")
    details = page.locator(".sg-details")
    expect(details).to_contain_text("tmem[70,5] of CTA 0")
    expect(details).to_contain_text("row 6, column 37 of D0 (128×64 f32)")
    value = f"{made.expected[6, 37]:g}".replace("-", "−")
    expect(details.locator("dt:text-is('f32, its own') + dd")).to_have_text(value)
    expect(details).to_contain_text("tcgen05.mma by warp 0 of CTA 0")
    expect(details.locator("dt:text-is('ld and st by') + dd")).to_have_text("warp 2; with the shape .32x32b by lane 6")
    assert selection.value["address"] == "tmem[70,5]"
    assert selection.value["cta"] == 0


def test_the_legend_says_whose_lanes_are_left_when_a_warp_is_selected(host: Host) -> None:
    page = show(host, TensorMemory(mla_sm100()))
    legend = page.locator(".stm-legend")
    expect(legend).to_contain_text("free")
    expect(legend).not_to_contain_text("reach")
    selection.set(cta=0, warp=9)
    host.flush()
    expect(legend).to_contain_text("out of reach of warp 9 (load) of CTA 0 · Esc shows all alike")
    frame = page.locator(".sg-widget")
    frame.press("Escape")
    expect(legend).not_to_contain_text("reach")
    selection.set(cta=0, warp=40)  # of another launch: this one has fewer
    host.flush()
    expect(legend).to_contain_text("free")
    expect(legend).not_to_contain_text("reach")


def test_stepping_moves_the_session_and_back(host: Host) -> None:
    made = product()
    widget = TensorMemory(made.session)
    page = show(host, widget)
    sentence, frame = page.locator("output.sg-sentence"), page.locator(".sg-widget")
    frame.press("Home")
    expect(sentence).to_contain_text("Nothing has touched tensor memory yet.")
    frame.press("ArrowRight")
    expect(sentence).to_have_text("Warp 0 of CTA 0 allocates columns 0–127.")
    assert made.session.now == widget._moments[0] + 1
    page.get_by_label("Step size").select_option("mma")
    frame.press("ArrowRight")
    expect(sentence).to_contain_text("issues tcgen05.mma.cta_group::1.kind::f16: D0 (128×64 f32) in columns 0–63.")
    expect(page.locator(".sg-details")).to_contain_text("Issued, not carried out yet")
    frame.press("ArrowLeft")
    expect(sentence).to_contain_text("Nothing has touched tensor memory yet.")
    assert made.session.now == 0
    made.session.run()
    host.flush()
    expect(page.locator(".sg-counter")).to_contain_text(f"step {len(widget._moments):,} of")


def test_values_are_cividis_and_nan_is_magenta(host: Host) -> None:
    made = product(nan_row=40)
    widget = TensorMemory(made.session)
    widget.go(moment_after(widget, "ld"))
    host.page.emulate_media(color_scheme="light")
    host.page.set_viewport_size({"width": 1800, "height": 1000})
    page = show(host, widget)
    page.get_by_role("button", name="values").click()
    expect(page.locator(".stm-legend")).to_contain_text("NaN")
    expect(page.locator(".stm-legend")).not_to_contain_text("≤ 0")  # the words have come
    settled(page)
    low = np.unravel_index(np.nanargmin(made.expected), made.expected.shape)
    high = np.unravel_index(np.nanargmax(made.expected), made.expected.shape)
    assert sum(pixel(page, *map(int, low))) < sum(pixel(page, *map(int, high)))
    assert pixel(page, 40, 20) == [0xE6, 0x00, 0x7E]


def test_the_map_is_walked_with_the_keyboard_and_speaks(host: Host) -> None:
    made = product()
    widget = TensorMemory(made.session)
    widget.go(moment_after(widget, "ld"))
    page = show(host, widget)
    grid = page.locator(".stm-map")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".sg-spoken")).to_contain_text("tmem[1,1], CTA 0")
    expect(page.locator(".sg-spoken")).to_contain_text("row 1, column 1 of D0")
    page.keyboard.press("Enter")
    assert selection.value["address"] == "tmem[1,1]"
    counter = page.locator(".sg-counter").inner_text()
    assert counter.startswith(f"step {widget.moment:,} ")  # arrows in the map do not step
    page.keyboard.press("Escape")
    assert selection.value == {}


def test_zoom_keeps_the_pointers_cell_and_shows_values(host: Host) -> None:
    widget = TensorMemory(product().session)
    widget.go(moment_after(widget, "ld"))
    page = show(host, widget)
    page.get_by_role("button", name="values").click()
    grid = page.locator(".stm-map")
    box = grid.bounding_box()
    assert box is not None
    x, y = box["x"] + LEFT + 31, box["y"] + TOP + 101.9
    page.mouse.move(x, y)
    tooltip = page.get_by_role("tooltip")
    expect(tooltip).to_contain_text("tmem[")
    before = re.search(r"tmem\[\d+,\d+\]", tooltip.inner_text())
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.mouse.move(x + 0.2, y)
    assert before is not None
    expect(tooltip).to_contain_text(before.group())


def test_zooming_draws_each_canvas_once_a_frame(host: Host) -> None:
    widget = TensorMemory(mla_sm100(256))
    widget.go(moment_after(widget, "mma", 60))
    host.page.set_viewport_size({"width": 1800, "height": 1000})
    page = show(host, widget)
    page.get_by_role("button", name="values").click()
    expect(page.locator(".stm-legend")).not_to_contain_text("≤ 0")
    settled(page)
    count_drawings(page)
    frames = page.evaluate(ZOOM_IN_AND_OUT)
    settled(page)
    assert 0 < drawings(page) <= frames * page.locator("canvas").count()


def test_a_saved_page_steps_through_its_moments_without_python(page: Page, tmp_path: Path) -> None:
    widget = TensorMemory(mla_sm100(256), saved_moments=4)
    widget.go(moment_after(widget, "mma", 60))
    path = widget.save(tmp_path / "tmem.html")
    assert path.stat().st_size < 5 << 20
    page.goto(path.as_uri())
    expect(page.locator(".stm-map")).to_have_count(2)
    expect(page.locator(".sg-counter")).to_contain_text(f"event {widget.moment} of")
    expect(page.locator(".sg-widget")).to_contain_text("saved: 5 of")
    page.locator(".sg-widget").press("Home")
    page.locator(".sg-widget").press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text("event")
    page.get_by_role("button", name="liveness").click()
    expect(page.locator(".stm-legend")).to_contain_text("uninitialised")


def test_maps_take_the_height_that_there_is(host: Host) -> None:
    host.page.set_viewport_size({"width": 1410, "height": 900})
    host.show(TensorMemory(mla_sm100()))
    view, canvas = (host.page.locator(name).first for name in (".sg-view", ".stm-map canvas"))
    expect(canvas).to_be_visible()
    settled(host.page)
    assert view.evaluate("e => e.scrollHeight - e.clientHeight") <= 1
    assert canvas.evaluate("e => e.clientHeight") > 424
    host.page.set_viewport_size({"width": 1410, "height": 600})
    host.page.wait_for_function("document.querySelector('.stm-map canvas').clientHeight < 424")


def test_a_kernel_without_tensor_memory_and_another_version_are_explained_in_sentences(host: Host) -> None:
    host.show(TensorMemory(no_tensor_memory()))
    expect(host.page.locator(".sg-placeholder")).to_contain_text("uses no tensor memory")
    expect(host.page.get_by_label("CTAs")).to_be_hidden()  # there is nothing to choose from
    more(host.page.locator(".sg-widget"))
    for name in ("owner", "values", "whole"):
        expect(host.page.get_by_role("button", name=name)).to_be_hidden()
    other = TensorMemory(product().session)
    other.version = 99
    host.show(other, "other")
    expect(host.page.locator("#other").get_by_role("alert")).to_contain_text("format 99")


def test_details_say_since_when_by_whom_and_lead_there(host: Host) -> None:
    widget = TensorMemory(product().session)
    widget.go(moment_after(widget, "ld"))
    page = show(host, widget)
    selection.set(address="tmem[40,3]", cta=0)
    host.flush()
    details = page.locator(".sg-details")
    expect(details).to_contain_text("columns 0–127")
    since = details.locator("dt:text-is('since') + dd")
    expect(since).to_contain_text("tcgen05.alloc by warp 0")
    expect(details).to_contain_text("with the shape .32x32b by lane 8")
    written = details.locator("dt:text-is('written by') + dd")
    expect(written).to_contain_text("tcgen05.mma by warp 0")
    written.get_by_role("button").click()
    issued = moment_after(widget, "mma")
    expect(page.locator(".sg-counter")).to_contain_text(f"step {issued:,} of")
    assert widget.moment == issued
    # Issued is not carried out: the cell still holds what was stored, and the MMA is on its way.
    expect(details.locator("dt:text-is('in flight') + dd")).to_contain_text(
        f"tcgen05.mma by warp 0 of CTA 0, step {issued}"
    )
    expect(written).to_contain_text("tcgen05.st")
    page.keyboard.press("ArrowLeft")  # the focus stays in the widget
    expect(page.locator(".sg-counter")).to_contain_text(f"step {issued - 1:,} of")
    expect(details.locator("dt:text-is('next') + dd")).to_contain_text(f"step {issued}")


def test_zooming_keeps_what_was_written_in_sight(host: Host) -> None:
    """Three quarters of the picture are free memory: its middle is not what a reader wants to see."""
    widget = TensorMemory(product().session)
    widget.go(len(widget._moments) - 3)
    page = show(host, widget)
    for _ in range(4):
        page.locator(".sg-widget").press("+")
    box = page.locator(".stm-map").bounding_box()
    assert box
    page.mouse.move(box["x"] + LEFT + 20, box["y"] + TOP + 8)
    expect(page.locator(".sg-tooltip")).to_contain_text("tmem[0,0], CTA 0")


def test_a_dead_kernel_is_reported(host: Host) -> None:
    widget = TensorMemory(product().session)
    page = show(host, widget)
    page.evaluate("id => sglabHost.models.get(id).emit('comm:close')", widget.model_id)
    expect(page.get_by_role("alert")).to_contain_text("Disconnected")
    page.locator(".sg-widget").press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text("step 0 of")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_axe(host: Host, axe: Callable[[Page], list[str]], scheme: str) -> None:
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    widget = TensorMemory(product(pair=True, m=256).session)
    widget.go(moment_after(widget, "ld"))
    page = show(host, widget)
    page.get_by_label("Go to a cell").fill("3, 4")
    page.get_by_label("Go to a cell").press("Enter")
    expect(page.locator(".sg-details")).to_contain_text("tmem[3,4]")
    assert [each for each in axe(page) if each.startswith(("serious", "critical"))] == []


def test_a_disposed_view_leaves_nothing_behind(host: Host) -> None:
    widget = TensorMemory(product().session)
    page = show(host, widget)
    page.evaluate("document.getElementById('widget').sglabDispose()")
    assert page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0


def test_a_use_after_free_leads_to_its_cell(host: Host) -> None:
    session = freed_too_early()
    with pytest.raises(KernelError):
        session.run()
    page = show(host, TensorMemory(session))
    details = page.locator(".sg-details")
    expect(details).to_contain_text("▲ column 0 of tensor memory is not allocated")
    details.get_by_role("button", name="Select tmem[0,0]").click()
    expect(details).to_contain_text("allocation")
    assert selection.value["address"] == "tmem[0,0]"


def test_a_step_changes_what_is_other_and_nothing_else(host: Host) -> None:
    """What is written anew costs the page a layout and, where it has a hatch, an image."""
    widget = TensorMemory(mla_sm100())
    widget.go(moment_after(widget, "ld"))
    page = show(host, widget)
    settled(page)
    page.evaluate(
        """() => {
          window.changed = [];
          const seen = (changes) => changes.forEach(({ target, type, attributeName }) =>
            window.changed.push([target.closest?.("[class]")?.className ?? "", attributeName ?? type]));
          const options = { subtree: true, childList: true, attributes: true };
          new MutationObserver(seen).observe(document.querySelector(".sg-widget"), options);
        }"""
    )
    page.locator(".sg-widget").press("ArrowRight")
    expect(page.locator(".sg-counter")).to_contain_text(f"step {moment_after(widget, 'ld') + 1} of")
    settled(page)
    changed = page.evaluate("window.changed")
    assert [each for each in changed if each[1] in ("title", "max", "data-kind", "data-placeholder")] == []
    assert [each for each in changed if each[0] == "stm-legend"] == []
