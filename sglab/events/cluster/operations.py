"""The asynchronous operations of a cluster, gathered into spans: what was issued together and carried out together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sglab.events.cluster.columns import Array, ClusterColumns
from sglab.events.tables import COPY_KINDS, MMA_KINDS, TMEM_KINDS

if TYPE_CHECKING:
    from sglab.events.timing import TimedLog

COPIES, MMAS, TMEM = range(3)
KINDS = (*COPY_KINDS, *MMA_KINDS, *TMEM_KINDS)
_MMA_SYNC = MMA_KINDS.index("mma.sync")
_ALLOC, _DEALLOC = TMEM_KINDS.index("alloc"), TMEM_KINDS.index("dealloc")
_MMA_BASE, _TMEM_BASE = len(COPY_KINDS), len(COPY_KINDS) + len(MMA_KINDS)


Row = tuple[list[int], Array]


@dataclass(frozen=True)
class Operations:
    """The spans of a cluster, by their first event.

    mma.sync is no operation of its own: the instruction waits for it.

    Attributes:
        table: (10, n): first event, position carried out, row that issued, track, kind (index into KINDS), barrier
            signalled or -1, bytes, operations gathered, last event, detail (the address of tensor memory written, or
            -1).
        members: of each span, the rows of the log's copies, mmas or tmem, by track.
    """

    table: Array
    members: list[Array]

    @classmethod
    def of(cls, trace: ClusterColumns) -> Operations:
        rows: list[Row] = [*_copies(trace), *_mmas(trace), *_tmem(trace)]
        rows.sort(key=lambda row: row[0])
        return cls(np.array([span for span, _ in rows], np.int32).reshape(-1, 10).T, [members for _, members in rows])

    def times(self, timed: TimedLog) -> Array:
        """(2, n) ns: when the first of each span started and the last ended, on a modelled GPU."""
        tables = (timed.copies, timed.mmas, timed.tmem)
        first, done, track = self.table[0], self.table[1], self.table[3]
        start, end = timed.start[first].copy(), np.full(len(first), timed.total_ns)
        inside = done < len(timed.start)
        end[inside] = timed.end[done[inside]]
        for i, members in enumerate(self.members):
            spans = tables[track[i]]
            if not np.isnan(spans.start[members]).all():
                start[i], end[i] = np.nanmin(spans.start[members]), np.nanmax(spans.end[members])
        return np.stack([start, np.maximum(start, end)])


def _copies(trace: ClusterColumns) -> Iterator[Row]:
    copies = trace.log.copies
    at = np.flatnonzero(trace.here(copies.event))
    mbarrier = copies.mbarrier[at].astype(np.int64)
    one = np.ones(len(at), np.int64)
    barrier = np.where(mbarrier < 0, -1, trace.barriers.number(one, one, mbarrier))
    kinds, nbytes = copies.kind[at].astype(np.int64), copies.nbytes[at].astype(np.int64)
    none = np.full(len(at), -1)
    yield from _gathered(trace, COPIES, at, copies.event[at], copies.done[at], kinds, barrier, nbytes, none)


def _mmas(trace: ClusterColumns) -> Iterator[Row]:
    mmas = trace.log.mmas
    at = np.flatnonzero((mmas.kind != _MMA_SYNC) & trace.here(mmas.event))
    none = np.full(len(at), -1)
    d = np.where(mmas.kind[at] == MMA_KINDS.index("wgmma"), -1, mmas.d[at].astype(np.int64))
    kinds = mmas.kind[at].astype(np.int64) + _MMA_BASE
    yield from _gathered(trace, MMAS, at, mmas.event[at], mmas.done[at], kinds, none, 0 * none, d)


def _tmem(trace: ClusterColumns) -> Iterator[Row]:
    tmem, end = trace.log.tmem, len(trace.log)
    at = np.flatnonzero(trace.here(tmem.event) & (tmem.kind != _DEALLOC))
    rows = trace.rows_of(tmem.event[at])
    freed = {
        (int(trace.ranks[trace.log.cta[event]]), int(address)): int(event)
        for event, address in zip(tmem.event[tmem.kind == _DEALLOC], tmem.address[tmem.kind == _DEALLOC], strict=True)
    }
    for row, i in zip(rows.tolist(), at.tolist(), strict=True):
        event, done, kind = int(tmem.event[i]), int(tmem.done[i]), int(tmem.kind[i])
        if kind == _ALLOC:
            done = freed.get((row // trace.warps, int(tmem.address[i])), end)
        cells = int(tmem.columns[i]) * int(tmem.lanes[i])
        done = end if done < 0 else max(done, event + 1)
        span = [event, done, row, TMEM, kind + _TMEM_BASE, -1, 4 * cells, 1, event, int(tmem.address[i])]
        yield span, np.array([i])


def _gathered(
    trace: ClusterColumns,
    track: int,
    at: Array,
    event: Array,
    done: Array,
    kind: Array,
    barrier: Array,
    nbytes: Array,
    detail: Array,
) -> Iterator[Row]:
    """Operations of one warp and one kind that were carried out at the same position for the same barrier as one."""
    rows = trace.rows_of(event)
    columns = (rows, kind, done.astype(np.int64), barrier, detail)
    together: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        together.setdefault(key, []).append(i)
    for (row, kind_, done_, barrier_, detail_), members in together.items():
        first, last = int(event[members[0]]), int(event[members[-1]])
        end = len(trace.log) if done_ < 0 else max(done_, last + 1)
        total = int(nbytes[members].sum())
        yield [first, end, row, track, kind_, barrier_, total, len(members), last, detail_], at[members]
