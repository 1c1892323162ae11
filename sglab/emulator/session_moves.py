"""How a launch under control moves; see Session."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from sglab.emulator.listeners import Listeners
from sglab.emulator.session_breakpoints import SessionBreakpoints
from sglab.emulator.session_log import SessionLog
from sglab.emulator.session_state import CtaName, SessionState, WarpName
from sglab.emulator.state import Stop
from sglab.gpu import core
from sglab.gpu.errors import SessionError
from sglab.gpu.fault import Fault, KernelError
from sglab.gpu.progress import Watched

Moves: TypeAlias = Generator[None, None, Stop]
"""A move in slices: yields after each and returns where it came to rest."""


class SessionMoves:
    """Steps, runs and ways back. Each returns a Stop, and leaves the session at a moment that it can reach again.

    Args:
        listeners: are notified of every move.
    """

    def __init__(
        self,
        state: SessionState,
        log: SessionLog,
        breakpoints: SessionBreakpoints,
        core_session: core.Session,
        listeners: Listeners,
    ) -> None:
        self._state, self._log, self._breakpoints, self._session = state, log, breakpoints, core_session
        self._listeners = listeners
        self.fault: Fault | None = None

    def step(
        self,
        warp: WarpName | None = None,
        count: int = 1,
        cta: CtaName | None = None,
        limit: int | None = None,
        in_turn: bool = False,
    ) -> Stop:
        """Executes warp-instructions: `count` of this warp, or of whichever the scheduler picks.

        Args:
            limit: instructions in all at most.
            in_turn: The warp waits for its turn: others run as the scheduler has them, and breakpoints stop it.
                Otherwise it goes ahead of all others, which run only while it cannot; what follows may be another
                history than the launch's own.
        """
        count = _positive("count", count)
        if warp is None:
            return self._move(self._session.step, count)
        cta_index, number = self._state.indices_of(warp, cta)
        if not in_turn:
            return self._move(self._session.step_warp, cta_index, number, count, *_limit(limit))
        for _ in range(count):
            stop = self._move(self._session.follow, cta_index, number, [], *_limit(limit))
            if stop.reason != "reached":
                break
        return stop

    def step_line(
        self,
        warp: WarpName,
        cta: CtaName | None = None,
        limit: int | None = None,
        lines: Sequence[int] | None = None,
    ) -> Stop:
        """Runs until a warp has come to another source line (or has exited). It waits for its turn, so the launch goes
        as it would by itself; breakpoints stop it, too.

        Args:
            limit: instructions in all at most.
            lines: what counts as a line, by pc, see gpu.code.numbered_lines; the innermost source line.
        """
        cta_index, number = self._state.indices_of(warp, cta)
        lines = self._state.code.line_numbers if lines is None else lines
        return self._move(self._session.follow, cta_index, number, lines, *_limit(limit))

    def back_line(self, warp: WarpName, cta: CtaName | None = None) -> Stop:
        """Goes back to where a warp last came to a source line: the way back of `step_line`."""
        return _drained(self.going_back(warp=warp, cta=cta, lines=self._state.code.line_numbers))

    def run(self, limit: int | None = None) -> Stop:
        """Runs to the next breakpoint, or to the end, or until `limit` instructions were executed."""
        return self._move(self._session.run, *_limit(limit))

    def run_to(
        self,
        line: int | None = None,
        ptx_line: int | None = None,
        warp: WarpName | None = None,
        file: str | None = None,
        opcode: str | None = None,
        cta: CtaName | None = None,
    ) -> Stop:
        """Runs until a warp is about to execute such an instruction; see `break_at`. Breakpoints stop it, too."""
        pcs = self._state.code.find(line=line, ptx_line=ptx_line, file=file, opcode=opcode)
        with self._breakpoints.temporary([self._breakpoints.break_code(pcs, warp, cta, listed=False)]):
            return self.run()

    def run_back(self) -> Stop:
        """Goes back to the last moment at which `run` would have stopped at a breakpoint, or to the start."""
        return _drained(self.going_back())

    def going_back(
        self,
        pcs: Sequence[int] | None = None,
        warp: WarpName | None = None,
        cta: CtaName | None = None,
        lines: Sequence[int] | None = None,
        limit: Callable[[], int] | None = None,
    ) -> Moves:
        """A way back in slices, for those who must not block: yields between them. If it is given up, the session
        is back where it began.

        Args:
            pcs: To the last moment at which the warp, or any, was about to execute one of these instructions;
                breakpoints do not stop it.
            lines: To where the warp last came to another of these lines; see `step_line`.
            limit: How many instructions the next slice may repeat.
        """
        if lines is not None and warp is not None:
            of_cta, number = self._state.names_of(warp, cta)
            search = core.BackSearch.to_arrival(self._session, of_cta, number, lines)
            return (yield from self._search(search, limit))
        elif pcs is None:
            return (yield from self._search(core.BackSearch.to_breakpoint(self._session, 0), limit))
        else:
            number = self._breakpoints.break_code(pcs, warp, cta, listed=False)
            with self._breakpoints.temporary([number]):
                search = core.BackSearch.to_breakpoint(self._session, self._breakpoints.core_number(number))
                return (yield from self._search(search, limit))

    def _search(self, search: core.BackSearch, limit: Callable[[], int] | None) -> Moves:
        origin, arrived = self._state.moment, False
        try:
            while True:
                with self._listeners.quiet():
                    stop = self._move(search.look, *(() if limit is None else (limit(),)))
                if stop.reason != "limit":
                    arrived = True
                    return stop
                yield
        finally:
            if not arrived:
                with self._listeners.quiet(), suppress(KernelError):  # it may have failed at this moment
                    self.return_to(origin)
            self._listeners.notify()

    def next_event(
        self,
        warp: WarpName | None = None,
        role: str | None = None,
        barrier: int | None = None,
        mbarrier: int | None = None,
        kind: str | None = None,
        cta: CtaName | None = None,
        limit: int | None = None,
    ) -> Stop:
        """Runs until something happens that is more than computing: a warp is about to execute an instruction of a kind
        in sglab.gpu.event_kinds.KINDS, or a barrier's phase has ended. Breakpoints stop it, too.

        Args:
            warp, role: only of this warp, or of warps with this role (see `roles`), of `cta` or of all CTAs.
            barrier, mbarrier: only on this named barrier (0 to 15), or the mbarrier at this shared-memory offset, of
                `cta`; without a warp and a kind, the ends of its phases, too.
            kind: only of this kind, or instructions of a class (see Instruction.kind).
            limit: executes at most so many instructions.
        """
        with self._breakpoints.temporary(self._breakpoints.break_events(warp, role, barrier, mbarrier, kind, cta)):
            return self.run(limit)

    def previous_event(
        self,
        warp: WarpName | None = None,
        role: str | None = None,
        barrier: int | None = None,
        mbarrier: int | None = None,
        kind: str | None = None,
        cta: CtaName | None = None,
    ) -> Stop:
        """The same backwards; at the start of the launch if there was none."""
        with self._breakpoints.temporary(self._breakpoints.break_events(warp, role, barrier, mbarrier, kind, cta)):
            return self.run_back()

    def seek(self, position: int) -> Stop:
        """Goes to a position, back or forth."""
        if position < 0:
            raise SessionError(f"a position is 0 or more; got {position}")
        stop = self._move(self._session.seek, position)
        if stop.reason == "end" and self._state.now < position:
            raise SessionError(f"the launch ends at position {self._state.now}; got {position}")
        return stop

    def back(self, count: int = 1, warp: WarpName | None = None, cta: CtaName | None = None) -> Stop:
        """Goes back by `count` warp-instructions, of all warps or of one, at most to the start."""
        _positive("count", count)
        if warp is None:
            return self.seek(max(0, self._state.now - count))
        for _ in range(count):
            stop = _drained(self.going_back(self._state.code.shown, warp, cta))
            if stop.reason == "start":
                break
        return stop

    def return_to(self, moment: int) -> Stop:
        """Goes to a moment at which the session was before, exactly; see `moment`. After another warp was stepped than
        then, later moments are others."""
        return self._move(self._session.return_to, moment)

    def _move(self, call: Callable[..., core.Stop], *arguments: Any) -> Stop:
        self._state.launch.check_memory()
        try:
            with Watched(self._state.name):
                reason, breakpoint = call(*arguments)
        except core.LaunchError as error:
            cast = self._log.cast()
            self.fault = cast.fault(Fault.of(error))
            message = self._state.code.with_own_lines(cast.annotated(str(error), self.fault.cta))
            message = message.replace(self._state.launch.kernel.name, self._state.name)
            raise KernelError(message, self.fault, self._log.findings) from None
        finally:
            if not self._session.failed:
                self.fault = None
            self._listeners.notify()
        at = self._state.next if reason == "breakpoint" else self._state.last
        return Stop(reason, self._state.now, at or self._state.last, self._breakpoints.number_of(breakpoint))


def _drained(moves: Moves) -> Stop:
    """Where a way in slices leads."""
    while True:
        try:
            next(moves)
        except StopIteration as done:
            return done.value


def _limit(limit: int | None) -> tuple[int, ...]:
    return () if limit is None else (_positive("limit", limit),)


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise SessionError(f"{name} must be 1 or more; got {value}")
    return value
