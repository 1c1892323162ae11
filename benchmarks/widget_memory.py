"""What running the gallery again costs in memory: PYTHONPATH=. python benchmarks/widget_memory.py [NOTEBOOK]

JupyterLab in Chromium runs all cells of a notebook (the gallery) again and again, as somebody does who changes
something above. After each run: MB that the kernel's process holds after `gc.collect()` (Pss, and what malloc could
give back given back), and MB of the page's JavaScript heap after a collection, and its DOM nodes.
The last line is JSON; the exit status is 1 where the second half of the runs grows by more than 5 MB a run, in either.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.support.browser.jupyterlab_host import ROOT, LabNotebook, LabServer

LIMIT_MB = 5.0
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FINISHED = "finished run"
MEMORY = (
    "import ctypes, gc, re\n"
    "gc.collect(); ctypes.CDLL(None).malloc_trim(0)\n"
    "print('finished run', re.search(r'Pss: +(\\d+)', open('/proc/self/smaps_rollup').read())[1], 'KiB')"
)


def kernel_mb(page: Page, before: str) -> float:
    """MB, as the notebook's last cell prints it; waits until it prints something else than before."""
    page.wait_for_function(
        """([words, before]) => {
          const model = window.jupyterapp.shell.currentWidget.content.model.cells;
          const text = JSON.stringify(model.get(model.length - 1).outputs.toJSON());
          return text.includes(words) && text !== before;
        }""",
        arg=[FINISHED, before],
        timeout=1_200_000,
    )
    text = last_output(page)
    return int(text.split(FINISHED)[1].split()[0]) / 1024


def last_output(page: Page) -> str:
    return str(
        page.evaluate(
            """() => {
              const model = window.jupyterapp.shell.currentWidget.content.model.cells;
              return JSON.stringify(model.get(model.length - 1).outputs.toJSON());
            }"""
        )
    )


def page_figures(page: Page, session: CDPSession) -> tuple[float, int]:
    """MB of JavaScript heap and DOM nodes, after collections."""
    page.wait_for_timeout(1500)  # pictures for the notebook are made when nothing else is to do
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return metrics["JSHeapUsedSize"] / 1e6, int(metrics["Nodes"])


def growth(values: list[float]) -> float:
    """Per run, in the second half."""
    half = values[len(values) // 2 :]
    return (half[-1] - half[0]) / max(1, len(half) - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebook", nargs="?", type=Path, default=ROOT / "notebooks" / "gallery.ipynb")
    parser.add_argument("--runs", type=int, default=12, help="default 12")
    options = parser.parse_args()
    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    kernels: list[float] = []
    heaps: list[float] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        server = LabServer(Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        try:
            cells = json.loads(options.notebook.read_text())["cells"]
            code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            server.write("again.ipynb", [*code, MEMORY])
            lab = LabNotebook(browser, server, "again.ipynb", width=1440, height=900)
            session = lab.page.context.new_cdp_session(lab.page)
            session.send("Performance.enable")
            for number in range(options.runs):
                before = last_output(lab.page)
                lab.run_all()
                kernels.append(kernel_mb(lab.page, before if FINISHED in before else ""))
                heap, nodes = page_figures(lab.page, session)
                heaps.append(heap)
                print(
                    f"run {number + 1:<3} kernel {kernels[-1]:7.1f} MB   page {heap:6.1f} MB, {nodes} nodes", flush=True
                )
            lab.close()
        finally:
            browser.close()
            server.stop()
    found = {"kernel_mb_per_run": round(growth(kernels), 2), "page_mb_per_run": round(growth(heaps), 2)}
    print(json.dumps({**found, "kernel_mb": kernels, "page_mb": heaps}))
    return int(max(found.values()) > LIMIT_MB)


if __name__ == "__main__":
    sys.exit(main())
