"""Bytes of global memory that a recorded launch touched, each once: what an empty L2 cache fetches and writes back."""

from __future__ import annotations

import numpy as np

from sglab.events import EventLog
from sglab.events.tables import COPY_KINDS, COPY_MODES, GLOBAL, READ, WRITE, Array
from sglab.events.timing.tables import copy_columns

SECTOR = 32
"""Bytes that memory moves at least."""
_READING = ("tensor load", "tensor reduce", "bulk load", "bulk reduce", "tensor prefetch", "bulk prefetch")
_WRITING = ("tensor store", "tensor reduce", "bulk store", "bulk reduce")
_MOVING = (*_READING, "tensor store", "bulk store", "cp.async")


def touched_bytes(log: EventLog) -> float:
    """Sectors read plus sectors written, in bytes, however often each was."""
    return _union(*_intervals(log, READ)) + _union(*_intervals(log, WRITE)) + _gathered(log)


def requested_bytes(log: EventLog) -> float:
    """Bytes that loads, stores and copies of global memory moved, repeated ones counted again."""
    copies = np.isin(log.copies.kind, [COPY_KINDS.index(kind) for kind in _MOVING])
    own = log.accesses.nbytes[log.accesses.space == GLOBAL]
    return float(own.sum(dtype=np.float64) + log.copies.nbytes[copies].sum(dtype=np.float64))


def _intervals(log: EventLog, direction: int) -> tuple[Array, Array]:
    """First and last byte of each stretch that was read (written)."""
    accesses = [_of_accesses(log, direction), _of_copies(log, _READING if direction == READ else _WRITING)]
    return np.concatenate([first for first, _ in accesses]), np.concatenate([last for _, last in accesses])


def _of_accesses(log: EventLog, direction: int) -> tuple[Array, Array]:
    """A warp's access is one stretch, or as many equally distant ones as it has lanes: the log has where it begins and
    ends."""
    table = log.accesses
    chosen = (table.space == GLOBAL) & ((table.kind & direction) > 0) & (table.lanes > 0)
    address, span, nbytes = (getattr(table, name)[chosen].astype(np.int64) for name in ("address", "span", "nbytes"))
    lanes = table.lanes[chosen].astype(np.int64)
    dense = span < nbytes + SECTOR
    pieces = np.where(dense, 1, lanes)
    width = np.where(dense, span, np.maximum(1, nbytes // lanes))
    stride = np.where(dense | (lanes < 2), 0, (span - width) // np.maximum(1, lanes - 1))
    number = np.arange(int(pieces.sum())) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first = np.repeat(address, pieces) + number * np.repeat(stride, pieces)
    return first, first + np.repeat(width, pieces) - 1


def _of_copies(log: EventLog, kinds: tuple[str, ...]) -> tuple[Array, Array]:
    columns = copy_columns(log.copies, log.maps)
    address, pitch = columns["address"].astype(np.int64), columns["pitch"].astype(np.int64)
    rows, row_bytes = columns["rows"].astype(np.int64), columns["row_bytes"].astype(np.int64)
    chosen = np.isin(log.copies.kind, [COPY_KINDS.index(kind) for kind in kinds]) & (address > 0)
    gather4 = chosen & (log.copies.mode == COPY_MODES.index("gather4"))
    plain = np.flatnonzero(chosen & ~gather4)
    count = rows[plain]
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    first = np.repeat(address[plain], count) + number * np.repeat(pitch[plain], count)
    width = np.repeat(row_bytes[plain], count)
    firsts, widths = [first], [width]
    for at in np.flatnonzero(gather4):
        info = log.maps[log.copies.map[at]]
        element = int(columns["row_bytes"][at]) // info.box[0]
        column, *chosen_rows = (int(each) for each in log.copies.coordinates[at])
        firsts.append(np.array([info.address + column * element + row * info.strides[0] for row in chosen_rows]))
        widths.append(np.full(len(chosen_rows), row_bytes[at]))
    starts = np.concatenate(firsts)
    return starts, starts + np.concatenate(widths) - 1


def _gathered(log: EventLog) -> float:
    """cp.async: of what a warp's lanes copy, the log has the lowest address, which stands for all of it."""
    chosen = (log.copies.kind == COPY_KINDS.index("cp.async")) & (log.copies.address > 0)
    _, where = np.unique(log.copies.address[chosen], return_index=True)
    return float(log.copies.nbytes[chosen][where].sum(dtype=np.float64))


def _union(first: Array, last: Array) -> float:
    """Bytes of the sectors that stretches cover together."""
    if not len(first):
        return 0.0
    order = np.argsort(first, kind="stable")
    start, end = first[order] // SECTOR, last[order] // SECTOR + 1
    reach = np.maximum.accumulate(end)
    before = np.r_[start[0], reach[:-1]]
    return float(SECTOR * np.maximum(0, end - np.maximum(start, before)).sum())
