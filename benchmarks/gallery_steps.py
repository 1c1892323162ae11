"""Steps to the screen where all widgets are on one page: PYTHONPATH=. python benchmarks/gallery_steps.py

JupyterLab in Chromium runs the gallery; then widgets of launches and batches are stepped there, forwards and backwards,
timed as by widget_steps.py. Beside the times stand the messages that the page sends to the kernel in a step and in the
moment behind it. `--load 4` keeps four processes busy meanwhile.
The last line is JSON; the exit status is 1 where a median is above 120 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from benchmarks.widget_steps import BROWSERS, STEP
from tests.support.browser.jupyterlab_host import ROOT, LabNotebook, LabServer

LIMIT_MS = 120
AFTER_MS = 400
"""Behind a step: what other widgets ask for because of it is counted with it."""
TITLES = ("Kernel debugger", "Warp roles", "Barriers", "Tensor memory", "Shared memory", "Page table", "Split KV")
FINISHED = "gallery finished"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """While it lasts, so many processes keep busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


class Sent:
    """Counts the messages that a page sends to the kernel, over a socket that is open already."""

    def __init__(self, page: Page) -> None:
        self.count = 0
        session = page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameSent", self._one)
        session.send("Network.enable")

    def _one(self, _: object) -> None:
        self.count += 1


def opened(lab: LabNotebook, cells: int) -> None:
    """Runs all cells, and leaves each widget time to draw."""
    page = lab.page
    lab.run_all()
    page.wait_for_function(
        """([words, last]) => JSON.stringify(
          window.jupyterapp.shell.currentWidget.content.model.cells.get(last).outputs.toJSON()).includes(words)""",
        arg=[FINISHED, cells - 1],
        timeout=600_000,
    )
    page.wait_for_timeout(5000)


def show(page: Page, title: str) -> bool:
    """Scrolls to the first widget with this title, cell by cell: JupyterLab renders what comes into sight."""
    widget = page.locator(".sg-widget").filter(has=page.locator(f".sg-title:text-is('{title}')")).first
    if not widget.count():
        return False
    widget.evaluate("each => each.scrollIntoView({ block: 'center' })")
    page.wait_for_timeout(2500)
    widget.evaluate("each => each.scrollIntoView({ block: 'center' })")  # what is above may have grown
    page.wait_for_timeout(1500)
    return True


def measure(page: Page, sent: Sent, title: str, steps: int) -> dict[str, float]:
    taken, messages = [], []
    for number in range(2 * steps + 2):
        before = sent.count
        took = page.evaluate(STEP, ["ArrowRight" if number < steps + 2 else "ArrowLeft", title])
        page.wait_for_timeout(AFTER_MS)
        if took is not None and number > 1:  # the first compile the scripts
            taken.append(float(took))
            messages.append(sent.count - before)
    taken.sort()
    if not taken:
        return {"steps": 0}
    return {
        "steps": len(taken),
        "median_ms": round(statistics.median(taken), 1),
        "p95_ms": round(taken[min(len(taken) - 1, int(0.95 * len(taken)))], 1),
        "max_ms": round(taken[-1], 1),
        "messages": round(statistics.mean(messages), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=15, help="per widget and direction (default 15)")
    parser.add_argument("--load", type=int, default=0, help="processes to keep busy meanwhile (default 0)")
    parser.add_argument("--titles", nargs="*", default=TITLES, help=f"of the widgets; {', '.join(TITLES)} unless named")
    options = parser.parse_args()
    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        server = LabServer(Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        try:
            cells = json.loads((ROOT / "notebooks" / "gallery.ipynb").read_text())["cells"]
            code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
            code.append(f"print({FINISHED!r})")
            server.write("gallery.ipynb", code)
            lab = LabNotebook(browser, server, "gallery.ipynb", width=1440, height=900)
            opened(lab, len(code))
            sent = Sent(lab.page)
            with load(options.load):
                for title in options.titles:
                    if not show(lab.page, title):
                        print(f"{title}: the gallery shows none")
                        continue
                    figures[title] = result = measure(lab.page, sent, title, options.steps)
                    told = "  ".join(f"{name} {value}" for name, value in result.items())
                    print(f"{title:<18}{told}  load {os.getloadavg()[0]:.1f}", flush=True)
            lab.close()
        finally:
            browser.close()
            server.stop()
    print(json.dumps(figures))
    return int(any(result.get("median_ms", 0) > LIMIT_MS for result in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
