"""Shows a real Python widget with its real bundle in a plain page: the anywidget contract without JupyterLab."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from ipywidgets.widgets.widget import _remove_buffers
from playwright.sync_api import Locator, Page, expect

from sglab.widgets import Widget

HERE = Path(__file__).parent
TEXT_OVERLAPS = HERE / "text_overlaps.js"
"""A script for pages: `textOverlaps()` lists texts that lie over each other."""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until the page has drawn what was asked for."""
PAGE = '<!doctype html><html lang="en"><title>widget</title><body style="margin:8px"></body></html>'


def more(widget: Locator) -> None:
    """Shows the controls behind *more*."""
    widget.get_by_role("button", name="More controls").click()


def in_issue_order(widget: Locator) -> None:
    """Steps in the emulator's order, not in that of modelled time, where there is one to choose."""
    axis = widget.get_by_label("Axis", exact=True)
    if axis.is_visible():
        axis.select_option("issue")
        expect(widget.locator(".sg-badge")).to_have_text("emulated · issue order")


def _message(data: dict[str, Any], buffers: list[Any]) -> dict[str, Any]:
    return {"data": data, "buffers": [base64.b64encode(bytes(buffer)).decode() for buffer in buffers]}


class PageComm:
    """The comm of one widget: what Python sends waits here until the page is notified."""

    def __init__(self, comm_id: str) -> None:
        self.comm_id = comm_id
        self.outgoing: list[dict[str, Any]] = []
        self._on_msg: Any = None

    def send(self, data: dict[str, Any], buffers: list[Any] | None = None, **_: Any) -> None:
        self.outgoing.append(_message(data, buffers or []))

    def on_msg(self, callback: Any) -> None:
        self._on_msg = callback

    def on_close(self, callback: Any) -> None:
        pass

    def close(self, *_: Any, **__: Any) -> None:
        pass

    def receive(self, data: dict[str, Any]) -> list[dict[str, Any]]:
        self._on_msg({"content": {"data": data}, "buffers": []})
        return self.take()

    def take(self) -> list[dict[str, Any]]:
        messages, self.outgoing = self.outgoing, []
        return messages


class Host:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.comms: dict[str, PageComm] = {}
        self.alive = True
        self.questions = 0
        """Messages that the page has sent to Python."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """By which widget's model, and what."""
        page.set_content(PAGE)
        page.add_script_tag(path=HERE / "widget_host.js")
        page.expose_function("sglabToPython", self._to_python)
        self._loaded: set[str] = set()

    def _to_python(self, comm_id: str, data: dict[str, Any]) -> list[dict[str, Any]]:
        self.questions += 1
        self.asked.append((comm_id, data))
        return self.comms[comm_id].receive(data) if self.alive else []

    def show(self, widget: Widget, place: str = "widget") -> None:
        """Mounts a view of `widget` in a new element with id `place`."""
        comm = self.comms.setdefault(widget.model_id, PageComm(widget.model_id))
        if widget.comm is not comm:
            widget.comm = comm
        if widget.bundle not in self._loaded:
            self.page.evaluate("([n, js]) => sglabHost.load(n, js)", [widget.bundle, str(widget._module)])
            self.page.add_style_tag(content=str(widget._css))
            self._loaded.add(widget.bundle)
        state = {name: getattr(widget, name) for name in widget.trait_names(sync=True) if not name.startswith("_")}
        plain = {name: value for name, value in state.items() if isinstance(value, (int, str, float, dict, list, bool))}
        plain, paths, buffers = _remove_buffers(plain)
        update = _message({"method": "update", "state": plain, "buffer_paths": paths}, buffers)
        arguments = [widget.model_id, widget.bundle, update, place]
        self.page.evaluate("([id, b, state, el]) => sglabHost.show(id, b, state, el)", arguments)

    def flush(self) -> None:
        """Notifies the page of what Python changed on its own."""
        for comm_id, comm in self.comms.items():
            for message in comm.take():
                self.page.evaluate("([id, m]) => sglabHost.deliver(id, m)", [comm_id, message])
