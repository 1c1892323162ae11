"""The columns of a recorded launch: its events and the tables of what they did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from sglab.events.mma_sync import with_mma_sync
from sglab.events.tables import (
    FAILED,
    Accesses,
    Array,
    BarrierEvents,
    BarrierStates,
    Copies,
    Mmas,
    Phases,
    TensorMapInfo,
    TmemEvents,
    Waits,
)
from sglab.gpu import core
from sglab.gpu.arguments import Allocation
from sglab.gpu.code import Code
from sglab.gpu.geometry import Geometry


class EventColumns:
    """Every executed warp-instruction of a launch, in order of execution: event n is the n-th.

    Attributes:
        cta: linear index in the grid.
        warp: in the CTA.
        pc: in `code`.
        mask: the lanes that ran together (a guard may exclude some of them). All are arrays of one entry per event,
            made on first use.
        details: whether the tables were recorded accesses, barriers, barrier_states, waits, phases, copies (with
            `maps`), mmas, tmem: tables; see sglab.events.tables.
        mentions: registers that the kernel's instructions read and write: columns pc, slot, definition.
        shared_bytes: static shared memory per CTA.
        register_bytes: the emulator's registers per warp.

    Args:
        report: the launch's LaunchReport.
        fault: what ended the launch early, if that did not keep it from being recorded.
        allocations: the memory that the launch may touch.
    """

    def __init__(
        self,
        kernel: str,
        geometry: Geometry,
        code: Code,
        report: core.LaunchReport,
        columns: core.Columns,
        fault: str = "",
        allocations: Sequence[Allocation] = (),
    ) -> None:
        self.allocations = tuple(allocations)
        self.kernel, self.geometry, self.code, self.report, self.fault = kernel, geometry, code, report, fault
        self.details = bool(columns.get("details", True))
        self._runs: dict[str, Array] = columns["runs"]
        self.accesses = Accesses(**columns["accesses"])
        self.barriers = BarrierEvents(**columns["barriers"])
        self.waits = _without_failed_tests(Waits(**columns["waits"]), self.barriers)
        self.phases = Phases(**columns["phases"])
        self.barrier_states = BarrierStates(**columns["states"])
        self.copies = Copies(**columns["copies"])
        self.maps = [TensorMapInfo(**fields) for fields in columns["maps"]]
        self.tmem = TmemEvents(**columns["tmem"])
        self._mmas = columns["mmas"]
        self.mentions: dict[str, Array] = columns["mentions"]
        self.shared_bytes, self.register_bytes = int(columns["shared_bytes"]), int(columns["register_bytes"])

    def __len__(self) -> int:
        return int(self.report.warp_instructions)

    # Events are kept as runs: instructions of consecutive lines by the same lanes, several times over.

    @cached_property
    def _events_of_run(self) -> Array:
        return self._runs["length"] * self._runs["times"]

    def _of_run(self, name: str) -> Array:
        return np.repeat(self._runs[name], self._events_of_run)

    @cached_property
    def cta(self) -> Array:
        return self._of_run("cta")

    @cached_property
    def warp(self) -> Array:
        return self._of_run("warp")

    @cached_property
    def mask(self) -> Array:
        return self._of_run("mask")

    @cached_property
    def pc(self) -> Array:
        events = self._events_of_run
        start = np.repeat(np.cumsum(events, dtype=np.uint32) - events, events)
        offset = (np.arange(len(start), dtype=np.uint32) - start) % self._of_run("length")
        pcs: Array = self._runs["shown"][self._of_run("first") + offset]
        return pcs

    @cached_property
    def mmas(self) -> Mmas:
        return Mmas(**with_mma_sync(self._mmas, self.code, self.pc))

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


def _without_failed_tests(waits: Waits, barriers: BarrierEvents) -> Waits:
    """A wait that ends without the phase's end (its time was up) has the phase before it, which released nobody."""
    failed = barriers.event[barriers.passed == FAILED]
    if not len(failed):
        return waits
    return replace(waits, phase=np.where(np.isin(waits.event, failed), -1, waits.phase))


_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)
