"""TensorMemory's Python side: who owns a cell, what it holds, who wrote it and whether it is needed again."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")


from sglab.events.tensor_memory.writes import KINDS
from sglab.gpu import KernelError
from sglab.widgets import TensorMemory
from tests.support.launches.memory_sessions import (
    N,
    Product,
    corpus_with_arguments,
    failing,
    freed_too_early,
    mla_sm100,
    no_tensor_memory,
    product,
)

UNWRITTEN, WRITTEN, LIVE, DEAD = range(4)


def rows(widget: TensorMemory, name: str) -> np.ndarray:
    (tensor,) = widget.slices([{"name": name, "start": 0, "stop": 1 << 30}])
    return tensor.array


def moments_of(widget: TensorMemory, kind: str) -> list[int]:
    """How far to go so that an event of this kind is the last."""
    return (np.flatnonzero(rows(widget, "moments")[:, 4] == KINDS.index(kind)) + 1).tolist()


def state(widget: TensorMemory, column: int, lane: int = 0, rank: int = 0) -> dict[str, int]:
    names = ("rank", "lane", "lanes", "column", "columns", "state", "writer", "reader", "next", "tile")
    for row in rows(widget, "regions").tolist():
        region = dict(zip(names, row, strict=True))
        inside = region["lane"] <= lane < region["lane"] + region["lanes"]
        if region["rank"] == rank and inside and region["column"] <= column < region["column"] + region["columns"]:
            return region
    raise AssertionError(f"no region holds column {column}, lane {lane} of rank {rank}")


@pytest.mark.parametrize(("m", "pair"), [(128, False), (64, False), (128, True), (256, True)])
def test_every_cell_of_d_holds_the_element_that_its_layout_names(m: int, pair: bool) -> None:
    made = product(m, pair)
    widget = TensorMemory(made.session)
    widget.go(moments_of(widget, "ld")[0])
    cells = rows(widget, "cells").reshape(-1, 512, 128).view(np.float32)
    (tile,) = widget.tiles
    assert (tile["name"], tile["rows"], tile["columns"]) == ("D0", m, N)
    seen = np.zeros((m, N), bool)
    for rank, lane, lanes, column, columns, row, first in tile["blocks"]:
        block = cells[rank, column : column + columns, lane : lane + lanes].T
        np.testing.assert_array_equal(block, made.expected[row : row + lanes, first : first + columns])
        seen[row : row + lanes, first : first + columns] = True
    assert seen.all()


def test_an_operand_in_tensor_memory_is_a_matrix_of_packed_elements() -> None:
    session, (a, *_) = corpus_with_arguments("tcgen05_a_in_tmem.sm_100a")
    widget = TensorMemory(session)
    mma = moments_of(widget, "mma")[0]
    widget.go(mma)
    (tile,) = [each for each in widget.tiles if each["role"] == "A"]
    assert (tile["rows"], tile["columns"], tile["type"], tile["packed"]) == (128, 16, "f16", 2)
    (rank, lane, lanes, column, columns, row, first) = tile["blocks"][0]
    assert (rank, lane, lanes, columns, row, first) == (0, 0, 128, 8, 0, 0)
    cells = np.ascontiguousarray(rows(widget, "cells")[column : column + columns].T)
    np.testing.assert_array_equal(cells.view(np.float16), a.numpy())
    before = state(widget, column)
    assert (before["state"], before["tile"], before["next"]) == (WRITTEN, tile["id"], mma - 1)


def test_cells_live_from_their_store_to_their_last_load() -> None:
    widget = TensorMemory(product().session)
    widget.go(moments_of(widget, "alloc")[0])
    assert state(widget, 0)["state"] == UNWRITTEN
    mma = moments_of(widget, "mma")[0]
    widget.go(mma)
    before = state(widget, 3)
    assert (before["state"], before["next"]) == (WRITTEN, mma - 1)
    assert rows(widget, "moments")[before["writer"], 4] == KINDS.index("st")
    assert before["tile"] == 0  # what the warps stored is D: the MMA adds to it
    assert state(widget, N)["state"] == UNWRITTEN
    loads = moments_of(widget, "ld")
    widget.go(loads[0])
    assert state(widget, 3, lane=127)["writer"] == mma - 1
    widget.go(moments_of(widget, "dealloc")[0] - 1)
    assert {state(widget, column)["state"] for column in range(N)} == {DEAD}


def test_an_mma_writes_when_it_is_carried_out_not_when_it_is_issued() -> None:
    widget = TensorMemory(product().session)
    widget.go(moments_of(widget, "mma")[0])
    assert any("tcgen05.mma" in text for text in widget.frames[0]["inFlight"])
    cells = rows(widget, "cells").view(np.float32)
    assert (cells[:N] == 1).all()
    carried = np.flatnonzero(rows(widget, "moments")[:, 10]) + 1
    assert len(carried)
    widget.go(int(carried[-1]))
    assert not widget.frames[0]["inFlight"]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_writers_are_those_that_the_emulator_remembers(share: float) -> None:
    session = mla_sm100(384)
    widget = TensorMemory(session)
    widget.go(int(share * len(rows(widget, "moments"))))
    events = rows(widget, "moments")[:, 0]
    for rank in range(2):
        memory = session.tensor_memory(rank)
        assert memory is not None
        writer = np.full((512, 128), -1)
        written = np.zeros((512, 128), bool)
        for row in rows(widget, "regions").tolist():
            if row[0] == rank and row[5] != UNWRITTEN:
                cells = (slice(row[3], row[3] + row[4]), slice(row[1], row[1] + row[2]))
                writer[cells], written[cells] = events[row[6]], True
        np.testing.assert_array_equal(written, memory.written)
        np.testing.assert_array_equal(writer[:, ::16], memory.writer_position)


def test_a_session_stepped_by_hand_is_distinguished_from_the_recording() -> None:
    made = product()
    widget = TensorMemory(made.session)
    made.session.step(count=300)
    widget.catch_up()
    assert widget.frames[0]["note"] == ""
    made.session.step(warp=3, count=40)
    widget.catch_up()
    assert "stepped by hand" in widget.frames[0]["note"]


def test_what_a_guard_excludes_is_no_moment() -> None:
    widget = TensorMemory(product(pair=True, m=256).session)
    for kind, warps in {
        "alloc": [(0, 0), (1, 0)],
        "mma": [(0, 0)],
        "commit": [(0, 0)],
        "dealloc": [(0, 0), (1, 0)],
    }.items():
        who = [tuple(rows(widget, "moments")[moment - 1, 1:3].tolist()) for moment in moments_of(widget, kind)]
        assert sorted(who) == warps, kind


def test_going_back_shows_the_same_again() -> None:
    widget = TensorMemory(product(pair=True, m=256).session)
    count = len(rows(widget, "moments"))
    there = {}
    for moment in (count // 3, count // 2, count, count // 2, count // 3, 0):
        widget.go(moment)
        assert widget.moment == moment
        seen = rows(widget, "cells").tobytes(), rows(widget, "regions").tobytes(), json.dumps(widget.frames)
        assert there.setdefault(moment, seen) == seen


def test_the_pages_hear_once_that_the_session_was_moved() -> None:
    made = product()
    widget = TensorMemory(made.session)
    announced = widget.stale
    made.session.step(count=200)
    made.session.step(count=20)
    assert widget.stale == announced + 1
    widget.catch_up()
    assert widget.frames[0]["position"] == made.session.now
    widget.go(3)
    assert widget.stale == announced + 1


def test_a_saved_page_holds_moments_and_leaves_the_session_where_it_was() -> None:
    session = mla_sm100()
    widget = TensorMemory(session, saved_moments=6)
    widget.go(300)
    position = session.now
    saved = widget.saved()
    assert session.now == position
    assert widget.frames[0]["moment"] == 300
    assert 300 in [frame["moment"] for frame in saved["state"]["frames"]]
    assert len(json.dumps(saved)) < 5 << 20


def test_a_saved_page_says_so_and_opens_at_the_moment_of_its_saving() -> None:
    widget = TensorMemory(mla_sm100(), saved_moments=6)
    widget.go(300)
    state = widget.saved()["state"]
    assert [frame["moment"] for frame in state["frames"] if frame["opens"]] == [300]
    kept = len(state["frames"])
    assert state["header"]["subject"].endswith(f"saved: {kept} of {len(widget._moments) + 1} moments")
    assert "saved" not in widget.header["subject"]


def test_a_page_saved_before_the_first_step_opens_where_something_is() -> None:
    frames = TensorMemory(mla_sm100(), saved_moments=6).saved()["state"]["frames"]
    assert frames[0]["moment"] == 0 and [frame["opens"] for frame in frames[:3]] == [False, True, False]


def test_a_recording_says_that_it_is_one() -> None:
    widget = TensorMemory(mla_sm100().log)
    assert widget.header["badge"]["text"] == "recording, no values"


def test_recording_leaves_tensors_and_session_as_they_were() -> None:
    made = product()
    made.session.step(count=500)
    position, shared = made.session.now, made.session.shared().tobytes()
    log = made.session.record()
    assert (made.session.now, made.session.shared().tobytes()) == (position, shared)
    assert len(log) > position


def test_a_recording_shows_everything_but_values() -> None:
    session = product(pair=True, m=256).session
    live, recorded = TensorMemory(session), TensorMemory(session.log)
    for moment in range(0, len(rows(live, "moments")) + 1, 7):
        live.go(moment)
        recorded.go(moment)
        assert rows(recorded, "regions").tolist() == rows(live, "regions").tolist()
        assert recorded.frames[0]["allocations"] == live.frames[0]["allocations"]
    assert (live.launch["values"], recorded.launch["values"]) == (True, False)


def test_a_kernel_without_tensor_memory_says_so() -> None:
    widget = TensorMemory(no_tensor_memory())
    assert "uses no tensor memory" in widget.launch["empty"]


def test_a_kernel_that_fails_shows_what_came_before() -> None:
    widget = TensorMemory(failing())
    assert "trap" in widget.launch["error"]
    widget.go(1)
    assert widget.frames[0]["allocations"] == [[{"number": 1, "column": 0, "columns": 32}]]


def test_wrong_arguments_are_named() -> None:
    made: Product = product()
    with pytest.raises(TypeError, match="launch must be"):
        TensorMemory(object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cta must be 0 to 0"):
        TensorMemory(made.session, cta=7)
    widget = TensorMemory(made.session)
    with pytest.raises(ValueError, match="moment must be 0 to"):
        widget.go(1 << 20)


def test_a_use_after_free_is_marked_with_its_place_once_it_has_happened() -> None:
    session = freed_too_early()
    widget = TensorMemory(session)
    assert widget.frames[0]["findings"] == []
    with pytest.raises(KernelError):
        session.run()
    widget.catch_up()
    (finding,) = widget.frames[0]["findings"]
    assert "column 0 of tensor memory is not allocated" in finding["text"] and "tcgen05.ld" in finding["text"]
    assert (finding["rank"], finding["address"], finding["severity"]) == (0, 0, "error")
    assert widget.frames[0]["note"] == "" and "not allocated" in widget.launch["error"]
    widget.go(0)
    assert widget.frames[0]["findings"] == []
