"""Takes the pictures of docs/tour.md, docs/jupyterlab.md and docs/widgets.md:

    PYTHONPATH=. python docs/update_pictures.py [pages [NAME…]]

Needs Chromium, as the browser tests do. With `pages`, those of widgets' saved pages alone, which need no JupyterLab;
with names after it, these alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

import sglab
from sglab.widgets import KernelDebugger, NanSpread, SplitKV
from sglab.widgets.base import Widget
from tests.browser.conftest import find_chromium
from tests.support.browser.every_widget import MAKERS, capture
from tests.support.browser.jupyterlab_host import LabNotebook, LabServer

IMAGES = Path(__file__).parent / "images"
BATCH = """import sglab
from sglab.labs import mla_sm100 as lab

batch = sglab.decode_batch([300, 1000, 77], num_heads=128, page_size=128, dtype="float16", seed=0)"""
SESSION = "session = lab.Launched(batch, sms=10).session()"
KERNEL = '''import sglab, torch

neighbours = sglab.ptx("""
.version 8.5
.target sm_90
.address_size 64
.visible .entry neighbours(.param .u64 out) {
  .reg .b64 %d<4>;  .reg .b32 %r<4>;  .reg .f32 %f<3>;
  .shared .align 4 .b8 part[512];
  ld.param.u64 %d1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, part;
  add.u32 %r3, %r3, %r2;
  mov.f32 %f1, 0f3F800000;
  st.shared.f32 [%r3], %f1;
  bar.sync 0;
  ld.shared.f32 %f2, [%r3+4];
  cvt.u64.u32 %d2, %r2;
  add.u64 %d3, %d1, %d2;
  st.global.f32 [%d3], %f2;
  ret;
}""")
launch = sglab.step(neighbours[1, 64], torch.zeros(64))'''


def tab(page: Page, title: str) -> Locator:
    return page.locator(".sglab-tab .sg-widget").filter(has=page.locator(".sg-title", has_text=title))


def side(page: Page) -> Locator:
    page.evaluate("window.jupyterapp.shell.activateById('sglab-panel')")
    return page.locator("#sglab-panel")


def shot(page: Page, name: str) -> None:
    page.mouse.move(700, 890)
    page.evaluate("() => new Promise((done) => setTimeout(done, 800))")  # what moves comes to rest
    page.screenshot(path=str(IMAGES / f"{name}.png"))
    print(name, flush=True)


def open_from_panel(page: Page, thing: str, button: str, title: str) -> Locator:
    row = side(page).locator(".sglab-thing").filter(has=page.locator("code", has_text=thing))
    row.get_by_role("button", name=button).click()
    expect(tab(page, title).locator(".sg-counter")).to_be_visible()
    return tab(page, title)


def decode(browser: Browser, server: LabServer) -> None:
    server.write("decode.ipynb", [BATCH, SESSION])
    lab = LabNotebook(browser, server, "decode.ipynb", width=1440, height=900)
    page = lab.page
    lab.run_all()
    expect(side(page).locator(".sglab-thing code")).to_have_text(["batch", "session"])
    shot(page, "tour_panel")
    pages = open_from_panel(page, "batch", "Page table", "Page table")
    pages.get_by_label("Find a request").fill("page 7")
    pages.get_by_label("Find a request").press("Enter")
    expect(pages.locator(".sg-details")).to_contain_text("r1: tokens 384")
    shot(page, "tour_page_table")
    roles = open_from_panel(page, "session", "Warp roles", "Warp roles")
    copy = roles.locator(".swr-reads button", has_text="(64, 0, 7)").first
    copy.click()
    expect(roles.locator(".sg-details")).to_contain_text("cp.async.bulk.tensor.3d")
    shot(page, "tour_warp_roles")
    debugger = open_from_panel(page, "session", "Kernel debugger", "Kernel debugger")
    expect(debugger.locator("output.sg-sentence")).to_contain_text("cp.async.bulk.tensor.3d")
    shot(page, "tour_debugger")
    page.locator(".sglab-tab:visible").locator("..").get_by_role("button", name="Save recording").click()
    expect(page.get_by_text("Saved kernel_debugger")).to_be_visible()
    page.get_by_role("button", name="Hide notification").click()
    for name in ("Page table", "Warp roles", "Kernel debugger"):
        close = page.locator(".lm-TabBar-tab", has_text=name).locator(".lm-TabBar-tabCloseIcon")
        close.click()
        expect(tab(page, name)).to_have_count(0)
    side(page).get_by_role("button", name="Arrange as a debugger").click()
    for name in ("Page table", "Split KV", "Warp roles", "Kernel debugger"):
        expect(tab(page, name).locator(".sg-counter")).to_have_count(1)
    expect(tab(page, "Kernel debugger").locator(".kd-line").first).to_be_visible()
    find = tab(page, "Page table").get_by_label("Find a request")
    find.fill("page 7")
    find.press("Enter")
    shot(page, "jupyterlab")
    lab.close()


def finding(browser: Browser, server: LabServer) -> None:
    server.write("mine.ipynb", [KERNEL])
    lab = LabNotebook(browser, server, "mine.ipynb", width=1440, height=900)
    page = lab.page
    page.evaluate("() => { window.notebook = window.jupyterapp.shell.currentWidget }")
    lab.run_all()
    open_from_panel(page, "launch", "Kernel debugger", "Kernel debugger")
    lab.execute("sglab:next-finding")
    expect(page.get_by_text("1 of 1: uninitialised read")).to_be_visible()
    tab(page, "Kernel debugger").get_by_role("tab", name="Findings").click()
    shot(page, "tour_finding")
    page.get_by_role("button", name="Hide notification").click()
    page.evaluate("() => window.notebook.sessionContext.shutdown()")
    expect(side(page)).to_contain_text("This notebook has no kernel")
    (name,) = [path.name for path in server.folder.glob("kernel_debugger*.sglab")]
    lab.execute("docmanager:open", {"path": name})
    expect(page.locator(".sglab-recording .sg-counter")).to_be_visible()
    shot(page, "tour_recording")
    lab.close()


def split_kv() -> Widget:
    return SplitKV([300, 9000, 77, 2000, 736, 4000], ("flash_mla", "flashinfer_mla"))


def kernel_debugger() -> Widget:
    session = capture().session()
    session.seek(4801)  # a softmax warp is about to read S
    return KernelDebugger(session)


def nan_spread() -> Widget:
    """One NaN in the KV of token 37."""
    batch = sglab.decode_batch([200], num_heads=128, page_size=128, dtype="float16", seed=0)
    session = sglab.trace(batch, backend="cutlass_mla").session()
    batch.runner.token_to_kv_pool.get_key_buffer(0)[int(batch.slots(0)[37]), 0, 5] = float("nan")
    return NanSpread(session)


WIDTH = 1440
PAGES: dict[str, tuple[Callable[[], Widget], int, tuple[str, ...]]] = {
    "scheduler": (MAKERS["Scheduler"], WIDTH, ("End", "]", "s")),
    "radix_tree": (MAKERS["RadixTree"], WIDTH, ("End",)),
    "graph": (MAKERS["Graph"], WIDTH, ("End", "ArrowDown")),
    "draft_tree": (MAKERS["DraftTree"], WIDTH, ("Home", "]", "]", "ArrowRight")),
    "experts": (MAKERS["Experts"], WIDTH, ("End",)),
    "ranks": (MAKERS["Ranks"], WIDTH, ("Home", *("ArrowRight",) * 4)),
    "roofline": (MAKERS["Roofline"], WIDTH, ("Home", "ArrowRight", "ArrowRight")),
    "page_table": (MAKERS["PageTable"], 1400, ("Home", *("ArrowRight",) * 6)),
    "split_kv": (split_kv, 1400, ("End", "ArrowDown", "ArrowDown")),
    "warp_roles": (MAKERS["WarpRoles"], 1400, ("]", "]", "]")),
    "kernel_debugger": (kernel_debugger, 1400, ()),
    "tensor_memory": (MAKERS["TensorMemory"], 1400, ("Home", *("ArrowRight",) * 5)),
    "layout": (MAKERS["Layout"], 1280, ("Home", "ArrowRight", "ArrowDown", "ArrowDown")),
    "nan_spread": (nan_spread, 1280, ("End",)),
}
"""Picture -> the widget, most as the browser tests make it, the page's width, keys that lead to something to see."""


def pages(browser: Browser, folder: Path, names: Iterable[str]) -> None:
    """Widgets from their saved pages."""
    for name in names:
        make, width, keys = PAGES[name]
        path = make().save(folder / f"{name}.html")
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme="light")
        page.set_default_timeout(120_000)
        page.goto(path.as_uri())
        shown = page.locator(".sg-widget")
        expect(shown.locator(".sg-placeholder")).to_be_empty()
        shown.get_by_role("button", name="Skip").click()
        for notice in shown.get_by_role("button", name="Dismiss").all():
            notice.click()
        for key in keys:
            shown.press(key)
        page.evaluate("() => { document.activeElement.blur(); return new Promise((done) => setTimeout(done, 800)) }")
        shown.screenshot(path=str(IMAGES / f"{name}.png"))
        page.close()
        print(name, flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        executable = find_chromium(playwright.chromium.executable_path)
        if executable is None:
            sys.exit("no Chromium: install one, or name it in CHROMIUM")
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        only_pages, *names = sys.argv[1:] or [""]
        pages(browser, Path(folder), names or PAGES)
        if only_pages:
            return
        server = LabServer(Path(folder))
        try:
            decode(browser, server)
            finding(browser, server)
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main()
