"""A KernelDebugger on a page: how its tests make one, show one and name what is in it."""

from __future__ import annotations

from typing import Any

import torch
from playwright.sync_api import Locator, Page, expect

from sglab import gpu
from sglab.widgets import KernelDebugger
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host, more
from tests.support.launches.session_lines import SESSION_PTX


def make(name: str = "reduce", grid: int = 2, **device: Any) -> KernelDebugger:
    out = torch.zeros(1)
    arguments = {
        "reduce": [torch.arange(2000, dtype=torch.float32), out, 2000],
        "clock_and_out_of_bounds": [torch.zeros(128, dtype=torch.int64), 1000],
    }
    emulated = gpu.EmulatedDevice("sm_90a", **device)
    session = gpu.load(SESSION_PTX)[name].session(emulated, grid=grid, block=128, args=arguments[name])
    return KernelDebugger(session, tensors={"out": out})


def show(host: Host, widget: KernelDebugger, place: str = "widget") -> Page:
    host.show(widget, place)
    expect(host.page.locator(f"#{place} .kd-line").first).to_be_visible()
    settled(host.page)  # until then lines are drawn again
    shown = host.page.locator(f"#{place} .sg-widget")
    more(shown)
    shown.get_by_label("Step size").select_option("instruction")
    return host.page


def frame(page: Page) -> Locator:
    return page.locator(".sg-widget")


def at(page: Page, position: int) -> None:
    expect(frame(page)).to_have_attribute("data-position", str(position))


def source_line(page: Page, line: int) -> Locator:
    return page.get_by_role("listbox", name="Source").locator(f"[data-line='{line}']")


def ptx_line(page: Page, line: int) -> Locator:
    return page.get_by_role("listbox", name="PTX").locator(f"[data-line='{line}']")


def here(widget: KernelDebugger, warp: int = 0, cta: int = 0) -> Any:
    return widget.session.warp(warp, cta).groups[0].at
