"""A launch under control: stepped, run to breakpoints, and taken back to any earlier moment.

A session runs on the emulator, on the user's own tensors: they always hold what the kernel has written up to the
session's position. Positions count executed warp-instructions. Everything repeats exactly, so going back and forward
again passes through the same states.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from sglab.gpu.code import Code, Instruction
from sglab.gpu.errors import Fault, KernelError, SessionError
from sglab.gpu.findings import Finding, read_findings
from sglab.gpu.state import (
    Cta,
    Group,
    InFlight,
    MBarrier,
    NamedBarrier,
    Place,
    Register,
    Stop,
    TensorMemory,
    Warp,
)

if TYPE_CHECKING:
    from sglab.gpu.device import Launch
    from sglab.gpu.emulated import EmulatedDevice
    from sglab.gpu.events import EventLog

CtaName = int | Sequence[int] | Cta
WarpName = int | Warp


class Session:
    """One launch, executed step by step. Made by Kernel.session.

    Warps are named by their number in a CTA; the CTA is `focus` unless `cta` says another: a linear index in the
    grid, or its coordinates. Methods that move return a Stop, which says where the session is and why.

    raises SessionError: what was asked for is not there; the message says what is
    raises KernelError: the kernel failed; the session stays at the faulty instruction, can be inspected and go back
    """

    def __init__(
        self,
        launch: Launch,
        core_session: Any,
        core_error: type[Exception],
        keep: Any = None,
        sanitizer: Any = None,
        device: EmulatedDevice | None = None,
    ) -> None:
        self.device = device
        self._keep, self._sanitizer = keep, sanitizer
        self._launch, self._session, self._core_error = launch, core_session, core_error
        self.fault: Fault | None = None
        self._focus = 0
        self._listeners: list[Callable[[], None]] = []

    # Where the session is

    @property
    def now(self) -> int:
        """Warp-instructions executed so far."""
        return self._session.now

    @property
    def over(self) -> bool:
        """Whether the launch has ended."""
        return self._session.over

    @property
    def output(self) -> str:
        """What the kernel has printed."""
        return self._session.output

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the device's sanitizers have found in the instructions executed so far; see EmulatedDevice."""
        if self._sanitizer is None:
            return ()
        return read_findings(self._sanitizer, self._launch, self.now + self._session.failed)

    @property
    def last(self) -> Place | None:
        """The instruction executed last, and by whom."""
        return self._place(self._session.last())

    @property
    def next(self) -> Place | None:
        """The instruction that the scheduler executes next; None between two turns."""
        return self._place(self._session.next())

    @property
    def launch(self) -> Launch:
        """What is being executed."""
        return self._launch

    @property
    def code(self) -> Code:
        """The kernel's instructions, with their lines in the PTX and in the source."""
        return self._launch.kernel.code

    @property
    def moment(self) -> int:
        """Names this very moment for `return_to`. A position is coarser: between two instructions warps take turns and
        begin to wait."""
        return self._session.ticks

    def on_move(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever the session has moved, until the function that this returns is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    # Moving

    def step(
        self, warp: WarpName | None = None, count: int = 1, cta: CtaName | None = None, limit: int | None = None
    ) -> Stop:
        """Executes warp-instructions: `count` of this warp, or of whichever the scheduler picks. While the warp waits,
        others run: `limit` instructions in all at most."""
        if warp is None:
            return self._move(self._session.step, _positive("count", count))
        cta_index, number = self._warp(warp, cta)
        count = _positive("count", count)
        return self._move(self._session.step_warp, cta_index, number, count, *_limit(limit))

    def step_line(self, warp: WarpName, cta: CtaName | None = None) -> Stop:
        """Steps a warp until it stands at another source line (or has exited)."""
        cta_index, number = self._warp(warp, cta)
        start = self._source(cta_index, number)
        while True:
            stop = self._move(self._session.step_warp, cta_index, number, 1)
            if stop.reason != "reached" or self._source(cta_index, number) not in (start, None):
                return stop

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
        number = self.break_at(line, ptx_line, warp, file, opcode, cta)
        try:
            return self.run()
        finally:
            self.unbreak(number)

    def seek(self, position: int) -> Stop:
        """Goes to a position, back or forth."""
        if position < 0:
            raise SessionError(f"a position is 0 or more; got {position}")
        stop = self._move(self._session.seek, position)
        if stop.reason == "end" and self.now < position:
            raise SessionError(f"the launch ends at position {self.now}; got {position}")
        return stop

    def back(self, count: int = 1) -> Stop:
        """Goes back by `count` warp-instructions, at most to the start."""
        return self.seek(max(0, self.now - _positive("count", count)))

    def return_to(self, moment: int) -> Stop:
        """Goes to a moment at which the session was before, exactly; see `moment`. After another warp was stepped than
        then, later moments are others."""
        return self._move(self._session.return_to, moment)

    def record(self) -> EventLog:
        """The events of the whole launch, in the scheduler's own order from the start; see EventLog. Afterwards the
        session and its tensors are what they were.

        raises KernelError: the kernel fails
        """
        if self.device is None:
            raise SessionError("this session cannot be recorded: it was not made by an EmulatedDevice")
        moment, spans = self.moment, self._launch.allocations
        self.seek(0)
        kept = [ctypes.string_at(span.address, span.nbytes) for span in spans]
        try:
            return self.device.record(self._launch)
        finally:
            for span, data in zip(spans, kept, strict=True):
                ctypes.memmove(span.address, data, span.nbytes)
            self.return_to(moment)

    # Breakpoints

    def break_at(
        self,
        line: int | None = None,
        ptx_line: int | None = None,
        warp: WarpName | None = None,
        file: str | None = None,
        opcode: str | None = None,
        cta: CtaName | None = None,
    ) -> int:
        """Stops in front of instructions of a source line, of a PTX line, or whose mnemonic starts like `opcode`
        ("bar.", "st.global"). Given several, an instruction must match all. `warp` and `cta` limit it to some warps.

        file: where several source files have the line: the end of its path
        returns: a number for `unbreak`
        """
        return self.break_code(self.code.find(line=line, ptx_line=ptx_line, file=file, opcode=opcode), warp, cta)

    def break_code(self, pcs: Sequence[int], warp: WarpName | None = None, cta: CtaName | None = None) -> int:
        """Stops in front of these instructions, given by pc; see `break_at`."""
        if warp is None:
            return self._session.break_code(pcs, -1 if cta is None else self._cta(cta, running=False), -1)
        if isinstance(warp, Warp):
            return self._session.break_code(pcs, warp.cta.linear, warp.index)
        return self._session.break_code(pcs, self._cta(cta, running=False), warp)

    def watch(
        self,
        memory: Any,
        nbytes: int | None = None,
        access: Literal["write", "read", "any"] = "write",
        cta: CtaName | None = None,
    ) -> int:
        """Stops in front of instructions that access some memory, and behind asynchronous writes to it.

        memory: a tensor (global memory), or an offset in the shared memory of `cta`
        nbytes: of shared memory, 4 unless given; of a tensor, its size
        """
        if access not in ("write", "read", "any"):
            raise SessionError(f"access must be 'write', 'read' or 'any'; got {access!r}")
        reads, writes = access != "write", access != "read"
        if hasattr(memory, "data_ptr"):
            size = memory.numel() * memory.element_size() if nbytes is None else nbytes
            return self._ask(self._session.break_watch, "global", memory.data_ptr(), size, reads, writes, -1)
        index = self._cta(cta)
        return self._ask(self._session.break_watch, "shared", int(memory), nbytes or 4, reads, writes, index)

    def break_phase(self, barrier: int | None = None, mbarrier: int | None = None, cta: CtaName | None = None) -> int:
        """Stops behind the instruction that ends a phase of a named barrier (0 to 15), or of the mbarrier at an offset
        in shared memory."""
        if (barrier is None) == (mbarrier is None):
            raise SessionError("give either barrier=, a number from 0 to 15, or mbarrier=, a shared-memory offset")
        if barrier is not None:
            return self._ask(self._session.break_barrier, "barrier", barrier, self._cta(cta))
        return self._ask(self._session.break_barrier, "mbarrier", mbarrier, self._cta(cta))

    def unbreak(self, number: int) -> None:
        """Takes a breakpoint or watch away."""
        if not self._session.unbreak(number):
            raise SessionError(f"there is no breakpoint {number}")

    # Looking

    @property
    def focus(self) -> int:
        """The CTA meant where none is named, as a linear index in the grid."""
        return self._focus

    @focus.setter
    def focus(self, cta: CtaName) -> None:
        self._focus = self._cta(cta, running=False)

    @property
    def ctas(self) -> list[Cta]:
        """The CTAs that have started and not finished."""
        return [Cta(*row) for row in self._session.ctas()]

    @property
    def warps(self) -> list[Warp]:
        """All warps of the running CTAs."""
        return [self._look(cta, index) for cta in self.ctas for index in range(cta.warp_count)]

    def warp(self, warp: WarpName, cta: CtaName | None = None) -> Warp:
        """A warp as it is now: its groups of lanes, where they stand and why they wait."""
        cta_index, number = self._warp(warp, cta)
        return self._look(self._running(cta_index), number)

    def registers(self, warp: WarpName, group: int = 0, cta: CtaName | None = None) -> dict[str, Register]:
        """The virtual registers, by name, whose values a group of a warp will still read. A register that is not
        listed has no value here: it was not written yet, or is read no more."""
        cta_index, number = self._warp(warp, cta)
        rows = self._ask(self._session.registers, cta_index, number, group)
        return {name: Register.read(name, kind, size, data) for name, kind, size, data in rows}

    def shared(self, cta: CtaName | None = None) -> npt.NDArray[np.uint8]:
        """The bytes of a CTA's shared memory as they are now: a read-only view, indexed by address within the CTA. The
        first kilobyte is the system's."""
        array: npt.NDArray[np.uint8] = self._session.shared(self._cta(cta))
        return array

    def barriers(self, cta: CtaName | None = None) -> list[NamedBarrier]:
        """The named barriers that a CTA has used, with who has arrived."""
        rows = self._session.barriers(self._cta(cta))
        made = (NamedBarrier.read(number, *row) for number, row in enumerate(rows))
        return [barrier for barrier in made if barrier.phase or barrier.arrived]

    def mbarriers(self, cta: CtaName | None = None) -> list[MBarrier]:
        """The live mbarriers of a CTA, in order of initialisation, with who waits for them."""
        found = self._running(self._cta(cta))
        waiting: dict[int, list[tuple[int, int, int | None]]] = {}
        for warp in self.warps:
            for group in warp.groups:
                if group.wait == "mbarrier" and warp.cta.cluster == found.cluster:
                    waiting.setdefault(group.key, []).append((warp.cta.linear, warp.index, group.since))
        return [
            MBarrier(offset, pending, expected, tx, phase, tuple(waiting.get(found.rank << 24 | offset, ())))
            for offset, pending, expected, tx, phase in self._session.mbarriers(found.linear)
        ]

    def in_flight(self, cta: CtaName | None = None) -> list[InFlight]:
        """Asynchronous operations of a CTA's cluster that were issued and not carried out yet. They are carried out as
        late as the programming model allows."""
        rows = self._session.in_flight(self._cta(cta))
        return [
            InFlight(kind, issuer, warp, lane, self.code[pc], shared, nbytes, mbarrier)
            for kind, issuer, warp, lane, pc, shared, nbytes, mbarrier in rows
        ]

    def tensor_memory(self, cta: CtaName | None = None) -> TensorMemory | None:
        """A CTA's tensor memory; None if it has not allocated any."""
        found = self._session.tmem(self._cta(cta))
        return None if found is None else TensorMemory(found[0], np.asarray(found[1]))

    @property
    def checkpoints(self) -> tuple[int, int]:
        """How many checkpoints are kept, and about how many bytes they take."""
        count, size = self._session.checkpoints
        return count, size

    def __repr__(self) -> str:
        where = "over" if self.over else f"{len(self.ctas)} CTAs running"
        return f"<Session of {self._launch.kernel.name}: position {self.now}, {where}>"

    # Names to numbers

    def _cta(self, cta: CtaName | None, running: bool = True) -> int:
        grid = self._launch.geometry.grid
        if cta is None:
            index = self._focus
        elif isinstance(cta, Cta):
            index = cta.linear
        elif isinstance(cta, int):
            index = cta
        else:
            x, y, z = (*cta, 0, 0)[:3]
            inside = 0 <= x < grid[0] and 0 <= y < grid[1] and 0 <= z < grid[2]
            index = x + grid[0] * (y + grid[1] * z) if inside else -1
        if not 0 <= index < grid[0] * grid[1] * grid[2]:
            raise SessionError(f"there is no CTA {cta}: the grid is {grid}")
        if running:
            self._running(index)
        return index

    def _running(self, index: int) -> Cta:
        running = self.ctas
        for cta in running:
            if cta.linear == index:
                return cta
        if not running:
            raise SessionError("the launch is over; go back() or seek() to look at it")
        listed = ", ".join(str(cta.linear) for cta in running[:8]) + (", …" if len(running) > 8 else "")
        raise SessionError(f"CTA {index} has not started or has finished; running: {listed}")

    def _warp(self, warp: WarpName, cta: CtaName | None) -> tuple[int, int]:
        if isinstance(warp, Warp):
            cta, warp = warp.cta.linear, warp.index
        found = self._running(self._cta(cta))
        if not 0 <= warp < found.warp_count:
            raise SessionError(f"there is no warp {warp}: CTAs have warps 0 to {found.warp_count - 1}")
        return found.linear, warp

    def _look(self, cta: Cta, index: int) -> Warp:
        live, executed, rows = self._session.warp(cta.linear, index)
        groups = tuple(
            Group(self.code[pc], mask, wait, key, since, sentence) for pc, mask, wait, key, since, sentence in rows
        )
        return Warp(cta, index, live, executed, groups)

    def _source(self, cta: int, warp: int) -> tuple[str, int] | None:
        """The line at which a warp's foremost group stands; None where it has none."""
        if not any(running.linear == cta for running in self.ctas):
            return None
        groups = self._look(self._running(cta), warp).groups
        return groups[0].at.source if groups else None

    def _place(self, row: Any) -> Place | None:
        return None if row is None else Place(row[0], row[1], self.code[row[2]], row[3])

    def _move(self, call: Any, *arguments: Any) -> Stop:
        try:
            reason, breakpoint = call(*arguments)
        except self._core_error as error:
            self.fault = Fault.of(error)
            raise KernelError(str(error), self.fault, self.findings) from None
        finally:
            if not self._session.failed:
                self.fault = None
            for listener in [*self._listeners]:
                listener()
        at = self.next if reason == "breakpoint" else self.last
        return Stop(reason, self.now, at or self.last, breakpoint or None)

    def _ask(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except (ValueError, IndexError) as error:
            raise SessionError(str(error)) from None

    def __iter__(self) -> Iterator[Instruction]:
        """Steps to the end; yields each instruction executed."""
        while True:
            stop = self.step()
            if stop.reason != "reached" or stop.at is None:
                return
            yield stop.at.instruction


def _limit(limit: int | None) -> tuple[int, ...]:
    return () if limit is None else (_positive("limit", limit),)


def _positive(name: str, value: int) -> int:
    if value < 1:
        raise SessionError(f"{name} must be 1 or more; got {value}")
    return value
