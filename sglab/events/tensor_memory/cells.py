"""Who wrote, reads and will read each cell of tensor memory: from the touches of a launch, at any position."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

COLUMNS, LANES = 512, 128
READ, WRITE, RESET = 1, 2, 4
UNWRITTEN, WRITTEN, LIVE, DEAD = range(4)
Grid = npt.NDArray[np.int32]
Place = tuple[int, slice, slice]
BLOCK = 512


@dataclass(frozen=True)
class Touch:
    """Cells that an operation reads, writes or resets (alloc, dealloc), as one rectangle of one CTA.

    Attributes:
        when: the event at which, or before which, it takes effect.
        moment: of the instruction that issued it.
        rank: of the CTA among those shown.
        tile: the matrix, of MMAs; -1 otherwise.
    """

    when: int
    moment: int
    rank: int
    lane: int
    lanes: int
    column: int
    columns: int
    access: int
    tile: int = -1


class Blocks:
    """Tensor memory cut at every edge of a touch: the cells of a block have the same story, and blocks are few.

    Attributes:
        columns, lanes: where blocks begin, and the end of the last.
    """

    def __init__(self, touches: list[Touch]) -> None:
        self.columns = _edges(COLUMNS, [(t.column, t.columns) for t in touches])
        self.lanes = _edges(LANES, [(t.lane, t.lanes) for t in touches])
        self.shape = len(self.columns) - 1, len(self.lanes) - 1

    def each_cell(self, grid: Grid) -> Grid:
        """(ranks, 512, 128) of a grid of blocks."""
        return grid.repeat(np.diff(self.columns), axis=1).repeat(np.diff(self.lanes), axis=2)

    def of(self, t: Touch) -> Place:
        """A touch's blocks, as an index of a grid."""
        columns = np.searchsorted(self.columns, (t.column, t.column + t.columns)).tolist()
        lanes = np.searchsorted(self.lanes, (t.lane, t.lane + t.lanes)).tolist()
        return t.rank, slice(*columns), slice(*lanes)


def _edges(end: int, stretches: list[tuple[int, int]]) -> Grid:
    found = {0, end, *(edge for begin, size in stretches for edge in (begin, begin + size) if edge < end)}
    return np.array(sorted(found), np.int32)


@dataclass
class Past:
    """By block: the touch that wrote it last, the one that read it since, the matrix that an MMA last took it for."""

    writer: Grid
    reader: Grid
    tile: Grid

    @classmethod
    def start(cls, ranks: int, blocks: Blocks) -> Past:
        return cls(*(np.full((ranks, *blocks.shape), -1, np.int32) for _ in range(3)))

    def copy(self) -> Past:
        return Past(self.writer.copy(), self.reader.copy(), self.tile.copy())

    def apply(self, number: int, t: Touch, cells: Place) -> None:
        if t.access & RESET:
            for grid in (self.writer, self.reader, self.tile):
                grid[cells] = -1
            return
        if t.access & READ:
            self.reader[cells] = number
        if t.access & WRITE:
            self.writer[cells] = number
            self.reader[cells] = -1
        if t.tile >= 0:
            self.tile[cells] = t.tile


@dataclass
class Future:
    """By block: the next touch, and the matrix that the next MMA to touch it takes it for."""

    next: Grid
    tile: Grid

    @classmethod
    def end(cls, ranks: int, blocks: Blocks) -> Future:
        return cls(*(np.full((ranks, *blocks.shape), -1, np.int32) for _ in range(2)))

    def copy(self) -> Future:
        return Future(self.next.copy(), self.tile.copy())

    def apply(self, number: int, t: Touch, cells: Place) -> None:
        self.next[cells] = number
        if t.access & RESET:
            self.tile[cells] = -1
        elif t.tile >= 0:
            self.tile[cells] = t.tile


