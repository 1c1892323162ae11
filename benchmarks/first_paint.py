"""How soon a widget's first picture comes in JupyterLab: PYTHONPATH=. python benchmarks/first_paint.py [WIDGET …]

A cell that shows the widget of a batch of 256 requests runs several times; a time runs from the end of the cell (its
number shows) to the widget's picture. Then a length of SplitKV is dragged: from a change to the plan that answers it.
The last line is JSON; the exit status is 1 where a best time is above its limit. Let the machine do nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.support.browser.jupyterlab_host import LabNotebook, LabServer

FIRST_LIMIT_MS, REPLAN_LIMIT_MS = 300, 50
REPEATS, MOVES = 5, 20
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FROM_END_OF_CELL = """([selector, number]) => new Promise((resolve) => {
  window.jupyterapp.shell.currentWidget.content.activeCellIndex = number;
  window.jupyterapp.commands.execute("notebook:run-cell");
  const cell = document.querySelectorAll(".jp-Notebook .jp-Cell")[number];
  let ended;
  const look = () => {
    const prompt = cell.querySelector(".jp-InputPrompt").textContent; // "[ ]:", then "[*]:", then "[3]:"
    if (ended === undefined && /\\d/.test(prompt)) ended = performance.now();
    if (ended !== undefined && cell.querySelector(selector)) resolve(performance.now() - ended);
    else requestAnimationFrame(look);
  };
  look();
})"""


@dataclass(frozen=True)
class Case:
    """The cell that makes what is shown, the one that shows it, and what is there once the picture is."""

    setup: str
    shown: str
    picture: str


CASES = {
    "PageTable": Case(
        "import sglab\nbatch = sglab.decode_batch([(37 * i) % 781 + 1 for i in range(256)], page_size=16,"
        " layout='fragmented', kv_lora_rank=16, qk_rope_head_dim=16, num_heads=16)",
        "sglab.widgets.PageTable(batch)",
        ".sg-widget[data-ready]",
    ),
    "SplitKV": Case(
        "import numpy as np, sglab\nlens = np.random.default_rng(0).integers(64, 4096, 256).tolist()",
        "sglab.widgets.SplitKV(lens)",
        ".skv-gantt",
    ),
}


def first_paints(lab: LabNotebook, case: Case) -> list[float]:
    lab.run(0)
    expect(lab.page.locator(".jp-InputPrompt").first).to_have_text("[1]:")
    times = []
    for _ in range(REPEATS):
        lab.page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        lab.page.wait_for_function("s => document.querySelector(s) === null", arg=f".jp-Notebook {case.picture}")
        times.append(float(lab.page.evaluate(FROM_END_OF_CELL, [case.picture, 1])))
    return times


def replans(page: Page) -> list[float]:
    """Milliseconds from a moved length to its plan, while it is dragged."""
    bars = page.locator(".skv-bars")
    bars.scroll_into_view_if_needed()
    box = bars.bounding_box()
    assert box is not None, "SplitKV shows no lengths"
    x, y = box["x"] + 200, box["y"] + 80
    page.mouse.move(x, y)
    page.mouse.down()
    times = []
    for step in range(MOVES):
        page.mouse.move(x, y - step)
        page.wait_for_timeout(50)  # as a hand moves
        times.append(page.locator(".sg-widget").get_attribute("data-replan-ms"))
    page.mouse.up()
    return [float(each) for each in times if each]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("widgets", nargs="*", help=f"of {', '.join(CASES)}; all unless named")
    names = parser.parse_args().widgets or [*CASES]
    if unknown := set(names) - set(CASES):
        parser.error(f"no widget is called {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    figures: dict[str, dict[str, float]] = {}
    slow = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        server = LabServer(Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        try:
            for name in names:
                server.write(f"{name}.ipynb", [CASES[name].setup, CASES[name].shown])
                lab = LabNotebook(browser, server, f"{name}.ipynb")
                measured = [("first picture", first_paints(lab, CASES[name]), FIRST_LIMIT_MS)]
                if name == "SplitKV":
                    measured.append(("replan", replans(lab.page), REPLAN_LIMIT_MS))
                for what, times, limit in measured:
                    result = {"median_ms": round(statistics.median(times), 1), "best_ms": round(min(times), 1)}
                    figures[f"{name}, {what}"] = result
                    slow |= result["best_ms"] > limit
                    print(f"{name:<12}{what:<16}" + "  ".join(f"{key} {value}" for key, value in result.items()))
                lab.close()
        finally:
            browser.close()
            server.stop()
    print(json.dumps(figures))
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
