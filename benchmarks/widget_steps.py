"""How long a step takes to the screen in JupyterLab: PYTHONPATH=. python benchmarks/widget_steps.py [WIDGET …]

Chromium opens JupyterLab with each widget on a launch of the MLA kernels or a run of the shipped model, and steps it
forwards and backwards by every step size that it offers. A step is timed from its key to the end of the task that
draws the frame which shows it: the way to the notebook's kernel and back where the widget asks it, scripts, layout
and recording of the drawing; frames are 16.7 ms apart. Beside it stands the mean CPU time of a step in the page's main
thread, which other processes hardly change. The last line is JSON; the exit status is 1 where a median is above 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.support.browser.jupyterlab_host import LabNotebook, LabServer

LIMIT_MS = 50
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LAUNCH = (
    "import sglab\n"
    "batch = sglab.decode_batch([512], num_heads=128, page_size=128, kv_lora_rank=512, qk_rope_head_dim=64)\n"
    "from sglab.labs.mla_sm100 import Launched\n"
    "launched = Launched(batch)\n"
)
REQUESTS = (
    "import sglab\n"
    "batch = sglab.decode_batch([300, 1000, 77, 2048] * 8, num_heads=128, page_size=64, kv_lora_rank=512)\n"
)
SESSION = LAUNCH + "session = launched.session()\n"
LOG = LAUNCH + "log = launched.record()\n"
SPOILT = SESSION + (
    "slot = int(batch.req_to_token[batch.req_pool_indices[0], 37])\n"
    "batch.runner.token_to_kv_pool.get_key_buffer(0)[slot, 0, 5] = float('nan')\n"
)
POINTS = LOG + (
    "from sglab import roofline\n"
    "points = [\n"
    "    roofline.Point(f'{n} heads', roofline.mla_decode([4096] * 32, num_heads=n), 'arithmetic', series='MLA')\n"
    "    for n in (8, 16, 32, 64, 128)\n"
    "]\n"
)
TINY = "import sglab\nfrom sglab.workbench import record_experts, record_ranks, record_speculation\n"
ENGINE = TINY + (
    "options = {'page_size': 16, 'max_total_tokens': 192, 'max_running_requests': 8, 'chunked_prefill_size': 64}\n"
    "options |= {'schedule_conservativeness': 0.02, 'cuda_graph': True, 'cuda_graph_bs': (1, 2, 4, 8)}\n"
    "engine = sglab.Engine('tiny', **options)\n"
    "recording, graphs = engine.record(), sglab.serving.GraphLog(engine)\n"
    "for i in range(10):\n"
    "    engine.submit(f'Story {i % 3}. Once upon a time', {'temperature': 0, 'max_new_tokens': 36 - 8 * (i % 4)})\n"
    "    engine.step()\n"
    "engine.run()\n"
)
DRAFTS = TINY + (
    "drafts = {'speculative_num_steps': 3, 'speculative_eagle_topk': 2, 'speculative_num_draft_tokens': 8}\n"
    "engine = sglab.Engine('tiny', speculative_algorithm='STANDALONE', draft_model='tiny', page_size=16, **drafts)\n"
    "with engine, record_speculation(engine) as run:\n"
    "    engine.generate(['Once upon a time', '2 + 3 ='], {'temperature': 0, 'max_new_tokens': 24})\n"
)
ROUTING = TINY + (
    "engine = sglab.Engine('tiny', page_size=16, max_total_tokens=1024)\n"
    "with engine, record_experts(engine) as run:\n"
    "    engine.generate(['Once upon a time', '2 + 3 ='], {'temperature': 0, 'max_new_tokens': 6})\n"
)
RANKS = TINY + (
    "pool = {'page_size': 16, 'max_total_tokens': 1024, 'device': 'cpu'}\n"
    "engine = sglab.Engine('tiny', tp_size=2, dp_size=2, ep_size=2, **pool)\n"
    "with engine, record_ranks(engine) as run:\n"
    "    engine.generate(['Once upon a time', '2 + 3 ='], {'temperature': 0, 'max_new_tokens': 3})\n"
)
PROMPT = "Once upon a time there was a little cat who liked to sleep. The cat had a friend, a dog."


@dataclass(frozen=True)
class Case:
    """A widget: the cells that make its launch, show it, and go where much is to be seen."""

    setup: str
    shown: str
    start: str = ""


CASES = {
    "KernelDebugger": Case(SESSION, "sglab.widgets.KernelDebugger(session)", "session.seek(20_000)"),
    "WarpRoles": Case(LOG, "sglab.widgets.WarpRoles(log)", "sglab.widgets.selection.set(cta=0, warp=8, moment=20_000)"),
    "Barriers": Case(LOG, "sglab.widgets.Barriers(log)", "sglab.widgets.selection.set(cta=0, warp=8, moment=20_000)"),
    "TensorMemory": Case(SESSION, "sglab.widgets.TensorMemory(session)", "session.seek(20_000)"),
    "SharedMemory": Case(SESSION, "sglab.widgets.SharedMemory(session)", "session.seek(20_000)"),
    "OnlineSoftmax": Case(LAUNCH, "sglab.widgets.OnlineSoftmax(batch)"),
    "PageTable": Case(REQUESTS, "sglab.widgets.PageTable(batch)"),
    "SplitKV": Case(REQUESTS, "sglab.widgets.SplitKV(batch)"),
    "NanSpread": Case(SPOILT, "sglab.widgets.NanSpread(session)"),
    "Layout": Case("import sglab", 'sglab.widgets.Layout("Sw<3,3,3> o (64,64):(64,1)")'),
    "Roofline": Case(POINTS, "sglab.widgets.Roofline(log, points)"),
    "Scheduler": Case(ENGINE, "sglab.widgets.Scheduler(recording)"),
    "RadixTree": Case(ENGINE, "sglab.widgets.RadixTree(recording)"),
    "Graph": Case(ENGINE, "sglab.widgets.Graph(graphs)"),
    "DraftTree": Case(DRAFTS, "sglab.widgets.DraftTree(run)"),
    "Experts": Case(ROUTING, "sglab.widgets.Experts(run)"),
    "Ranks": Case(RANKS, "sglab.widgets.Ranks(run)"),
    "BackendExplorer": Case(
        "import sglab", "sglab.widgets.BackendExplorer([300, 1000, 77], model='DeepSeek-V3', machine='H200')"
    ),
    "SparseAttention": Case("import sglab", f"sglab.widgets.SparseAttention({PROMPT!r}, layer=2)"),
}

# One step of the widget with this title, of the first without one: its milliseconds, or null where nothing has moved.
# The channel's message is handled behind the task that draws.
STEP = """async ([key, title]) => {
  const frames = [...document.querySelectorAll(".sg-widget")];
  const frame = frames.find((each) => !title || each.querySelector(".sg-title").textContent === title);
  const counter = frame.querySelector(".sg-counter");
  const before = counter.textContent;
  const began = performance.now();
  frame.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  while (counter.textContent === before) {
    if (performance.now() - began > 1500) return null;
    await new Promise((resolve) => {
      const seen = new MutationObserver(() => { seen.disconnect(); resolve(); });
      seen.observe(counter, { childList: true, characterData: true, subtree: true });
      setTimeout(resolve, 100);
    });
  }
  await new Promise((resolve) => requestAnimationFrame(resolve));
  await new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = resolve;
    channel.port2.postMessage(0);
  });
  return performance.now() - began;
}"""


@dataclass(frozen=True)
class Taken:
    """Steps of one size in one direction: milliseconds of each to the screen, and the page's CPU time of all."""

    steps: list[float]
    cpu_ms: float


