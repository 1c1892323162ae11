"""How a launch under control moves; see Session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglab.emulator.listeners import Listeners
from sglab.emulator.session_breakpoints import SessionBreakpoints
from sglab.emulator.session_log import SessionLog
from sglab.emulator.session_state import CtaName, SessionState, WarpName
from sglab.emulator.state import Stop
from sglab.gpu import core
from sglab.gpu.errors import SessionError
from sglab.gpu.fault import Fault, KernelError


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
        self, warp: WarpName | None = None, count: int = 1, cta: CtaName | None = None, limit: int | None = None
    ) -> Stop:
        """Executes warp-instructions: `count` of this warp, or of those the scheduler picks. While the warp waits,
        others run: `limit` instructions in all at most."""
        if warp is None:
            return self._move(self._session.step, _positive("count", count))
        cta_index, number = self._state.indices_of(warp, cta)
        count = _positive("count", count)
        return self._move(self._session.step_warp, cta_index, number, count, *_limit(limit))

    def step_line(self, warp: WarpName, cta: CtaName | None = None) -> Stop:
        """Steps a warp until it is at another source line (or has exited)."""
        cta_index, number = self._state.indices_of(warp, cta)
        start = self._state.source_line(cta_index, number)
        while True:
            stop = self._move(self._session.step_warp, cta_index, number, 1)
            if stop.reason != "reached" or self._state.source_line(cta_index, number) not in (start, None):
                return stop

    def back_line(self, warp: WarpName, cta: CtaName | None = None) -> Stop:
        """Goes back to where a warp reached the source line that it was at before its present one."""
        cta_index, number = self._state.indices_of(warp, cta)
        for _ in range(2):
            line = self._state.source_line(cta_index, number)
            others = [pc for pc in self._state.code.shown if self._state.code.source(pc) not in (line, None)]
            with self._breakpoints.temporary([self._session.break_code(others, cta_index, number)]):
                stop = self.run_back()
            if stop.reason == "start":
                return stop
        return self._move(self._session.step_warp, cta_index, number, 1)

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
        return self._move(self._session.run_back)

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
        cta_index, number = self._state.indices_of(warp, cta)
        with self._breakpoints.temporary(
            [self._breakpoints.break_code(self._state.code.shown, number, cta_index, listed=False)]
        ):
            for _ in range(count):
                stop = self.run_back()
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
            reason, breakpoint = call(*arguments)
        except core.LaunchError as error:
            cast = self._log.cast()
            self.fault = cast.fault(Fault.of(error))
            raise KernelError(cast.annotated(str(error), self.fault.cta), self.fault, self._log.findings) from None
        finally:
            if not self._session.failed:
                self.fault = None
            self._listeners.notify()
        at = self._state.next if reason == "breakpoint" else self._state.last
        return Stop(reason, self._state.now, at or self._state.last, breakpoint or None)


def _limit(limit: int | None) -> tuple[int, ...]:
    return () if limit is None else (_positive("limit", limit),)


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise SessionError(f"{name} must be 1 or more; got {value}")
    return value
