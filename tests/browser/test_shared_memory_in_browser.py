"""SharedMemory in a real browser: its size, a saved page, empty launches, accessibility."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

from playwright.sync_api import Browser, Page, expect

from sglab.labs.shared_memory import PagedDecode
from sglab.widgets import SharedMemory
from tests.support.browser.patience import settled
from tests.support.browser.shared_memory_pages import moments_of, show
from tests.support.browser.widget_host import Host, more
from tests.support.launches.memory_sessions import mla_sm100, no_tensor_memory, product


@pytest.mark.parametrize(("width", "height"), [(970, 900), (1410, 900), (1890, 1050)])
def test_the_tile_leaves_room_for_what_is_below_it(host: Host, width: int, height: int) -> None:
    host.page.set_viewport_size({"width": width, "height": height})
    host.show(SharedMemory(mla_sm100()))
    view = host.page.locator(".sg-view")
    expect(view.locator(".sg-cells canvas").first).to_be_visible()
    settled(host.page)
    assert view.evaluate("e => e.scrollHeight - e.clientHeight") <= 1


def test_the_tile_gives_room_to_what_opens_beside_it(host: Host) -> None:
    host.page.set_viewport_size({"width": 1410, "height": 1050})
    host.show(SharedMemory(mla_sm100()))
    view = host.page.locator(".sg-view")
    tile = view.locator(".sg-cells").last
    expect(tile.locator("canvas").first).to_be_visible()
    settled(host.page)
    whole = tile.evaluate("e => e.clientHeight")
    more(host.page.locator(".sg-widget"))
    settled(host.page)
    assert view.evaluate("e => e.scrollHeight - e.clientHeight") <= 1
    assert tile.evaluate("e => e.clientHeight") < whole
    more(host.page.locator(".sg-widget"))
    settled(host.page)
    assert tile.evaluate("e => e.clientHeight") == whole


def test_a_saved_page_decodes_and_steps_without_python(page: Page, tmp_path: Path) -> None:
    widget = SharedMemory(mla_sm100(256), saved_moments=3)
    widget.go(moments_of(widget, "mma")[0])
    path = widget.save(tmp_path / "smem.html")
    assert path.stat().st_size < 5 << 20
    page.goto(path.as_uri())
    expect(page.locator(".sg-cells canvas").first).to_be_visible()
    expect(page.locator(".sg-counter")).to_contain_text(f"event {widget.moment} of")
    page.locator(".sg-widget").press("End")
    expect(page.locator(".sg-counter")).to_contain_text("event")
    page.get_by_role("tab", name="smem descriptor").click()
    start = page.get_by_label("start address in bytes")
    start.fill("2048")
    start.press("Enter")
    expect(page.locator(".ssm-sides")).to_contain_text("smem+0x800")


def test_a_kernel_without_shared_memory_and_another_version_are_explained_in_sentences(host: Host) -> None:
    host.show(SharedMemory(no_tensor_memory()))
    expect(host.page.locator(".sg-placeholder")).to_contain_text("has no shared memory")
    other = SharedMemory(product().session)
    other.version = 99
    host.show(other, "other")
    expect(host.page.locator("#other").get_by_role("alert")).to_contain_text("format 99")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_for_axe(host: Host, axe: Callable[[Page], list[str]], scheme: str) -> None:
    host.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    widget = SharedMemory(PagedDecode(tokens=40).session())
    widget.go(60)
    page = show(host, widget)
    for name in ("smem descriptor", "instruction descriptor", "tensor map", "plain array", "banks", "cp.async groups"):
        page.get_by_role("tab", name=name).click()
        assert [each for each in axe(page) if each.startswith(("serious", "critical"))] == [], name


def test_a_disposed_view_leaves_nothing_behind(host: Host) -> None:
    widget = SharedMemory(product().session)
    page = show(host, widget)
    page.evaluate("document.getElementById('widget').sglabDispose()")
    assert page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0


def test_where_there_is_nothing_to_show_nothing_is_taught_and_no_control_is_dead(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 800}, offline=True)
    page = context.new_page()
    Host(page).show(SharedMemory(no_tensor_memory()))
    expect(page.locator(".sg-placeholder")).to_contain_text("no shared memory")
    expect(page.locator(".sg-tour")).to_be_hidden()
    expect(page.locator(".sg-legend")).to_be_hidden()
    expect(page.locator(".sg-transport")).to_be_hidden()
    expect(page.get_by_role("group", name="In the cells")).to_be_hidden()
    expect(page.get_by_label("Tile", exact=True)).to_be_hidden()
    expect(page.get_by_label("CTA", exact=True)).to_have_value("0")
    context.close()
