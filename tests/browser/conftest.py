"""Chromium for the browser tests: found, not downloaded."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from sglab.widgets import selection
from tests.support.browser.jupyterlab_host import LabNotebook, LabServer
from tests.support.browser.patience import QUIET, be_patient
from tests.support.browser.widget_host import Host

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium(bundled: str) -> str | None:
    """$CHROMIUM, the machine's own, or the build that `playwright install chromium` left at `bundled`."""
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), bundled if os.path.exists(bundled) else None]
    return next((path for path in candidates if path), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker("browser")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        executable = find_chromium(playwright.chromium.executable_path)
        if executable is None:
            missing = f"no browser: none of {', '.join(NAMES)} is on PATH, and CHROMIUM is not set"
            if os.environ.get("CI"):  # there the browser tests must really run
                pytest.fail(missing)
            pytest.skip(missing)
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without a network; an error in it fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    be_patient(context)
    context.add_init_script(path=QUIET)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not errors, errors


@pytest.fixture(autouse=True)
def nothing_selected() -> None:
    """All widgets of a process share one selection: what a test selects would show in the next."""
    selection.clear()


@pytest.fixture
def host(page: Page) -> Host:
    return Host(page)


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`saved(name)`: a page with one of every_widget's, written once."""
    from tests.support.browser.every_widget import MAKERS

    folder = tmp_path_factory.mktemp("saved")
    return cache(lambda name: MAKERS[name]().save(folder / f"{name}.html"))


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(tmp_path_factory.mktemp("lab"))
    yield server
    server.stop()


@pytest.fixture
def open_lab(browser: Browser, lab_server: LabServer) -> Iterator[Callable[..., LabNotebook]]:
    """`open_lab([cell, …])` opens a notebook with these cells in JupyterLab."""
    opened: list[LabNotebook] = []

    def open_notebook(cells: list[str], **size: int) -> LabNotebook:
        name = f"notebook{uuid.uuid4().hex[:8]}.ipynb"
        lab_server.write(name, cells)
        opened.append(LabNotebook(browser, lab_server, name, **size))
        return opened[-1]

    yield open_notebook
    for notebook in opened:
        notebook.close()


@pytest.fixture
def axe() -> Callable[[Page], list[str]]:
    """`axe(page)` lists every accessibility violation that axe-core finds in the page's widgets."""
    axe_playwright = pytest.importorskip("axe_playwright_python.sync_playwright")

    def violations(page: Page) -> list[str]:
        results = axe_playwright.Axe().run(page, context=".sg-widget")
        found = results.response["violations"]
        return [f"{each['impact']} {each['id']}: {[node['html'] for node in each['nodes']]}" for each in found]

    return violations
