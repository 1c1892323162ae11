"""The widgets' shared core, in a real browser, through a widget that uses all of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from sglab.widgets import html_page, selection
from tests.support.browser.probe_widget import Probe
from tests.support.browser.widget_host import Host


def test_frame_shows_title_subject_and_provenance(host: Host) -> None:
    host.show(Probe())
    expect(host.page.locator(".sg-title")).to_have_text("Probe")
    expect(host.page.locator(".sg-subject")).to_have_text("ten steps of nothing in particular")
    expect(host.page.locator(".sg-badge")).to_have_text("measured")


def test_slices_cross_as_binary(host: Host) -> None:
    host.show(Probe())
    expect(host.page.locator(".probe-values")).to_have_text("10")


def test_a_call_is_answered_by_id_and_its_tensors_decoded(host: Host) -> None:
    host.show(Probe([1, 2, 3]))
    host.page.get_by_role("button", name="Double").click()
    expect(host.page.locator(".probe-values")).to_have_text("2 4 6")


def test_two_views_of_one_widget_each_get_their_own_answers(host: Host) -> None:
    widget = Probe([1, 2, 3])
    host.show(widget, "first")
    host.show(widget, "second")
    host.page.locator("#first").get_by_role("button", name="Double").click()
    expect(host.page.locator("#first .probe-values")).to_have_text("2 4 6")
    expect(host.page.locator("#second .probe-values")).to_have_text("3")


def test_an_error_in_python_shows_inside_the_widget_and_loses_nothing(host: Host) -> None:
    widget = Probe()
    widget._commands = {"double": lambda self, by: Probe.double(self, by=3), "slices": Probe.slices}
    host.show(widget)
    host.page.get_by_role("button", name="Double").click()
    expect(host.page.get_by_role("alert")).to_contain_text("by must be 2, got 3")
    expect(host.page.locator(".probe-values")).to_have_text("10")
    host.page.keyboard.press("Escape")
    expect(host.page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize(
    ("keys", "position"),
    [
        (["ArrowRight"], 1),
        (["ArrowRight", "ArrowRight", "ArrowLeft"], 1),
        (["]"], 4),
        (["]", "]", "["], 4),
        (["End"], 10),
        (["End", "Home"], 0),
        (["Shift+ArrowRight"], 3),
        (["End", "Shift+ArrowLeft"], 6),
    ],
)
def test_keys_move_the_transport(host: Host, keys: list[str], position: int) -> None:
    host.show(Probe())
    expect(host.page.locator(".probe-values")).to_have_text("10")
    host.page.locator(".sg-widget").focus()
    for key in keys:
        host.page.keyboard.press(key)
    expect(host.page.locator(".sg-counter")).to_have_text(f"step {position:,} of 10")
    spoken = f"Value {position - 1} was read." if position else "Nothing has happened."
    expect(host.page.locator("output.sg-sentence")).to_have_text(spoken)


def test_playing_reaches_the_end_and_stops(host: Host) -> None:
    host.show(Probe())
    host.page.get_by_label("Speed").select_option("60")
    host.page.get_by_role("button", name="Play").click()
    expect(host.page.locator(".sg-counter")).to_have_text("step 10 of 10")
    expect(host.page.get_by_role("button", name="Play")).to_be_visible()


def test_controls_that_do_nothing_say_why(host: Host) -> None:
    """A select's own title hides that of the bar which it stands in."""
    host.show(Probe([]), "empty")
    host.show(Probe(), "steps")
    nothing = "There is nothing to step through."
    for name, title in (("Step size", "Step size"), ("Speed", "Steps per second when playing")):
        empty = host.page.locator("#empty").get_by_label(name, exact=True)
        expect(empty).to_be_disabled()
        expect(empty).to_have_attribute("title", nothing)
        usable = host.page.locator("#steps").get_by_label(name, exact=True)
        expect(usable).to_be_enabled()
        expect(usable).to_have_attribute("title", title)
    expect(host.page.locator("#empty .sg-transport")).to_have_attribute("title", nothing)


def test_the_transport_never_lies_over_the_header(host: Host) -> None:
    """It stays in sight while a picture scrolls by, but not where there is only a strip of the widget to see."""
    host.show(Probe())
    page = host.page
    expect(page.locator(".probe-values")).to_have_text("10")
    page.add_style_tag(content="body { padding: 2000px 0 } .sg-view { height: 500px } .sg-widget { max-height: none }")
    header, bar, toolbar = (page.locator(name) for name in (".sg-header", ".sg-transport", ".sg-toolbar"))
    height = page.evaluate("innerHeight")
    for seen in (45, 75, 120, 300):
        page.evaluate(
            "([at, seen]) => scrollBy(0, document.querySelector(at).getBoundingClientRect().top + seen - innerHeight)",
            [".sg-widget", seen],
        )
        boxes = [each.bounding_box() for each in (header, toolbar, bar)]
        top, controls, transport = (box for box in boxes if box is not None)
        assert top["y"] < height
        assert transport["y"] >= max(top["y"] + top["height"], controls["y"] + controls["height"]), seen
    assert transport["y"] + transport["height"] <= height + 0.5, "it stays in sight while the picture scrolls by"


