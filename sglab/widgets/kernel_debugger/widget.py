"""The widget: the page's commands move the session, and every answer is the moment that the page then shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import traitlets

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.names import Names
from sglab.emulator.session import Session
from sglab.emulator.watch import Watch, WatchParser
from sglab.events.cluster.columns import readable
from sglab.gpu import SessionError
from sglab.gpu.findings import Finding

from ..base import Widget, asset, command
from ..changes import Versions
from ..following import follow, launch_name, run_again
from ..selection import selection
from .code import CodeTables
from .found_memory import Place, expression, touched
from .jobs import Jobs
from .provenance import compiled_digests
from .saved import saved_moments
from .state import Focus, finding_row, joined, registers, shown_findings, snapshot
from .stops import StopPoints

STOP_EDITS = (
    *("toggle_line", "toggle_ptx", "limit", "condition", "enable", "remove", "clear"),
    *("add_phase", "add_watch", "put_back"),
)
RUNS = frozenset({"run", "run_back", "to", "back_to"})
"""Moves that go to the warp that comes first: a focus that the reader pinned yields to it."""
LOOK_AHEAD_S = 0.3
"""How long the widget runs ahead, when it is made, to learn how long the launch is."""


class KernelDebugger(Widget):
    """Steps a launch on the emulator: source beside PTX, warps, registers, memory, barriers, breakpoints, findings.

    Args:
        session: of `Kernel.session` or `EmulatedDevice.session`, or a launch that `gpu.capture` has caught. The widget
            moves it, and follows when Python does.
        tensors: names for watches, such as {"out": out}; without them memory is watched as arg0, arg1, ….
        source_paths: folders with source files that are not where the compiler saw them.

    Raises:
        TypeError: naming the argument.
    """

    bundle = "kernel_debugger"
    format = 1
    _module = asset("kernel_debugger.js")
    _css = asset("kernel_debugger.css")

    code = traitlets.Dict(help="entry, target, files: what the code's tensors are about").tag(sync=True)
    moved = traitlets.Int(0, help="counts changes of what is shown").tag(sync=True)

    def __init__(
        self,
        session: Session | Capture | CapturedLaunch,
        *,
        tensors: Mapping[str, Any] | None = None,
        source_paths: Sequence[str] = (),
    ) -> None:
        if isinstance(session, (Capture, CapturedLaunch)):
            session = session.session()
        if not isinstance(session, Session):
            raise TypeError(
                "session must be a Session or a captured launch, such as "
                "gpu.load(...)['kernel'].session(device, grid=..., args=...); "
                f"got {type(session).__name__}"
            )
        super().__init__()
        self._source_paths, self._named_tensors = source_paths, tensors or {}
        self._moves = 0
        self.session = session
        kernel = session.launch.kernel
        self.launch_name = launch_name(kernel.name, session.launch.geometry)
        digests = compiled_digests(kernel.module)
        folders = [kernel.module.folder] if kernel.module.folder else []
        self._tables = CodeTables(kernel, [*self._source_paths, *folders], digests)
        self._stops = StopPoints(session, self._tables)
        self._parser = WatchParser(session, self._named_tensors)
        self._watches: list[Watch] = []
        self._busy = self._answering = False
        self._begin()

    def _begin(self) -> None:
        """Shows the session's run, from where it is. Breakpoints and watches are the reader's and stay."""
        self._versions, self.outdated = Versions.of(self.session), ""
        self._jobs = Jobs(self.session, self._tables, self._stops)
        self._findings: tuple[Finding, ...] | None = None
        follow(self.session, self, KernelDebugger._session_moved, KernelDebugger._restarted)
        self.publish(self._tables.tensors(), code=self._tables.description(), header=self._header())
        self._jobs.measure(LOOK_AHEAD_S)
        self._names = Names.of(self.session, self._jobs.length, self._jobs.complete)

    @command
    def run_again(self) -> str:
        """Begins the session again, on what its tensors hold now, and goes to where it was."""
        self._stop_job()
        return run_again(self.session)

    def _restarted(self) -> None:
        with suppress(SessionError):  # a move under way takes away what the new run does not have
            self._stop_job()
        self._begin()
        self._changed()

    # What the page requests

    @command
    def look(self, look: dict[str, Any]) -> dict[str, Any]:
        """The present moment. look: cta, warp, group of the warp whose registers are wanted; None: the last to run."""
        return self._answer(look)

    @command
    def go(
        self, action: str, look: dict[str, Any], selected: Mapping[str, Any] | None = None, **options: Any
    ) -> dict[str, Any]:
        """Starts a move; what takes longer is continued by `go_on` and ended by `halt`.

        Args:
            selected: what the page has selected beside the moment, which it selects when it is there, unless the answer
                says otherwise.
        """
        if action == "seek" and self._is_at(**options):
            self._jobs.stay()
            return self._answer(look)
        focus = self._focus(look)
        self._stop_job()
        self._jobs.start(action, focus.name, options)
        answer = self._continue(look)
        if selected is None or answer["job"] is not None or answer["yields"]:
            return answer
        selection.take({**selected, "moment": self.session.now, "launch": self.launch_name})
        return {**answer, "told": True}

    @command
    def go_on(self, look: dict[str, Any]) -> dict[str, Any]:
        return self._continue(look)

    @command
    def halt(self, look: dict[str, Any]) -> dict[str, Any]:
        self._stop_job()
        self._changed()
        return self._answer(look)

    @command
    def measure(self, look: dict[str, Any], seconds: float = LOOK_AHEAD_S) -> dict[str, Any]:
        """Runs ahead to find the end of the launch, and returns."""
        self._jobs.measure(seconds)
        return self._answer(look)

    @command
    def edit_stops(self, edit: str, look: dict[str, Any], **options: Any) -> dict[str, Any]:
        """edit: one of STOP_EDITS, a method of StopPoints."""
        if edit not in STOP_EDITS:
            raise ValueError(f"edit_stops knows no edit {edit!r}")
        if edit == "add_watch":
            options["watch"] = self._bound(self._parser.parse(options.pop("expression")), look)
        with self._heard():
            done = getattr(self._stops, edit)(**options)
        self._changed()
        return {**self._answer(look), "note": done or ""}

    @command
    def watch(self, expression: str, look: dict[str, Any]) -> dict[str, Any]:
        """Shows some memory at every stop."""
        made = self._parser.parse(expression)
        if all(made.expression != each.expression for each in self._watches):
            self._watches.append(made)
        self._changed()
        return self._answer(look)

    @command
    def unwatch(self, expression: str, look: dict[str, Any]) -> dict[str, Any]:
        self._watches = [each for each in self._watches if each.expression != expression]
        self._changed()
        return self._answer(look)

    # What is shown

    def saved(self) -> dict[str, Any]:
        """As Widget.saved; with the moments around the present one, between which the page can step."""
        self._stop_job()

        def watches(focus: Focus) -> list[dict[str, Any]]:
            return [self._read(watch, focus) for watch in self._watches]

        page = super().saved()
        known = self._names, self._jobs.visits, self._common(), watches, self._tables
        page["tensors"] |= saved_moments(self.session, *known)
        return page

    def _answer(self, look: dict[str, Any]) -> dict[str, Any]:
        focus = self._focus(look)
        if not self._names.known:
            self._names = Names.of(self.session, self._jobs.length, self._jobs.complete)
        state = snapshot(self.session, focus, self._names)
        rows: list[list[Any]] = []
        data: list[bytes] = []
        if focus.cta is not None:
            rows, data = registers(self.session, focus.cta.linear, focus.warp, focus.group, self._tables.float_types)
        state["registers"] = {"rows": rows, "bytes": joined(data)}
        state["watches"] = [self._read(watch, focus) for watch in self._watches]
        return {**self._common(), **state}

    def _common(self) -> dict[str, Any]:
        """What is so at every moment, or is about the way here."""
        return {
            "moved": self._moves,
            "sentence": self._jobs.sentence,
            "stoppedBy": self._jobs.stopped_by,
            "length": self._jobs.length,
            "complete": self._jobs.complete,
            "failure": self._jobs.failure,
            "findings": self._found()[0],
            "failed": self.session.fault is not None,
            "sanitized": self.session.sanitized,
            "job": self._jobs.progress,
            "stops": self._stops.rows(),
            "names": self._parser.names(),
            "help": self._parser.help(),
        }

    def _read(self, watch: Watch, focus: Focus) -> dict[str, Any]:
        row = watch.row()
        try:
            values = watch.read(self.session, None if focus.cta is None else focus.cta.linear)
        except SessionError as error:
            return {**row, "error": str(error)}
        found = touched(watch, None if focus.cta is None else focus.cta.linear, self._found()[1])
        return {**row, "bytes": values.reshape(-1), "found": found}

    def _found(self) -> tuple[list[dict[str, Any]], list[Place | None]]:
        """The findings so far, for the page, and their memory; made when there are others."""
        if self._findings is not self._jobs.findings:
            self._findings = self._jobs.findings
            session, shown = self.session, shown_findings(self._findings)
            rows = [finding_row(session, each, self._names, expression(self._parser, session, each)) for each in shown]
            self._found_rows = rows, [Place.of(session, each) for each in shown]
        return self._found_rows

    def _focus(self, look: dict[str, Any]) -> Focus:
        wanted = look.get("cta"), look.get("warp"), int(look.get("group") or 0)
        return Focus(self.session, *wanted, self._jobs.stopped)

    def _bound(self, watch: Watch, look: dict[str, Any]) -> Watch:
        """To stop at shared memory, one must say whose."""
        if watch.space != "shared" or watch.cta is not None:
            return watch
        focus = self._focus(look)
        return watch if focus.cta is None else Watch(**{**vars(watch), "cta": focus.cta.linear})

    def _header(self) -> dict[str, Any]:
        kernel, geometry = self.session.launch.kernel, self.session.launch.geometry
        sizes = [f"grid {_dims(geometry.grid)}", f"block {_dims(geometry.block)}"]
        if geometry.cluster != (1, 1, 1):
            sizes.append(f"cluster {_dims(geometry.cluster)}")
        return {
            "title": "Kernel debugger",
            "subject": f"{readable(kernel.name)}, {', '.join(sizes)}",
            "whole": kernel.name,
            "badge": {
                "text": f"emulated {self.session.device.arch}",
                "title": (
                    "This launch runs on the emulator, on the notebook's own tensors. A position counts executed "
                    "warp-instructions; the order of warps is the emulator's scheduler's, not a GPU's timing."
                ),
            },
        }

    # Moving

    def _is_at(self, position: int, ahead: bool = False) -> bool:
        """Whether the session rests there: another widget of it has gone there, and who has moved it has said so."""
        resting = self._jobs.progress is None and self.session.fault is None
        return resting and not ahead and position == self.session.now

    def _continue(self, look: dict[str, Any]) -> dict[str, Any]:
        with self._heard():
            self._jobs.advance()
        self._changed()
        stopped, pinned = self._jobs.stopped, (look.get("cta"), look.get("warp"))
        yields = self._jobs.ran in RUNS and stopped is not None and None not in pinned and stopped != pinned
        return {**self._answer({} if yields else look), "yields": yields}

    def _stop_job(self) -> None:
        with self._heard():
            self._jobs.halt()

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """While it lasts, what happens to the session is this widget's own doing."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def _changed(self) -> None:
        self._moves += 1
        if not self._answering:
            self.moved = self._moves

    def _receive(self, _: Any, content: Any, buffers: Any) -> None:
        """Sends the answer first: it is what the reader waits for; that something has moved is news for other views."""
        self._answering = True
        try:
            super()._receive(_, content, buffers)
        finally:
            self._answering = False
            self.moved = self._moves

    def _session_moved(self) -> None:
        """Shows what Python does with the session."""
        if not self._busy:
            self._jobs.changed_by_python()
            self._changed()


def _dims(sizes: Sequence[int]) -> str:
    return "×".join(map(str, sizes))
