"""How long the widgets' frames take with 100,000 events: PYTHONPATH=. python benchmarks/widget_frames.py

Chromium zooms, pans and steps through saved pages of one launch, each motion a frame at a time, four times over;
TensorMemory's map of cells is zoomed and stepped, what has no timeline and no map only stepped. A frame's time runs
from the moment its motion begins to the end of the task that draws it: scripts, layout and recording of the drawing,
not the GPU's part. Of each motion: the median and the 95th percentile of all frames, the worst one, and of the medians
of each frame's four passes the worst, which tells a slow frame from a machine that was busy once. The last line is
JSON; the exit status is 1 where any frame took longer than 33 ms. Let the machine do nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from playwright.sync_api import Page, sync_playwright

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.kernels.mla import MlaSm100
from sglab.kernels.mla.sm100_contract import check
from sglab.widgets import Barriers, KernelDebugger, SharedMemory, TensorMemory, WarpRoles, Widget

HEADS, PAGE, TILE = 128, 128, 128
LIMIT_MS = 33
STEPS = ("step", "back")  # each undoes the one before
SURFACES = {".sg-timeline-canvas": ("zoom", "pan"), ".stm-map": ("zoom",)}  # these motions undo themselves
FRAMES, RUNS = 120, 4
WIDGETS: dict[str, type[Widget]] = {
    each.bundle: each for each in (WarpRoles, Barriers, TensorMemory, SharedMemory, KernelDebugger)
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# Runs `count` motions, one per frame. The channel's message is handled behind the task that draws.
MEASURE = """async ([name, count]) => {
  const frame = document.querySelector(".sg-widget");
  const canvas = document.querySelector(".sg-timeline-canvas, .stm-map") ?? frame;
  const box = canvas.getBoundingClientRect();
  const place = { clientX: box.left + box.width * 0.4, clientY: box.top + 80, bubbles: true, cancelable: true };
  const wheel = (options) => canvas.dispatchEvent(new WheelEvent("wheel", { ...place, ...options }));
  const key = (key) => frame.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const motions = {
    zoom: (i) => wheel({ deltaY: i % 60 < 30 ? -60 : 60, ctrlKey: true }),
    pan: (i) => wheel({ deltaX: i % 60 < 30 ? 40 : -40 }),
    step: () => key("ArrowRight"),
    back: () => key("ArrowLeft"),
  };
  const times = [];
  for (let i = 0; i < count; i++) {
    times.push(await new Promise((resolve) => {
      requestAnimationFrame(() => {
        const began = performance.now();
        motions[name](i);
        requestAnimationFrame(() => {
          const drawing = performance.now();
          const channel = new MessageChannel();
          channel.port1.onmessage = () => resolve(performance.now() - drawing + handled);
          channel.port2.postMessage(0);
        });
        const handled = performance.now() - began;
      });
    }));
  }
  return times;
}"""


def launched(events: int) -> Session:
    """One CTA pair of the SM100 MLA decode with at least so many warp-instructions, run to its middle."""
    tokens = 4 * TILE
    while True:
        session = _session(tokens)
        if len(session.log) >= events:
            session.seek(len(session.log) // 2)
            return session
        tokens = -(-int(tokens * 1.05 * events / len(session.log)) // TILE) * TILE


def _session(tokens: int) -> Session:
    pages = -(-tokens // PAGE)
    device = EmulatedDevice("sm_100a", sms=2)
    q_nope, q_pe = torch.randn(1, HEADS, 512).half(), torch.randn(1, HEADS, 64).half()
    kv_cache, table = torch.randn(pages, PAGE, 576).half(), torch.arange(pages, dtype=torch.int32).view(1, pages)
    lengths = torch.tensor([tokens], dtype=torch.int32)
    arguments = check(lengths, None, 1, None, q_nope, q_pe, kv_cache, table, 192**-0.5, None, None, "e")
    decode = MlaSm100(device, 1, HEADS)
    return device.session(decode.prepare(arguments)[0], (decode, arguments))


def measure(page: Page, motions: Sequence[str]) -> dict[str, dict[str, float]]:
    """Every motion, several times over the same frames."""
    runs: dict[str, list[list[float]]] = {motion: [] for motion in motions}
    for _ in range(RUNS):
        for motion in motions:
            runs[motion].append(page.evaluate(MEASURE, [motion, FRAMES]))
    return {motion: summary(times) for motion, times in runs.items()}


def summary(passes: list[list[float]]) -> dict[str, float]:
    times = sorted(time for each in passes for time in each)
    frames = [statistics.median(frame) for frame in zip(*passes, strict=True)]
    return {
        "median_ms": round(statistics.median(times), 2),
        "p95_ms": round(times[int(0.95 * len(times))], 2),
        "slowest_frame_ms": round(max(frames), 2),
        "worst_ms": round(times[-1], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="warp-instructions at least (default 100,000)")
    parser.add_argument("--widgets", nargs="+", choices=[*WIDGETS], default=[*WIDGETS], help="which (default all)")
    parser.add_argument("--width", type=int, default=1800, help="of the window in pixels (default 1800)")
    options = parser.parse_args()
    session = launched(options.events)
    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    figures: dict[str, object] = {"events": len(session.log), "width": options.width}
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for name in options.widgets:
            widget: Any = WIDGETS[name](session)  # type: ignore[call-arg]
            path = widget.save(Path(folder) / f"{widget.bundle}.html")
            page = browser.new_page(viewport={"width": options.width, "height": 1000})
            page.goto(path.as_uri())
            page.locator(".sg-counter", has_text="step").wait_for()
            page.wait_for_timeout(500)
            page.evaluate(MEASURE, ["step", 10])  # not counted: compiles the scripts
            moved = next((motions for surface, motions in SURFACES.items() if page.locator(surface).count()), ())
            if moved:
                page.locator(".sg-widget").press("+")  # the whole cannot be panned
                page.wait_for_timeout(200)
            for motion, result in measure(page, (*moved, *STEPS)).items():
                figures[f"{widget.bundle}.{motion}"] = result
                worst = max(worst, result["worst_ms"])
                print(f"{widget.bundle:<16}{motion:<6}" + "  ".join(f"{key} {value}" for key, value in result.items()))
            page.close()
        browser.close()
    print(json.dumps(figures))
    return int(worst > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main())
