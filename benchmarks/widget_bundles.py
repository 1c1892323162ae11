"""What the widgets' code weighs with a core in each bundle, and with one core that they share.

PYTHONPATH=. python benchmarks/widget_bundles.py, with Node (`npm ci` in widgets/) and Chromium. Bytes: of all
bundles, scripts and styles, plain and gzipped; and of the traits and tensors of one of each widget. Time and memory:
Chromium imports all of them from blobs, as anywidget does, in a fresh page: CPU time of the page's main thread and
the heap that stays, medians of all passes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from ipywidgets.widgets.widget import _remove_buffers
from playwright.sync_api import Browser, sync_playwright

from tests.support.browser.every_widget import MAKERS

ROOT = Path(__file__).parent.parent
LOAD = """async ([core, scripts]) => {
  const url = (script) => URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const below = core && url(core);
  window.modules = [];
  for (const script of scripts)
    window.modules.push(await import(url(script.replaceAll(/"@sglab\\/(core|protocol)"/g, `"${below}"`))));
}"""


def texts(folder: Path, suffix: str) -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in sorted(folder.glob(f"*{suffix}"))}


def sizes(folder: Path) -> dict[str, int]:
    files = [text.encode() for suffix in (".js", ".css") for text in texts(folder, suffix).values()]
    return {"bytes": sum(map(len, files)), "gzipped": sum(len(gzip.compress(each, mtime=0)) for each in files)}


def data_bytes() -> int:
    """Of one of each widget: its traits as they cross, and its tensors whole."""
    total = 0
    for make in MAKERS.values():
        widget = make()
        state = {name: value for name, value in widget.get_state().items() if name not in ("_esm", "_css", "module")}
        plain, _, buffers = _remove_buffers(state)
        total += len(json.dumps(plain)) + sum(len(each) for each in buffers)
        total += sum(tensor.array.nbytes for tensor in widget._tensors.values())
    return total


def load(browser: Browser, folder: Path) -> tuple[float, float]:
    """CPU milliseconds of the main thread, and KiB of heap."""
    scripts = texts(folder, ".js")
    core = scripts.pop("core", "")
    page = browser.new_page()
    page.set_content("<body></body>")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def metrics() -> dict[str, float]:
        session.send("HeapProfiler.collectGarbage")
        return {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}

    before = metrics()
    page.evaluate(LOAD, [core, list(scripts.values())])
    task = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}["TaskDuration"]
    heap = metrics()["JSHeapUsedSize"] - before["JSHeapUsedSize"]
    page.close()
    return 1e3 * (task - before["TaskDuration"]), heap / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=31)
    passes = parser.parse_args().passes
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        subprocess.run(["node", "shared_core.mjs", made], cwd=ROOT / "widgets", check=True)
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        folders = {kind: Path(made) / kind for kind in ("own", "shared")}
        loads = {kind: [] for kind in folders}
        for _ in range(passes):  # by turns, so that a busy moment hits both
            for kind, folder in folders.items():
                loads[kind].append(load(browser, folder))
        for kind, folder in folders.items():
            cpu, heap = (statistics.median(column) for column in zip(*loads[kind], strict=True))
            found[kind] = {**sizes(folder), "cpu_ms": round(cpu, 1), "heap_kib": round(heap)}
        browser.close()
    for kind, row in found.items():
        print(f"{kind:7} {row}")
    print(json.dumps({**found, "data_bytes": data_bytes(), "passes": passes}))


if __name__ == "__main__":
    main()
