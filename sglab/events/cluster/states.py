"""Barriers' states over modelled time: the changes that the emulator recorded, each when the model has it happen.

Which arrivals and bytes make up a phase is the same on any machine; their order within the phase is not. So each phase
is replayed: its changes in the order of modelled time, counts and bytes added up again.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from sglab.events.cluster.columns import ACTIONS, OFFSET_BITS, Array, ClusterColumns
from sglab.events.tables import MBARRIER, NAMED
from sglab.events.timing import TimedLog

_RESETTING = [ACTIONS.index(name) for name in ("init", "inval")]
_CHANGING = [*_RESETTING, *(ACTIONS.index(name) for name in ("arrive", "expect_tx"))]


@dataclass(frozen=True)
class _State:
    parity: int
    pending: int
    expected: int
    tx: int

    @property
    def arrived(self) -> int:
        return self.expected - self.pending


def timed_states(trace: ClusterColumns, timed: TimedLog) -> tuple[Array, Array]:
    """(5, n): barrier, parity, pending, expected, tx-count after a change, and (1, n): its modelled ns; ascending."""
    times = _Times(trace, timed)
    rows: list[tuple[float, int, _State]] = []
    by_barrier: dict[int, list[tuple[int, _State]]] = defaultdict(list)
    for position, barrier, *state in trace.states().T.tolist():
        by_barrier[barrier].append((position, _State(*state)))
    for barrier, changes in by_barrier.items():
        rows += [(when, barrier, state) for when, state in _replayed(barrier, changes, times)]
    rows.sort(key=lambda row: row[0])
    columns = [[barrier, each.parity, each.pending, each.expected, each.tx] for _, barrier, each in rows]
    table = np.array(columns, np.int32).reshape(-1, 5).T
    return table, np.array([[when for when, _, _ in rows]], np.float32).reshape(1, -1)


def _replayed(barrier: int, changes: list[tuple[int, _State]], times: _Times) -> list[tuple[float, _State]]:
    """A barrier's changes, phase by phase, those of a phase in the order of modelled time."""
    made: list[tuple[float, _State]] = []
    phase: list[tuple[float, int, int]] = []  # when, arrivals, bytes
    before, ended = _State(0, 0, 0, 0), 0
    for position, state in changes:
        again = times.resets(position, barrier)
        when = times.of(position, barrier)
        if again:
            made.append((when, state))
        elif state.parity == before.parity:
            phase.append((when, state.arrived - before.arrived, state.tx - before.tx))
        else:
            phase.append((when, before.pending, -before.tx))
            made += _in_order(_after(made, phase), before.parity, before.expected, times.end(barrier, ended), state)
            phase, ended = [], ended + 1
        before = state
    return made + _in_order(_after(made, phase), before.parity, before.expected, None, None)


def _after(made: list[tuple[float, _State]], phase: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """Nothing of a phase comes before the one before it has ended: where more arrive than a phase takes, who is too
    many may come first in the model."""
    if not made:
        return phase
    begin = made[-1][0]
    return [(max(when, begin), arrivals, nbytes) for when, arrivals, nbytes in phase]


def _in_order(
    phase: list[tuple[float, int, int]], parity: int, expected: int, end: float | None, after: _State | None
) -> list[tuple[float, _State]]:
    """After each change of a phase; after the last one, which ends it at `end`, the state `after`."""
    made, arrived, tx = [], 0, 0
    for when, arrivals, nbytes in sorted(phase):
        arrived, tx = arrived + arrivals, tx + nbytes
        made.append((when, _State(parity, expected - arrived, expected, tx)))
    if after is not None and made:
        when = made[-1][0]
        made[-1] = (when if end is None else max(when, end), after)
    return made


class _Times:
    """When the model has changes happen."""

    def __init__(self, trace: ClusterColumns, timed: TimedLog) -> None:
        self._start = timed.start
        self._trace = trace
        event, barrier, action, *_ = trace.actions()
        acts = np.isin(action, _CHANGING)
        self._acting = set(zip(event[acts].tolist(), barrier[acts].tolist(), strict=True))
        self._began: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._arrivals_that_wait()
        resets = np.isin(action, _RESETTING)
        self._resetting = set(zip(event[resets].tolist(), barrier[resets].tolist(), strict=True))
        self._ends: dict[int, list[float]] = defaultdict(list)
        _, of, *_ = trace.phases()
        for which, when in zip(of.tolist(), timed.phases[trace.phase_rows].tolist(), strict=True):
            self._ends[which].append(when)
        self._position_of_end: dict[int, list[int]] = defaultdict(list)
        for position, which, *_ in trace.phases().T.tolist():
            self._position_of_end[which].append(position)
        self._arriving: dict[tuple[int, int], list[float]] = defaultdict(list)
        self._copies(timed)

    def _arrivals_that_wait(self) -> None:
        """A bar.sync arrives where its wait begins, and is logged where it goes on."""
        since, event, _, _, barrier, *_ = self._trace.waits()
        for position, one, which in np.stack([since, event, barrier])[:, barrier >= 0].T.tolist():
            if self._trace.barriers.kind[which] == NAMED:
                self._began[position, which].append(one)
                self._acting.discard((one, which))

    def _copies(self, timed: TimedLog) -> None:
        """Bytes arrive when their copy ends, at the barrier it names, or at the same one of each CTA that gets them."""
        copies, barriers = self._trace.log.copies, self._trace.barriers
        for i in np.flatnonzero((copies.mbarrier >= 0) & self._trace.here(copies.event)).tolist():
            address, mask = int(copies.mbarrier[i]), int(copies.multicast[i])
            ranks = [rank for rank in range(16) if mask >> rank & 1] or [address >> OFFSET_BITS]
            for rank in ranks:
                for which in barriers.find(MBARRIER, rank, address & ((1 << OFFSET_BITS) - 1)):
                    self._arriving[int(copies.done[i]), which].append(float(timed.copies.end[i]))

    def of(self, position: int, barrier: int) -> float:
        """When the change at a position takes effect. A commit has no row of its own: it comes when its phase ends."""
        if self._began.get((position, barrier)):
            return float(self._start[self._began[position, barrier].pop(0)])
        if (position, barrier) in self._acting:
            self._acting.discard((position, barrier))
            return float(self._start[position])
        if self._arriving.get((position, barrier)):
            return self._arriving[position, barrier].pop(0)
        ends = self._position_of_end[barrier]
        phase = int(np.searchsorted(ends, position))
        return (
            self._ends[barrier][phase] if phase < len(ends) else float(self._start[min(position, len(self._start) - 1)])
        )

    def resets(self, position: int, barrier: int) -> bool:
        """Whether the next change there makes the barrier new."""
        return (position, barrier) in self._resetting and (position, barrier) in self._acting

    def end(self, barrier: int, phase: int) -> float | None:
        ends = self._ends[barrier]
        return ends[phase] if phase < len(ends) else None