class History:
    """The touches of a launch in the order in which they take effect, with states kept every so often.

    Attributes:
        touches: in that order.
        blocks: of the grids of states.
    """

    def __init__(self, touches: list[Touch], ranks: int) -> None:
        self.touches = sorted(touches, key=lambda t: t.when)
        self.ranks = ranks
        self.blocks = Blocks(self.touches)
        self._places = [self.blocks.of(t) for t in self.touches]
        self._when = np.array([t.when for t in self.touches], np.int64)
        self._access = np.array([t.access for t in self.touches] + [0], np.int32)
        self._moment = np.array([t.moment for t in self.touches] + [-1], np.int32)
        self._tile = np.array([t.tile for t in self.touches] + [-1], np.int32)
        self._block = max(BLOCK, -(-len(touches) // 40))
        self._pasts: list[Past] = []
        self._futures: list[Future] = []

    def at(self, position: int) -> tuple[Past, Future]:
        """Before event `position`."""
        if not self._pasts:
            self._keep_states()
        done = int(np.searchsorted(self._when, position, side="left"))
        block = done // self._block
        past = self._pasts[block].copy()
        for number in range(block * self._block, done):
            past.apply(number, self.touches[number], self._places[number])
        future = self._futures[block].copy()
        for number in reversed(range(done, min((block + 1) * self._block, len(self.touches)))):
            future.apply(number, self.touches[number], self._places[number])
        return past, future

    def _keep_states(self) -> None:
        blocks = len(self.touches) // self._block + 1
        past, future = Past.start(self.ranks, self.blocks), Future.end(self.ranks, self.blocks)
        for block in range(blocks):
            self._pasts.append(past.copy())
            self._each(block, past.apply)
        for block in reversed(range(blocks)):
            self._futures.append(future.copy())
            self._each(block, future.apply, backwards=True)
        self._futures.reverse()

    def _each(self, block: int, apply: object, backwards: bool = False) -> None:
        assert callable(apply)
        numbers = range(block * self._block, min((block + 1) * self._block, len(self.touches)))
        for number in reversed(numbers) if backwards else numbers:
            apply(number, self.touches[number], self._places[number])

    def regions(self, position: int, allocated: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
        """Rectangles of cells with the same story, before event `position`.

        Args:
            allocated: (ranks, 512).

        Returns:
            (n, 10) int32: rank, lane, lanes, column, columns, state, and the moments of the last writer, of the last
                reader since and of the next touch, and the matrix; -1 for none.
        """
        past, future = self.at(position)
        access, moment, own = self._access, self._moment, self._tile
        state = np.full(past.writer.shape, DEAD, np.int32)
        needed = (access[future.next] & READ) != 0
        state[needed] = np.where(past.reader[needed] >= 0, LIVE, WRITTEN)
        state[past.writer < 0] = UNWRITTEN
        # What a warp stored belongs to the matrix that an MMA takes it for next.
        tile = np.where(own[past.writer] >= 0, own[past.writer], np.where(future.tile >= 0, future.tile, past.tile))
        story = np.stack([state, moment[past.writer], moment[past.reader], moment[future.next], tile], axis=-1)
        rows = [row for rank in range(self.ranks) for row in self._rectangles(rank, story[rank], allocated[rank])]
        return np.array(rows, np.int32).reshape(-1, 10)

    def _rectangles(self, rank: int, story: Grid, allocated: npt.NDArray[np.bool_]) -> list[list[int]]:
        """Runs of lanes in runs of equal columns."""
        borders = np.flatnonzero(allocated[1:] != allocated[:-1]) + 1  # between which all or none is allocated
        columns = np.union1d(self.blocks.columns, borders)
        story = story[np.searchsorted(self.blocks.columns, columns[:-1], side="right") - 1]
        has = allocated[columns[:-1]]
        rows: list[list[int]] = []
        same = (story[1:] == story[:-1]).all(axis=(1, 2)) & (has[1:] == has[:-1])
        edges = [0, *(np.flatnonzero(~same) + 1).tolist(), len(story)]
        for first, last in itertools.pairwise(edges):
            if not has[first]:
                continue
            column, (begin, end) = story[first], columns[[first, last]].tolist()
            cuts = [0, *(np.flatnonzero((column[1:] != column[:-1]).any(axis=1)) + 1).tolist(), len(column)]
            for top, bottom in itertools.pairwise(cuts):
                lane, after = self.blocks.lanes[[top, bottom]].tolist()
                rows.append([rank, lane, after - lane, begin, end - begin, *column[top].tolist()])
        return rows
