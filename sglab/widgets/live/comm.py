"""One widget's connection to the pages that show it: Jupyter's widget messages, without Jupyter."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ipywidgets.widgets.widget import _remove_buffers

from ..base import Widget

Message = bytes
"""A message on its way to a page: 4 bytes with the length of the JSON that follows (little-endian), the JSON, which has
the `sizes` of the buffers, then these."""


def framed(content: dict[str, Any], buffers: Sequence[Any]) -> Message:
    """A message in one piece."""
    parts = [bytes(buffer) for buffer in buffers]
    text = json.dumps({**content, "sizes": [len(part) for part in parts]}).encode()
    return b"".join([len(text).to_bytes(4, "little"), text, *parts])


class PageComm:
    """Takes the place of a Jupyter comm.

    Args:
        widget: the widget, whose messages come here from now on.
        number: of the widget in its page.
        sent: is called with every message that the widget sends.
    """

    def __init__(self, widget: Widget, number: int, sent: Callable[[str, Message], None]) -> None:
        self.comm_id = f"widget-{number}"
        self._widget, self._number, self._sent = widget, number, sent
        self._receive: Callable[[Any], None] | None = None
        widget.comm = self

    def send(self, data: dict[str, Any], buffers: Sequence[Any] | None = None, **_: Any) -> None:
        """What the widget tells its pages."""
        self._sent(data["method"], framed({"widget": self._number, "data": data}, buffers or []))

    def state(self) -> Message:
        """All that a page needs to begin."""
        widget = self._widget
        names = [name for name in widget.trait_names(sync=True) if not name.startswith("_")]
        state = {name: getattr(widget, name) for name in names}
        kept = {name: one for name, one in state.items() if isinstance(one, (int, str, float, dict, list, bool))}
        plain, paths, buffers = _remove_buffers(kept)
        data = {"method": "update", "state": plain, "buffer_paths": paths}
        return framed({"widget": self._number, "data": data}, buffers)

    def receive(self, data: dict[str, Any]) -> None:
        """What a page tells the widget."""
        if self._receive is not None:
            self._receive({"content": {"data": data}, "buffers": []})

    def on_msg(self, callback: Callable[[Any], None]) -> None:
        self._receive = callback

    def on_close(self, callback: Callable[[Any], None]) -> None:
        """Pages come and go; the widget stays."""

    def close(self, *_: Any, **__: Any) -> None:
        """As on_close."""
