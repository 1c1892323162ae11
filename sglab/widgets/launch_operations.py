"""The asynchronous operations of a cluster, gathered into spans: what was issued together and carried out together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sglab.gpu.event_tables import COPY_KINDS, MMA_KINDS, TMEM_KINDS

from .launch_trace import Array, ClusterTrace

COPIES, MMAS, TMEM = range(3)
KINDS = (*COPY_KINDS, *MMA_KINDS, *TMEM_KINDS)
_MMA_SYNC = MMA_KINDS.index("mma.sync")
_ALLOC, _DEALLOC = TMEM_KINDS.index("alloc"), TMEM_KINDS.index("dealloc")
_MMA_BASE, _TMEM_BASE = len(COPY_KINDS), len(COPY_KINDS) + len(MMA_KINDS)


def operations(trace: ClusterTrace) -> Array:
    """(10, n), by first event: first event, position carried out, row that issued, track, kind (index into KINDS),
    barrier signalled or -1, bytes, operations gathered, last event, detail: the address of tensor memory written, -1.

    mma.sync is no operation of its own: the instruction waits for it.
    """
    spans = [*_copies(trace), *_mmas(trace), *_tmem(trace)]
    spans.sort()
    return np.array(spans, np.int32).reshape(-1, 10).T


def _copies(trace: ClusterTrace) -> Iterator[list[int]]:
    copies = trace.log.copies
    at = np.flatnonzero(trace.here(copies.event))
    mbarrier = copies.mbarrier[at].astype(np.int64)
    one = np.ones(len(at), np.int64)
    barrier = np.where(mbarrier < 0, -1, trace.barriers.number(one, one, mbarrier))
    yield from _gathered(
        trace,
        COPIES,
        copies.event[at],
        copies.done[at],
        copies.kind[at].astype(np.int64),
        barrier,
        copies.nbytes[at].astype(np.int64),
        np.full(len(at), -1),
    )


def _mmas(trace: ClusterTrace) -> Iterator[list[int]]:
    mmas = trace.log.mmas
    at = np.flatnonzero((mmas.kind != _MMA_SYNC) & trace.here(mmas.event))
    none = np.full(len(at), -1)
    d = np.where(mmas.kind[at] == MMA_KINDS.index("wgmma"), -1, mmas.d[at].astype(np.int64))
    kinds = mmas.kind[at].astype(np.int64) + _MMA_BASE
    yield from _gathered(trace, MMAS, mmas.event[at], mmas.done[at], kinds, none, 0 * none, d)


def _tmem(trace: ClusterTrace) -> Iterator[list[int]]:
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
        yield [event, done, row, TMEM, kind + _TMEM_BASE, -1, 4 * cells, 1, event, int(tmem.address[i])]


def _gathered(
    trace: ClusterTrace,
    track: int,
    event: Array,
    done: Array,
    kind: Array,
    barrier: Array,
    nbytes: Array,
    detail: Array,
) -> Iterator[list[int]]:
    """Operations of one warp and one kind that were carried out at the same position for the same barrier as one."""
    rows = trace.rows_of(event)
    columns = (rows, kind, done.astype(np.int64), barrier, detail)
    together: dict[tuple[Any, ...], list[int]] = {}
    for i, key in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        together.setdefault(key, []).append(i)
    for (row, kind_, done_, barrier_, detail_), members in together.items():
        first, last = int(event[members[0]]), int(event[members[-1]])
        end = len(trace.log) if done_ < 0 else max(done_, last + 1)
        yield [first, end, row, track, kind_, barrier_, int(nbytes[members].sum()), len(members), last, detail_]
