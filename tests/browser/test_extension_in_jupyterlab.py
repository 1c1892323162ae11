"""The JupyterLab extension: what the panel lists, widgets in tabs, their one selection, recordings, the workspace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, Response, expect

from sglab.jupyterlab.workspace import offer_workspace
from tests.support.browser.jupyterlab_host import TOKEN, LabNotebook, LabServer
from tests.support.browser.patience import be_patient

BATCH = "import sglab\nbatch = sglab.decode_batch([300, 77], num_heads=16, page_size=64, dtype='float32')"
LAUNCH = (
    "import torch\nfrom tests.support.launches.shared_sum import SHARED_SUM\n"
    "launch = sglab.step(sglab.ptx(SHARED_SUM)[1, 64], torch.zeros(64))"
)
WIDGETS = "print(len(sglab.widgets.selection.widgets), 'widgets')"
SELECTED = "print('selected', dict(sglab.widgets.selection.value))"


def panel(page: Page) -> Locator:
    page.evaluate("window.jupyterapp.shell.activateById('sglab-panel')")
    return page.locator("#sglab-panel")


def tab(page: Page, title: str) -> Locator:
    """The widget in a tab, by its own title."""
    own = page.locator(".sg-title", has_text=title)
    return page.locator(".sglab-tab .sg-widget").filter(has=own)


def run(lab: LabNotebook, cell: int) -> None:
    """Runs a cell of the notebook, which becomes the tab in front."""
    path = lab.page.evaluate("() => notebook.context.path")
    lab.page.evaluate("p => window.jupyterapp.commands.execute('docmanager:open', { path: p })", path)
    lab.page.wait_for_function("() => window.jupyterapp.shell.currentWidget === notebook")
    lab.run(cell)


def remember(lab: LabNotebook) -> LabNotebook:
    """The notebook's panel as `notebook` in the page: other tabs take its place as the current widget."""
    lab.page.evaluate("() => { window.notebook = window.jupyterapp.shell.currentWidget }")
    return lab


def output(lab: LabNotebook) -> Locator:
    return lab.page.locator(".jp-Notebook .jp-OutputArea-output").last


def test_the_panel_opens_widgets_in_tabs_that_share_one_selection(open_lab: Callable[..., LabNotebook]) -> None:
    lab = remember(open_lab([BATCH, LAUNCH, SELECTED, WIDGETS], width=1440, height=900))
    side = panel(lab.page)
    expect(side).to_contain_text("has not imported sglab yet")
    lab.run(0)
    expect(side.locator(".sglab-thing")).to_contain_text(["2 requests, 377 tokens"])
    lab.run(1)
    expect(side.locator(".sglab-thing code")).to_have_text(["batch", "launch"])

    side.get_by_role("button", name="Arrange as a debugger").click()
    expect(tab(lab.page, "Page table").locator(".sg-counter")).to_be_visible()
    expect(tab(lab.page, "Warp roles").locator(".sg-counter")).to_be_visible()
    expect(tab(lab.page, "Kernel debugger").locator(".sg-counter")).to_have_text("step 0 of 26")
    expect(tab(lab.page, "Warp roles")).to_be_focused()  # the last one's keys work without a press

    pages = tab(lab.page, "Page table")
    pages.get_by_label("Find a request").fill("page 7")
    pages.get_by_label("Find a request").press("Enter")
    run(lab, 2)
    expect(output(lab)).to_contain_text("'page': 7")

    # All of one launch share its session, which Next finding moves.
    lab.execute("sglab:next-finding")
    expect(lab.page.get_by_text("1 of 1: uninitialised read")).to_be_visible()
    expect(tab(lab.page, "Kernel debugger").locator(".sg-counter")).not_to_have_text("step 0 of 26")
    expect(tab(lab.page, "Warp roles").locator(".sg-counter")).not_to_contain_text("position 0 of")

    # Opened again it is the same tab; closed, its widget is closed in the kernel, too.
    panel(lab.page).get_by_role("button", name="Page table").click()
    expect(tab(lab.page, "Page table")).to_have_count(1)
    lab.page.locator(".lm-TabBar-tab", has_text="Page table: batch").locator(".lm-TabBar-tabCloseIcon").click()
    expect(tab(lab.page, "Page table")).to_have_count(0)
    run(lab, 3)
    expect(output(lab)).to_have_text("3 widgets\n")


def test_in_a_low_tab_details_stand_beside_the_picture(open_lab: Callable[..., LabNotebook]) -> None:
    """Below it 40 px were left for them, and the picture had 140."""
    lab = remember(open_lab([BATCH, LAUNCH], width=1440, height=900))
    lab.run(0)
    lab.run(1)
    panel(lab.page).get_by_role("button", name="Arrange as a debugger").click()
    for title in ("Page table", "Warp roles"):
        widget = tab(lab.page, title)
        expect(widget.locator(".sg-counter")).to_be_visible()
        view, details = (widget.locator(each).bounding_box() for each in (".sg-view", ".sg-details"))
        assert view is not None
        assert details is not None
        assert details["x"] >= view["x"] + view["width"]
        assert view["width"] > 350
        assert details["width"] > 160


