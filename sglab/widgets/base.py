"""What every widget has: named tensors that cross in slices, commands with answers, and a page that outlives Python."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import anywidget
import traitlets

from . import pictures
from .cells import remember
from .changes import Versions
from .page import html_page
from .recordings import recording
from .selection import selection
from .wire import WireArray, pack

STATIC = Path(__file__).parent / "static"
SCOPE = uuid.uuid4().hex  # one Python process is one notebook: its widgets share a selection
log = logging.getLogger(__name__)

Method = TypeVar("Method", bound=Callable[..., Any])


def asset(name: str, folder: Path = STATIC) -> str:
    """The text of a built file. Subclasses take text, not paths: anywidget keeps every widget with a path alive."""
    return (folder / name).read_text(encoding="utf-8")


def command(method: Method) -> Method:
    """Marks a method that the page may call by name; keyword arguments and the answer cross as JSON and tensors."""
    method.__sglab_command__ = True  # type: ignore[attr-defined]
    return method


class Widget(anywidget.AnyWidget):
    """Base of every sglab widget.

    A subclass names its bundle (`bundle`, with `_module` and `_css` from `asset`), counts the format of its traits and
    tensors (`format`, equal to the number in the TypeScript definition), and calls `publish` whenever what it shows
    has changed.
    """

    bundle: ClassVar[str]
    format: ClassVar[int]
    _module: ClassVar[str]
    _esm = asset("loader.js", Path(__file__).parent)
    _commands: ClassVar[dict[str, Callable[..., Any]]] = {}

    module = traitlets.Unicode(help="the bundle's text, of which a page imports one").tag(sync=True)
    version = traitlets.Int().tag(sync=True)
    scope = traitlets.Unicode(SCOPE).tag(sync=True)
    revision = traitlets.Int(0).tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)
    launch_name = traitlets.Unicode(help="whose moments it shows: `following.launch_name`").tag(sync=True)
    header = traitlets.Dict(help="title, subject, badge: {text, title}; whole: the kernel's name, unshortened").tag(
        sync=True
    )
    picture_place = traitlets.Unicode(help="class of the output that takes a picture; empty: none").tag(sync=True)
    outdated = traitlets.Unicode(help="what was changed after the run that is shown; empty: nothing").tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        members = {name: value for base in reversed(cls.__mro__) for name, value in vars(base).items()}
        cls._commands = {name: value for name, value in members.items() if hasattr(value, "__sglab_command__")}

    def __init__(self, **kwargs: Any) -> None:
        self._tensors: dict[str, WireArray] = {}
        self._ours: set[str] = set()
        self.closed = False
        self._versions = Versions()
        super().__init__(module=type(self)._module, version=type(self).format, **kwargs)
        selection.attach(self)
        remember(self)
        self.on_msg(self._receive)
        self._ours = {*vars(self), "comm"}  # what a subclass adds from here on is a run's

    def open(self) -> None:
        """Notifies the page of this widget, once there is something to show: a page never sees half a state."""
        if self.revision:
            super().open()

    def close(self) -> None:
        """Ends the widget, and lets go of all that it has kept of a run: a notebook's history may keep the object."""
        super().close()
        self.closed = True
        self._tensors, self._versions = {}, Versions()
        for name in set(vars(self)) - vars(self).get("_ours", set(vars(self))):  # all, where it was never made
            delattr(self, name)

    def publish(self, tensors: Mapping[str, Any], **traits: Any) -> None:
        """Replaces all named tensors (copied, but for a WireArray) and some traits in one step; the page then reads the
        slices it shows."""
        arrays = {name: value if isinstance(value, WireArray) else WireArray(value) for name, value in tensors.items()}
        first = self.revision == 0
        with self.hold_sync():
            self._tensors = arrays
            for name, value in traits.items():
                self.set_trait(name, value)
            self.revision += 1
        if first:
            self.open()

    @command
    def slices(self, slices: list[dict[str, Any]]) -> list[WireArray]:
        """Rows `start` to `stop` of each named tensor."""
        return [self._tensor(each["name"]).rows(int(each["start"]), int(each["stop"])) for each in slices]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """As every widget's; in a notebook, with a place for its picture, which is there when the kernel is not."""
        self.picture_place = pictures.make_room(str(self.model_id))
        return super()._repr_mimebundle_(**kwargs)

    @command
    def keep_picture(self, picture: str, dark: bool = False) -> None:
        """Stores what the page shows in the notebook's output. picture: a data URL; dark: of a dark theme."""
        pictures.keep(self.picture_place, picture, repr(self), dark)

    def after_cell(self) -> None:
        """Is called after every cell of the notebook: says whether what is shown is still so, in `outdated`."""
        self.outdated = self._versions.sentence()

    @command
    def run_again(self) -> str:
        """Runs again on what is there now, where a widget can: see `outdated`. Returns what the reader should know."""
        raise RuntimeError(f"{type(self).__name__} cannot run this again by itself: run its cell again")

    def _tensor(self, name: str) -> WireArray:
        if name not in self._tensors:
            raise KeyError(f"{type(self).__name__} has no tensor {name!r}; it has {', '.join(sorted(self._tensors))}")
        return self._tensors[name]

    def _receive(self, _: Any, content: Any, __: Any) -> None:
        if not isinstance(content, dict) or content.get("kind") != "sglab:call":
            return
        answer: dict[str, Any] = {"kind": "sglab:answer", "id": content.get("id")}
        buffers: list[bytes] = []
        try:
            answer["value"] = pack(self._run(str(content.get("command")), content.get("args") or {}), buffers)
        except Exception as error:  # any error belongs in the widget, where the reader made the request
            log.debug("command %s failed", content.get("command"), exc_info=True)
            text = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
            answer["error"] = {"type": type(error).__name__, "message": str(text)}
            buffers = []
        self.send(answer, buffers)

    def _run(self, name: str, arguments: dict[str, Any]) -> Any:
        if name not in self._commands:
            raise ValueError(f"{type(self).__name__} has no command {name!r}; it has {', '.join(self._commands)}")
        return self._commands[name](self, **arguments)

    def saved(self) -> dict[str, Any]:
        """Everything a page needs to show this widget without Python: traits as JSON, tensors as gzip."""
        from sglab import __version__

        inherited = set(anywidget.AnyWidget.class_traits(sync=True)) | {
            "_esm",
            "_css",
            "_anywidget_id",
            "module",
            "selected",
        }
        state = {name: getattr(self, name) for name in self.trait_names(sync=True) if name not in inherited}
        tensors = {name: tensor.saved() for name, tensor in self._tensors.items()}
        return {
            "widget": self.bundle,
            "version": self.format,
            "sglab": __version__,
            "state": state,
            "tensors": tensors,
        }

    def save(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Writes one self-contained HTML file that shows this widget from the file system, with no kernel or network;
        or, where the path ends in .sglab, a recording, which JupyterLab opens.

        Returns its path. Several widgets in one file: `sglab.widgets.html_page`, `sglab.widgets.recording`.
        """
        target = Path(path)
        written = recording if target.suffix == ".sglab" else html_page
        target.write_text(written([self], title or str(self.header.get("title", "sglab"))), encoding="utf-8")
        return target

    def __repr__(self) -> str:
        return f"<sglab {self.header.get('title', type(self).__name__)}: {self.header.get('subject', '')}>"
