"""SharedMemory on a page, as its tests in a browser look at it."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import Page, expect

from sglab.events.shared_memory import KINDS
from sglab.widgets import SharedMemory
from tests.support.browser.widget_host import Host, more


def moments_of(widget: SharedMemory, kind: str) -> list[int]:
    """The widget's moments just after accesses of a kind."""
    return (np.flatnonzero(widget._traffic.moments[:, 4] == KINDS.index(kind)) + 1).tolist()


def show(host: Host, widget: SharedMemory) -> Page:
    """The page with the widget, once it is drawn, its rarer controls open."""
    host.show(widget)
    expect(host.page.locator(".sg-cells canvas").first).to_be_visible()
    more(host.page.locator(".sg-widget"))
    return host.page
