"""The move under way, and what is known of the launch from the moves so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sglab.emulator.moves import Mover, Name
from sglab.emulator.session import Session
from sglab.emulator.session_moves import Moves
from sglab.emulator.state import Stop
from sglab.gpu import KernelError, SessionError
from sglab.gpu.findings import Finding

from .code import CodeTables
from .sentences import capitalised, failure, sentence
from .stops import StopPoints

BUDGET_S = 0.04
"""One command's share of a move."""
KEPT_VISITS = 200


class Jobs:
    """At most one move at a time.

    Attributes:
        length: the position up to which the launch is known.
        complete: whether that is its end.
        failure: what the launch ends with, if it is known to fail; see sentences.failure.
        findings: of the sanitizers, up to there.
        visits: the last positions at which moves ended, for saved pages.
        stopped: CTA and warp for which the last move stopped: at a breakpoint, or at the requested instruction.
    """

    def __init__(self, session: Session, code: CodeTables, stops: StopPoints) -> None:
        self._session, self._code, self._stops = session, code, stops
        self._mover = Mover(session, code.line_of)
        self._geometry = session.launch.geometry
        self._job: Moves | None = None
        self._action, self._origin = "", 0
        self._preface, self._ahead = "", False
        self.stopped: Name | None = None
        self._moment = session.moment
        self.length, self.complete = session.now, False
        self.findings: tuple[Finding, ...] = ()
        self._looked_at = 0
        self.failure: dict[str, Any] | None = None
        self.sentence, self.stopped_by = capitalised(sentence(session, None, None, code.line_of)), 0
        self.visits: list[int] = [session.now]

    @property
    def progress(self) -> dict[str, Any] | None:
        """Of the move under way: its action, and from where it started."""
        return None if self._job is None else {"action": self._action, "from": self._origin}

    @property
    def ran(self) -> str:
        """The action of the last move, once it has ended."""
        return "" if self._job is not None else self._action

    def start(self, action: str, warp: Name | None, options: dict[str, Any]) -> None:
        """raises SessionError, ValueError: it cannot be done; nothing has changed"""
        preface = self._settled(options) if action in ("to", "back_to") else ""
        self._job = self._made(action, warp, options)
        self._action, self._origin = action, self._session.now
        self._preface, self._ahead = preface, bool(options.get("ahead"))
        if action == "force":
            self.complete, self.failure, self.findings, self._looked_at = False, None, (), 0

    def stay(self) -> None:
        """Where the session is already, a seek only says what has been executed."""
        self._action, self._preface, self._ahead = "seek", "", False
        self._note(None)

    def advance(self) -> None:
        """Continues the move for a while; to its end, if it gets there."""
        if self._job is None:
            return
        deadline = time.perf_counter() + BUDGET_S
        try:
            next(self._job)
            while time.perf_counter() < deadline:
                next(self._job)
            self._note(None)
            return
        except StopIteration as done:
            self._job = None
            self._note(done.value)
        except KernelError as error:
            self._job = None
            self._failed(error)
        except BaseException:
            self._job = None
            self._note(None)
            raise
        self.visits = [*self.visits, self._session.now][-KEPT_VISITS:]

    def halt(self) -> None:
        """Ends the move where it is; a search backwards ends where it began."""
        if self._job is not None:
            self._job.close()
            self._job = None
            self._note(None)

    def changed_by_python(self) -> None:
        """A cell has moved the session, or only set breakpoints, which a move under way does not mind."""
        if self._session.moment == self._moment:
            return
        if self._job is not None:  # a search would continue from elsewhere
            self._job = None
        self._preface, self._ahead = "", False
        if self._session.now > self.length:
            self.complete = False
        self._note(None)

    def measure(self, seconds: float) -> None:
        """Learns how long the launch is, if it can be found out in this time."""
        if self.complete or self._job is not None:
            return
        reach = self._mover.measure(seconds)
        self.length, self.complete = reach.position, reach.complete
        self.findings, self._looked_at = reach.findings, reach.position
        if reach.failure is not None:
            self.failure = failure(reach.failure, reach.position, self._geometry)

    def _note(self, stop: Any) -> None:
        session = self._session
        self._moment = session.moment
        point = self._stops.of_number(stop.breakpoint) if stop is not None else None
        self.stopped_by = 0 if point is None else point.id
        ahead = session.next if self._ahead and stop is not None and self._job is None else None
        if ahead is not None:  # the reader requested what is about to happen here
            stop = Stop("breakpoint", session.now, ahead)
        at = stop.at if stop is not None and stop.reason == "breakpoint" else None
        self.stopped = None if at is None else (at.cta, at.warp)
        self.sentence = self._preface + capitalised(sentence(session, stop, point, self._code.line_of))
        self._look_for_findings()
        self.length = max(self.length, session.now) if not session.over else session.now
        self.complete = self.complete or session.over

    def _failed(self, error: KernelError) -> None:
        self._moment = self._session.moment
        self.failure = failure(error, self._session.now, self._geometry)
        self._look_for_findings()
        self.length, self.complete = self._session.now, True
        self.sentence, self.stopped_by = f"The kernel failed: {self.failure['kind']}.", 0
        self.stopped = None

    def _look_for_findings(self) -> None:
        """A session knows only its past; what was found further on stays known."""
        if self._session.now >= self._looked_at:
            self.findings, self._looked_at = self._session.findings, self._session.now

    def _made(self, action: str, warp: Name | None, options: dict[str, Any]) -> Moves:
        mover, code = self._mover, self._code
        alone: dict[str, Callable[[], Moves]] = {
            "step": mover.step,
            "back": mover.step_back,
            "run": mover.run,
            "run_back": mover.run_back,
            "event": lambda: mover.run_to(code.pcs_of_events, None),
            "event_back": lambda: mover.back_to(code.pcs_of_events, None),
            "end": mover.to_end,
            "seek": lambda: mover.seek(self._reachable(int(options["position"]))),
            "to": lambda: mover.run_to(self._pcs(options), None),
            "back_to": lambda: mover.back_to(self._pcs(options), None),
        }
        if action in alone:
            return alone[action]()
        last = self._session.last
        if warp is None and last is not None and action.endswith("_back"):
            warp = last.cta, last.warp  # behind the end, the way back begins at the warp that ended it
        if warp is None:
            raise SessionError("no warp is running: go back first")
        of_warp: dict[str, Callable[[], Moves]] = {
            "warp": lambda: mover.step_warp(warp),
            "warp_back": lambda: mover.back_to(code.shown, warp),
            "line": lambda: mover.step_line(warp),
            "line_back": lambda: mover.line_back(warp),
            "warp_event": lambda: mover.run_to(code.pcs_of_events, warp),
            "warp_event_back": lambda: mover.back_to(code.pcs_of_events, warp),
            "write_back": lambda: mover.back_to(self._writers(str(options["register"])), warp),
            "force": lambda: mover.force(warp),
        }
        if not code.paths:  # without lines, every instruction counts as one
            action = {"line": "warp", "line_back": "warp_back"}.get(action, action)
        if action not in of_warp:
            raise ValueError(f"there is no action {action!r}; there are {', '.join([*alone, *of_warp])}")
        return of_warp[action]()

    def _reachable(self, position: int) -> int:
        return min(position, self.length) if self.complete else position

    def _settled(self, options: dict[str, Any]) -> str:
        """Exchanges a line without instructions for the next one that has some, and says so."""
        name, code = "ptx" if "ptx" in options else "line", self._code
        line = int(options[name])
        found = code.ptx_line_with_code(line) if name == "ptx" else code.line_with_code(int(options["file"]), line)
        options[name] = found
        what = "PTX line" if name == "ptx" else "Line"
        return "" if found == line else f"{what} {line} has no instruction; the next that has one is {found}. "

    def _pcs(self, options: dict[str, Any]) -> list[int]:
        if "ptx" in options:
            return self._code.pcs_of_ptx_line(int(options["ptx"]))
        return self._code.pcs_where_line_begins(int(options["file"]), int(options["line"]))

    def _writers(self, register: str) -> list[int]:
        pcs = self._code.pcs_that_write(register)
        if not pcs:
            raise SessionError(f"no instruction of this kernel writes {register}")
        return pcs
