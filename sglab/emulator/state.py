"""What a session shows: plain records of a launch at one moment."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sglab.gpu.code import Instruction

Reason = Literal["reached", "breakpoint", "end", "exited", "start", "limit"]
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def lanes(mask: int) -> list[int]:
    """The numbers of the lanes in a mask."""
    return [lane for lane in range(32) if mask >> lane & 1]


@dataclass(frozen=True)
class Cta:
    """A running CTA: linear index in the grid, coordinates, its cluster and its rank there."""

    linear: int
    index: tuple[int, int, int]
    cluster: int
    rank: int
    warp_count: int


@dataclass(frozen=True)
class Group:
    """Lanes of a warp that run together.

    Attributes:
        at: the instruction they execute next, or wait at.
        wait: ready, warp, barrier, cluster_barrier, mbarrier, async or resource.
        key: what they wait for: lanes, a barrier's number, a shared address.
        since: the position at which they began to wait.
        blocked: the same as a sentence; empty if they can continue.
    """

    at: Instruction
    mask: int
    wait: str
    key: int
    since: int | None
    blocked: str


@dataclass(frozen=True)
class Warp:
    """A warp: its lanes that have not exited, and the groups they have diverged into."""

    cta: Cta
    index: int
    live: int
    executed: int
    groups: tuple[Group, ...]

    @property
    def exited(self) -> bool:
        return not self.groups

    @property
    def blocked(self) -> bool:
        return bool(self.groups) and all(group.blocked for group in self.groups)


@dataclass(frozen=True)
class Place:
    """An instruction and who executes it: CTA (linear index), warp, lanes as a mask."""

    cta: int
    warp: int
    instruction: Instruction
    mask: int

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """As a line, for people."""
        source = self.instruction.own_source
        where = f"{PurePath(source[0]).name}:{source[1]}" if source else f"PTX line {self.instruction.ptx_line}"
        lanes = "" if self.mask == 0xFFFFFFFF else f", lanes 0x{self.mask:08x}"
        text = textwrap.shorten(self.instruction.text, 80, placeholder=" …")
        return f"warp {self.warp} of CTA {self.cta}{lanes}, {where}: {text}"


@dataclass(frozen=True)
class Stop:
    """Where a session has stopped.

    Attributes:
        reason: reached (the requested moment), breakpoint, end (of the launch), exited (the warp), limit (as many
            instructions as were allowed).
        at: the instruction before which a breakpoint stopped, or else the one executed last.
        breakpoint: the number of the breakpoint; None where the move itself has asked to stop there.
    """

    reason: Reason
    position: int
    at: Place | None
    breakpoint: int | None = None

    def __repr__(self) -> str:
        """One line, as a notebook shows it where a move is the last of a cell."""
        why = self.reason if self.breakpoint is None else f"breakpoint {self.breakpoint}"
        role = "next" if self.reason == "breakpoint" else "last"
        return f"<Stop at step {self.position:,} ({why})" + (f"; {role}: {self.at}>" if self.at else ">")


@dataclass(frozen=True)
class Breakpoint:
    """Where a session stops.

    Attributes:
        number: for Session.unbreak.
        kind: code (before instructions), watch (at accesses to memory) or phase (after the end of a barrier's).
        label: the same for people, such as "mla_decode.cu:448".
        pcs: of a code breakpoint.
        source: its file and line, if it was set by line.
        cta, warp: whom it stops; None for all.
        when: what a lane must hold, as it was written; empty: anything.
    """

    number: int
    kind: Literal["code", "watch", "phase"]
    label: str
    pcs: tuple[int, ...] = ()
    source: tuple[str, int] | None = None
    cta: int | None = None
    warp: int | None = None
    when: str = ""


@dataclass(frozen=True)
class Register:
    """A virtual register. values: 32 lanes, in the dtype of its PTX type (bool for predicates, unsigned for .b types,
    pairs of uint64 for .b128)."""

    name: str
    type: str
    values: npt.NDArray[Any]

    @classmethod
    def read(cls, name: str, kind: str, size: int, data: bytes) -> Register:
        if size == 0:
            mask = int.from_bytes(data, "little")
            return cls(name, kind, np.array([bool(mask >> lane & 1) for lane in range(32)]))
        if size == 16:
            return cls(name, kind, np.frombuffer(data, np.uint64).reshape(32, 2))
        dtype: Any = _FLOATS.get(kind) or (_SIGNED if kind.startswith("s") else _UNSIGNED)[size]
        return cls(name, kind, np.frombuffer(data, dtype))


@dataclass(frozen=True)
class MemoryAccess:
    """A load, store, atomic or matrix move about to access shared or global memory.

    Attributes:
        lanes: mask of those that give an address (ldmatrix and stmatrix: one per row).
        nbytes: per lane.
        turns: whether lanes that change the same word of shared memory take turns: those of an atomic do, but for one
            that adds 1, which a GPU counts and adds once.
        addresses: (32,) uint64; of shared memory shared::cluster addresses, rank << 24 | offset.
    """

    at: Instruction
    lanes: int
    nbytes: int
    reads: bool
    writes: bool
    turns: bool
    addresses: npt.NDArray[np.uint64]


@dataclass(frozen=True)
class MBarrier:
    """An mbarrier in shared memory, at `offset` in its CTA.

    Attributes:
        phase: parity of the current phase.
        pending: arrivals it still lacks.
        expected: arrivals of the phases to come.
        tx_count: bytes expected less bytes arrived.
        waiting: warps (of any CTA of the cluster) that wait for it, as (CTA, warp, since which position).
    """

    offset: int
    pending: int
    expected: int
    tx_count: int
    phase: int
    waiting: tuple[tuple[int, int, int | None], ...]


@dataclass(frozen=True)
class InFlight:
    """An asynchronous operation that was issued and not carried out yet.

    Attributes:
        kind: load box, store box, mma, commit, cp.async, ….
        at: the instruction that issued it.
        cta, warp, lane: who (lane -1: the warp).
        shared: shared::cluster address (rank << 24 | offset), 0 where there is none.
        mbarrier: shared::cluster address of the one it signals.
        since: the position at which it was issued.
    """

    kind: str
    cta: int
    warp: int
    lane: int
    at: Instruction
    shared: int
    nbytes: int
    mbarrier: int | None
    since: int


@dataclass(frozen=True)
class TensorMemoryState:
    """A CTA's tensor memory.

    The last writer of each column's lanes, by 16: arrays (512, 8) of the position at which the writing instruction was
    executed, its CTA (linear index), its warp and its pc; -1 where nothing has been written.

    Attributes:
        cells: (512 columns, 128 lanes) of 32 bits, a read-only view of the cells as the session continues.
        owner: per 32 columns, 0 for free, else the number of the allocation.
        written: (512, 128) bool: cells that were written since their column was allocated.
    """

    cells: npt.NDArray[np.uint32]
    owner: npt.NDArray[np.int64]
    written: npt.NDArray[np.bool_]
    writer_position: npt.NDArray[np.int64]
    writer_cta: npt.NDArray[np.int64]
    writer_warp: npt.NDArray[np.int64]
    writer_pc: npt.NDArray[np.int64]

    @classmethod
    def read(
        cls, cells: npt.NDArray[np.uint32], owner: Sequence[int], written: bytes, writers: bytes
    ) -> TensorMemoryState:
        bits = np.unpackbits(np.frombuffer(written, np.uint8), bitorder="little")
        by = np.frombuffer(writers, np.int64).reshape(512, 8, 4)
        return cls(cells, np.asarray(owner), bits.reshape(512, 128).astype(bool), *np.moveaxis(by, 2, 0))


@dataclass(frozen=True)
class NamedBarrier:
    """A barrier of bar.sync. arrived, expected: threads in this phase; waiting: warp -> mask of its lanes there."""

    number: int
    arrived: int
    expected: int
    phase: int
    waiting: dict[int, int]

    @classmethod
    def read(cls, number: int, arrived: int, expected: int, phase: int, masks: Sequence[int]) -> NamedBarrier:
        return cls(number, arrived, expected, phase, {warp: mask for warp, mask in enumerate(masks) if mask})