def cpu_clock(page: Page) -> Callable[[], float]:
    """Says how many milliseconds of CPU time tasks of the page's main thread have taken."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(1000 * each["value"] for each in metrics if each["name"] == "TaskDuration")

    return spent


def measure(page: Page, steps: int) -> dict[str, Taken]:
    """What steps take, by step size and direction."""
    spent = cpu_clock(page)
    sizes = page.locator(".sg-widget").get_by_label("Step size").locator("option").all()
    names = [(option.get_attribute("value") or "", option.inner_text()) for option in sizes]
    times: dict[str, Taken] = {}
    page.evaluate(STEP, ["ArrowRight", ""])  # not counted: compiles the scripts
    page.evaluate(STEP, ["ArrowLeft", ""])
    for value, name in names:
        if len(names) > 1:
            page.locator(".sg-widget").get_by_label("Step size").select_option(value)
        for key, sign in (("ArrowRight", "→"), ("ArrowLeft", "←")):
            taken, began = [], spent()
            for _ in range(steps):
                took = page.evaluate(STEP, [key, ""])
                if took is None:
                    break
                taken.append(float(took))
                page.wait_for_timeout(40)  # what is drawn later, such as other views, belongs to this step
            if taken:
                times[f"{name} {sign}"] = Taken(taken, spent() - began)
    return times


def summary(taken: Taken) -> dict[str, float]:
    times = sorted(taken.steps)
    return {
        "steps": len(times),
        "median_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[min(len(times) - 1, int(0.95 * len(times)))], 1),
        "max_ms": round(times[-1], 1),
        "cpu_ms": round(taken.cpu_ms / len(times), 1),
    }


def opened(lab: LabNotebook, case: Case) -> None:
    """Runs the cells, one after the other."""
    page = lab.page
    for number in range(3 if case.start else 2):
        lab.run(number)
        prompt = page.locator(".jp-CodeCell").nth(number).locator(".jp-InputArea-prompt")
        prompt.get_by_text(f"[{number + 1}]:").wait_for(timeout=120_000)
        if number == 1:
            page.locator(".sg-widget .sg-counter").first.wait_for(timeout=60_000)
            page.wait_for_timeout(1500)
    page.wait_for_timeout(1000)
    page.locator(".sg-widget").first.scroll_into_view_if_needed()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("widgets", nargs="*", help=f"of {', '.join(CASES)}; all unless named")
    parser.add_argument("--steps", type=int, default=30, help="per step size and direction (default 30)")
    parser.add_argument("--width", type=int, default=1800, help="of the window in pixels (default 1800)")
    options = parser.parse_args()
    if unknown := set(options.widgets) - set(CASES):
        parser.error(f"no widget is called {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    browser_path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, sync_playwright() as playwright:
        server = LabServer(Path(folder))
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        try:
            for name in options.widgets or CASES:
                case = CASES[name]
                server.write(f"{name}.ipynb", [case.setup, case.shown, *([case.start] if case.start else [])])
                lab = LabNotebook(browser, server, f"{name}.ipynb", width=options.width, height=1100)
                opened(lab, case)
                for kind, taken in measure(lab.page, options.steps).items():
                    figures[f"{name}, {kind}"] = result = summary(taken)
                    print(f"{name:<15}{kind:<28}" + "  ".join(f"{key} {value}" for key, value in result.items()))
                lab.close()
        finally:
            browser.close()
            server.stop()
    print(json.dumps(figures))
    return int(any(result["median_ms"] > LIMIT_MS for result in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
