"""The extension's questions and their answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.session import Session
from sglab.jupyterlab.findings import next_finding
from sglab.jupyterlab.opening import open_widget, session_of
from sglab.jupyterlab.things import Numbers, list_things
from sglab.widgets import Widget, selection
from sglab.widgets.recordings import recording

PROTOCOL = 1
"""Counts changes of questions and answers; the extension refuses another."""

_numbers = Numbers()


class Answer:
    """Crosses to the page as JSON, the way a cell's value does."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = {"protocol": PROTOCOL, **content}

    def _repr_json_(self) -> dict[str, Any]:
        return self.content

    def __repr__(self) -> str:
        return f"<answer {self.content}>"


def answer(question: str, **arguments: Any) -> Answer:
    """Answers one of list, open, view, close, save and next_finding.

    Whatever goes wrong is an answer, too: `error` says what, and the page shows it where the reader asked.
    """
    try:
        return Answer(_QUESTIONS[question](**arguments))
    except Exception as error:
        return Answer({"error": f"{type(error).__name__}: {error}"})


def _variables() -> Mapping[str, Any]:
    """The notebook's, or of a plain interpreter its main module's."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return vars(sys.modules["__main__"]) if shell is None else shell.user_ns


def _list() -> dict[str, Any]:
    return {"things": [each.row() for each in list_things(_variables(), selection.widgets, _numbers)]}


def _open(thing: int, widget: str) -> dict[str, Any]:
    made = open_widget(_thing(thing), widget, _values())
    return {"model": made.model_id, "title": made.header.get("title", widget)}


def _view(model: str) -> dict[str, Any]:
    """Whether a widget that a tab showed before the page was loaded again is still there."""
    found = _widget(model)
    return {"model": None if found is None else model}


def _close(model: str) -> dict[str, Any]:
    if (found := _widget(model)) is not None:
        found.close()
    return {}


def _save(model: str) -> dict[str, Any]:
    """Writes a recording beside the notebook, under a name that is free."""
    found = _widget(model)
    if found is None:
        raise ValueError("the widget is gone: its kernel was restarted; open it again")
    stem = f"{found.bundle} {found.header.get('subject', '').split(' ')[0].strip('·,') or 'recording'}"
    name = "".join(each if each.isalnum() or each in "-_ " else "_" for each in stem)[:60].strip().replace(" ", "_")
    paths = (Path(f"{name}{suffix}.sglab") for suffix in ("", *(f"-{i}" for i in range(1, 1000))))
    path = next(each for each in paths if not each.exists())
    path.write_text(recording([found], str(found.header.get("title", "sglab"))), encoding="utf-8")
    return {"path": path.name, "folder": os.getcwd()}


def _next_finding(thing: int) -> dict[str, Any]:
    found = _thing(thing)
    if not isinstance(found, Session | CapturedLaunch | Capture):
        raise ValueError("findings are of sessions and launches; a recording or a batch has none to go to")
    return {"said": next_finding(session_of(found))}


def _thing(number: int) -> Any:
    found = _numbers.thing(number)
    if found is None:
        raise ValueError("it is gone: the notebook has given it up since it was listed")
    return found


def _values() -> Iterator[Any]:
    yield from list(_variables().values())
    yield from (getattr(widget, "batch", None) for widget in selection.widgets)


def _widget(model: str) -> Widget | None:
    return next((each for each in selection.widgets if isinstance(each, Widget) and each.model_id == model), None)


_QUESTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "list": _list,
    "open": _open,
    "view": _view,
    "close": _close,
    "save": _save,
    "next_finding": _next_finding,
}
