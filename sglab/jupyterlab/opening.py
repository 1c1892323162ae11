"""A widget on a thing of the notebook, for a tab of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from sglab import widgets
from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.session import Session
from sglab.events.log import EventLog
from sglab.widgets import Widget

FROM_PAGES = ("WarpRoles", "Barriers")
"""They name the pages that a launch reads, if they know the batch."""
AT_WORK = ("KernelDebugger", "SharedMemory")
"""They need the launch itself, not only its recording."""


def open_widget(thing: Any, kind: str, others: Iterable[Any]) -> Widget:
    """A new widget. Those of one launch share a session, so that they move together.

    Args:
        thing: a batch, launch, capture, session or recording.
        kind: the widget's class.
        others: what else the notebook has; a batch among it whose pool the launch reads gives its copies their pages.

    Raises:
        ValueError: there is no such widget, or it does not open such a thing.
    """
    if kind not in widgets.__all__ or not isinstance(made := getattr(widgets, kind), type):
        raise ValueError(f"sglab of this kernel has no widget {kind!r}; it has {', '.join(sorted(widgets.__all__))}")
    if not isinstance(thing, Capture | CapturedLaunch | Session | EventLog):
        return made(thing)
    options: dict[str, Any] = {}
    subject = getattr(thing, "subject", None)
    opened = thing if isinstance(thing, EventLog) else session_of(thing)
    if kind in FROM_PAGES and (batch := subject or _batch_read_by(opened, others)) is not None:
        options["batch"] = batch
    if kind == "KernelDebugger" and (tensors := getattr(thing, "tensors", None)):
        options["tensors"] = tensors
    return made(opened, **options)


def session_of(thing: Capture | CapturedLaunch | Session) -> Session:
    """The session that widgets of a launch share: one that a widget already shows, or a new one."""
    if isinstance(thing, Session):
        return thing
    launch = thing.main if isinstance(thing, Capture) else thing
    shown = (getattr(widget, "session", None) for widget in widgets.selection.widgets)
    known = (each for each in shown if isinstance(each, Session) and each.launch is launch.launch)
    return next(known, None) or launch.session()


def _batch_read_by(opened: Session | EventLog, others: Iterable[Any]) -> Any:
    """The batch whose pool the launch reads by TMA; None if there is none."""
    batches = sys.modules.get("sglab.workbench.batch")
    known = [each for each in others if batches is not None and isinstance(each, batches.Batch)]
    if not known:
        return None
    from sglab.workbench.recorders.page_reads import PageReads

    log = opened.log if isinstance(opened, Session) else opened
    return next((batch for batch in known if len(PageReads.of(log, batch))), None)
