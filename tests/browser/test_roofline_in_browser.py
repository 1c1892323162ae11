"""Roofline in a real browser: points to press and step, machines, new points, a launch opened, one library per page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from sglab import roofline
from sglab.roofline import Point
from sglab.widgets import Roofline
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more
from tests.support.launches.nan_sessions import LANES, softmax

SWEEP = [
    Point(f"{count} heads", roofline.mla_decode([4096] * 32, num_heads=count), "arithmetic", series="MLA decode")
    for count in (16, 64, 128)
]
MEASURED = Point("measured decode", SWEEP[2].work, "measured", 84.7e-6, "H100", how="Median of 50.")


def show(host: Host, widget: Roofline, place: str = "widget") -> Locator:
    host.show(widget, place)
    shown = host.page.locator(f"#{place} .sg-widget")
    expect(shown.locator(".srf-plot .main-svg").first).to_be_visible()
    settled(host.page)
    return shown


def sentence(shown: Locator) -> Locator:
    return shown.locator(".sg-sentence")


def texts(shown: Locator) -> str:
    return " | ".join(shown.locator(".srf-plot text").all_text_contents())


def test_without_points_it_says_how_one_comes(host: Host) -> None:
    shown = show(host, Roofline())
    expect(shown.locator(".sg-details")).to_contain_text("No point yet: pass a launch")


def test_points_are_stepped_by_series_and_say_how_far_below_their_roof_they_are(host: Host) -> None:
    shown = show(host, Roofline(SWEEP, MEASURED))
    expect(sentence(shown)).to_have_text(
        re.compile(r"measured decode \(measured\): 2\d\d FLOP per byte, 431 TFLOP/s in 84.70 µs, 5\d % of its roof\.")
    )
    shown.press("Home")
    expect(sentence(shown)).to_have_text("The roofs alone.")
    shown.press("ArrowRight")
    expect(sentence(shown)).to_contain_text("16 heads (MLA decode, arithmetic)")
    shown.press("ArrowDown")
    expect(sentence(shown)).to_contain_text("64 heads (MLA decode, arithmetic)")
    details = shown.locator(".sg-details")
    expect(details).to_contain_text("memory bandwidth")
    shown.press("t")
    details.get_by_role("button", name="measured decode").click()
    expect(sentence(shown)).to_contain_text("measured decode")
    shown.press("c")
    expect(details).to_contain_text("https://www.nvidia.com/en-us/data-center/h100/")


def ring(shown: Locator) -> tuple[float, float]:
    """The middle of what marks the selected point."""
    box = shown.locator(".srf-ring").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_selected_point_has_a_ring_that_follows_steps_and_zoom(host: Host) -> None:
    shown = show(host, Roofline(SWEEP, MEASURED))
    expect(shown.locator(".srf-gap")).to_have_count(1)  # measured: below its roof
    shown.press("Home")
    for point in shown.locator(".srf-plot .points path").all():
        shown.press("ArrowRight")
        settled(host.page)
        at = point.bounding_box()
        assert at is not None
        middle = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
        assert ring(shown) == pytest.approx(middle, abs=1.5)
    expect(shown.locator(".srf-gap")).to_have_count(1)
    before = ring(shown)
    plot = shown.locator(".srf-plot .nsewdrag").first.bounding_box()
    assert plot is not None
    host.page.mouse.move(plot["x"] + plot["width"] / 2, plot["y"] + 2)
    host.page.mouse.down()
    host.page.mouse.move(plot["x"] + plot["width"] - 2, plot["y"] + plot["height"] / 2, steps=4)
    host.page.mouse.up()
    settled(host.page)
    zoomed = shown.locator(".srf-plot .points path").last.bounding_box()
    assert zoomed is not None
    middle = zoomed["x"] + zoomed["width"] / 2, zoomed["y"] + zoomed["height"] / 2
    assert middle != pytest.approx(before, abs=5) and ring(shown) == pytest.approx(middle, abs=1.5)
    shown.press("Home")
    expect(shown.locator(".srf-ring")).to_have_count(0)


def test_a_point_alone_in_its_series_says_so(host: Host) -> None:
    shown = show(host, Roofline(SWEEP, MEASURED))
    shown.press("ArrowDown")
    expect(shown.locator(".sg-notice")).to_contain_text("The series has no point after this one.")


def test_another_machine_has_other_roofs_and_leaves_out_times_of_the_first(host: Host) -> None:
    widget = Roofline(SWEEP, MEASURED)
    shown = show(host, widget)
    assert "BF16 989 TFLOP/s" in texts(shown) and "memory 3.35 TB/s" in texts(shown)
    shown.press("m")
    expect(shown.locator(".srf-plot text", has_text="memory 4.80 TB/s")).to_have_count(1)
    assert widget.machine == "H200"
    expect(shown.locator(".sg-toolbar")).to_contain_text("Not shown: 1 timed on H100")
    expect(shown.locator(".sg-counter")).to_contain_text("of 3")
    shown.get_by_label("ceilings of").select_option("B200")
    expect(shown.locator(".srf-plot text", has_text="BF16 2.25 PFLOP/s")).to_have_count(1)


def test_a_mark_is_pressed_and_hovered(host: Host) -> None:
    shown = show(host, Roofline(SWEEP))
    box = shown.locator(".srf-plot .points path").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    host.page.mouse.move(x - 2, y)
    host.page.mouse.move(x, y)
    expect(shown.locator(".sg-tooltip")).to_contain_text("16 heads (MLA decode, arithmetic)")
    host.page.mouse.click(x, y)
    expect(sentence(shown)).to_contain_text("16 heads (MLA decode, arithmetic)")


def test_new_points_appear_while_it_is_shown(host: Host) -> None:
    widget = Roofline(SWEEP)
    shown = show(host, widget)
    more(shown)
    shown.get_by_label("tokens", exact=True).fill("1024")
    shown.get_by_role("button", name="add what attention of these shapes has to do").click()
    expect(sentence(shown)).to_contain_text("decode 32 × 1,024, 32 heads on 8 KV heads (arithmetic)")
    shown.get_by_label("KV heads").fill("7")
    shown.get_by_role("button", name="add what attention of these shapes has to do").click()
    expect(shown.locator(".sg-notice")).to_contain_text("num_kv_heads: expected a divisor of num_heads=32; got 7")
    session, _ = softmax(torch.zeros(2, LANES))
    with widget.watch(label="softmax"):
        session.device.run(session.launch)
    host.flush()
    expect(sentence(shown)).to_contain_text("softmax (modelled)")
    shown.get_by_role("button", name="take away this point").click()
    expect(sentence(shown)).not_to_contain_text("softmax (modelled)")
    host.page.keyboard.press("Home")  # the pressed button is gone: keys are still the widget's
    expect(sentence(shown)).to_have_text("The roofs alone.")


def test_the_form_refuses_what_is_no_whole_number_and_selects_what_it_adds(host: Host) -> None:
    widget = Roofline(SWEEP)
    shown = show(host, widget)
    shown.press("Home")
    more(shown)
    add = shown.get_by_role("button", name="add what attention of these shapes has to do")
    shown.get_by_label("requests", exact=True).fill("2.5")
    add.click()
    expect(shown.locator(".sg-notice")).to_contain_text('requests: write a whole number from 1; got "2.5"')
    assert len(widget.points) == len(SWEEP)
    shown.get_by_label("requests", exact=True).fill("4")
    add.click()
    expect(sentence(shown)).to_contain_text("decode 4 × 4,096, 32 heads on 8 KV heads (arithmetic)")


def test_ctrl_and_the_wheel_zoom_and_leave_ticks(host: Host) -> None:
    shown = show(host, Roofline(SWEEP))
    box = shown.locator(".srf-plot .nsewdrag").first.bounding_box()
    assert box is not None
    host.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    whole = shown.locator(".xtick text").all_text_contents()
    host.page.keyboard.down("Control")
    for _ in range(8):
        host.page.mouse.wheel(0, -240)
        settled(host.page)
    host.page.keyboard.up("Control")
    near = shown.locator(".xtick text").all_text_contents()
    assert near != whole and len(near) >= 2
    assert len(shown.locator(".ytick text").all_text_contents()) >= 2
    shown.press("0")
    settled(host.page)
    assert shown.locator(".xtick text").all_text_contents() == whole


def test_a_points_launch_is_opened(host: Host) -> None:
    session, _ = softmax(torch.zeros(2, LANES))
    widget = Roofline(SWEEP, session)
    shown = show(host, widget)
    shown.press("Home")
    shown.press("ArrowRight")
    shown.press("w")
    expect(shown.locator(".sg-notice")).to_contain_text("Select a point of a launch first")
    shown.press("End")
    unspoken = shown.get_by_role("button").evaluate_all(
        "all => all.filter((one) => one.checkVisibility() && /[a-z]{2}/.test(one.innerText))"
        ".map((one) => [one.innerText, one.ariaLabel ?? one.innerText])"
        ".filter(([seen, spoken]) => !spoken.toLowerCase().includes(seen.toLowerCase()))"
    )
    assert unspoken == [], "who speaks to the page says what stands on a button"
    shown.press("k")
    expect(shown.get_by_role("link", name=re.compile("softmax ↗"))).to_be_focused()
    assert type(widget._opened[-1]).__name__ == "KernelDebugger"


def test_a_page_loads_the_library_once(host: Host) -> None:
    show(host, Roofline(SWEEP), "first")
    asked = host.questions
    show(host, Roofline(SWEEP[:1]), "second")
    assert host.questions == asked


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_has_the_plot_in_it(host: Host, tmp_path: Path, kind: str) -> None:
    shown = show(host, Roofline(SWEEP))
    more(shown)
    with host.page.expect_download() as download:
        shown.get_by_role("button", name=kind.upper(), exact=True).click()
    path = tmp_path / f"roofline.{kind}"
    download.value.save_as(path)
    if kind == "png":
        assert path.stat().st_size > 40_000
        return
    text = path.read_text("utf-8")
    assert text.count("main-svg") >= 2 and "memory 3.35 TB/s" in text and ".srf-plot .main-svg" in text


def test_a_saved_page_changes_machines_without_python(page: Page, tmp_path: Path) -> None:
    path = Roofline(SWEEP, MEASURED).save(tmp_path / "roofline.html")
    page.goto(path.as_uri())
    shown = page.locator(".sg-widget")
    expect(shown.locator(".srf-plot text", has_text="memory 3.35 TB/s")).to_have_count(1)
    shown.press("m")
    expect(shown.locator(".srf-plot text", has_text="memory 4.80 TB/s")).to_have_count(1)
    expect(shown.get_by_role("button", name=re.compile("open in"))).to_have_count(0)


def test_all_columns_of_all_points_are_in_sight(host: Host) -> None:
    long = Point("mla_decode_sm100_f16", SWEEP[1].work, "measured", 84.7e-6, "H100", how="Median of 50.")
    shown = show(host, Roofline(SWEEP, long))
    shown.get_by_role("tab", name="All points").click()
    box = shown.locator(".sge-scroll:visible").first
    expect(box.locator("th").last).to_have_text("of roof")
    assert box.evaluate("each => each.scrollWidth - each.clientWidth") <= 0
    expect(box).to_contain_text("measured")


def test_a_large_window_is_filled(host: Host) -> None:
    host.page.set_viewport_size({"width": 1800, "height": 1080})
    shown = show(host, Roofline(SWEEP))
    height = shown.evaluate("each => each.getBoundingClientRect().height")
    assert height > 900, "of the 960 that a widget takes at most"
