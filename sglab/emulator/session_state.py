"""What can be seen of a launch under control; see Session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sglab.emulator.state import (
    Cta,
    Group,
    InFlight,
    MBarrier,
    MemoryAccess,
    NamedBarrier,
    Place,
    Register,
    TensorMemoryState,
    Warp,
)
from sglab.events.cluster.columns import readable
from sglab.gpu import core
from sglab.gpu.code import Code
from sglab.gpu.device import Launch
from sglab.gpu.errors import SessionError

CtaName = int | Sequence[int] | Cta
WarpName = int | Warp
Answer = TypeVar("Answer")


class SessionState:
    """A launch at one moment: where it is, its warps, barriers and memories; and what names mean in it."""

    def __init__(self, launch: Launch, core_session: core.Session) -> None:
        self.launch, self._session = launch, core_session
        self._focus = 0

    # Where the session is

    @property
    def name(self) -> str:
        """The kernel's, for people."""
        return readable(self.launch.kernel.name)

    @property
    def now(self) -> int:
        """Warp-instructions executed so far."""
        return self._session.now

    @property
    def over(self) -> bool:
        """Whether the launch has ended."""
        return self._session.over

    @property
    def digest(self) -> int:
        """A number that represents the whole state: registers, memories, barriers, operations in flight. It is the same
        whenever the session is at the same moment of the same history."""
        return self._session.digest

    @property
    def output(self) -> str:
        """What the kernel has printed."""
        return self._session.output

    @property
    def last(self) -> Place | None:
        """The instruction executed last, and by whom."""
        return self._place(self._session.last())

    @property
    def next(self) -> Place | None:
        """The instruction that the scheduler executes next; None between two turns."""
        return self._place(self._session.next())

    @property
    def code(self) -> Code:
        """The kernel's instructions, with their lines in the PTX and in the source."""
        return self.launch.kernel.code

    @property
    def moment(self) -> int:
        """Names this very moment for `return_to`. A position is coarser: between two instructions warps take turns and
        begin to wait."""
        return self._session.ticks

    @property
    def focus(self) -> int:
        """The CTA meant where none is named, as a linear index in the grid."""
        return self._focus

    @focus.setter
    def focus(self, cta: CtaName) -> None:
        self._focus = self.index_of(cta, running=False)

    @property
    def ctas(self) -> list[Cta]:
        """The CTAs that have started and not finished."""
        return [Cta(*row) for row in self._session.ctas()]

    @property
    def warps(self) -> list[Warp]:
        """All warps of the running CTAs."""
        return [self._look(cta, index) for cta in self.ctas for index in range(cta.warp_count)]

    def warp(self, warp: WarpName, cta: CtaName | None = None) -> Warp:
        """A warp as it is now: its groups of lanes, where they are and why they wait."""
        cta_index, number = self.indices_of(warp, cta)
        return self._look(self._running(cta_index), number)

    def registers(self, warp: WarpName, group: int = 0, cta: CtaName | None = None) -> dict[str, Register]:
        """The virtual registers, by name, whose values a group of a warp will still read. A register that is not
        listed has no value here: it was not written yet, or is not read again."""
        cta_index, number = self.indices_of(warp, cta)
        rows = self.ask(self._session.registers, cta_index, number, group)
        return {name: Register.read(name, kind, size, data) for name, kind, size, data in rows}

    def shared(self, cta: CtaName | None = None) -> npt.NDArray[np.uint8]:
        """The bytes of a CTA's shared memory as they are now: a read-only view, indexed by address within the CTA. The
        first kilobyte is the system's."""
        return self._session.shared(self.index_of(cta))

    def shared_written(self, cta: CtaName | None = None) -> npt.NDArray[np.bool_]:
        """Which bytes of a CTA's shared memory were written since it started, by whomever, indexed as `shared`. The
        others hold nothing on a GPU; here they are zero."""
        index = self.index_of(cta)
        bits = np.frombuffer(self._session.shared_written(index), np.uint8)
        return np.unpackbits(bits, bitorder="little")[: len(self.shared(index))].astype(bool)

    def shared_access(self, warp: WarpName, group: int = 0, cta: CtaName | None = None) -> MemoryAccess | None:
        """The access to shared memory that a group of a warp is about to make; None if it makes none."""
        row = self._session.access(*self.indices_of(warp, cta), group, True)
        return None if row is None else self._access(row)

    def global_access(self, warp: WarpName, group: int = 0, cta: CtaName | None = None) -> MemoryAccess | None:
        """The same of global memory, where addresses are whole ones."""
        row = self._session.access(*self.indices_of(warp, cta), group, False)
        return None if row is None else self._access(row)

    def _access(self, row: tuple[int, int, int, bool, bool, bool, list[int]]) -> MemoryAccess:
        pc, lanes, nbytes, reads, writes, turns, addresses = row
        return MemoryAccess(self.code[pc], lanes, nbytes, reads, writes, turns, np.array(addresses, np.uint64))

    def barriers(self, cta: CtaName | None = None) -> list[NamedBarrier]:
        """The named barriers that a CTA has used, with who has arrived."""
        rows = self._session.barriers(self.index_of(cta))
        made = (NamedBarrier.read(number, *row) for number, row in enumerate(rows))
        return [barrier for barrier in made if barrier.phase or barrier.arrived]

    def mbarriers(self, cta: CtaName | None = None) -> list[MBarrier]:
        """The live mbarriers of a CTA, in order of initialisation, with who waits for them."""
        found = self._running(self.index_of(cta))
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
        rows = self._session.in_flight(self.index_of(cta))
        return [
            InFlight(kind, issuer, warp, lane, self.code[pc], shared, nbytes, mbarrier, since)
            for kind, issuer, warp, lane, pc, shared, nbytes, mbarrier, since in rows
        ]

    def tensor_memory(self, cta: CtaName | None = None) -> TensorMemoryState | None:
        """A CTA's tensor memory; None if it has not allocated any."""
        found = self._session.tmem(self.index_of(cta))
        return None if found is None else TensorMemoryState.read(*found)

    @property
    def checkpoints(self) -> tuple[int, int]:
        """How many checkpoints are kept, and about how many bytes they take."""
        return self._session.checkpoints

    # Names to numbers

    def index_of(self, cta: CtaName | None, running: bool = True) -> int:
        """The linear index of a CTA: of the one in focus if none is named."""
        geometry = self.launch.geometry
        if cta is None:
            index = self._focus
        elif isinstance(cta, Cta):
            index = cta.linear
        elif isinstance(cta, int):
            index = cta
        else:
            place = (*cta, 0, 0)[:3]
            index = geometry.linear(place) if geometry.holds(place) else -1
        if not 0 <= index < geometry.ctas:
            raise SessionError(f"there is no CTA {cta}: the grid is {geometry.grid}")
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

    def indices_of(self, warp: WarpName, cta: CtaName | None) -> tuple[int, int]:
        """A warp's CTA and its number in it."""
        if isinstance(warp, Warp):
            cta, warp = warp.cta.linear, warp.index
        found = self._running(self.index_of(cta))
        if not 0 <= warp < found.warp_count:
            raise SessionError(f"there is no warp {warp}: CTAs have warps 0 to {found.warp_count - 1}")
        return found.linear, warp

    def names_of(self, warp: WarpName, cta: CtaName | None) -> tuple[int, int]:
        """The same of a warp that need not be running."""
        if isinstance(warp, Warp):
            return warp.cta.linear, warp.index
        return self.index_of(cta, running=False), warp

    def _look(self, cta: Cta, index: int) -> Warp:
        live, executed, rows = self._session.warp(cta.linear, index)
        groups = tuple(
            Group(self.code[pc], mask, wait, key, since, sentence) for pc, mask, wait, key, since, sentence in rows
        )
        return Warp(cta, index, live, executed, groups)

    def _place(self, row: core.Row | None) -> Place | None:
        return None if row is None else Place(row[0], row[1], self.code[row[2]], row[3])

    def ask(self, call: Callable[..., Answer], *arguments: Any) -> Answer:
        """What the core answers; what it refuses is the user's mistake."""
        try:
            return call(*arguments)
        except (ValueError, IndexError) as error:
            raise SessionError(str(error)) from None
