"""An event log's tables in the form in which the compiled core replays them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sglab.events.columns import EventColumns
from sglab.events.tables import (
    ELEMENT_TYPES,
    GLOBAL,
    MMA_KINDS,
    TMEM_KINDS,
    Accesses,
    Array,
    Copies,
    Mmas,
    TensorMapInfo,
)
from sglab.events.timing.figures import Figures
from sglab.gpu.arguments import Allocation
from sglab.gpu.geometry import Geometry

_ALIGNED, _LINE, _SECTOR = 512, np.uint64(128), np.uint64(32)
_FIRST = 1 << 40

_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s32": 4, "e2m1": 0.5, "e2m3": 1, "e3m2": 1}
_RATE = {"f16": 1.0, "tf32": 0.5, "f8f6f4": 2.0, "i8": 2.0, "mxf8f6f4": 2.0, "mxf4": 4.0, "mxf4nvf4": 4.0}
_MAP_BYTES = {"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "s64": 8, "f16": 2, "bf16": 2, "f64": 8}


def cluster_columns(geometry: Geometry) -> dict[str, Array]:
    """Cluster and rank of each CTA, in linear order of the grid."""
    ctas = np.arange(geometry.ctas)
    return {
        "cluster": geometry.cluster_of(ctas).astype(np.uint32),
        "rank": geometry.rank(ctas).astype(np.uint32),
    }


def placed(addresses: Array, allocations: Sequence[Allocation]) -> Array:
    """Where the bytes would be if the launch's memory lay in one piece, in the order in which it was given, each
    allocation at a multiple of 512 bytes as CUDA's are: what the model makes of a launch must not depend on where a
    process happens to have its tensors."""
    if not allocations:
        return addresses
    begin = np.array([one.address for one in allocations], np.uint64)
    room = np.array([-(-one.nbytes // _ALIGNED) * _ALIGNED for one in allocations], np.uint64)
    target = np.uint64(_FIRST) + np.cumsum(room) - room
    by_address = np.argsort(begin, kind="stable")
    begin, room, target = begin[by_address], room[by_address], target[by_address]
    own = np.clip(np.searchsorted(begin, addresses, side="right") - 1, 0, None)
    offset = addresses - begin[own]
    inside = (addresses >= begin[own]) & (offset < room[own])
    moved: Array = np.where(inside, target[own] + offset, addresses)
    return moved


def access_columns(accesses: Accesses, allocations: Sequence[Allocation]) -> dict[str, Array]:
    """With global addresses as `placed` has them; sectors and lines are those that it covers there."""
    in_global = accesses.space == GLOBAL
    address = np.where(in_global, placed(accesses.address, allocations), accesses.address)
    stretch = in_global & (accesses.span <= accesses.sectors.astype(np.uint32) * 32)
    last = address + accesses.span - 1
    lines = np.where(stretch, last // _LINE - address // _LINE + 1, accesses.lines).astype(np.uint8)
    whole = in_global & (accesses.nbytes >= accesses.span)  # lanes leave no gaps
    sectors = np.where(whole, last // _SECTOR - address // _SECTOR + 1, accesses.sectors).astype(np.uint8)
    return {**vars(accesses), "address": address, "sectors": sectors, "lines": lines}


def copy_columns(copies: Copies, maps: list[TensorMapInfo], allocations: Sequence[Allocation] = ()) -> dict[str, Array]:
    """Where in global memory each copy's rows are: `rows` of `row_bytes`, `pitch` apart."""
    count = len(copies.event)
    address = np.where(copies.address > 0, copies.address, 0)
    rows, pitch, row_bytes = np.ones(count, np.int64), np.zeros(count, np.int64), copies.nbytes.astype(np.int64)
    for number, info in enumerate(maps):
        chosen = np.flatnonzero(copies.map == number)
        size = _MAP_BYTES.get(info.element, 4)
        strides = np.array([size, *info.strides], np.int64)
        inside = np.clip(copies.coordinates[chosen, : len(strides)], 0, np.array(info.dims) - 1)
        address[chosen] = info.address + inside.astype(np.int64) @ strides
        rows[chosen] = prod(info.box[1:])
        row_bytes[chosen] = info.box[0] * size
        pitch[chosen] = info.strides[0] if info.strides else 0
    names = ("event", "done", "mbarrier", "nbytes", "multicast", "kind")
    return {
        **{name: getattr(copies, name) for name in names},
        "address": np.where(address > 0, placed(address.astype(np.uint64), allocations), np.uint64(0)),
        "rows": rows.astype(np.uint32),
        "row_bytes": row_bytes.astype(np.uint32),
        "pitch": pitch.astype(np.uint64),
    }


