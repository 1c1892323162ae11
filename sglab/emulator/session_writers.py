"""Who wrote a byte of memory last: instructions, and asynchronous operations with what they made it of."""

from __future__ import annotations

from dataclasses import dataclass, field

from sglab.emulator.session_state import SessionState
from sglab.gpu import core
from sglab.gpu.code import Instruction

Order = tuple[int, int]
"""A moment between two events of a launch."""


@dataclass(frozen=True)
class Source:
    """Memory that was read.

    Attributes:
        space: global, shared or tensor.
        cta: whose shared or tensor memory, as a linear index.
        address: of global memory; the offset in shared memory; of tensor memory lane << 16 | column.
        data: what it held; nothing where that is not known, of what a reduction adds to.
    """

    space: str
    cta: int
    address: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Writer:
    """What wrote a place.

    Attributes:
        operation: whether it is an asynchronous operation, that `instruction` has issued.
        lanes: mask of those that wrote or issued it; 0: the warp as a whole.
        position: of the instruction, as `Session.now` counts.
        order: when the bytes were written.
        element: of tcgen05.st, which of its registers; else -1.
        sources: of an operation, what it made the place of.
        result: of a wgmma, the sum in the accumulator once it was carried out.
    """

    instruction: Instruction
    operation: bool
    cta: int
    warp: int
    lanes: int
    position: int
    order: Order
    element: int
    sources: tuple[Source, ...] = field(repr=False)
    result: tuple[float, ...]


class SessionWriters:
    """Ways back from memory. The session is afterwards where it was."""

    def __init__(self, state: SessionState, core_session: core.Session) -> None:
        self._state, self._session = state, core_session

    def last_writer(self, space: str, address: int, cta: int = 0, before: int | Order | None = None) -> Writer | None:
        """Who wrote a byte of global or shared memory, or a cell of tensor memory, last; None: nobody has.

        Args:
            space, address, cta: as in Source.
            before: an `order`, or a position: until the instruction there has been executed; now, if None.
        """
        origin = self._state.moment
        try:
            if before is None:
                order = origin, 2**64 - 1
            else:
                order = self._session.through(before) if isinstance(before, int) else before
            return self._read(self._session.writer_of(space, cta, address, order))
        finally:
            self._session.return_to(origin)

    def wgmma(self, warp: int, cta: int, lane: int, register: int, position: int) -> Writer | None:
        """The wgmma that a warp issues at a position, with what it makes one lane's accumulator of, the register's
        number in it given; None if it is never carried out."""
        origin = self._state.moment
        try:
            return self._read(self._session.wgmma_at(cta, warp, lane, register, position))
        finally:
            self._session.return_to(origin)

    def _read(self, row: core.WriterRow | None) -> Writer | None:
        if row is None:
            return None
        operation, pc, cta, warp, lanes, position, order, element, sources, result = row
        made = tuple(Source(*each) for each in sources)
        at = self._state.code[pc]
        return Writer(at, operation, cta, warp, lanes, position, order, element, made, tuple(result))
