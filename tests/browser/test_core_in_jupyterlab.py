"""The core in a real JupyterLab: display, keys, theme, a restarted kernel."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.support.browser.jupyterlab_host import LabNotebook

CELLS = [
    "from tests.support.browser.probe_widget import Probe\nfrom sglab.widgets import selection\nprobe = Probe()",
    "probe",
]


def test_widget_works_in_jupyterlab(open_lab: Callable[..., LabNotebook]) -> None:
    lab = open_lab(CELLS)
    lab.run_all()
    widget = lab.page.locator(".sg-widget")
    expect(widget.locator(".probe-values")).to_have_text("10")

    widget.focus()
    cells = lab.page.locator(".jp-Notebook .jp-Cell").count()
    for key in ("b", "a", "ArrowRight", "ArrowDown"):  # b and a insert cells where JupyterLab hears them
        lab.page.keyboard.press(key)
    expect(widget.locator(".sg-counter")).to_have_text("step 1 of 10")
    assert lab.page.locator(".jp-Notebook .jp-Cell").count() == cells

    lab.theme(dark=True)
    expect(widget).to_have_attribute("data-dark", "true")

    lab.execute("notebook:restart-kernel")
    lab.page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(widget).to_have_attribute("data-connection", "lost")
    widget.get_by_role("button", name="Double").click()
    expect(widget.get_by_role("alert")).to_contain_text("Disconnected: the Python kernel was restarted")


def test_a_notebook_keeps_a_picture_and_a_cell_that_runs_again_frees_its_widget(
    open_lab: Callable[..., LabNotebook],
) -> None:
    plan = "def plan():\n    widget = SplitKV([300])\n    kept.append(weakref.ref(widget))\n    return widget"
    lab = open_lab(
        [
            f"import weakref\nfrom sglab.widgets import SplitKV\nkept = []\n{plan}",
            "plan()",
            "print('open', [each().comm is not None for each in kept if each()])",
        ]
    )
    lab.run(0)
    lab.run(1)
    expect(lab.page.locator(".sg-widget .sg-body")).to_be_visible()
    picture = lab.page.locator("[class^=sglab-] img")
    expect(picture).to_have_attribute("src", re.compile("^data:image/(webp|png);base64,"))
    expect(picture).to_be_hidden()  # the widget itself is there
    lab.run(1)
    lab.run(2)
    expect(lab.page.locator(".jp-OutputArea-output").last).to_have_text("open [False, True]")


def test_the_picture_that_is_kept_is_not_that_of_a_widget_which_still_reads(
    open_lab: Callable[..., LabNotebook],
) -> None:
    """With "Run All Cells" Python is busy with the next cells when a widget asks it."""
    batch = "batch = sglab.decode_batch([300, 77], page_size=64, num_heads=16, kv_lora_rank=16, qk_rope_head_dim=16)"
    lab = open_lab(
        [f"import sglab\n{batch}", "sglab.widgets.PageTable(batch)", "import time\ntime.sleep(8)\nprint('slept')"]
    )
    lab.run_all()
    expect(lab.page.locator(".sg-widget")).to_have_attribute("data-placeholder", "loading")
    picture = lab.page.locator("[class^=sglab-] img")
    expect(picture).to_have_attribute("src", re.compile("^data:image/(webp|png);base64,"))
    assert picture.evaluate("image => image.decode().then(() => image.naturalHeight)") > 400  # reading: 150


def test_a_picture_is_kept_before_the_reader_stands_still(open_lab: Callable[..., LabNotebook]) -> None:
    """Saved within three seconds of the run, or of the last press, a notebook had none."""
    lab = open_lab(["from sglab.widgets import SplitKV\nSplitKV([300])"])
    lab.run(0)
    widget = lab.page.locator(".sg-widget")
    expect(widget.locator(".sg-body")).to_be_visible()
    picture = lab.page.locator("[class^=sglab-] img")
    for _ in range(60):
        widget.press("ArrowRight")
        lab.page.wait_for_timeout(300)
        if picture.count():
            break
    expect(picture).to_have_count(1, timeout=1)


def test_without_a_kernel_the_picture_stands_alone(open_lab: Callable[..., LabNotebook]) -> None:
    """Below it ipywidgets says that it found no model; the note of the picture says what to do."""
    lab = open_lab(["from sglab.widgets import SplitKV\nSplitKV([300])"])
    lab.run(0)
    picture = lab.page.locator("[class^=sglab-] img")
    expect(picture).to_have_attribute("src", re.compile("^data:image/(webp|png);base64,"))
    lab.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    lab.page.reload()
    expect(picture).to_be_visible()
    error = lab.page.get_by_text("Error displaying widget")
    expect(error).to_have_count(1)
    expect(error).to_be_hidden()
