"""What widgets of a recorded engine share: lines that are only ever added to, and following a run while it goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import traitlets

from sglab.engine.recording import Recording
from sglab.serving import Engine

from .base import Widget
from .wire import WireArray

PUSH_S = 0.2
"""So long at least between two messages of a running engine."""


class LinesWidget(Widget):
    """A widget whose data are JSON lines in one tensor of bytes, `lines`.

    A page has read some of them; those that come later are pushed with the revision that adds them, since a kernel that
    steps an engine answers no questions meanwhile.
    """

    pushed: traitlets.List[Any] = traitlets.List(help="rows that the page will read next, as bytes").tag(sync=True)
    size = traitlets.Int(0, help="bytes of all lines").tag(sync=True)
    count = traitlets.Int(0, help="how many lines there are").tag(sync=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._bytes = bytearray()
        self._told = -PUSH_S
        self._followed: list[Any] = []

    def follow(self, source: Any, changed: Callable[[Any], None]) -> None:
        """Have `changed(self)` called by a recording or a log, until the widget is closed."""
        source.follow(self, changed)
        self._followed.append(source)

    def close(self) -> None:
        for source in vars(self).get("_followed", ()):
            source.unfollow(self)
        super().close()

    def add_lines(self, lines: Iterable[Any], **traits: Any) -> None:
        """Append lines and publish them with these traits."""
        start, count = len(self._bytes), self.count
        for line in lines:
            self._bytes += json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
            count += 1
        stop = len(self._bytes)
        added = WireArray(np.frombuffer(bytes(self._bytes[start:]), dtype=np.uint8))
        row = {"name": "lines", "start": start, "stop": stop, "dtype": "uint8", "shape": [stop - start]}
        pushed = [{**row, "data": added.tobytes()}] if start and stop > start else []
        everything = np.frombuffer(bytes(self._bytes), dtype=np.uint8)
        self.publish({"lines": everything}, pushed=pushed, size=stop, count=count, **traits)
        self._told = time.monotonic()

    def due(self) -> bool:
        """Whether the last message is so old that another may follow while an engine runs."""
        return time.monotonic() - self._told >= PUSH_S

    def refresh(self) -> None:
        """Shows what has happened since."""

    def saved(self) -> dict[str, Any]:
        if not self.closed:
            self.refresh()  # what a running engine has not told yet belongs into the file
        trace = super().saved()
        trace["state"]["pushed"] = []
        return trace


def recording_of(engine: Any, widget: str) -> Recording:
    """The recording of what a widget was given.

    Raises:
        TypeError: it is neither an engine nor a recording.
    """
    if isinstance(engine, Engine):
        return engine.record()
    if isinstance(engine, Recording):
        return engine
    raise TypeError(
        f"{widget} shows an sglab.Engine, which it follows from now on, or what engine.record() has returned; "
        f"got {type(engine).__name__}"
    )


def spans(pages: Iterable[int]) -> list[list[int]]:
    """Pages as runs: [first, last] each."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][1] + 1:
            runs[-1][1] = page
        else:
            runs.append([page, page])
    return runs


def facts(recording: Recording) -> Mapping[str, Any]:
    """What does not change while an engine runs."""
    config = recording.scheduler.config
    model = recording.model
    return {
        "page_size": recording.page_size,
        "pool_size": recording.pool_size,
        "policy": config.schedule_policy,
        "max_running_requests": config.max_running_requests,
        "max_prefill_tokens": config.max_prefill_tokens,
        "chunked_prefill_size": config.chunked_prefill_size,
        "mixed": config.enable_mixed_chunk,
        "overlap": config.enable_overlap,
        "model": "" if model is None else type(model).__name__,
        "layers": 0 if model is None else model.attention_config().num_hidden_layers,
    }