def test_a_tab_shows_what_its_name_means_after_the_cell_ran_again(open_lab: Callable[..., LabNotebook]) -> None:
    """It went on showing the old launch, and opened again it was one more tab, without a name."""
    lab = remember(open_lab(["import sglab", LAUNCH, "print(launch.session().now)"], width=1440, height=900))
    lab.run(0)
    lab.run(1)
    expect(panel(lab.page).locator(".sglab-thing code")).to_have_text(["launch"])
    lab.execute("sglab:debug-kernel")
    labels = lab.page.locator(".lm-TabBar-tabLabel", has_text="Kernel debugger")
    counter = tab(lab.page, "Kernel debugger").locator(".sg-counter")
    expect(labels).to_have_text(["Kernel debugger: launch"])
    expect(counter).to_have_text("step 0 of 26")
    tab(lab.page, "Kernel debugger").press("ArrowRight")
    expect(counter).to_have_text("step 1 of 26")

    run(lab, 1)
    expect(counter).to_have_text("step 0 of 26")  # of the new launch
    expect(panel(lab.page).locator(".sglab-thing code")).to_have_text(["launch"])
    lab.execute("sglab:debug-kernel")
    expect(tab(lab.page, "Kernel debugger")).to_be_focused()
    expect(labels).to_have_text(["Kernel debugger: launch"])


def test_a_tab_follows_a_notebook_that_is_renamed(open_lab: Callable[..., LabNotebook]) -> None:
    """It kept the old name, its way to the notebook led nowhere, and the panel opened the same widget once more."""
    lab = remember(open_lab([BATCH], width=1440, height=900))
    lab.run(0)
    panel(lab.page).get_by_role("button", name="Page table").click()
    expect(tab(lab.page, "Page table").locator(".sg-counter")).to_be_visible()
    lab.page.evaluate("() => window.jupyterapp.serviceManager.contents.rename(notebook.context.path, 'mine.ipynb')")
    expect(lab.page.locator(".sglab-of")).to_have_text("mine.ipynb")
    panel(lab.page).get_by_role("button", name="Page table").click()
    expect(tab(lab.page, "Page table")).to_have_count(1)
    lab.page.locator(".sglab-toolbar").get_by_role("button", name="Notebook").click()
    lab.page.wait_for_function("() => window.jupyterapp.shell.currentWidget === notebook")


def test_a_tab_takes_the_whole_screen_and_closes(open_lab: Callable[..., LabNotebook]) -> None:
    lab = remember(open_lab([BATCH], width=1440, height=900))
    errors: list[str] = []
    lab.page.on("pageerror", lambda error: errors.append(str(error)))
    lab.run(0)
    panel(lab.page).get_by_role("button", name="Page table").click()
    pages = tab(lab.page, "Page table")
    expect(pages.locator(".sg-counter")).to_be_visible()
    expect(pages).to_be_focused()
    area = pages.locator("xpath=ancestor::*[contains(@class, 'jp-MainAreaWidget')]")
    beside = pages.bounding_box()
    area.get_by_role("button", name="Full screen").click()
    lab.page.wait_for_function(
        "document.fullscreenElement && innerWidth - document.querySelector('.sglab-tab').clientWidth < 20"
    )
    whole = pages.bounding_box()
    assert beside and whole and whole["width"] > beside["width"] + 100
    area.get_by_role("button", name="Leave full screen", exact=True).click()
    expect(area.get_by_role("button", name="Full screen", exact=True)).to_be_visible()
    lab.page.wait_for_function(
        "w => Math.abs(document.querySelector('.sglab-tab').clientWidth - w) < 20", arg=beside["width"]
    )
    lab.page.locator(".lm-TabBar-tab", has_text="Page table").locator(".lm-TabBar-tabCloseIcon").click()
    expect(lab.page.locator(".sglab-tab")).to_have_count(0)
    expect(lab.page.locator(".jp-Notebook")).to_be_visible()
    assert not errors


def test_a_tab_is_printed_without_the_jupyterlab_around_it(open_lab: Callable[..., LabNotebook]) -> None:
    page = remember(open_lab([BATCH], width=1440, height=900)).page
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    panel(page).get_by_role("button", name="Page table").click()
    pages = tab(page, "Page table")
    expect(pages.locator(".sg-counter")).to_be_visible()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(page.locator("#jp-menu-panel, #jp-top-panel").first).to_be_hidden()
    expect(page.locator(".jp-NotebookPanel")).to_be_hidden()
    on_paper = pages.bounding_box()
    assert on_paper and on_paper["x"] < 20 and on_paper["y"] < 20 and on_paper["x"] + on_paper["width"] < 720
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    expect(page.locator("#jp-menu-panel, #jp-top-panel").first).to_be_visible()
    expect(page.locator(".sglab-printed")).to_have_count(0)


