"""The events of a recorded launch, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sglab.gpu.code import Code

if TYPE_CHECKING:
    from sglab.gpu.geometry import Geometry

Array = npt.NDArray[Any]

GLOBAL, SHARED = 0, 1
READ, WRITE = 1, 2
NAMED, MBARRIER, CLUSTER = 0, 1, 2


@dataclass(frozen=True)
class Accesses:
    """Loads, stores, atomics and reductions of global and shared memory; not what asynchronous operations move.

    event: the instruction; address: the lowest byte (of shared memory: rank of the CTA << 24 | offset); span: bytes
    from there to behind the highest; nbytes: moved by all lanes; space: GLOBAL or SHARED; kind: READ, WRITE or both
    """

    event: Array
    address: Array
    span: Array
    nbytes: Array
    lanes: Array
    space: Array
    kind: Array


@dataclass(frozen=True)
class BarrierEvents:
    """Instructions on barriers.

    kind: NAMED, MBARRIER or CLUSTER; object: the barrier's number in its CTA, or the mbarrier's shared::cluster address
    phase: when the instruction was executed (the parity, of an mbarrier)
    """

    event: Array
    phase: Array
    object: Array
    kind: Array


@dataclass(frozen=True)
class Waits:
    """Instructions at which lanes had to wait. since: the position at which they began to; event: the instruction."""

    event: Array
    since: Array


class EventLog:
    """Every executed warp-instruction of a launch, in order of execution: event n is the n-th.

    cta: linear index in the grid; warp: in the CTA; pc: in `code`; mask: the lanes that ran together (a guard may
    exclude some of them). All are arrays of one entry per event.
    report: the launch's LaunchReport
    """

    def __init__(self, kernel: str, geometry: Geometry, code: Code, report: Any, columns: dict[str, Any]) -> None:
        self.kernel, self.geometry, self.code, self.report = kernel, geometry, code, report
        events = columns["events"]
        self.cta: Array = events["cta"]
        self.warp: Array = events["warp"]
        self.pc: Array = events["pc"]
        self.mask: Array = events["mask"]
        self.accesses = Accesses(**columns["accesses"])
        self.barriers = BarrierEvents(**columns["barriers"])
        self.waits = Waits(**columns["waits"])

    def __len__(self) -> int:
        return len(self.pc)

    @cached_property
    def ptx_line(self) -> Array:
        return np.array([line for line, *_ in self.code.rows], np.uint32)[self.pc]

    @cached_property
    def lanes(self) -> Array:
        """How many lanes each event ran for."""
        halves = self.mask.view(np.uint8).reshape(-1, 4)
        return _BITS[halves].sum(axis=1, dtype=np.uint8)

    @cached_property
    def kinds(self) -> list[str]:
        """The instruction classes that `kind` counts in."""
        return sorted({kind for _, _, kind, _ in self.code.rows})

    @cached_property
    def kind(self) -> Array:
        """The class of each event, as an index into `kinds`."""
        number = {kind: index for index, kind in enumerate(self.kinds)}
        return np.array([number[kind] for _, _, kind, _ in self.code.rows], np.uint8)[self.pc]

    def __repr__(self) -> str:
        return f"<EventLog of {self.kernel}: {len(self)} instructions, {len(self.accesses.event)} accesses>"


_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
