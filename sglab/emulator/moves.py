"""Moves of a session in slices of some milliseconds, so that nothing long blocks a notebook.

Each is a method of the session, called with a limit again and again: it yields after a slice and returns the Stop at
which it came to rest. All follow the scheduler's own choices, but for `force`: going back and forward again passes
through the same states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from sglab.emulator.session import Session
from sglab.emulator.session_moves import Moves
from sglab.emulator.state import Stop
from sglab.gpu import KernelError
from sglab.gpu.code import numbered_lines
from sglab.gpu.findings import Finding

Name: TypeAlias = tuple[int, int]
"""A warp: linear index of its CTA, number in it."""
Line: TypeAlias = "tuple[str, int] | None"
"""A source file and a line in it, where the PTX knows one."""

Answer = TypeVar("Answer")

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

    def timed(self, move: Callable[[], Answer]) -> Answer:
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
        line_of: what counts as the source line of an instruction.
    """

    def __init__(self, session: Session, line_of: Callable[[int], Line]) -> None:
        self.session, self.slices = session, Slices()
        self._lines = numbered_lines([line_of(pc) for pc in range(len(session.code))])

    # Forward

    def run(self) -> Moves:
        """To the next breakpoint, or to the end."""
        return self._sliced(lambda limit: self.session.run(limit=limit))

    def run_to(self, pcs: Sequence[int], warp: Name | None) -> Moves:
        """Until a warp, this one if one is given, is about to execute one of these instructions; or a breakpoint."""
        cta, number = warp or (None, None)
        breakpoint = self.session.break_code(pcs, number, cta, listed=False)
        try:
            return (yield from self.run())
        finally:
            self.session.unbreak(breakpoint)

    def step(self) -> Moves:
        """The next instruction, of any warp."""
        return self.session.step()
        yield

    def step_warp(self, warp: Name) -> Moves:
        """Until the warp has executed one more instruction."""
        cta, number = warp
        return self._sliced(lambda limit: self.session.step(number, cta=cta, limit=limit, in_turn=True))

    def step_line(self, warp: Name) -> Moves:
        """Until the warp has come to another source line."""
        cta, number = warp
        return self._sliced(lambda limit: self.session.step_line(number, cta, limit, self._lines))

    def force(self, warp: Name) -> Moves:
        """The warp's next instruction, ahead of all others: what follows becomes another history."""
        cta, number = warp
        return self._sliced(lambda limit: self.session.step(number, cta=cta, limit=limit))

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
        cta, number = warp or (None, None)
        return self._back(self.session.going_back(pcs, number, cta, limit=self._size))

    def line_back(self, warp: Name) -> Moves:
        """To the last moment at which the warp had come to a source line from another one."""
        cta, number = warp
        return self._back(self.session.going_back(None, number, cta, self._lines, self._size))

    def run_back(self) -> Moves:
        """To the last moment before now at which a breakpoint stops a run, or to the start."""
        return self._back(self.session.going_back(limit=self._size))

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

    def _size(self) -> int:
        return self.slices.size

    def _back(self, moves: Moves) -> Moves:
        try:
            while True:
                try:
                    self.slices.timed(lambda: next(moves))
                except StopIteration as done:
                    return done.value
                yield
        finally:
            moves.close()

    def _sliced(self, move: Callable[[int], Stop]) -> Moves:
        while True:
            stop = self.slices.timed(lambda: move(self.slices.size))
            if stop.reason != "limit":
                return stop
            yield
