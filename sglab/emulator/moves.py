"""How the debugger moves a session: generators that work in slices, so that nothing long blocks the notebook.

Each yields after a slice and returns the Stop at which it came to rest. All follow the scheduler's own choices, but for
`force`: going back and forward again passes through the same states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from sglab.emulator.session import Session
from sglab.emulator.state import Stop
from sglab.gpu import KernelError
from sglab.gpu.findings import Finding

Moves: TypeAlias = Generator[None, None, Stop]
Name: TypeAlias = tuple[int, int]
"""A warp: linear index of its CTA, number in it."""
Line: TypeAlias = "tuple[str, int] | None"
"""A source file and a line in it, where the PTX knows one."""

FIRST_WINDOW = 4096
SLICE_S = 0.02


@dataclass(frozen=True)
class Reach:
    """How far a launch goes.

    Attributes:
        complete: whether `position` is its end.
        failure: what it ends with, if it fails.
        findings: of the sanitizers.
    """

    position: int
    complete: bool
    findings: tuple[Finding, ...]
    failure: KernelError | None = None


class Slices:
    """How many instructions take about SLICE_S: as many as the last slices did."""

    def __init__(self) -> None:
        self.size = 4096

    def timed(self, move: Callable[[], Stop]) -> Stop:
        begin = time.perf_counter()
        try:
            return move()
        finally:
            took = time.perf_counter() - begin
            if took > 2 * SLICE_S:
                self.size = max(64, self.size // 2)
            elif took < SLICE_S / 2:
                self.size = min(1 << 22, self.size * 2)


class Mover:
    """Moves of one session. After each, and between slices, the session is where its methods say it is.

    Args:
        line_of: the source line of an instruction.
    """

    def __init__(self, session: Session, line_of: Callable[[int], Line]) -> None:
        self.session, self.slices, self._line_of = session, Slices(), line_of

    # Forward

    def run(self) -> Moves:
        """To the next breakpoint, or to the end."""
        while True:
            stop = self.slices.timed(lambda: self.session.run(limit=self.slices.size))
            if stop.reason != "limit":
                return stop
            yield

    def run_to(self, pcs: Sequence[int], warp: Name | None) -> Moves:
        """Until a warp, this one if one is given, is about to execute one of these instructions; or a breakpoint."""
        number = self._break(pcs, warp)
        try:
            return (yield from self.run())
        finally:
            self.session.unbreak(number)

    def step(self) -> Moves:
        """The next instruction, of any warp."""
        return self.session.step()
        yield

    def step_warp(self, warp: Name, pcs: Sequence[int]) -> Moves:
        """Until the warp has executed one more instruction. `pcs`: all of the kernel's."""
        number = self._break(pcs, warp)
        try:
            return (yield from self._advance(warp))
        finally:
            self.session.unbreak(number)

    def step_line(self, warp: Name, pcs: Sequence[int]) -> Moves:
        """Until the warp is at another source line."""
        number = self._break(pcs, warp)
        begin = self._line(warp)
        try:
            while True:
                stop = yield from self._advance(warp)
                ended = stop.reason != "reached" or self.session.over
                if ended or self._line(warp) not in (begin, None):
                    return stop
        finally:
            self.session.unbreak(number)

    def force(self, warp: Name) -> Moves:
        """The warp's next instruction, before all others: what follows becomes another history."""
        while True:
            stop = self.slices.timed(lambda: self.session.step(warp=warp[1], cta=warp[0], limit=self.slices.size))
            if stop.reason != "limit":
                return stop
            yield

    def seek(self, position: int) -> Moves:
        session = self.session
        stop = session.seek(min(position, max(session.now, 0)))
        while session.now < position and stop.reason != "end":
            stop = self.slices.timed(lambda: session.seek(min(position, session.now + self.slices.size)))
            yield
        return stop

    def to_end(self) -> Moves:
        """To the end of the launch, past every breakpoint."""
        while True:
            stop = self.slices.timed(lambda: self.session.step(count=self.slices.size))
            if stop.reason == "end":
                return stop
            yield

    # Back

    def step_back(self) -> Moves:
        return self.session.seek(max(0, self.session.now - 1))
        yield

    def back_to(self, pcs: Sequence[int], warp: Name | None) -> Moves:
        """To the last moment at which the warp, or any, was about to execute one of these instructions."""
        number = self._break(pcs, warp)
        try:
            return (yield from self._previous(lambda lines: len(lines) - 1, self._wanted(pcs, warp)))
        finally:
            self.session.unbreak(number)

    def line_back(self, warp: Name, pcs: Sequence[int]) -> Moves:
        """To the last moment at which the warp had reached a source line from another one."""

        def last_change(lines: list[Line]) -> int | None:
            known = [index for index, line in enumerate(lines) if line is not None]
            changes = [here for before, here in pairwise(known) if lines[before] != lines[here]]
            return changes[-1] if changes else None

        number = self._break(pcs, warp)
        try:
            return (yield from self._previous(last_change, self._wanted(pcs, warp)))
        finally:
            self.session.unbreak(number)

    def run_back(self) -> Moves:
        """To the last moment before now at which a breakpoint stops a run, or to the start."""
        return (yield from self._previous(lambda lines: len(lines) - 1, lambda stop: True))

    def _previous(self, pick: Callable[[list[Line]], int | None], wanted: Callable[[Stop], bool]) -> Moves:
        """Runs again from further and further back, lists the stops before now, and returns to the one picked. If the
        search is given up, the session is back where it began."""
        session = self.session
        origin, end, window = session.moment, session.now, FIRST_WINDOW
        arrived = False
        try:
            while True:
                start = max(0, end - window)
                session.seek(start)
                moments: list[tuple[int, int | None]] = []
                lines: list[Line] = []
                while (stop := self._replay(end)) is not None and session.moment < origin:
                    if stop.reason == "breakpoint" and wanted(stop):
                        moments.append((session.moment, stop.breakpoint))
                        lines.append(self._line_of(stop.at.instruction.pc) if stop.at else None)
                    elif stop.reason == "limit":
                        yield
                picked = pick(lines) if lines else None
                if picked is not None and picked >= 0:
                    arrived = True
                    moment, number = moments[picked]
                    session.return_to(moment)
                    return Stop("breakpoint", session.now, session.next or session.last, number)
                if start == 0:
                    arrived = True
                    return session.seek(0)
                window *= 4
        finally:
            if not arrived:
                self._return(origin)

    def _replay(self, end: int) -> Stop | None:
        """One slice of a run up to `end`; None where the launch ends or fails."""
        session = self.session
        try:
            size = max(1, min(self.slices.size, end - session.now))
            stop = self.slices.timed(lambda: session.run(limit=size))
        except KernelError:
            return None
        return None if stop.reason == "end" else stop

    def _return(self, moment: int) -> None:
        try:
            self.session.return_to(moment)
        except KernelError:
            return  # the session had failed at this moment, and has again

    # The length of the launch

    def measure(self, budget_s: float) -> Reach:
        """Runs ahead, at most this long, and returns to this moment. No follower is notified."""
        session = self.session
        if session.over:
            return Reach(session.now, True, session.findings)
        if session.fault is not None:
            return Reach(session.now, True, session.findings, self._failed_before())
        origin, deadline = session.moment, time.perf_counter() + budget_s
        complete, failure = False, None
        with session.quiet():
            try:
                while not complete and time.perf_counter() < deadline:
                    complete = self.slices.timed(lambda: session.step(count=self.slices.size)).reason == "end"
            except KernelError as error:
                complete, failure = True, error
            finally:
                reached, findings = session.now, session.findings
                session.return_to(origin)
        return Reach(reached, complete, findings, failure)

    def _failed_before(self) -> KernelError | None:
        """What a session that has failed says when it is asked to continue: the same again."""
        try:
            with self.session.quiet():
                self.session.step()
        except KernelError as error:
            return error
        return None

    # Parts

    def _advance(self, warp: Name) -> Moves:
        """Until the warp has executed one more instruction: a breakpoint stops before each of them."""
        session = self.session
        before = session.warp(warp[1], warp[0]).executed
        while True:
            ahead = session.next
            if ahead is not None and (ahead.cta, ahead.warp) == warp:
                stop = session.step()
            else:
                stop = self.slices.timed(lambda: session.run(limit=self.slices.size))
            if stop.reason == "end" or all(cta.linear != warp[0] for cta in session.ctas):
                return stop
            now = session.warp(warp[1], warp[0])
            if now.exited:
                return Stop("exited", session.now, session.last)
            if now.executed > before:
                return Stop("reached", session.now, session.last)
            at = stop.at
            if stop.reason == "breakpoint" and (at is None or (at.cta, at.warp) != warp):
                return stop  # the reader's own
            if stop.reason == "limit":
                yield

    def _line(self, warp: Name) -> Line:
        if all(cta.linear != warp[0] for cta in self.session.ctas):
            return None
        groups = self.session.warp(warp[1], warp[0]).groups
        return self._line_of(groups[0].at.pc) if groups else None

    def _break(self, pcs: Sequence[int], warp: Name | None) -> int:
        if warp is None:
            return self.session.break_code(pcs, listed=False)
        return self.session.break_code(pcs, warp[1], warp[0], listed=False)

    @staticmethod
    def _wanted(pcs: Sequence[int], warp: Name | None) -> Callable[[Stop], bool]:
        """Whether a stop is at one of these instructions, and not at a breakpoint of the reader's."""
        among = set(pcs)

        def wanted(stop: Stop) -> bool:
            at = stop.at
            return at is not None and at.instruction.pc in among and (warp is None or (at.cta, at.warp) == warp)

        return wanted
