"""The events, waits, phases and barrier states of one cluster of a recorded launch, as columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.tables import CLUSTER, MBARRIER, NAMED, WAIT_KINDS

Array = npt.NDArray[Any]

OFFSET_BITS = 24
"""Of a shared::cluster address; the CTA's rank is above."""
ACTIONS = ("init", "inval", "arrive", "expect_tx", "wait", "test")


class ClusterColumns:
    """What the log says of one cluster; `ClusterTrace` adds what is made out of it.

    Rows of threads are numbered rank · warps + warp. Positions are numbers of events in the whole launch.

    Attributes:
        log: the recording.
        cluster: linear index among the grid's clusters.
        ctas: linear indices of its CTAs in the grid, by rank.
        warps: warps per CTA.
    """

    def __init__(self, log: RecordedLaunch, cluster: int = 0) -> None:
        self.log, self.cluster = log, cluster
        self.ctas = log.geometry.cluster_ctas(cluster)
        self.warps = -(-prod(log.geometry.block) // 32)

    @cached_property
    def positions(self) -> Array:
        """The cluster's events, by their number in the launch."""
        return np.flatnonzero(np.isin(self.log.cta, self.ctas))

    @cached_property
    def ranks(self) -> Array:
        """The rank of every CTA of the grid in this cluster, -1 outside."""
        ranks = np.full(self.log.geometry.ctas, -1, np.int32)
        ranks[self.ctas] = np.arange(len(self.ctas))
        return ranks

    def rows_of(self, events: Array) -> Array:
        """Rank · warps + warp of each event."""
        log = self.log
        return self.ranks[log.cta[events]] * self.warps + log.warp[events].astype(np.int32)

    def here(self, events: Array) -> Array:
        """Which of these events are this cluster's."""
        return np.asarray(self.ranks[self.log.cta[events]] >= 0)

    @cached_property
    def barriers(self) -> ClusterBarriers:
        return ClusterBarriers.of(self)

    def events(self) -> Array:
        """int32 (4, n): position, row, pc, lanes (a mask of 32)."""
        at, log = self.positions, self.log
        return np.stack([at, self.rows_of(at), log.pc[at], log.mask[at].view(np.int32)]).astype(np.int32)

    def waits(self) -> Array:
        """int32 (7, n): since, event, row, kind (index into WAIT_KINDS), barrier, and what released it: phase, event.

        -1 means none.
        """
        waits, log = self.log.waits, self.log
        rows = np.flatnonzero(self.here(waits.event))
        event, phase = waits.event[rows], waits.phase[rows]
        of_barrier = np.isin(waits.kind[rows], [WAIT_KINDS.index(name) for name in _BARRIER_KINDS])
        kinds = np.array([_BARRIER_KINDS.get(name, NAMED) for name in WAIT_KINDS])[waits.kind[rows]]
        barrier = np.where(of_barrier, self.barriers.number(kinds, self.ranks[log.cta[event]], waits.object[rows]), -1)
        released = phase >= 0
        cause = self._cause_of_async(rows)
        cause[released] = log.phases.event[phase[released]]  # a launch may have waits and not a single phase
        columns = [waits.since[rows], event, self.rows_of(event), waits.kind[rows], barrier]
        return np.stack([*columns, self._own_phase(phase), cause]).astype(np.int32)

    def _cause_of_async(self, rows: Array) -> Array:
        """For waits on asynchronous operations: the last of the waiting warp's operations that was carried out then."""
        log, waits = self.log, self.log.waits
        cause = np.full(len(rows), -1, np.int64)
        issued = np.concatenate([log.copies.event, log.mmas.event, log.tmem.event]).astype(np.int64)
        done = np.concatenate([log.copies.done, log.mmas.done, log.tmem.done]).astype(np.int64)
        last: dict[tuple[int, int], int] = {}
        for event, when, row in zip(issued, done, self.rows_of(issued) if len(issued) else [], strict=True):
            group = int(row) // 4  # a wgmma counts as issued by its warpgroup's first warp
            for key in ((int(when), int(row)), (int(when), ~group)):
                last[key] = max(last.get(key, -1), int(event))
        of_async = waits.kind[rows] == WAIT_KINDS.index("async")
        for i in np.flatnonzero(of_async):
            event = int(waits.event[rows[i]])
            row = int(self.rows_of(np.array([event]))[0])
            cause[i] = last.get((event, row), last.get((event, ~(row // 4)), -1))
        return cause

    @cached_property
    def phase_rows(self) -> Array:
        phases = self.log.phases
        return np.flatnonzero(self.ranks[phases.cta] >= 0)

    def _own_phase(self, phase: Array) -> Array:
        """Rows in the log's phases as rows in `phases()`; what is negative (none, a failed test) stays so."""
        numbers = np.full(len(self.log.phases.event) + 1, -1, np.int64)
        numbers[self.phase_rows] = np.arange(len(self.phase_rows))
        return np.asarray(np.where(phase < 0, phase, numbers[phase]))

    def phases(self) -> Array:
        """int32 (5, n): position, barrier, number, the event that ended it, whether an operation that it issued did."""
        phases, rows = self.log.phases, self.phase_rows
        barrier = self.barriers.number(phases.kind[rows], self.ranks[phases.cta[rows]], phases.object[rows])
        return np.stack(
            [phases.position[rows], barrier, phases.number[rows], phases.event[rows], phases.asynchronous[rows]]
        ).astype(np.int32)

    def states(self) -> Array:
        """int32 (6, n): position, barrier, parity, pending, expected, tx-count after a change."""
        states = self.log.barrier_states
        rows = np.flatnonzero(self.ranks[states.cta] >= 0)
        barrier = self.barriers.number(states.kind[rows], self.ranks[states.cta[rows]], states.object[rows])
        columns = [states.phase[rows], states.pending[rows], states.expected[rows], states.tx_count[rows]]
        return np.stack([states.position[rows], barrier, *columns]).astype(np.int32)

    def actions(self) -> Array:
        """int32 (5, n): event, barrier, action (index into ACTIONS), the phase passed, the phase's parity."""
        table = self.log.barriers
        rows = np.flatnonzero(self.here(table.event))
        event = table.event[rows]
        barrier = self.barriers.number(table.kind[rows], self.ranks[self.log.cta[event]], table.object[rows])
        kinds = np.array([ACTIONS.index(one.barrier or "arrive") for one in self.log.code.effects], np.int32)
        parity = table.phase[rows].astype(np.int64) & 1
        passed = self._own_phase(table.passed[rows])
        return np.stack([event, barrier, kinds[self.log.pc[event]], passed, parity]).astype(np.int32)


_BARRIER_KINDS = {"barrier": NAMED, "mbarrier": MBARRIER, "cluster_barrier": CLUSTER}


@dataclass(frozen=True)
class ClusterBarriers:
    """The barriers that a cluster has used, numbered: named ones and mbarriers by CTA, then the cluster's.

    Attributes:
        kind: NAMED, MBARRIER or CLUSTER.
        rank: of the CTA it belongs to.
        object: number, or offset in shared memory.
    """

    kind: Array
    rank: Array
    object: Array

    @classmethod
    def of(cls, trace: ClusterColumns) -> ClusterBarriers:
        log = trace.log
        actions, phases = log.barriers, log.phases
        mine = np.flatnonzero(trace.here(actions.event))
        ended = np.flatnonzero(trace.ranks[phases.cta] >= 0)
        keys = np.concatenate(
            [
                _key(actions.kind[mine], trace.ranks[log.cta[actions.event[mine]]], actions.object[mine]),
                _key(phases.kind[ended], trace.ranks[phases.cta[ended]], phases.object[ended]),
            ]
        )
        found = np.unique(keys)
        return cls(found >> 40, found >> 32 & 0xFF, found & 0xFFFFFFFF)

    @cached_property
    def _keys(self) -> Array:
        return self.kind.astype(np.int64) << 40 | self.rank.astype(np.int64) << 32 | self.object

    def number(self, kind: Array, rank: Array, objects: Array) -> Array:
        """Which of these barriers, -1 for none. objects: as an event log has them; rank: of the CTA that acts."""
        keys = _key(kind, rank, objects)
        at = np.searchsorted(self._keys, keys)
        at = np.minimum(at, max(0, len(self._keys) - 1))
        return np.where(self._keys[at] == keys, at, -1) if len(self._keys) else np.full(len(keys), -1)

    def find(self, kind: int, rank: int, number: int) -> list[int]:
        found = np.flatnonzero((self.kind == kind) & (self.rank == rank) & (self.object == number))
        return [int(each) for each in found]

    def __len__(self) -> int:
        return len(self.kind)


def _key(kind: Array, rank: Array, objects: Array) -> Array:
    kind, objects = kind.astype(np.int64), objects.astype(np.int64)
    offset = np.where(kind == MBARRIER, objects & ((1 << OFFSET_BITS) - 1), np.where(kind == CLUSTER, 0, objects))
    owner = np.where(kind == MBARRIER, objects >> OFFSET_BITS, np.where(kind == CLUSTER, 0, rank))
    return np.asarray(kind << 40 | owner << 32 | offset)


_CUTE_DSL = "kernel_cutlass_"
"""Before a kernel's name in CuTe DSL; the types of its arguments follow."""


def _of_cute_dsl(name: str) -> str:
    """The function; of a method its class and its name, as far as it is known where that ends: module and class follow
    without a sign."""
    before, of_object, _ = name.partition("_object_at_")
    if not of_object:
        return re.split(r"_tensor|__\d+$", name)[0]
    found = re.search(r"[A-Z][A-Za-z0-9]*$", before)
    stem = before[: found.start()] if found else before
    method, own, _ = stem.partition("___main__")
    if not own:
        method = f"{(re.match(r'_*[^_]*', stem) or [stem])[0]}…"
    return f"{found[0]}.{method}" if found else method


def readable(kernel: str) -> str:
    """A kernel's name for people: of a mangled C++ name, what it is called and which kernel it launches."""
    if kernel.startswith(_CUTE_DSL):
        return _of_cute_dsl(kernel.removeprefix(_CUTE_DSL))
    if not kernel.startswith("_Z"):
        return kernel
    names: list[str] = []
    at, nested = 0, 0
    while found := re.compile(r"\d+").search(kernel, at):
        begin = found.end()
        name = kernel[begin : begin + int(found[0])]
        at = begin + len(name)
        if not name.isidentifier():
            at = begin
            continue
        names.append(name)
        if not nested and kernel[at : at + 1] in ("I", "E"):
            nested = len(names)
    outer = "::".join(names[: nested or 1])
    inner = next((name for name in names[nested:] if "kernel" in name.lower() and len(name) > 12), "")
    return f"{outer}<{inner}, …>" if inner else outer
