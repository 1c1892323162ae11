"""The widgets in marimo, a host that shares nothing with Jupyter but the anywidget contract."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.jupyterlab_host import ROOT, answers, free_port, stop
from tests.support.browser.patience import be_patient

APP = """
import marimo

app = marimo.App()


@app.cell
def _():
    import sglab

    return (sglab,)


@app.cell
def _(sglab):
    sglab.widgets.SplitKV([300, 1000, 77])
    return


@app.cell
def _(sglab):
    batch = sglab.decode_batch(seq_lens=[300, 1000, 77], num_heads=16, page_size=64)
    sglab.widgets.PageTable(batch)
    return (batch,)


@app.cell
def _(sglab, batch):
    sglab.widgets.OnlineSoftmax(batch, request=0, head=0)
    return


@app.cell
def _(sglab):
    from sglab.labs.pipelines import Pipeline

    session = Pipeline("2_stages").session()
    sglab.widgets.WarpRoles(session)
    return (session,)


@app.cell
def _(sglab, session):
    sglab.widgets.Barriers(session)
    return


@app.cell
def _(sglab, session):
    sglab.widgets.KernelDebugger(session)
    return


@app.cell
def _(sglab, session):
    sglab.widgets.SharedMemory(session)
    return


@app.cell
def _(sglab):
    mla = sglab.decode_batch(seq_lens=[100], num_heads=128, page_size=128, dtype="float16")
    sglab.widgets.TensorMemory(sglab.trace(mla, backend="cutlass_mla"))
    return
"""
WIDGETS = APP.count("sglab.widgets.")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("marimo")
    (folder / "app.py").write_text(APP)
    address = f"http://127.0.0.1:{free_port()}"
    options = ["--headless", "--no-token", "--port", address.rsplit(":", 1)[1]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with (folder / "server.log").open("wb") as log:
        command = [sys.executable, "-m", "marimo", "run", "app.py", *options]
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        assert answers(address, server), (folder / "server.log").read_text()
        yield address
    finally:
        stop(server)


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 1200})
    be_patient(context)
    opened = context.new_page()
    opened.goto(url)
    yield opened
    context.close()


def test_every_widget_is_drawn_and_the_kernel_answers(page: Page) -> None:
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    expect(page.locator(".sg-widget")).to_have_count(WIDGETS)
    lengths = page.get_by_label("Lengths", exact=True)
    lengths.fill("64, 4096")
    lengths.press("Enter")
    expect(page.locator(".sg-widget").first).to_contain_text("2 requests, 4,160 KV tokens")  # planned in Python
    debugger = page.get_by_role("region", name="Kernel debugger")
    debugger.press("ArrowRight")
    expect(debugger.locator(".sg-counter")).to_contain_text(re.compile("step [1-9]"))  # stepped in Python
    tmem = page.get_by_role("region", name="Tensor memory")
    tmem.press("ArrowRight")
    expect(tmem.locator(".sg-sentence")).to_contain_text("allocates columns 0–511")
    assert errors == []