def test_typing_in_a_field_does_not_move_the_transport(host: Host) -> None:
    host.show(Probe())
    host.page.evaluate("document.querySelector('.sg-toolbar').append(document.createElement('input'))")
    host.page.locator(".sg-toolbar input").press("End")
    expect(host.page.locator(".sg-counter")).to_have_text("step 0 of 10")


def test_help_lists_the_keys_and_returns_the_focus(host: Host) -> None:
    host.show(Probe())
    host.page.locator(".sg-widget").focus()
    host.page.keyboard.press("?")
    expect(host.page.get_by_role("dialog")).to_contain_text("Shift+→")
    host.page.keyboard.press("Escape")
    expect(host.page.get_by_role("dialog")).to_have_count(0)
    expect(host.page.locator(".sg-widget")).to_be_focused()


def test_selecting_in_one_widget_selects_in_all_and_in_python(host: Host) -> None:
    host.show(Probe(), "first")
    host.show(Probe(), "second")
    host.page.locator("#first .sg-widget").press("ArrowDown")
    expect(host.page.locator("#second .sg-details")).to_have_text('{"request":0}')
    assert selection.value == {"request": 0}


def test_selecting_in_python_reaches_the_page_once(host: Host) -> None:
    host.show(Probe())
    selection.set(request=3, barrier="mbar_k")
    host.flush()
    expect(host.page.locator(".sg-details")).to_have_text('{"request":3,"barrier":"mbar_k"}')
    assert selection.value == {"request": 3, "barrier": "mbar_k"}


def test_a_silent_kernel_is_reported_as_waiting_and_a_closed_comm_as_lost(host: Host) -> None:
    widget = Probe()
    host.show(widget)
    expect(host.page.locator(".probe-values")).to_have_text("10")
    host.alive = False
    host.page.get_by_role("button", name="Double").click()
    expect(host.page.locator(".sg-widget")).to_have_attribute("data-connection", "waiting")
    host.page.evaluate("id => sglabHost.models.get(id).emit('comm:close')", widget.model_id)
    expect(host.page.locator(".sg-widget")).to_have_attribute("data-connection", "lost")
    expect(host.page.get_by_role("alert")).to_contain_text("Disconnected: the Python kernel was restarted")


def test_a_disposed_view_leaves_no_listener(host: Host) -> None:
    widget = Probe()
    host.show(widget)
    expect(host.page.locator(".probe-values")).to_have_text("10")
    host.page.evaluate("document.getElementById('widget').sglabDispose()")
    assert host.page.evaluate("id => sglabHost.models.get(id).listenerCount", widget.model_id) == 0


def test_a_trace_of_another_version_says_so(host: Host) -> None:
    widget = Probe()
    widget.version = 99
    host.show(widget)
    expect(host.page.get_by_role("alert")).to_contain_text("format 99")


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_every_dtype_arrives_exact(host: Host, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    values = [0.0, 1.0, 1.0] if dtype in {"bool", "uint8"} else [0.0, 1.5, -96.0]
    tensor = torch.tensor(values).to(getattr(torch, dtype))
    widget = Probe()
    widget.publish({"steps": tensor})
    host.show(widget)
    expect(host.page.locator(".probe-values")).to_have_text("3")
    host.page.locator(".sg-widget").press("End")
    expect(host.page.locator("output.sg-sentence")).to_have_text(f"Value {tensor[-1].item():g} was read.")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("count(14823)", "14,823"),
        ("plural(1, 'page')", "1 page"),
        ("plural(1200, 'access', 'accesses')", "1,200 accesses"),
        ("bytes(1023)", "1023 B"),
        ("bytes(210944)", "206 KiB"),
        ("bytes(1536)", "1.5 KiB"),
        ("percent(0.0712)", "7.1 %"),
        ("percent(1)", "100 %"),
        ("duration(850)", "850 ns"),
        ("duration(36900)", "36.90 µs"),
        ("address('smem', 0x1a00)", "smem+0x1a00"),
    ],
)
def test_numbers_are_written_with_their_units(host: Host, call: str, text: str) -> None:
    host.show(Probe())
    assert host.page.evaluate(f"sglabHost.modules.get('probe').core.format.{call}") == text


