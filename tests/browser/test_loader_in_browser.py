"""What anywidget imports for each widget: the widget's module is evaluated once per page, and a failure is not kept."""

from __future__ import annotations

import pytest
from playwright.sync_api import Error, Page

from sglab.widgets import Layout

COUNTED = """globalThis.loads = (globalThis.loads ?? 0) + 1;
export default { render({ el }) { el.textContent += "drawn "; return () => el.replaceChildren(); } };"""
RENDER = """async ([loader, module, times]) => {
  const views = [];
  for (let i = 0; i < times; i++) { // as anywidget does: another blob for each widget
    const url = URL.createObjectURL(new Blob([loader], { type: "text/javascript" }));
    const { default: widget } = await import(url);
    const el = document.createElement("div");
    const get = (name) => (name === "module" ? module : undefined);
    const dispose = await widget.render({ model: { get, set() {}, on() {}, off() {} }, el });
    views.push(el.textContent);
    dispose();
    views.push(el.textContent);
  }
  return views;
}"""


def test_a_module_is_evaluated_once_and_every_view_drawn_and_disposed_of(page: Page) -> None:
    page.set_content("<title>loader</title>")
    loader = Layout._esm
    assert page.evaluate(RENDER, [loader, COUNTED, 3]) == ["drawn ", ""] * 3
    assert page.evaluate("globalThis.loads") == 1
    page.evaluate(RENDER, [loader, f"{COUNTED} // another version", 2])
    assert page.evaluate("globalThis.loads") == 2


def test_a_module_that_failed_is_tried_again(page: Page) -> None:
    page.set_content("<title>loader</title>")
    failing = f"if (!globalThis.ready) throw new Error('not yet');\n{COUNTED}"
    with pytest.raises(Error, match="not yet"):
        page.evaluate(RENDER, [Layout._esm, failing, 1])
    page.evaluate("globalThis.ready = true")
    assert page.evaluate(RENDER, [Layout._esm, failing, 1]) == ["drawn ", ""]


def test_all_widgets_have_the_same_loader_and_their_own_module() -> None:
    widget = Layout("(8,8):(8,1)")
    assert widget.module == Layout._module and "sglab.modules" in widget._esm
    assert "module" not in widget.saved()["state"]
