"""The places at which a launch under control stops; see Session."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from sglab.emulator.conditions import conditions
from sglab.emulator.listeners import Listeners
from sglab.emulator.register_types import float_types
from sglab.emulator.session_log import SessionLog
from sglab.emulator.session_state import CtaName, SessionState, WarpName
from sglab.emulator.state import Breakpoint, Warp
from sglab.gpu import core
from sglab.gpu.errors import SessionError


class SessionBreakpoints:
    """Breakpoints: on instructions, on memory, on the phases of barriers. Each has a number, for `unbreak`.

    The core counts those too that a single move needs; here 1, 2, 3, … are what a reader has set, and those of moves
    have negative numbers.

    Args:
        listeners: are notified when those that are listed have changed.
    """

    def __init__(self, state: SessionState, log: SessionLog, core_session: core.Session, listeners: Listeners) -> None:
        self._state, self._log, self._session, self._listeners = state, log, core_session, listeners
        self._listed: dict[int, Breakpoint] = {}
        self._core: dict[int, int] = {}  # the core's numbers of these
        self._arms: dict[int, Callable[[], int]] = {}
        self._next = 1

    def break_at(
        self,
        line: int | None = None,
        ptx_line: int | None = None,
        warp: WarpName | None = None,
        file: str | None = None,
        opcode: str | None = None,
        cta: CtaName | None = None,
        when: str | None = None,
    ) -> int:
        """Stops before instructions of a source line, of a PTX line, or whose mnemonic starts like `opcode`
        ("bar.", "st.global"). Given several, an instruction must match all. `warp` and `cta` limit it to some warps.

        Args:
            file: where several source files have the line: the end of its path.
            when: only where a lane about to execute it holds such values: "%r5 == 3", "lane < 4 and %f1 == nan".

        Returns:
            a number for `unbreak`.
        """
        pcs = self._state.code.find(line=line, ptx_line=ptx_line, file=file, opcode=opcode)
        source = None if line is None else self._place_of(line, file, pcs)
        at_line = f"{source[0].rsplit('/', 1)[-1]}:{line}" if source else ""
        at_ptx = "" if ptx_line is None else f"PTX line {ptx_line}"
        label = ", ".join(filter(None, (at_line, at_ptx, opcode)))
        return self.break_code(pcs, warp, cta, label=label, source=source, when=when)

    def break_code(
        self,
        pcs: Sequence[int],
        warp: WarpName | None = None,
        cta: CtaName | None = None,
        *,
        label: str = "",
        source: tuple[str, int] | None = None,
        listed: bool = True,
        when: str | None = None,
    ) -> int:
        """Stops before these instructions, given by pc, an index in `code`; see `break_at`.

        Args:
            label, source: how `breakpoints` has it.
            listed: whether it does; else its number is a negative one.
            when: see `break_at`.
        """
        if isinstance(warp, Warp):
            of_cta: int | None = warp.cta.linear
            warp = warp.index
        else:
            of_cta = None if cta is None and warp is None else self._state.index_of(cta, running=False)
        pcs = tuple(_integer("pcs", pc, 0, len(self._state.code) - 1) for pc in pcs)

        held = [] if when is None else conditions(when, self._floats)

        def arm() -> int:
            warps = (-1 if name is None else name for name in (of_cta, warp))
            return self._state.ask(self._session.break_code, pcs, *warps, held)

        if not listed:
            return -arm()
        lines = sorted({self._state.code.rows[pc][0] for pc in pcs})
        label = label or (f"PTX line {lines[0]}" if len(lines) == 1 else f"{len(lines)} PTX lines")
        return self._list(arm, "code", label, pcs=pcs, source=source, cta=of_cta, warp=warp, when=when or "")

    @cached_property
    def _floats(self) -> frozenset[str]:
        """Registers that are numbers to the reader, as widgets show them; compilers declare such as .b32."""
        found = float_types(self._state.code.kernel.statements())
        return frozenset(name for name, kind in found.items() if kind in ("f32", "f64"))

    def watch(
        self,
        memory: Any,
        nbytes: int | None = None,
        access: Literal["write", "read", "any"] = "write",
        cta: CtaName | None = None,
    ) -> int:
        """Stops before instructions that access some memory, and after asynchronous writes to it.

        Args:
            memory: a tensor (global memory), or an offset in the shared memory of `cta`.
            nbytes: 1 or more; of shared memory, 4 unless given; of a tensor, its size.
        """
        if access not in ("write", "read", "any"):
            raise SessionError(f"access must be 'write', 'read' or 'any'; got {access!r}")
        done = {"write": "written", "read": "read", "any": "accessed"}[access]
        wanted = access != "write", access != "read"
        if hasattr(memory, "data_ptr"):
            size = _integer("nbytes", memory.numel() * memory.element_size() if nbytes is None else nbytes, 1)
            begin = memory.data_ptr()
            label = f"{self._name_of(begin)}, {size} bytes, is {done}"
            arm = self._asked("break_watch", "global", begin, size, *wanted, -1)
            return self._list(arm, "watch", label)
        size = _integer("nbytes", 4 if nbytes is None else nbytes, 1)
        offset = _integer("memory", memory, 0, of="a tensor or an offset in shared memory,")
        of_cta = self._state.index_of(cta)
        arm = self._asked("break_watch", "shared", offset, size, *wanted, of_cta)
        return self._list(arm, "watch", f"smem+0x{offset:x}, {size} bytes, is {done}", cta=of_cta)

    def watch_tensor_memory(self, column: int, columns: int = 1, cta: CtaName | None = None) -> int:
        """Stops after every change of some columns of a CTA's tensor memory: by tcgen05.mma, cp, shift, or st at its
        wait. The first allocation is no change."""
        if column < 0 or columns < 1:
            raise SessionError(f"tensor memory has columns 0 to 511; got {columns} columns from {column}")
        index = self._state.index_of(cta)
        label = f"tensor memory, columns {column} to {column + columns - 1}, changes"
        arm = self._asked("break_tensor_watch", column, columns, index)
        return self._list(arm, "watch", label, cta=index)

    def break_phase(
        self,
        barrier: int | None = None,
        mbarrier: int | None = None,
        cta: CtaName | None = None,
        cluster: bool = False,
    ) -> int:
        """Stops after the instruction that ends a phase of a named barrier (0 to 15), of the mbarrier at an offset in
        shared memory, or of the barrier of the CTA's cluster."""
        if (barrier is not None) + (mbarrier is not None) + cluster != 1:
            raise SessionError(
                "give one of barrier=, a number from 0 to 15, mbarrier=, a shared-memory offset, and cluster=True"
            )
        index = self._state.index_of(cta)
        kind, which, name = "mbarrier", mbarrier, f"mbarrier smem+0x{mbarrier or 0:x}"
        if cluster:
            kind, which, name = "cluster", 0, "the cluster's barrier"
        elif barrier is not None:
            kind, which, name = "barrier", barrier, f"barrier {barrier}"
        arm = self._asked("break_barrier", kind, which, index)
        return self._list(arm, "phase", f"a phase of {name} ends", cta=index)

    def move_to(self, state: SessionState, log: SessionLog, core_session: core.Session) -> None:
        """Sets all that are listed in another run of the launch, under the numbers that they have."""
        self._state, self._log, self._session = state, log, core_session
        before, self._listed, self._core = self._listed, {}, {}
        for number, breakpoint in sorted(before.items()):
            with suppress(SessionError):  # its CTA has not started
                self._core[number] = self._arms[number]()
                self._listed[number] = breakpoint

    @property
    def listed(self) -> tuple[Breakpoint, ...]:
        """All that are set, watches too, whether by this notebook's cells or by a widget."""
        return tuple(self._listed.values())

    def unbreak(self, number: int) -> None:
        """Takes a breakpoint or watch away."""
        if not self._session.unbreak(self.core_number(number)):
            numbers = ", ".join(map(str, self._listed)) or "none"
            raise SessionError(f"there is no breakpoint {number}; there are {numbers}")
        self._core.pop(number, None)
        if self._listed.pop(number, None) is not None:
            self._listeners.notify()

    def rebreak(self, breakpoint: Breakpoint) -> int:
        """Sets a breakpoint like this one, which was taken away, perhaps. Returns its number."""
        if breakpoint.number not in self._arms:
            raise SessionError(f"{breakpoint} is none of this session's")
        details = {name: value for name, value in vars(breakpoint).items() if name != "number"}
        return self._list(self._arms[breakpoint.number], **details)

    def renumber(self, number: int, wanted: int) -> None:
        """Gives a breakpoint the number of one that it takes the place of.

        Raises:
            SessionError: there is none of this number, or one of the wanted number.
        """
        if number not in self._listed or wanted in self._listed or not 0 < wanted < self._next:
            raise SessionError(f"breakpoint {number} cannot have the number {wanted}")
        self._core[wanted], self._arms[wanted] = self._core.pop(number), self._arms.pop(number)
        self._listed[wanted] = replace(self._listed.pop(number), number=wanted)
        self._listed = dict(sorted(self._listed.items()))
        if number == self._next - 1:  # made for this alone: the next one has it
            self._next = number
        self._listeners.notify()

    def core_number(self, number: int) -> int:
        """What the core calls a breakpoint; 0: there is none."""
        temporary = 0 if -number in self._core.values() else max(0, -number)
        return self._core.get(number, temporary)

    def number_of(self, core_number: int) -> int | None:
        """The number of one that is listed."""
        return next((number for number, each in self._core.items() if each == core_number), None)

    def _list(self, arm: Callable[[], int], kind: Any, label: str, **details: Any) -> int:
        made, number = arm(), self._next
        self._next += 1
        self._core[number], self._arms[number] = made, arm
        self._listed[number] = Breakpoint(number, kind, label, **details)
        self._listeners.notify()
        return number

    def _asked(self, call: str, *arguments: Any) -> Callable[[], int]:
        """A question of the run that the session is at when it is asked."""
        return lambda: self._state.ask(getattr(self._session, call), *arguments)

    def _place_of(self, line: int, file: str | None, pcs: Sequence[int]) -> tuple[str, int]:
        """The source file of a line, as the line table has it."""
        places = (place for pc in pcs for place in self._state.code.rows[pc][3])
        return next((path, at) for path, at, *_ in places if at == line and path.endswith(file or ""))

    def _name_of(self, address: int) -> str:
        """Of global memory: which argument's, and how far into it."""
        for each in self._state.launch.allocations:
            if each.address <= address < each.address + each.nbytes:
                offset = address - each.address
                name = each.name.partition(",")[0]
                return f"{name}+0x{offset:x}" if offset else name
        return f"gmem+0x{address:x}"

    def break_events(
        self,
        warp: WarpName | None,
        role: str | None,
        barrier: int | None,
        mbarrier: int | None,
        kind: str | None,
        cta: CtaName | None,
    ) -> list[int]:
        """Breakpoints that stop where Session.next_event should, for `temporary`."""
        if barrier is not None and mbarrier is not None:
            raise SessionError("give barrier= or mbarrier=, not both")
        warps = self._chosen_warps(warp, role, cta)
        pcs = self._event_pcs(kind)
        if barrier is None and mbarrier is None:
            return [-self._session.break_code(pcs, of_cta, number) for of_cta, number in warps]
        name, which = ("barrier", barrier) if mbarrier is None else ("mbarrier", mbarrier)
        owner = self._state.index_of(cta)
        pcs = [pc for pc in pcs if self._state.code.effects[pc].act in _BARRIER_ACTS[name]]
        numbers = sorted({number for _, number in warps})
        made = [self._state.ask(self._session.break_use, name, which, pcs, owner, number) for number in numbers]
        if warp is None and role is None and kind is None:
            made.append(self._state.ask(self._session.break_barrier, name, which, owner))
        return [-number for number in made]

    def _event_pcs(self, kind: str | None) -> list[int]:
        by_kind = self._state.code.by_kind
        if kind is not None and (not kind or kind not in by_kind):
            known = ", ".join(sorted(by_kind.keys() - {""}))
            raise SessionError(f"the kernel has no instruction of the kind {kind!r}; it has {known}")
        return by_kind[kind or ""]

    def _chosen_warps(self, warp: WarpName | None, role: str | None, cta: CtaName | None) -> list[tuple[int, int]]:
        """(CTA, warp) pairs; -1 for all."""
        of_cta = -1 if cta is None else self._state.index_of(cta, running=False)
        if warp is not None and role is not None:
            raise SessionError("give warp= or role=, not both")
        if isinstance(warp, Warp):
            return [(warp.cta.linear, warp.index)]
        if warp is not None:
            return [(self._state.index_of(cta, running=False), warp)]
        if role is None:
            return [(of_cta, -1)]
        found = [pair for pair in self._log.roles.warps(role) if of_cta in (-1, pair[0])]
        if not found:
            raise SessionError(f"no warp has the role {role!r}; there are {', '.join(self._log.roles.names)}")
        return found

    @contextmanager
    def temporary(self, breakpoints: list[int]) -> Iterator[None]:
        """Takes these breakpoints away in the end."""
        try:
            yield
        finally:
            for number in breakpoints:
                self.unbreak(number)


def _integer(name: str, value: Any, least: int, most: int | None = None, of: str = "an integer,") -> int:
    try:
        found = operator.index(value)
    except TypeError:
        found = least - 1
    if isinstance(value, bool) or found < least or (most is not None and found > most):
        bounds = f"{least} or more" if most is None else f"{least} to {most}"
        raise SessionError(f"{name}: expected {of} {bounds}; got {value!r}")
    return found


_BARRIER_ACTS = {
    "barrier": ("barrier arrive", "barrier wait"),
    "mbarrier": ("mbarrier", "mbarrier wait"),
}
