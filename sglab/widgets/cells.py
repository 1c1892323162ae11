"""Which cell of a notebook made which widgets: running a cell again frees those that it replaces, and after every cell
the others look whether what they show has changed."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Protocol


class Made(Protocol):
    """What cells know of a widget."""

    @property
    def comm(self) -> Any:
        """None once it is closed."""

    def close(self) -> None: ...

    def after_cell(self) -> None: ...


_HISTORY = ("Out", "In")
"""Of IPython's namespace: what they hold, and names that begin with an underscore, no reader has asked to keep."""


class Cells:
    """The widgets of one IPython shell by the cell that made them, as Jupyter names cells."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._of: dict[str, list[weakref.ref[Made]]] = {}
        self._running: str | None = _running_cell(shell)
        self._replaced: list[weakref.ref[Made]] = []
        self._all: weakref.WeakSet[Made] = weakref.WeakSet()
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._end)

    def add(self, widget: Made) -> None:
        """The running cell has made a widget."""
        self._all.add(widget)
        if self._running is not None:
            self._of.setdefault(self._running, []).append(weakref.ref(widget))

    def _begin(self, info: Any) -> None:
        self._running = getattr(info, "cell_id", None)
        self._replaced = self._of.pop(self._running, []) if self._running is not None else []

    def _end(self, _: Any) -> None:
        """Closes what the cell's last run has made, but what has a name of the reader's; notifies the others."""
        self._running = None
        replaced, self._replaced = [each() for each in self._replaced], []
        for widget in replaced:
            if widget is not None and not _is_in(widget, self._named()):
                widget.close()
        self.look()

    def look(self, but: Made | None = None) -> None:
        """Lets all widgets that are open see whether what they show has changed, `but` this one."""
        for widget in list(self._all):
            if widget.comm is None:
                self._all.discard(widget)
            elif widget is not but:
                widget.after_cell()

    def _named(self) -> Iterable[Any]:
        names = self._shell.user_ns
        return [value for name, value in names.items() if not name.startswith("_") and name not in _HISTORY]


def _running_cell(shell: Any) -> str | None:
    """The cell that runs while sglab is first used, whose beginning was not heard."""
    metadata = getattr(shell, "parent_header", {}).get("metadata", {})
    cell = metadata.get("cellId")
    return str(cell) if cell is not None else None


def _is_in(widget: Made, values: Iterable[Any]) -> bool:
    """Whether it is one of the values, in one that is a list, a tuple or a dict, or an attribute of one."""
    for value in values:
        members: Iterable[Any] = (value,)
        if isinstance(value, (list, tuple)):
            members = value
        elif isinstance(value, dict):
            members = value.values()
        elif not isinstance(value, type) and hasattr(value, "__dict__"):
            members = (value, *vars(value).values())
        if any(each is widget for each in members):
            return True
    return False


_cells: weakref.WeakKeyDictionary[Any, Cells] = weakref.WeakKeyDictionary()


def remember(widget: Made) -> None:
    """Notes that the running cell has made `widget`; outside a notebook there is none."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    if shell not in _cells:
        _cells[shell] = Cells(shell)
    _cells[shell].add(widget)


def changed(by: Made) -> None:
    """A press in this widget has changed what others may show, as a cell can."""
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None and shell in _cells:
        _cells[shell].look(but=by)
