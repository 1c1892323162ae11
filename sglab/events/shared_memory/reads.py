"""What a recorded launch does with the shared memory of one CTA: its moments, the tiles and areas that they use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.events.async_groups import marks_of
from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.shared_memory.tiles import Area, SharedTile, element_bits
from sglab.events.tables import (
    COPY_KINDS,
    COPY_MODES,
    ELEMENT_TYPES,
    MBARRIER,
    MMA_KINDS,
    MMA_SPACES,
    SHARED,
    WRITE,
)

KINDS = ("copy", "mma", "ld", "st", "commit", "wait")
"""Kinds of moments, as the page counts them."""
COLUMNS = 15
OFFSET, RANK = 0xFFFFFF, 24
SWIZZLES = ("none", "32B", "64B", "128B", "128B_atom_32B", "128B_atom_32B_flip_8B", "128B_atom_64B")


@dataclass
class SmemRun:
    """The moments of a launch that concern one CTA's shared memory.

    Attributes:
        moments: (n, 15) int32: event, CTA, warp, pc, kind, tile, other tile, start, bytes, operations carried out, and
            the five coordinates of a box.
    """

    events: npt.NDArray[np.int64]
    moments: npt.NDArray[np.int32]
    tiles: list[SharedTile]
    areas: list[Area]


def read_run(log: RecordedLaunch, cluster: Sequence[int], cta: int) -> SmemRun:
    """cluster: the linear indices of the CTAs of the cluster that `cta` belongs to, by rank."""
    return _Reader(log, list(cluster), cta).read()


@dataclass
class _Reader:
    log: RecordedLaunch
    cluster: list[int]
    cta: int
    rows: dict[int, list[int]] = field(default_factory=dict)
    carried: dict[int, int] = field(default_factory=dict)
    tiles: dict[SharedTile, int] = field(default_factory=dict)
    plain: set[tuple[int, int]] = field(default_factory=set)

    def read(self) -> SmemRun:
        self.rank = self.cluster.index(self.cta)
        self._copies()
        self._products()
        self._accesses()
        self._groups()
        events = np.array(sorted(self.rows), np.int64)
        moments = np.full((len(events), COLUMNS), 0, np.int32)
        for number, event in enumerate(events.tolist()):
            row = self.rows[event]
            where = [event, self.log.cta[event], self.log.warp[event], self.log.pc[event]]
            moments[number] = [*where, *row[:5], self.carried.get(event, 0), *row[5:]]
        return SmemRun(events, moments, list(self.tiles), self._areas())

    def _row(self, kind: str, tile: int = -1, other: int = -1, start: int = 0, nbytes: int = 0) -> list[int]:
        return [KINDS.index(kind), tile, other, start, nbytes, 0, 0, 0, 0, 0]

    def _done(self, event: int, done: int) -> None:
        if event < done < len(self.log):
            self.carried[done] = self.carried.get(done, 0) + 1
            self.rows.setdefault(done, self._row("wait"))

    def _of_cluster(self, events: npt.NDArray[Any]) -> list[int]:
        return np.flatnonzero(np.isin(self.log.cta[events.astype(np.int64)], self.cluster)).tolist()

    def _copies(self) -> None:
        copies = self.log.copies
        for row in self._of_cluster(copies.event):
            shared, mask = int(copies.shared[row]), int(copies.multicast[row])
            reached = mask >> self.rank & 1 if mask else shared >> RANK == self.rank
            if shared < 0 or not reached:
                continue
            event, start, nbytes = int(copies.event[row]), shared & OFFSET, int(copies.nbytes[row])
            tile = self._box(row, start, nbytes)
            made = self._row("copy", tile, -1, start, nbytes)
            made[5:] = copies.coordinates[row].tolist()
            self.rows[event] = made
            self._done(event, int(copies.done[row]))
            if tile < 0:
                self.plain.add((start, nbytes))

    def _box(self, row: int, start: int, nbytes: int) -> int:
        copies, number = self.log.copies, int(self.log.copies.map[row])
        if number < 0 or COPY_MODES[copies.mode[row]] != "tile":
            return -1
        info = self.log.maps[number]
        if info.interleave or info.im2col:
            return -1
        bits = element_bits(info.element)
        tile = SharedTile(
            "map",
            f"{COPY_KINDS[copies.kind[row]]}, map {number}",
            start,
            nbytes,
            SWIZZLES[info.swizzle],
            nbytes * 8 // bits // info.box[0],
            info.box[0],
            info.element,
            bits,
            map=number,
        )
        return self.tiles.setdefault(tile, len(self.tiles))

    def _products(self) -> None:
        mmas = self.log.mmas
        for row in self._of_cluster(mmas.event):
            event, group = int(mmas.event[row]), int(mmas.cta_group[row])
            issuer = self.cluster.index(int(self.log.cta[event]))
            if MMA_KINDS[mmas.kind[row]] == "mma.sync" or issuer - issuer % group != self.rank - self.rank % group:
                continue
            in_smem = MMA_SPACES[mmas.a_space[row]] == "shared"
            a = self._operand("A", row) if in_smem else -1
            self.rows[event] = self._row("mma", a, self._operand("B", row))
            self._done(event, int(mmas.done[row]))

    def _operand(self, which: str, row: int) -> int:
        mmas = self.log.mmas
        lower = which.lower()
        kind = MMA_KINDS[mmas.kind[row]]
        group = int(mmas.cta_group[row])
        bits = int(getattr(mmas, lower)[row]) & (1 << 64) - 1
        element = ELEMENT_TYPES[getattr(mmas, f"{lower}_type")[row]]
        width = 4 if kind in ("mxf4", "mxf4nvf4") else element_bits(element)
        major = "MN" if getattr(mmas, f"{lower}_major")[row] else "K"
        rows, k = int(mmas.m[row] if which == "A" else mmas.n[row]) // group, int(mmas.k[row])
        start = (bits & 0x3FFF) << 4
        side = "M" if which == "A" else "N"
        instruction = kind if kind == "wgmma" else f"kind::{kind}"
        tile = SharedTile(
            "descriptor",
            f"{which} of {instruction}, {side} {rows} × K {k} {element}, {major}-major",
            start,
            rows * k * width // 8,
            "",
            rows,
            k,
            element,
            width,
            bits=hex(bits),
            flavour="wgmma" if kind == "wgmma" else "tcgen05",
            major=major,
            kind="" if kind == "wgmma" else kind,
            idesc=int(mmas.idesc[row]),
            cta_group=group,
            operand=which,
        )
        return self.tiles.setdefault(tile, len(self.tiles))

    def _accesses(self) -> None:
        accesses = self.log.accesses
        found = (accesses.space == SHARED) & (accesses.address >> RANK == self.rank)
        for row in np.flatnonzero(found).tolist():
            event = int(accesses.event[row])
            if self.log.cta[event] not in self.cluster:
                continue
            kind = "st" if accesses.kind[row] & WRITE else "ld"
            start = int(accesses.address[row]) & OFFSET
            self.rows.setdefault(event, self._row(kind, start=start, nbytes=int(accesses.span[row])))

    def _groups(self) -> None:
        """cp.async groups and warp matrices: what the tables of copies and accesses do not list."""
        kinds = {pc: one.event for pc, one in marks_of(self.log).items()}
        for pc, one in enumerate(self.log.code.effects):
            if one.act == "matrix rows":
                kinds[pc] = "ld" if one.reads else "st"
        found = np.flatnonzero(np.isin(self.log.pc, list(kinds)) & (self.log.cta == self.cta))
        for event in found.tolist():
            self.rows.setdefault(event, self._row(kinds[int(self.log.pc[event])]))

    def _areas(self) -> list[Area]:
        areas: dict[Area, None] = {}
        for number, tile in enumerate(self.tiles):
            kind = "tile" if tile.source == "map" else "operand"
            areas.setdefault(Area(kind, tile.name, tile.start, tile.bytes, number))
        for start, nbytes in sorted(self.plain):
            areas.setdefault(Area("copy", "asynchronous copy", start, nbytes))
        barriers = self.log.barriers
        mine = (barriers.kind == MBARRIER) & (barriers.object >> RANK == self.rank)
        mine &= np.isin(self.log.cta[barriers.event.astype(np.int64)], self.cluster)
        for offset in np.unique(barriers.object[mine] & OFFSET).tolist():
            name = self.log.roles.barrier(self.cta, MBARRIER, self.rank << RANK | offset)
            areas.setdefault(Area("mbarrier", f"mbarrier {name}".strip(), offset, 8))
        return list(areas)
