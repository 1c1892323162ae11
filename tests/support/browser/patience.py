"""How long tests wait for what must come: far longer than it takes on a machine that does other things as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

PATIENCE_S = 180
PATIENCE_MS = 1000 * PATIENCE_S
QUIET = Path(__file__).with_name("quiet.js")
TOURED = Path(__file__).with_name("toured.js")


def be_patient(context: BrowserContext) -> None:
    """Actions and expectations in pages of `context` wait for PATIENCE_S, and no widget shows its first steps."""
    context.add_init_script(path=TOURED)
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)


def settled(page: Page) -> None:
    """Waits until the page has drawn all that it was asked for; the page must have started with the script QUIET."""
    page.evaluate("patience => quiet.settled(patience)", PATIENCE_MS)


def until(page: Page, condition: Callable[[], bool]) -> None:
    """Lets the page and Python talk until `condition` holds in Python."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing happened in {PATIENCE_S} s")
        page.evaluate("() => new Promise(requestAnimationFrame)")
