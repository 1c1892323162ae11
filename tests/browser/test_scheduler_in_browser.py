"""Scheduler in Chromium: what a step and a request are said to be, and following an engine that runs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host

pytest.importorskip("triton")

from sglab.engine.recording import Recording
from sglab.serving import Engine
from sglab.widgets import Scheduler
from tests.support.browser.every_widget import recording
from tests.support.serving.tiny import tiny_llama


@pytest.fixture(scope="module")
def run() -> Recording:
    return recording()


def shown(host: Host, run: Recording | Engine) -> tuple[Scheduler, Locator]:
    widget = Scheduler(run)
    host.show(widget)
    return widget, host.page.locator("#widget .sg-widget")


def go_to(widget: Locator, step: int) -> None:
    widget.locator(".sg-slider").fill(str(step + 1))


def test_a_step_says_who_was_taken_and_why(host: Host, run: Recording) -> None:
    step = next(each for each in run.steps if len(each.decisions) > 1)
    _, widget = shown(host, run)
    go_to(widget, step.step)
    batch = widget.get_by_label("The batch")
    for entry in step.batch:
        expect(batch.get_by_role("row", name=re.compile(rf"{entry.rid} {entry.phase} {entry.start} "))).to_be_visible()
    for decision in step.decisions:
        row = widget.get_by_label("Decisions").get_by_role("row", name=re.compile(f"^{decision.rid} "))
        expect(row).to_contain_text(decision.reason)
        assert decision.left is not None
        expect(row).to_contain_text(f"{decision.left.rem_total:,} slots")
    if step.stopped:
        expect(widget.locator(".sg-details")).to_contain_text(f"No more: {step.stopped}.")


def test_keys_step_and_the_sentence_tells_it(host: Host, run: Recording) -> None:
    _, widget = shown(host, run)
    counter, last = widget.locator(".sg-counter"), len(run.steps) - 1
    expect(counter).to_have_text(f"step {last} of 0 … {last}")  # the number that the sentence and Python have
    expect(widget.locator(".sg-sentence")).to_contain_text(f"Step {last}: ")
    widget.press("Home")
    expect(counter).to_have_text("before step 0")
    expect(widget.locator(".sg-sentence")).to_have_text("No step has run yet.")
    widget.press("ArrowRight")
    expect(widget.locator(".sg-sentence")).to_contain_text("Step 0: 1 request prefilled")
    widget.press("]")
    expect(counter).not_to_contain_text("step 0 of")


def test_a_retracted_request_tells_its_life_and_leads_to_its_steps(host: Host, run: Recording) -> None:
    step = next(each for each in run.steps if each.retracted)
    rid = step.retracted[0]
    _, widget = shown(host, run)
    widget.get_by_label("Request", exact=True).first.select_option(label=rid)
    widget.press("r")
    life = widget.get_by_label(f"Life of {rid}")
    expect(life).to_contain_text("was retracted: its slots were needed, its tokens stay")
    life.get_by_role("row", name=re.compile("was retracted")).get_by_role("button").click()
    expect(widget.locator(".sg-sentence")).to_contain_text(f"{rid} retracted")
    text = widget.locator(".sge-text").nth(1)
    expect(text).not_to_have_text("…")


def test_a_press_on_the_board_selects_the_request_and_its_step(host: Host, run: Recording) -> None:
    _, widget = shown(host, run)
    widget.locator(".sg-cells").click(position={"x": 240, "y": 18 + 30})
    expect(widget.get_by_label("Request", exact=True).first).to_have_value("1")
    expect(widget.locator(".sg-counter")).not_to_contain_text(f"step {len(run.steps) - 1} of")
    widget.press("Escape")
    expect(widget.get_by_label("Request", exact=True).first).to_have_value("")


def test_a_running_engine_is_followed_without_a_question(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "due", lambda _: True)
    engine = Engine(tiny_llama(), max_total_tokens=128)
    _, widget = shown(host, engine)
    expect(widget.locator(".sg-placeholder")).to_contain_text("No step has run yet")
    engine.submit([1, 2, 3], {"temperature": 0, "max_new_tokens": 6, "min_new_tokens": 6})
    engine.step()
    host.flush()
    expect(widget.locator(".sg-counter")).to_have_text("step 0 of 0 … 0")
    asked = host.questions
    host.alive = False  # a busy kernel answers nothing
    while engine.step():
        host.flush()
    host.flush()
    expect(widget.locator(".sg-counter")).to_have_text("step 5 of 0 … 5")
    assert host.questions == asked


def test_the_attention_of_a_step_opens_as_a_page(host: Host, page: Page, run: Recording) -> None:
    widget, view = shown(host, run)
    decode = next(each for each in run.steps if each.mode == "DECODE")
    go_to(view, decode.step)
    view.press("o")
    view.get_by_role("button", name="Page table").click()
    link = view.get_by_role("link", name=re.compile(f"Page table of step {decode.step}, layer 0"))
    expect(link).to_be_visible()
    assert widget.batch is not None and widget.batch.seq_lens.tolist() == [e.start + 1 for e in decode.batch]
    text = page.evaluate("(url) => fetch(url).then((answer) => answer.text())", link.get_attribute("href"))
    assert '"widget":"page_table"' in text


def test_a_tab_takes_the_place_of_the_page_where_the_host_has_tabs(host: Host, page: Page, run: Recording) -> None:
    _, view = shown(host, run)
    settled(page)
    page.evaluate(
        "document.addEventListener('sglab:open', (event) => { window.asked = event.detail; event.preventDefault(); })"
    )
    view.press("o")
    view.get_by_role("button", name="Split KV").click()
    expect(view.locator(".sge-made")).to_contain_text("in a tab")
    assert page.evaluate("asked.widget") == "SplitKV" and page.evaluate("asked.model")


def test_a_pass_that_failed_is_told_as_such(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tiny_llama(), max_total_tokens=128)
    _, widget = shown(host, engine)
    engine.submit([1, 2, 3], {"temperature": 0, "max_new_tokens": 6, "min_new_tokens": 6}, rid="unlucky")
    engine.step()

    def fails(*_: object) -> None:
        raise RuntimeError("no memory")

    with monkeypatch.context() as spoilt:
        spoilt.setattr(engine.runs, "forward", fails)
        engine.step()
    engine.generate([4, 5], {"max_new_tokens": 1})
    host.flush()
    go_to(widget, 1)
    expect(widget.locator(".sg-sentence")).to_contain_text(
        "Step 1: the pass of 1 request failed, which ends them: RuntimeError: no memory."
    )
    expect(widget.locator(".sg-legend")).to_contain_text("its pass failed")
    widget.get_by_label("Request", exact=True).first.select_option(label="unlucky")
    widget.press("r")
    expect(widget.get_by_label("Life of unlucky")).not_to_contain_text("waited")
    assert engine.history.steps[1].failed == "RuntimeError: no memory"
    assert engine.history.steps[0].failed == ""


def test_who_follows_a_run_sees_its_newest_step_and_request(host: Host, page: Page) -> None:
    engine = Engine(tiny_llama(), max_total_tokens=400, max_running_requests=2)
    widget, view = shown(host, engine)
    for i in range(100):
        engine.submit([1, 2, i % 60], {"temperature": 0, "max_new_tokens": 8, "min_new_tokens": 8})
    while engine.step():
        pass
    widget.refresh()
    host.flush()
    last = len(engine.history) - 1
    expect(view.locator(".sg-counter")).to_have_text(f"step {last} of 0 … {last}")
    settled(page)
    cells = view.locator(".sg-cells")
    left, top = cells.evaluate(
        "(e) => [e.scrollLeft + e.clientWidth - e.scrollWidth, e.scrollTop + e.clientHeight - e.scrollHeight]"
    )
    assert abs(left) < 3 and top > -3


TEXTS = """() => {
  window.texts = [];
  const { fillText } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
    window.texts.push(text);
    return fillText.call(this, text, ...at);
  };
}"""


@pytest.mark.parametrize("width", [860, 1000, 1200, 1440])
def test_the_steps_take_the_whole_width_and_their_numbers_are_evenly_spaced(
    host: Host, page: Page, run: Recording, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(TEXTS)
    _, widget = shown(host, run)
    settled(page)
    view = widget.locator(".sg-view").bounding_box()
    for part in (".sg-cells", ".ssc-charts"):
        drawn = widget.locator(part).bounding_box()
        assert view is not None and drawn is not None
        assert 0 <= view["x"] + view["width"] - drawn["x"] - drawn["width"] < 8
    texts = page.evaluate("texts.slice(texts.lastIndexOf('0'), texts.lastIndexOf('step'))")
    numbers = [int(text) for text in texts]
    assert len(numbers) > 3 and numbers == list(range(0, len(run.steps), numbers[1]))
