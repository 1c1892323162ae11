"""Who wrote, read and will read each cell of tensor memory, at any position of a recorded launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.tensor_memory.cells import History
from sglab.events.tensor_memory.writes import UNIT, TensorMatrix, TmemRun, read_run

EventNumbers = npt.NDArray[np.int64]


class TensorMemoryTrace:
    """The tensor memory of one CTA, or of a CTA pair, over a recorded launch.

    A position counts instructions of the launch: what holds at position p holds before event p happens.

    Args:
        log: the recording.
        ctas: linear indices in the grid: one CTA, or a pair by rank.

    Attributes:
        run: the instructions that concern this tensor memory, and what they touch.
        history: what they make of each cell.
    """

    def __init__(self, log: RecordedLaunch, ctas: Sequence[int] = (0,)) -> None:
        self.log, self.ctas = log, list(ctas)

    @cached_property
    def run(self) -> TmemRun:
        return read_run(self.log, self.ctas)

    @cached_property
    def history(self) -> History:
        return History(self.run.touches, len(self.ctas))

    @property
    def tiles(self) -> list[TensorMatrix]:
        """The matrices that MMAs keep there."""
        return self.run.tiles

    def allocations(self, position: int) -> EventNumbers:
        """int64 (CTAs, 512): the number of the allocation that holds each column, from 1; 0 for free columns."""
        return self.run.owner(position).repeat(UNIT, axis=1)

    def writers(self, position: int) -> EventNumbers:
        """int64 (CTAs, 512 columns, 128 lanes): the event that wrote each cell last, -1 for a cell never written.

        An MMA's event is that of its issue, although it writes only when it is carried out.
        """
        past, _ = self.history.at(position)
        return self._events(past.writer)

    def readers(self, position: int) -> EventNumbers:
        """int64 (CTAs, 512, 128): the event that last read what each cell holds, -1 for none since it was written."""
        past, _ = self.history.at(position)
        return self._events(past.reader)

    def next_touches(self, position: int) -> EventNumbers:
        """int64 (CTAs, 512, 128): the next event that touches each cell, -1 where nothing does."""
        _, future = self.history.at(position)
        return self._events(future.next)

    def _events(self, touches: npt.NDArray[np.int32]) -> EventNumbers:
        """-1 stays -1."""
        moments = np.array([touch.moment for touch in self.history.touches] + [-1], np.int64)
        events = np.append(self.run.moments[:, 0].astype(np.int64), -1)
        return np.asarray(events[moments[self.history.blocks.each_cell(touches)]])
