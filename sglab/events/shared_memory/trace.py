"""Who touches which bytes of a CTA's shared memory in a recorded launch."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.shared_memory.reads import KINDS, SmemRun, read_run
from sglab.events.shared_memory.tiles import Area, SharedTile

_KIND, _TILE, _OTHER, _START, _BYTES = range(4, 9)  # columns of SmemRun.moments


class SharedMemoryTrace:
    """The shared memory of one CTA over a recorded launch.

    >>> trace = kernel.record(device, grid=2, cluster=2, args=[out]).shared_memory(cta=0)
    >>> [tile.name for tile in trace.tiles]
    ['tile to shared, map 0', 'A of kind::f16, M 128 × K 16 f16, K-major']

    Args:
        log: the recording.
        cta: linear index in the grid.

    Attributes:
        cluster: the CTAs of its cluster, by rank; they may reach its memory, too.
    """

    def __init__(self, log: RecordedLaunch, cta: int = 0) -> None:
        self.log, self.cta = log, cta
        self.cluster: list[int] = log.geometry.cluster_ctas(log.geometry.cluster_of(cta))

    @cached_property
    def run(self) -> SmemRun:
        """The instructions that concern this memory, as a table."""
        return read_run(self.log, self.cluster, self.cta)

    @property
    def tiles(self) -> list[SharedTile]:
        """Bytes with a logical shape: boxes that tensor maps describe, and operands of matrix products."""
        return self.run.tiles

    @property
    def areas(self) -> list[Area]:
        """Named bytes: tiles, operands, plain copies, mbarriers."""
        return self.run.areas

    def events(self, kind: str | None = None) -> npt.NDArray[np.int64]:
        """int64: numbers of the events that concern this memory.

        Args:
            kind: one of "copy", "mma", "ld", "st", "commit" and "wait"; None: all.

        Raises:
            ValueError: it is none of these.
        """
        if kind is None:
            return self.run.events
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
        return self.run.events[self.run.moments[:, _KIND] == KINDS.index(kind)]

    def touching(self, offset: int, nbytes: int = 1) -> npt.NDArray[np.int64]:
        """int64: numbers of the events that read or write some of these bytes, as far as instructions say where: from
        the first to the last byte of a copy, an access or an operand.

        Args:
            offset: in the CTA's shared memory.
            nbytes: 1 or more.
        """
        moments = self.run.moments
        found = _overlap(moments[:, _START], moments[:, _BYTES], offset, nbytes)
        starts = np.array([tile.start for tile in self.tiles] + [0], np.int64)
        sizes = np.array([tile.bytes for tile in self.tiles] + [0], np.int64)  # −1 finds the last one: no bytes
        for column in (_TILE, _OTHER):
            found |= _overlap(starts[moments[:, column]], sizes[moments[:, column]], offset, nbytes)
        return self.run.events[found]


def _overlap(start: npt.NDArray[Any], size: npt.NDArray[Any], offset: int, nbytes: int) -> npt.NDArray[np.bool_]:
    return np.asarray((size > 0) & (start < offset + nbytes) & (offset < start + size))
