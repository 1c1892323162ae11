"""Scheduler in a real JupyterLab: it follows an engine that a cell steps, and opens a step's attention in a tab."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

pytest.importorskip("triton")

CELLS = [
    "import sglab\nfrom tests.support.serving.tiny import tiny_llama\n"
    "engine = sglab.Engine(tiny_llama(), page_size=16, max_total_tokens=256)\n"
    "engine.submit([1, 2, 3], {'temperature': 0, 'max_new_tokens': 6, 'min_new_tokens': 6})\n"
    "sglab.widgets.Scheduler(engine)",
    "while engine.step():\n    pass",
]

# One look at both, which the next drawing cannot part.
BESIDE = """() => {
  const [name, value] = ["dt", "dd"].map((part) => document.querySelector(`.jp-Notebook .sg-definitions ${part}`));
  return name && value && value.getBoundingClientRect().x >= name.getBoundingClientRect().right;
}"""


def test_a_run_is_followed_and_a_step_opens_in_a_tab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS, width=1440, height=900)
    page = lab.page
    lab.run(0)
    scheduler = page.locator(".jp-Notebook .sg-widget")
    expect(scheduler.locator(".sg-placeholder")).to_contain_text("No step has run yet")
    lab.run(1)
    expect(scheduler.locator(".sg-counter")).to_have_text("step 5 of 0 … 5")
    # names stand beside their values in a cell's output, too, where JupyterLab has rules of its own for lists
    page.wait_for_function(BESIDE)
    scheduler.get_by_role("tab", name="Attention").click()
    scheduler.get_by_role("button", name="Page table").click()
    tab = page.locator(".sglab-tab .sg-widget")
    expect(tab.locator(".sg-title")).to_have_text("Page table")
    expect(scheduler.locator(".sge-made")).to_contain_text(re.compile("Page table of step 5, layer 0: in a tab"))
    notebook = page.locator(".jp-NotebookPanel")
    before = notebook.bounding_box()
    scheduler.get_by_role("button", name="Split KV").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".sglab-tab:visible .sg-title")).to_have_text(
        ["Split KV"]
    )  # in the first one's place, as a tab
    assert before is not None and notebook.bounding_box() == before

    page.evaluate("window.jupyterapp.shell.activateById('sglab-panel')")
    expect(page.locator("#sglab-panel .sglab-thing").filter(has_text="engine")).to_contain_text("LlamaForCausalLM")
