"""An event log with modelled times."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from sglab.events.columns import EventColumns
from sglab.events.tables import Array
from sglab.events.timing.costs import (
    NO_UNROLL,
    STALLS,
    UNITS,
    Cost,
    cost_columns,
    instruction_costs,
)
from sglab.events.timing.explain import Explanation, explain
from sglab.events.timing.figures import Figures, figures_of
from sglab.events.timing.occupancy import occupancy
from sglab.events.timing.placement import placement
from sglab.events.timing.tables import access_columns, cluster_columns, copy_columns, tensor_operations
from sglab.gpu import core
from sglab.gpu.errors import LaunchError


@dataclass(frozen=True)
class Spans:
    """Modelled ns from the launch, aligned with a table's rows. NaN: the model has no time for the row"""

    start: Array
    end: Array


class TimedLog:
    """A recorded launch on a model of a GPU. Every time is modelled, in ns from the launch.

    Attributes:
        ctas_per_sm: resident at once, by registers, shared memory, threads and named barriers.
        total_ns: until the next launch can start.
        start, end: of each event: when it issued, and when its result could be used (of a wait: when it ended; of an
            asynchronous operation's instruction: of the instruction, not the operation). What ptxas puts ahead of the
            program's order counts as starting with what precedes it there: starts of a warp never go back.
        stall: index into STALLS: what kept the event from following the one before, or what it waited for itself.
        stalled: ns that this took.
        cta_sm, cta_start, cta_end: by CTA.
        copies, mmas, tmem: start and end of the operations in these tables.
        phases: when each row of log.phases ended.
        l2_bytes, hbm_bytes: moved to and from the SMs, and to and from memory.

    Args:
        log: what was replayed.
        figures: of the GPU.
        l2: "warm" or "cold".
        registers: 32-bit ones per thread.
    """

    def __init__(self, log: EventColumns, figures: Figures, l2: str, registers: int | None) -> None:
        self.log, self.figures, self.l2 = log, figures, l2
        self.registers = _checked_registers(registers, log)
        self.ctas_per_sm = occupancy(log, figures, self.registers)
        self._costs = self._instruction_costs()
        operations = tensor_operations(log, figures)
        times = self._replay(operations.columns)
        self._ns = 1 / figures["clock"]
        self.total_ns = float(times["total"]) * self._ns
        self.start, self.end = times["issue"] * self._ns, times["end"] * self._ns
        self.stall: Array = times["stall"]
        self.stalled = times["stalled"] * np.float32(self._ns)
        self.cta_sm: Array = times["cta_sm"]
        self.cta_start, self.cta_end = times["cta_start"] * self._ns, times["cta_end"] * self._ns
        self.copies = Spans(times["copy_start"] * self._ns, times["copy_end"] * self._ns)
        self.phases = times["phase"] * self._ns
        self.l2_bytes, self.hbm_bytes = float(times["bytes_l2"]), float(times["bytes_hbm"])
        self.unresolved = int(times["forced"])
        spans = times["tcgen05_start"] * self._ns, times["tcgen05_end"] * self._ns
        self.mmas = self._mma_spans(operations.mma, spans)
        self.tmem = _scattered(len(log.tmem.event), operations.tmem, spans)

    def _instruction_costs(self) -> list[Cost]:
        code = self.log.code
        costs, after = instruction_costs(code, self.figures), 1  # the line after the last instruction's
        for pc, (line, *_) in enumerate(code.rows):
            if line == 0:  # where lanes meet: no line of the text
                continue
            if any("nounroll" in code.text(other) for other in range(after, line)):
                costs[pc] = replace(costs[pc], order=costs[pc].order | NO_UNROLL)
            after = line + 1
        return costs

    def _replay(self, tcgen05: dict[str, Array]) -> dict[str, Any]:
        log, geometry = self.log, self.log.geometry
        tables = {
            "runs": log._runs,
            "accesses": access_columns(log.accesses, log.allocations),
            "barriers": vars(log.barriers),
            "phases": {**vars(log.phases), "asynchronous": log.phases.asynchronous.view(np.uint8)},
            "copies": copy_columns(log.copies, log.maps, log.allocations),
            "tcgen05": tcgen05,
            "ctas": {**cluster_columns(geometry), "placement": self._placement()},
        }
        launch = {
            "registers": self.registers,
            "warps_per_cta": -(-prod(geometry.block) // 32),
            "cluster_size": prod(geometry.cluster),
            "ctas_per_sm": self.ctas_per_sm,
            "shared_bytes": geometry.smem + log.shared_bytes + 1024,
        }
        figures: dict[str, Any] = {row.name: float(row.value) for row in self.figures.rows}
        figures |= {name: int(self.figures[name]) for name in ("sms", "l2_slices")} | {"warm": self.l2 == "warm"}
        return core.time_launch(tables, cost_columns(self._costs), log.mentions, launch, figures)

    def _placement(self) -> Array:
        geometry = self.log.geometry
        if prod(geometry.cluster) > 1:
            return np.zeros(0, np.uint32)
        return placement(geometry.ctas, self.ctas_per_sm, int(self.figures["sms"]))

    def _mma_spans(self, rows: Array, spans: tuple[Array, Array]) -> Spans:
        """wgmma and mma.sync start when they issue; the tensor core takes them in turn."""
        table = _scattered(len(self.log.mmas.event), rows, spans)
        busy = np.array([cost.busy + cost.latency for cost in self._costs]) * self._ns
        own = np.flatnonzero(np.isnan(table.start))
        events = self.log.mmas.event[own]
        table.end[own] = self.end[events]
        table.start[own] = np.maximum(self.start[events], self.end[events] - busy[self.log.pc[events]])
        return table

    @cached_property
    def unit(self) -> Array:
        """The unit that each event used, as an index into UNITS."""
        return np.array([cost.unit for cost in self._costs], np.uint8)[self.log.pc]

    def stall_ns(self) -> dict[str, float]:
        """ns of stalls by cause, summed over warps."""
        sums = np.bincount(self.stall, self.stalled, len(STALLS))
        return {name: float(total) for name, total in zip(STALLS, sums, strict=True) if total > 0}

    @property
    def issue_slots(self) -> float:
        """Machine instructions that the warps issue, as the costs have them."""
        return float(np.array([cost.slots for cost in self._costs])[self.log.pc].sum())

    def explain(self, report: str | os.PathLike[str] | None = None, index: int = 0) -> Explanation:
        """What the modelled time is made of: counters, stalls, and the stall that explains a wrong prediction.

        Args:
            report: what `ncu --set full --csv --page raw` printed for the same launch, to be shown beside it. ncu
                empties the caches before each launch unless told otherwise: use a log that was timed with l2="cold".
            index: which of the kernel's launches in the report, from 0.

        Returns:
            Counters and stalls, modelled and (with a report) measured, each with its ratio; print it for a table.

        Raises:
            LaunchError: the report is none of ncu's, lacks the kernel or a metric, or has another grid.
        """
        return explain(self, report, index)

    def busy(self, unit: str, sm: int) -> Array:
        """When a unit of an SM was busy: (n, 2) ns, disjoint, in order.

        Args:
            unit: one of UNITS but "none", "copy" (a copy in flight) or "mma" (a matrix multiplication in flight).

        Raises:
            LaunchError: there is no such unit.
        """
        log = self.log
        if unit == "copy":
            chosen = np.flatnonzero(self.cta_sm[log.cta[log.copies.event]] == sm)
            return _merged(self.copies.start[chosen], self.copies.end[chosen])
        if unit == "mma":
            chosen = np.flatnonzero(self.cta_sm[log.cta[log.mmas.event]] == sm)
            return _merged(self.mmas.start[chosen], self.mmas.end[chosen])
        if unit not in UNITS[1:]:
            raise LaunchError(f"unit must be one of {', '.join(UNITS[1:])}, copy, mma; got {unit!r}")
        chosen = np.flatnonzero((self.unit == UNITS.index(unit)) & (self.cta_sm[log.cta] == sm))
        busy = np.array([max(cost.busy, 1) for cost in self._costs])[log.pc[chosen]] * self._ns
        return _merged(self.start[chosen], self.start[chosen] + busy)

    def __repr__(self) -> str:
        return (
            f"<TimedLog of {self.log.kernel} on {self.figures.product}: {self.total_ns / 1000:.2f} us modelled, "
            f"{self.l2} L2 cache, {self.ctas_per_sm} CTAs per SM>"
        )


def timed(log: EventColumns, arch: str, l2: str = "warm", registers: int | None = None) -> TimedLog:
    """See EventLog.timed."""
    if l2 not in ("warm", "cold"):
        raise LaunchError(f"l2 must be 'warm' or 'cold'; got {l2!r}")
    if not log.details:
        raise LaunchError(f"{log.kernel}: the log has no details, which the model needs. Record it with details=True")
    return TimedLog(log, figures_of(arch), l2, registers)


def _checked_registers(registers: int | None, log: EventColumns) -> int:
    if registers is None:
        return min(255, max(16, log.register_bytes // 128))
    if not 1 <= registers <= 255:
        raise LaunchError(f"registers must be 1 to 255 per thread; got {registers}. Leave it out for an estimate")
    return registers


def _scattered(count: int, rows: Array, spans: tuple[Array, Array]) -> Spans:
    table = Spans(np.full(count, np.nan), np.full(count, np.nan))
    chosen = rows >= 0
    table.start[rows[chosen]], table.end[rows[chosen]] = spans[0][chosen], spans[1][chosen]
    return table


def _merged(start: Array, end: Array) -> Array:
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.flatnonzero(np.r_[True, start[1:] > reach[:-1]]) if len(start) else np.zeros(0, np.int64)
    last = np.r_[first[1:], len(start)][: len(first)] - 1
    return np.stack([start[first], reach[last]], axis=1)