@dataclass(frozen=True)
class TensorOperations:
    """tcgen05 operations in order of events. mma, tmem: their rows in the log's tables, or -1"""

    columns: dict[str, Array]
    mma: Array
    tmem: Array


def tensor_operations(log: EventColumns, figures: Figures) -> TensorOperations:
    tcgen05 = np.flatnonzero(log.mmas.kind < MMA_KINDS.index("wgmma"))
    moved = np.flatnonzero(log.tmem.kind >= TMEM_KINDS.index("ld"))
    event = np.r_[log.mmas.event[tcgen05], log.tmem.event[moved]]
    order = np.argsort(event, kind="stable")
    busy, latency = np.zeros(len(event)), np.zeros(len(event))
    if len(event):
        busy = np.r_[_mma_cycles(log.mmas, tcgen05, figures), _tmem_cycles(log.tmem, moved, figures)]
        latency = np.r_[np.full(len(tcgen05), figures["tcgen05_latency"]), np.full(len(moved), figures["tmem_latency"])]
    group = np.r_[log.mmas.cta_group[tcgen05], log.tmem.cta_group[moved]]
    columns = {
        "event": event[order].astype(np.uint64),
        "busy": busy[order].astype(np.float32),
        "latency": latency[order].astype(np.float32),
        "cta_group": group[order].astype(np.uint8),
    }
    nothing = np.full(len(moved), -1)
    return TensorOperations(columns, np.r_[tcgen05, nothing][order], np.r_[np.full(len(tcgen05), -1), moved][order])


def _mma_cycles(mmas: Mmas, rows: Array, figures: Figures) -> Array:
    """The tensor core of each SM computes at its rate, but takes its operands from shared memory. 64 rows of one CTA
    fill half of it; a CTA pair's 128 rows fill both SMs, each with 64 rows in two halves of the columns."""
    m, n, k = (getattr(mmas, name)[rows].astype(np.float64) for name in "mnk")
    group = mmas.cta_group[rows]
    rates = np.array([_RATE.get(kind, 1.0) for kind in MMA_KINDS])[mmas.kind[rows]]
    own_rows = m / group
    macs = np.where(group == 2, own_rows, np.maximum(own_rows, 128)) * n * k
    size = np.array([_BYTES.get(kind, 1) for kind in ELEMENT_TYPES])
    a_bytes = np.where(mmas.a_space[rows] == 0, own_rows * k * size[mmas.a_type[rows]], 0)
    b_bytes = n / group * k * size[mmas.b_type[rows]]
    cycles: Array = np.maximum(macs / (figures["tcgen05_macs"] * rates), (a_bytes + b_bytes) / figures["shared_rate"])
    return cycles


def _tmem_cycles(tmem: Any, rows: Array, figures: Figures) -> Array:
    nbytes = 4.0 * tmem.columns[rows] * tmem.lanes[rows]
    names = {"ld": "tmem_load_rate", "st": "tmem_store_rate"}
    rates = np.array([figures[names.get(kind, "tmem_copy_rate")] for kind in TMEM_KINDS])
    cycles: Array = nbytes / rates[tmem.kind[rows]]
    return cycles
