"""The tables of an event log: what happened in a recorded launch, a row per happening, in columns.

An event is the number of an executed warp-instruction of the launch; a position p is the moment before event p.
Asynchronous operations are carried out as late as the programming model allows, at the position `done`: often as part
of the instruction that waits for them. Shared addresses are shared::cluster addresses: rank of the CTA << 24 | offset.
-1 marks what a row does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

GLOBAL, SHARED = 0, 1
READ, WRITE = 1, 2
NAMED, MBARRIER, CLUSTER = 0, 1, 2
FAILED = -2

WAIT_KINDS = ("ready", "warp", "barrier", "cluster_barrier", "mbarrier", "async", "resource")
COPY_KINDS = (
    "tensor load",
    "tensor store",
    "tensor reduce",
    "bulk load",
    "bulk store",
    "bulk shared to shared",
    "bulk reduce",
    "bulk reduce to shared",
    "st.async",
    "tensor prefetch",
    "bulk prefetch",
    "cp.async",
)
COPY_MODES = ("tile", "gather4", "im2col", "im2col::w", "im2col::w::128")
MMA_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4", "wgmma", "mma.sync")
MMA_SPACES = ("shared", "tensor", "registers")
TMEM_KINDS = ("alloc", "dealloc", "ld", "st", "cp", "shift")
ELEMENT_TYPES = (
    *("f16", "bf16", "tf32", "f32", "f64", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"),
    *("ue8m0", "ue4m3", "s8", "u8", "s4", "u4", "b1", "s32"),
)


@dataclass(frozen=True)
class Accesses:
    """Loads, stores, atomics and reductions of global and shared memory; not what asynchronous operations move.

    Attributes:
        event: the instruction.
        address: the lowest byte.
        span: bytes from there to past the highest.
        nbytes: moved by all lanes.
        space: GLOBAL or SHARED.
        kind: READ, WRITE or both.
        sectors: of global memory: pieces of 32 bytes that the lanes touch.
        lines: of global memory: pieces of 128 bytes.
        wavefronts: of shared memory: cycles that its banks need; more than `nbytes` / 128 where lanes conflict.
    """

    event: Array
    address: Array
    span: Array
    nbytes: Array
    lanes: Array
    space: Array
    kind: Array
    sectors: Array
    lines: Array
    wavefronts: Array


@dataclass(frozen=True)
class BarrierEvents:
    """Instructions on barriers.

    Attributes:
        kind: NAMED, MBARRIER or CLUSTER.
        object: the barrier's number in its CTA, or the mbarrier's shared::cluster address.
        phase: when the instruction was executed (the parity, of an mbarrier).
        passed: row in `phases` of the phase whose end freed the instruction's lanes; FAILED: a test that failed; -1
            for arrivals, and for a producer's first wait, which no phase precedes.
    """

    event: Array
    phase: Array
    object: Array
    kind: Array
    passed: Array


@dataclass(frozen=True)
class Waits:
    """Instructions at which lanes had to wait.

    Attributes:
        since: the position at which they began to.
        event: the instruction.
        kind: index into WAIT_KINDS.
        object: what they waited for, by kind: lanes, a barrier's number, an mbarrier's address.
        phase: row in `phases` of the phase whose end released them, of barriers; -1 of a test that failed.
    """

    event: Array
    since: Array
    kind: Array
    object: Array
    phase: Array


@dataclass(frozen=True)
class Phases:
    """Completed phases of barriers.

    Attributes:
        position: when.
        cta: whose barrier it is (linear index; of a cluster's barrier, its first CTA).
        kind, object: as in BarrierEvents.
        number: of the phase, from 0 at the barrier's initialisation.
        event: the arrival that ended it; where an asynchronous operation's signal did (asynchronous), the instruction
            that issued that operation (the TMA copy, tcgen05.commit, cp.async.mbarrier.arrive).
    """

    position: Array
    event: Array
    cta: Array
    kind: Array
    object: Array
    number: Array
    asynchronous: Array

    @property
    def parity(self) -> Array:
        """The phase bit that an mbarrier had until then: what a wait for this phase names."""
        return (self.number & 1).astype(np.uint8)


@dataclass(frozen=True)
class BarrierStates:
    """Barriers as they were after each change: by an instruction, or by an asynchronous operation's signal.

    Attributes:
        position: when.
        cta: whose barrier it is, kind, object: as in Phases.
        phase: its parity.
        pending: arrivals (of named barriers and the cluster's: threads) that it still lacks.
        expected: of how many, 0 of a named barrier that no warp has reached.
        tx_count: bytes expected less bytes arrived.
    """

    position: Array
    cta: Array
    kind: Array
    object: Array
    phase: Array
    pending: Array
    expected: Array
    tx_count: Array


@dataclass(frozen=True)
class TensorMapInfo:
    """A tensor map that copies used. Dimension 0 is the contiguous one.

    Attributes:
        dims, box: elements.
        strides: bytes, of dimensions 1 and up.
        element: u8, f16, ….
        swizzle: 0 none, 1 32B, 2 64B, 3 128B, 4 128B with 32-byte atoms, 5 the same with 8-byte halves flipped, 6 128B
            with 64-byte atoms.
        interleave: 0 none, 1 16B, 2 32B.
    """

    address: int
    element: str
    dims: tuple[int, ...]
    box: tuple[int, ...]
    strides: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: int
    interleave: int
    nan_fill: bool
    im2col: bool


@dataclass(frozen=True)
class Copies:
    """Asynchronous copies. cp.async has a row per warp-instruction, the others one per issuing lane.

    Attributes:
        event: the instruction that issued it.
        done: the position at which it was carried out.
        kind: index into COPY_KINDS.
        map: index into EventLog.maps.
        mode: index into COPY_MODES.
        coordinates: (n, 5), dimension 0 first (gather4 and scatter4: column, then four rows).
        nbytes: per destination.
        address: lowest in global memory, of copies without a map.
        shared: lowest in shared memory, of the destination or of what is stored.
        source: of copies within shared memory.
        mbarrier: signalled.
        multicast: mask of the CTAs, by rank, that get the data; 0: the one addressed.
    """

    event: Array
    done: Array
    kind: Array
    map: Array
    mode: Array
    coordinates: Array
    nbytes: Array
    address: Array
    shared: Array
    source: Array
    mbarrier: Array
    multicast: Array


@dataclass(frozen=True)
class Mmas:
    """Matrix multiplications: tcgen05.mma, wgmma (a row per warpgroup), mma.sync (a row per warp).

    Attributes:
        event: the instruction that issued it (of wgmma, by the first of the four warps).
        done: when it was carried out.
        kind: index into MMA_KINDS.
        m, n, k: elements.
        a, b: 64-bit shared-memory descriptors.
        a: an address in tensor memory, or 0, where a_space (an index into MMA_SPACES) says so. mma.sync has both in
            registers.
        d: address in tensor memory (lane << 16 | column).
        idesc: tcgen05's instruction descriptor, else 0.
        a_type, b_type, d_type: indices into ELEMENT_TYPES.
        a_major, b_major: 0 K, 1 M or N.
        accumulate: D is added to.
        cta_group: CTAs that take part.
    """

    event: Array
    done: Array
    kind: Array
    m: Array
    n: Array
    k: Array
    a: Array
    b: Array
    d: Array
    a_space: Array
    a_type: Array
    b_type: Array
    d_type: Array
    a_major: Array
    b_major: Array
    idesc: Array
    accumulate: Array
    cta_group: Array


@dataclass(frozen=True)
class TmemEvents:
    """Tensor-memory traffic other than by mma.

    Attributes:
        event: the instruction.
        done: when it took effect (ld: immediately; st: at its wait; cp, shift: when carried out).
        kind: index into TMEM_KINDS.
        address: lane << 16 | column.
        columns, lanes: that it reaches from there.
        cta_group: CTAs that take part.
    """

    event: Array
    done: Array
    kind: Array
    address: Array
    columns: Array
    lanes: Array
    cta_group: Array
