"""A launch under control: stepped, run to breakpoints, and taken back to any earlier moment.

A session runs on the emulator, on the user's own tensors: they always hold what the kernel has written up to the
session's position. Positions count executed warp-instructions. Everything repeats exactly, so going back and forward
again passes through the same states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from sglab.emulator.listeners import Listeners
from sglab.emulator.parts import delegates
from sglab.emulator.session_breakpoints import SessionBreakpoints
from sglab.emulator.session_log import SessionLog
from sglab.emulator.session_moves import SessionMoves
from sglab.emulator.session_state import CtaName, SessionState
from sglab.emulator.session_writers import SessionWriters
from sglab.emulator.state import Breakpoint, Cta, Place, Warp
from sglab.events.log import EventLog
from sglab.events.roles import Roles
from sglab.gpu import core
from sglab.gpu.code import Code, Instruction
from sglab.gpu.device import Device, Launch, Stepper
from sglab.gpu.fault import Fault
from sglab.gpu.findings import Finding


class Session:
    """One launch, executed step by step. Made by Kernel.session.

    Its parts: what can be seen at the moment (SessionState), the events of the whole launch (SessionLog), breakpoints
    (SessionBreakpoints), moves (SessionMoves) and who wrote memory (SessionWriters).

    Warps are named by their number in a CTA; the CTA is `focus` unless `cta` says another: a linear index in the
    grid, or its coordinates. Methods that move return a Stop, which says where the session is and why.

    Raises:
        SessionError: what was requested is not there; the message says what is.
        KernelError: the kernel failed; the session stays at the faulty instruction, can be inspected and go back.
    """

    def __init__(
        self,
        launch: Launch,
        device: Device,
        core_session: core.Session,
        sanitizer: core.Sanitizer | None,
        keep: Any,
    ) -> None:
        self.device = device
        self._session, self._keep = core_session, keep
        self._listeners = Listeners()
        self._restarts = 0
        self._state = SessionState(launch, core_session)
        self._log = SessionLog(self._state, core_session, sanitizer)
        self._breakpoints = SessionBreakpoints(self._state, self._log, core_session, self._listeners)
        self._moves = SessionMoves(self._state, self._log, self._breakpoints, core_session, self._listeners)
        self._writers = SessionWriters(self._state, core_session)

    # What can be seen

    @property
    def launch(self) -> Launch:
        """What is being executed."""
        return self._state.launch

    @property
    def code(self) -> Code:
        """The kernel's instructions, with their lines in the PTX and in the source."""
        return self._state.code

    @property
    def now(self) -> int:
        """Warp-instructions executed so far."""
        return self._state.now

    @property
    def moment(self) -> int:
        """Names this very moment for `return_to`. A position is coarser: between two instructions warps take turns and
        begin to wait."""
        return self._state.moment

    @property
    def over(self) -> bool:
        """Whether the launch has ended."""
        return self._state.over

    @property
    def digest(self) -> int:
        """A number that represents the whole state: registers, memories, barriers, operations in flight. It is the same
        whenever the session is at the same moment of the same history."""
        return self._state.digest

    @property
    def output(self) -> str:
        """What the kernel has printed."""
        return self._state.output

    @property
    def last(self) -> Place | None:
        """The instruction executed last, and by whom."""
        return self._state.last

    @property
    def next(self) -> Place | None:
        """The instruction that the scheduler executes next; None between two turns."""
        return self._state.next

    @property
    def focus(self) -> int:
        """The CTA meant where none is named, as a linear index in the grid."""
        return self._state.focus

    @focus.setter
    def focus(self, cta: CtaName) -> None:
        self._state.focus = cta

    @property
    def ctas(self) -> list[Cta]:
        """The CTAs that have started and not finished."""
        return self._state.ctas

    @property
    def warps(self) -> list[Warp]:
        """All warps of the running CTAs."""
        return self._state.warps

    warp = delegates("_state", SessionState.warp)
    registers = delegates("_state", SessionState.registers)
    shared = delegates("_state", SessionState.shared)
    shared_written = delegates("_state", SessionState.shared_written)
    shared_access = delegates("_state", SessionState.shared_access)
    global_access = delegates("_state", SessionState.global_access)
    barriers = delegates("_state", SessionState.barriers)
    mbarriers = delegates("_state", SessionState.mbarriers)
    in_flight = delegates("_state", SessionState.in_flight)
    tensor_memory = delegates("_state", SessionState.tensor_memory)

    @property
    def checkpoints(self) -> tuple[int, int]:
        """How many checkpoints are kept, and about how many bytes they take."""
        return self._state.checkpoints

    @property
    def sanitized(self) -> bool:
        """Whether sanitizers look on; see EmulatedDevice."""
        return self._log.sanitized

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the device's sanitizers have found in the instructions executed so far; see EmulatedDevice."""
        return self._log.findings

    @property
    def fault(self) -> Fault | None:
        """Why the kernel failed, where the session is at the faulty instruction."""
        return self._moves.fault

    # The whole launch

    @property
    def log(self) -> EventLog:
        """The events of the whole launch as it runs on its own, future ones included, whatever warps were chosen
        here; up to the fault if it has one (EventLog.fault). Recorded on first use; the session and the tensors
        stay as they are."""
        return self._log.log

    @property
    def roles(self) -> Roles:
        """What each warp does in the launch, and names for its barriers."""
        return self._log.roles

    @property
    def recorded(self) -> bool:
        """Whether `log` is at hand, without a run."""
        return self._log.recorded

    last_writer = delegates("_writers", SessionWriters.last_writer)
    wgmma = delegates("_writers", SessionWriters.wgmma)
    record = delegates("_log", SessionLog.record)
    tile = delegates("_log", SessionLog.tile)
    operand = delegates("_log", SessionLog.operand)

    # Breakpoints

    @property
    def breakpoints(self) -> tuple[Breakpoint, ...]:
        """All that are set, watches too, whether by this notebook's cells or by a widget."""
        return self._breakpoints.listed

    break_at = delegates("_breakpoints", SessionBreakpoints.break_at)
    break_code = delegates("_breakpoints", SessionBreakpoints.break_code)
    watch = delegates("_breakpoints", SessionBreakpoints.watch)
    watch_tensor_memory = delegates("_breakpoints", SessionBreakpoints.watch_tensor_memory)
    break_phase = delegates("_breakpoints", SessionBreakpoints.break_phase)
    unbreak = delegates("_breakpoints", SessionBreakpoints.unbreak)
    rebreak = delegates("_breakpoints", SessionBreakpoints.rebreak)
    renumber = delegates("_breakpoints", SessionBreakpoints.renumber)

    # Moves

    def restart(self) -> None:
        """Begins the launch again, from its first instruction, on what its tensors hold now.

        Who follows the session, such as its widgets, follows the new run. Breakpoints stay, but for watched memory of
        CTAs that have not started.

        Raises:
            LaunchError: memory that the launch works on was freed; the session stays as it is.
        """
        fresh = cast("Stepper[Session]", self.device).session(self.launch)
        self._session, self._state, self._log = fresh._session, fresh._state, fresh._log
        self._breakpoints.move_to(self._state, self._log, self._session)
        self._moves = SessionMoves(self._state, self._log, self._breakpoints, self._session, self._listeners)
        self._writers = SessionWriters(self._state, self._session)
        self._restarts += 1
        self._listeners.notify()

    @property
    def restarts(self) -> int:
        """How often the launch was begun again."""
        return self._restarts

    on_move = delegates("_listeners", Listeners.on_move)
    quiet = delegates("_listeners", Listeners.quiet)
    step = delegates("_moves", SessionMoves.step)
    step_line = delegates("_moves", SessionMoves.step_line)
    back_line = delegates("_moves", SessionMoves.back_line)
    run = delegates("_moves", SessionMoves.run)
    run_to = delegates("_moves", SessionMoves.run_to)
    run_back = delegates("_moves", SessionMoves.run_back)
    going_back = delegates("_moves", SessionMoves.going_back)
    next_event = delegates("_moves", SessionMoves.next_event)
    previous_event = delegates("_moves", SessionMoves.previous_event)
    seek = delegates("_moves", SessionMoves.seek)
    back = delegates("_moves", SessionMoves.back)
    return_to = delegates("_moves", SessionMoves.return_to)

    def __iter__(self) -> Iterator[Instruction]:
        """Steps to the end; yields each instruction executed."""
        while True:
            stop = self._moves.step()
            if stop.reason != "reached" or stop.at is None:
                return
            yield stop.at.instruction

    def __repr__(self) -> str:
        where = "over" if self.over else f"{len(self.ctas)} CTAs running"
        return f"<Session of {self.launch.kernel.name}: position {self.now}, {where}>"
