"""The story of a cell of tensor memory, from random touches."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sglab.events.tensor_memory.cells import DEAD, LIVE, READ, RESET, UNWRITTEN, WRITE, WRITTEN, History, Touch

COLUMNS = 128
"""Enough for every touch."""


def touches() -> st.SearchStrategy[list[Touch]]:
    def touch(when: int, values: tuple[Any, ...]) -> Touch:
        rank, lane, lanes, column, columns, access, tile = values
        return Touch(when, when, rank, lane * 16, lanes * 16, column, columns, access, tile)

    access = st.sampled_from([READ, WRITE, READ | WRITE, RESET])
    one = st.tuples(
        st.integers(0, 1), st.integers(0, 3), st.integers(1, 4), st.integers(0, 4), st.integers(1, 4), access,
        st.integers(-1, 2),
    )  # fmt: skip
    return st.lists(one, min_size=1, max_size=30).map(lambda all: [touch(i, each) for i, each in enumerate(all)])


@given(touches(), st.integers(0, 30), st.integers(0, 1), st.integers(0, 7), st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_the_story_of_a_cell_is_that_of_its_touches(
    all_touches: list[Touch], position: int, rank: int, column: int, granule: int
) -> None:
    lane = granule * 16
    mine = [
        t
        for t in all_touches
        if t.rank == rank and t.lane <= lane < t.lane + t.lanes and t.column <= column < t.column + t.columns
    ]
    writer = reader = -1
    for t in (t for t in mine if t.when < position):
        if t.access & RESET:
            writer = reader = -1
        elif t.access & WRITE:
            writer, reader = t.when, -1
        else:
            reader = t.when
    later = [t for t in mine if t.when >= position]
    needed = bool(later) and bool(later[0].access & READ)
    expected = UNWRITTEN if writer < 0 else DEAD if not needed else LIVE if reader >= 0 else WRITTEN
    allocated = np.zeros((2, 512), bool)
    allocated[:, :COLUMNS] = True
    history = History(all_touches, ranks=2)
    history._block = 4  # states are kept and continued from in every way
    for row in history.regions(position, allocated).tolist():
        if row[0] == rank and row[1] <= lane < row[1] + row[2] and row[3] <= column < row[3] + row[4]:
            assert row[5] == expected
            assert row[6:9] == [writer, reader, later[0].when if later else -1]
            return
    raise AssertionError("the cell is in no region")


def test_cells_are_told_apart_only_where_a_touch_has_an_edge() -> None:
    """A step of TensorMemory worked on 131,072 cells."""
    history = History([Touch(0, 0, 0, 0, 128, 0, 256, RESET), Touch(1, 1, 0, 32, 32, 64, 64, WRITE)], ranks=2)
    past, future = history.at(2)
    assert past.writer.shape == future.next.shape == (2, 4, 3)
    cells = history.blocks.each_cell(past.writer)
    assert cells.shape == (2, 512, 128)
    assert {tuple(each) for each in np.argwhere(cells == 1)} == {
        (0, column, lane) for column in range(64, 128) for lane in range(32, 64)
    }
