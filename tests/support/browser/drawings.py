"""How often a page draws on its canvases. Tests count drawings; what one costs is shown by benchmarks."""

from __future__ import annotations

from playwright.sync_api import Page

COUNT = """() => {
  window.drawings = 0;
  const { clearRect } = CanvasRenderingContext2D.prototype;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    window.drawings += 1;
    return clearRect.apply(this, box);
  };
}"""


def count_drawings(page: Page) -> None:
    """From now on `drawings` says how often a canvas of the page was cleared, which each drawing begins with."""
    page.evaluate(COUNT)


def drawings(page: Page) -> int:
    """Since the last call."""
    return int(page.evaluate("() => { const many = window.drawings; window.drawings = 0; return many; }"))
