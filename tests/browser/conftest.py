"""Chromium for the browser tests: found, not downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from widget_host import Host

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
            pytest.skip(f"no browser: none of {', '.join(NAMES)} is on PATH, and CHROMIUM is not set")
        chromium = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without a network; an error in it fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert not errors, errors


@pytest.fixture
def host(page: Page) -> Host:
    return Host(page)
