"""What a recorded launch does with the tensor memory of some CTAs: moments, touched cells, matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.tables import ELEMENT_TYPES, MMA_KINDS, MMA_SPACES, TMEM_KINDS
from sglab.events.tensor_memory.cells import COLUMNS, LANES, READ, RESET, WRITE, Touch
from sglab.gpu import core

KINDS = ("alloc", "dealloc", "st", "ld", "mma", "cp", "shift", "commit", "wait")
"""Kinds of moments, as the page counts them."""
UNIT = 32
"""Columns per allocation unit."""
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32}  # the others take 8, or 4 in kind::mxf4*
_ACCESS = {"alloc": RESET, "dealloc": RESET, "ld": READ, "st": WRITE, "cp": WRITE, "shift": READ | WRITE}


@dataclass
class TensorMatrix:
    """A matrix in tensor memory. blocks: (rank, lane, lanes, column, columns, first row, first column) each."""

    role: str
    type: str
    rows: int
    columns: int
    cta_group: int
    packed: int
    blocks: tuple[tuple[int, ...], ...]


@dataclass
class TmemRun:
    """The moments of a launch that concern the tensor memory of `ctas`, and what they touch.

    Attributes:
        moments: (n, 11) int32: event, CTA, warp, pc, kind, tile, lane, lanes, column, columns, operations carried out.
    """

    ctas: list[int]
    events: npt.NDArray[np.int64]
    moments: npt.NDArray[np.int32]
    touches: list[Touch]
    tiles: list[TensorMatrix]

    def owner(self, position: int) -> npt.NDArray[np.int64]:
        """(CTAs, 16): the number of the allocation that holds each 32 columns before event `position`; 0 for free."""
        owner = np.zeros((len(self.ctas), COLUMNS // UNIT), np.int64)
        numbers = [0] * len(self.ctas)
        for touch in self.touches:
            if not touch.access & RESET or touch.when >= position:
                continue
            allocates = KINDS[self.moments[touch.moment, 4]] == "alloc"
            numbers[touch.rank] += allocates
            units = slice(touch.column // UNIT, (touch.column + touch.columns) // UNIT)
            owner[touch.rank, units] = numbers[touch.rank] if allocates else 0
        return owner


def uses_tensor_memory(log: RecordedLaunch) -> bool:
    return len(log.tmem.event) > 0 or bool((log.mmas.kind < MMA_KINDS.index("wgmma")).any())


def cta_group(log: RecordedLaunch) -> int:
    """2 where some tcgen05 instruction works on a pair."""
    groups = [log.tmem.cta_group, log.mmas.cta_group[log.mmas.kind < MMA_KINDS.index("wgmma")]]
    return max((int(each.max()) for each in groups if len(each)), default=1)


def read_run(log: RecordedLaunch, ctas: list[int]) -> TmemRun:
    """ctas: one CTA, or a pair by rank."""
    return _Reader(log, ctas).read()


@dataclass
class _Reader:
    log: RecordedLaunch
    ctas: list[int]
    rows: dict[int, list[int]] = field(default_factory=dict)
    carried: dict[int, int] = field(default_factory=dict)
    drafts: list[tuple[int, Any]] = field(default_factory=list)
    tiles: dict[Any, int] = field(default_factory=dict)

    def read(self) -> TmemRun:
        self._traffic()
        self._products()
        self._waits()
        events = np.array(sorted(self.rows), np.int64)
        number = {event: index for index, event in enumerate(events.tolist())}
        moments = np.zeros((len(events), 11), np.int32)
        for event, row in self.rows.items():
            pc = self.log.pc[event]
            moments[number[event]] = [
                event, self.log.cta[event], self.log.warp[event], pc, *row, self.carried.get(event, 0),
            ]  # fmt: skip
        touches = [
            Touch(when, number[event], rank, lane, lanes, column, columns, access, tile)
            for event, (when, rank, lane, lanes, column, columns, access, tile) in self.drafts
        ]
        return TmemRun(self.ctas, events, moments, touches, [TensorMatrix(*key) for key in self.tiles])

    def _mine(self, events: Any) -> list[int]:
        """Rows whose instruction one of the CTAs executed."""
        return np.flatnonzero(np.isin(self.log.cta[events.astype(np.int64)], self.ctas)).tolist()

    def _when(self, event: int, done: int) -> int:
        """Operations that were never carried out never touch anything."""
        return max(event, done) if done >= 0 else len(self.log) + 1

    def _done_by(self, event: int, when: int) -> None:
        """What is carried out later than issued makes a moment of the instruction that saw to it."""
        if event < when < len(self.log):
            self.carried[when] = self.carried.get(when, 0) + 1
            self.rows.setdefault(when, [KINDS.index("wait"), -1, 0, 0, 0, 0])

    def _traffic(self) -> None:
        tmem = self.log.tmem
        for row in self._mine(tmem.event):
            event, kind = int(tmem.event[row]), TMEM_KINDS[tmem.kind[row]]
            address, columns, lanes = int(tmem.address[row]), int(tmem.columns[row]), int(tmem.lanes[row])
            lane, column = address >> 16, address & 0xFFFF
            if kind in ("alloc", "dealloc"):
                lane, lanes = 0, LANES
            self.rows[event] = [KINDS.index(kind), -1, lane, lanes, column, columns]
            when = self._when(event, int(tmem.done[row]))
            if kind != "st":  # its own wait says so
                self._done_by(event, when)
            own = self.ctas.index(int(self.log.cta[event]))
            both = kind in ("cp", "shift") and tmem.cta_group[row] == 2
            for rank in range(len(self.ctas)) if both else [own]:
                self.drafts.append((event, (when, rank, lane, lanes, column, columns, _ACCESS[kind], -1)))

    def _products(self) -> None:
        mmas = self.log.mmas
        for row in self._mine(mmas.event):
            if MMA_KINDS[mmas.kind[row]] in ("wgmma", "mma.sync"):
                continue
            event = int(mmas.event[row])
            when = self._when(event, int(mmas.done[row]))
            self._done_by(event, when)
            effects = self.log.code.effects[self.log.pc[event]]
            d = self._tile("D", row, effects)
            if MMA_SPACES[mmas.a_space[row]] == "tensor":
                a = self._tile("A", row, effects)
                self._touch(event, when, a, READ)
            access = WRITE | (READ if mmas.accumulate[row] else 0)
            self._touch(event, when, d, access)
            first = list(self.tiles)[d][-1][0]
            self.rows[event] = [KINDS.index("mma"), d, *first[1:5]]

    def _touch(self, event: int, when: int, tile: int, access: int) -> None:
        for rank, lane, lanes, column, columns, *_ in list(self.tiles)[tile][-1]:
            self.drafts.append((event, (when, rank, lane, lanes, column, columns, access, tile)))

    def _tile(self, role: str, row: int, effects: core.Effects) -> int:
        mmas = self.log.mmas
        group, m, n, k = (int(column[row]) for column in (mmas.cta_group, mmas.m, mmas.n, mmas.k))
        layout = core.tensor.datapath(m, n, group, effects.weight_stationary, effects.sparse)
        # A pair's first CTA issues for both; a CTA alone works on itself.
        own = 0 if group == 2 else self.ctas.index(int(self.log.cta[int(mmas.event[row])]))
        if role == "D":
            at, name, width, packed = int(mmas.d[row]), ELEMENT_TYPES[mmas.d_type[row]], n, 1
            blocks = [(c + own, (at >> 16) + lane, rows, at & 0xFFFF, columns, first, column)
                      for c, lane, first, rows, column, columns in layout]  # fmt: skip
        else:
            at, name = int(mmas.a[row]) & 0xFFFFFFFF, ELEMENT_TYPES[mmas.a_type[row]]
            width = k // 2 if effects.sparse else k
            packed = 32 // (4 if "mxf4" in MMA_KINDS[mmas.kind[row]] else BITS.get(name, 8))
            held = -(-width // packed)
            blocks = list(dict.fromkeys(
                (c + own, (at >> 16) + lane, rows, at & 0xFFFF, held, first, 0) for c, lane, first, rows, _, _ in layout
            ))  # fmt: skip
        key = (role, name, m, width, group, packed, tuple(blocks))
        return self.tiles.setdefault(key, len(self.tiles))

    def _waits(self) -> None:
        """Commits, and waits for loads and stores."""
        kinds = {
            pc: KINDS.index(one.event)
            for pc, one in enumerate(self.log.code.effects)
            if one.cost in ("tcgen05 commit", "tmem wait load", "tmem wait store")
        }
        found = np.flatnonzero(np.isin(self.log.pc, list(kinds)) & np.isin(self.log.cta, self.ctas))
        issuers = {self._who(event) for event, row in self.rows.items() if KINDS[row[0]] in ("mma", "cp", "shift")}
        for event in found.tolist():
            kind = kinds[int(self.log.pc[event])]
            # Other warps pass a guarded commit by.
            if KINDS[kind] == "wait" or self._who(event) in issuers:
                self.rows.setdefault(event, [kind, -1, 0, 0, 0, 0])

    def _who(self, event: int) -> tuple[int, int]:
        return int(self.log.cta[event]), int(self.log.warp[event])
