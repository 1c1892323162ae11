"""A page that was busy while a widget was made hears the kernel all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("triton")

IMPATIENT = """() => {
  const timeout = AbortSignal.timeout;
  AbortSignal.timeout = (after) => {
    if (after !== 2000) return timeout.call(AbortSignal, after);
    const given = new AbortController(); // anywidget's patience with a widget's start is over at once
    queueMicrotask(() => given.abort());
    return given.signal;
  };
}"""
CELLS = [
    "import sglab\nbatch = sglab.decode_batch([300, 77], num_heads=16, page_size=64)",
    "sglab.widgets.PageTable(batch)",
    "batch.allocate(200)",
]


def test_a_widget_whose_start_took_long_is_answered_and_follows(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    lab.page.evaluate(IMPATIENT)
    lab.run(0)
    lab.run(1)
    frame = lab.page.locator(".sg-widget")
    expect(frame.locator(".sg-counter")).to_contain_text("step 0 of")
    expect(frame.locator(".sg-subject")).to_contain_text("2 requests")
    lab.run(2)
    expect(frame.locator(".sg-subject")).to_contain_text("3 requests")