def test_forty_requests_look_different_and_their_ink_is_legible(host: Host) -> None:
    host.show(Probe())
    looks = host.page.evaluate(
        "() => { const { lookOf } = sglabHost.modules.get('probe').core;"
        " return [true, false].map((dark) => Array.from({ length: 40 }, (_, i) => lookOf(i, dark))) }"
    )
    for theme in looks:
        assert len({(look["fill"], look["hatch"]) for look in theme}) == 40
        assert all(contrast(look["fill"], look["ink"]) >= 4.5 for look in theme)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two #rrggbb colours, WCAG 2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_a_saved_page_works_from_the_file_system_without_python(page: Page, tmp_path: object) -> None:
    path = Probe(np.arange(7) * 3).save(f"{tmp_path}/probe.html")
    page.goto(path.as_uri())
    page.locator(".sg-widget").press("End")
    expect(page.locator("output.sg-sentence")).to_have_text("Value 18 was read.")
    page.get_by_role("button", name="Double").click()
    expect(page.get_by_role("alert")).to_contain_text("saved trace, without Python")


def test_a_saved_page_that_may_not_run_scripts_says_what_to_do(browser: Browser, page: Page, tmp_path: Path) -> None:
    """JupyterLab lets a file run none until *Trust HTML* is pressed; there was a title and nothing else."""
    path = Probe().save(tmp_path / "probe.html")
    context = browser.new_context(offline=True, java_script_enabled=False)
    try:
        viewer = context.new_page()
        viewer.goto(path.as_uri())
        assert "press Trust HTML above this page" in viewer.locator("body").inner_text()
        assert viewer.get_by_role("button").count() == 0
    finally:
        context.close()
    page.goto(path.as_uri())
    expect(page.locator(".sg-widget")).to_be_visible()
    expect(page.locator("noscript")).to_be_hidden()


def test_widgets_of_a_saved_page_share_a_selection(page: Page, tmp_path: object) -> None:
    path = f"{tmp_path}/two.html"
    with open(path, "w", encoding="utf-8") as file:
        file.write(html_page([Probe(), Probe()], "Two </script> & more"))
    page.goto(f"file://{path}")
    page.locator(".sg-widget").first.press("ArrowDown")
    expect(page.locator(".sg-details").nth(1)).to_have_text('{"request":0}')


def test_the_theme_button_of_a_saved_page_reaches_the_widgets(page: Page, tmp_path: object) -> None:
    page.goto(Probe().save(f"{tmp_path}/probe.html").as_uri())
    expect(page.locator(".sg-widget")).to_have_attribute("data-dark", "false")
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator(".sg-widget")).to_have_attribute("data-dark", "true")
    button = page.get_by_role("button", name="Light theme")
    expect(button).to_have_css("background-color", "rgba(0, 0, 0, 0)")  # a white one shone on the dark page
    expect(button).to_have_css("color", "rgb(230, 232, 235)")


def test_a_transport_waits_for_the_party_that_really_moves(host: Host) -> None:
    """Steps asked for during a motion add up to one; another kind of motion replaces them; an error is reported."""
    host.show(Probe())
    heard = host.page.evaluate(
        """async () => {
          const { Transport } = sglabHost.modules.get("probe").core;
          const asked = [], failures = [], transport = new Transport();
          const tick = () => new Promise((resolve) => setTimeout(resolve, 5));
          const answers = [{ position: 1 }, { position: 4 }, { position: 9, length: 9, open: false }];
          transport.failed.on((error) => failures.push(error.message));
          transport.load({
            length: 0,
            open: true,
            granularities: [{ id: "line", label: "line" }],
            describe: () => "",
            move: async (motion) => {
              asked.push(motion);
              await tick();
              if (!answers.length) throw new Error("no kernel");
              return answers.shift();
            },
          });
          for (let i = 0; i < 4; i++) transport.step(1);
          const during = [transport.moving, transport.position];
          await tick(), await tick(), await tick();
          transport.goTo(1e9);
          await tick(), await tick();
          transport.goTo(3);
          await tick(), await tick();
          const { position, moving, track } = transport;
          return { asked, failures, during, position, moving, length: track.length, open: track.open };
        }"""
    )
    step = {"kind": "step", "direction": 1, "granularity": "line"}
    steps = [{**step, "count": 1}, {**step, "count": 3}]
    assert heard["asked"] == [*steps, {"kind": "end"}, {"kind": "to", "position": 3}]
    assert heard["during"] == [True, 0]
    assert heard["failures"] == ["no kernel"]
    assert (heard["position"], heard["moving"], heard["length"], heard["open"]) == (9, False, 9, False)