def test_a_recording_is_saved_and_opens_without_a_kernel(
    open_lab: Callable[..., LabNotebook], lab_server: LabServer
) -> None:
    lab = remember(open_lab([LAUNCH.replace("import torch", "import sglab, torch")], width=1440, height=900))
    lab.run(0)
    panel(lab.page).get_by_role("button", name="Warp roles").click()
    expect(tab(lab.page, "Warp roles").locator(".sg-counter")).to_be_visible()
    lab.page.get_by_role("button", name="Save recording").click()
    expect(lab.page.get_by_text("Saved warp_roles_shared_sum.sglab")).to_be_visible()
    lab.page.evaluate("() => notebook.sessionContext.shutdown()")
    expect(panel(lab.page)).to_contain_text("This notebook has no kernel")

    lab.execute("docmanager:open", {"path": "warp_roles_shared_sum.sglab"})
    saved = lab.page.locator(".sglab-recording .sg-widget")
    expect(saved.locator(".sg-timeline-label").first).to_be_visible()
    saved.focus()
    saved.press("ArrowRight")
    expect(saved.locator(".sg-counter")).not_to_contain_text("step 0 of")

    (lab_server.folder / "cut.sglab").write_text('{"sglab": "recording", "wid')
    lab.execute("docmanager:open", {"path": "cut.sglab"})
    expect(lab.page.get_by_role("alert").get_by_text("cut short")).to_be_visible()
    (lab_server.folder / "newer.sglab").write_text('{"sglab": "recording", "format": 9, "widgets": []}')

    def puts_it_down(response: Response) -> bool:
        told = response.request
        return told.method == "PUT" and "api/workspaces" in told.url and "newer.sglab" in (told.post_data or "")

    with lab.page.expect_response(puts_it_down):
        lab.execute("docmanager:open", {"path": "newer.sglab"})
        expect(lab.page.get_by_role("alert").get_by_text("has format 9")).to_be_visible()
    lab.page.reload()
    expect(lab.page.get_by_role("alert").get_by_text("has format 9")).to_be_visible()
    lab.page.locator(".lm-TabBar-tab", has_text="warp_roles_shared_sum.sglab").click()
    expect(saved.locator(".sg-timeline-label").first).to_be_visible()


def test_tabs_wait_for_what_they_show_and_come_back(
    browser: Browser, lab_server: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workspace sglab as `sglab lab --workspace` offers it: nothing has run; then the cells; then a restart."""
    pytest.importorskip("jupyterlab")
    session = "session = launch.session()"
    lab_server.write("small.ipynb", [BATCH, LAUNCH, session])
    folder: Path = lab_server.folder / ".jupyter" / "settings" / "workspaces"
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(lab_server.folder / ".jupyter" / "workspaces"))
    assert not folder.exists() and offer_workspace("small.ipynb")
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    be_patient(context)
    page = context.new_page()
    page.goto(f"{lab_server.url}/lab/workspaces/sglab?token={TOKEN}")
    debugger = page.locator(".sglab-tab", has_text="Kernel debugger")
    expect(debugger).to_contain_text("opens here as soon as the notebook has session")
    debugger.get_by_role("button", name="Run its cells").click()
    counter = tab(page, "Kernel debugger").locator(".sg-counter")
    expect(counter).to_have_text("step 0 of 26")

    tab(page, "Kernel debugger").press("ArrowRight")
    expect(counter).to_have_text("step 1 of 26")
    page.reload()  # the kernel lives on, and with it the widget
    expect(counter).to_have_text("step 1 of 26")

    page.locator(".lm-TabBar-tab", has_text="small.ipynb").click()
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:restart-run-all') }")
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    expect(counter).to_have_text("step 0 of 26")  # on what the cells have made anew
    context.close()


def test_the_launcher_begins_a_kernel_to_debug(open_lab: Callable[..., LabNotebook]) -> None:
    pytest.importorskip("triton")
    lab = open_lab(["1"], width=1440, height=900)
    lab.execute("launcher:create")
    tile = lab.page.locator(".jp-LauncherCard", has_text="Debug a kernel")
    expect(tile).to_be_in_viewport(ratio=1)  # the first thing of ours that a newcomer sees
    tile.click()
    expect(lab.page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("Debug a kernel")
    lab.page.wait_for_function("window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel")
    lab.run_all()
    expect(lab.page.locator(".jp-Notebook:visible .sg-counter")).to_contain_text("step 0 of")
