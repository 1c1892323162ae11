"""The whole of a launch under control, and what its shared memory means; see Session."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from sglab.emulator.sanitizers import read_findings
from sglab.emulator.session_state import CtaName, SessionState
from sglab.events.cast import Cast, LogCast, TallyCast
from sglab.events.log import EventLog
from sglab.events.roles import Roles
from sglab.events.tables import ELEMENT_TYPES, MMA_KINDS, MMA_SPACES, TensorMapInfo
from sglab.events.tile import Tile, box_offsets, operand_offsets, read_tile
from sglab.gpu import core
from sglab.gpu.errors import SessionError
from sglab.gpu.fault import KernelError
from sglab.gpu.findings import Finding
from sglab.gpu.progress import Watched


class SessionLog:
    """The events of the whole launch, what they show of warps and barriers, and tiles of shared memory."""

    def __init__(self, state: SessionState, core_session: core.Session, sanitizer: core.Sanitizer | None) -> None:
        self._state, self._session, self._sanitizer = state, core_session, sanitizer

    @cached_property
    def log(self) -> EventLog:
        """The events of the whole launch as it runs on its own, future ones included, whatever warps were chosen
        here; up to the fault if it has one (EventLog.fault). Recorded on first use; the session and the tensors
        stay as they are."""
        self._state.launch.check_memory()
        with Watched(self._state.name):
            report, columns, fault = self._session.record()
        launch = self._state.launch
        code, geometry, fault = self._state.code, launch.geometry, self._state.code.with_own_lines(fault)
        return EventLog(launch.kernel.name, geometry, code, report, columns, fault, launch.allocations_as_given)

    def record(self) -> EventLog:
        """The same.

        Raises:
            KernelError: the kernel fails.
        """
        if self.log.fault:
            raise KernelError(self.log.fault)
        return self.log

    @property
    def roles(self) -> Roles:
        """What each warp does in the launch, and names for its barriers."""
        return self.log.roles

    @property
    def sanitized(self) -> bool:
        """Whether sanitizers look on."""
        return self._sanitizer is not None

    @property
    def recorded(self) -> bool:
        """Whether `log` is at hand, without a run."""
        return "log" in self.__dict__

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the device's sanitizers have found in the instructions executed so far."""
        if self._sanitizer is None:
            return ()
        executed = self._session.now + self._session.failed
        return read_findings(self._sanitizer, self._state.launch, executed, self.cast())

    def cast(self) -> Cast:
        """Roles and names: from the whole launch if it is known already, else from what was executed so far."""
        launch = self._state.launch
        return LogCast(launch, self.log) if "log" in vars(self) else TallyCast(launch, self._session.tally())

    def tile(
        self,
        what: TensorMapInfo | int,
        shared: int | None = None,
        rows: int | None = None,
        k: int | None = None,
        element: str = "f16",
        major: Literal["K", "MN"] = "K",
        instruction: Literal["tcgen05", "wgmma"] = "tcgen05",
        cta: CtaName | None = None,
    ) -> Tile:
        """A tile of shared memory with the swizzle undone.

        Args:
            what: a tensor map (one of log.maps), whose box is at the offset `shared`; or the 64-bit descriptor of a
                matrix operand of `instruction`, with this many `rows` (M of A, N of B) and elements along K of type
                `element`.
        """
        index = self._state.index_of(cta)
        if isinstance(what, TensorMapInfo):
            if shared is None:
                raise SessionError("tile: a tensor map's box needs shared=, its offset in shared memory")
            return read_tile(self._state.shared(index), box_offsets(what, shared & 0xFFFFFF), what.element)
        if rows is None or k is None:
            raise SessionError("tile: a descriptor needs rows= and k=, the operand's size in elements")
        offsets = operand_offsets(what, rows, k, element, major, instruction)
        return read_tile(self._state.shared(index), offsets, element)

    def operand(self, row: int, which: Literal["a", "b"], cta: CtaName | None = None) -> Tile:
        """A matrix operand of the multiplication in this row of log.mmas, as stored in shared memory now, by (M or N,
        K). Of a CTA pair's, the half that the issuing CTA (or `cta`) has."""
        mmas = self.log.mmas
        if not 0 <= row < len(mmas.event):
            raise SessionError(f"log.mmas has {len(mmas.event)} rows; got {row}")
        kind, space = MMA_KINDS[mmas.kind[row]], MMA_SPACES[mmas.a_space[row]]
        if kind == "mma.sync" or (which == "a" and space != "shared"):
            raise SessionError(f"operand {which} of this {kind} is not in shared memory but in {space}")
        sizes, types, majors, bits = {
            "a": (mmas.m, mmas.a_type, mmas.a_major, mmas.a),
            "b": (mmas.n, mmas.b_type, mmas.b_major, mmas.b),
        }[which]
        return self.tile(
            int(bits[row]),
            rows=int(sizes[row]) // int(mmas.cta_group[row]),
            k=int(mmas.k[row]),
            element=ELEMENT_TYPES[types[row]],
            major="MN" if majors[row] else "K",
            instruction="wgmma" if kind == "wgmma" else "tcgen05",
            cta=int(self.log.cta[mmas.event[row]]) if cta is None else cta,
        )
