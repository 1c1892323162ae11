"""Who wrote each cell of tensor memory, read from a recording, against what the emulator remembers."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.events.tensor_memory import TensorMemoryTrace
from tests.support.launches.memory_sessions import COLUMNS, N, mla_sm100, product


def events_with(trace: TensorMemoryTrace, opcode: str) -> list[int]:
    rows = trace.log.code.rows
    return [event for event in trace.run.events.tolist() if rows[trace.log.pc[event]][1].startswith(opcode)]


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_writers_are_those_that_the_emulator_remembers(share: float) -> None:
    session = mla_sm100(384)
    trace = TensorMemoryTrace(session.log, (0, 1))
    session.seek(int(share * len(session.log)))
    writers, owner = trace.writers(session.now), trace.allocations(session.now)
    for rank in range(2):
        memory = session.tensor_memory(rank)
        assert memory is not None
        mine = np.where(owner[rank][:, None] > 0, writers[rank], -1)
        np.testing.assert_array_equal(mine >= 0, memory.written)
        np.testing.assert_array_equal(mine[:, ::16], memory.writer_position)


def test_a_product_is_stored_multiplied_and_loaded() -> None:
    trace = TensorMemoryTrace(product().session.log)
    (alloc,), (mma,) = events_with(trace, "tcgen05.alloc"), events_with(trace, "tcgen05.mma")
    loads, stores = events_with(trace, "tcgen05.ld"), events_with(trace, "tcgen05.st")
    assert (trace.allocations(alloc) == 0).all()
    assert (trace.allocations(mma)[0, :COLUMNS] == 1).all()
    before = trace.writers(mma)[0]
    assert set(before[:N].ravel().tolist()) == set(stores)
    assert (before[N:] == -1).all()
    assert (trace.next_touches(mma)[0, :N] == mma).all()
    after = trace.writers(loads[0])[0]
    assert (after[:N] == mma).all()
    assert set(trace.readers(loads[-1] + 1)[0, :N].ravel().tolist()) == set(loads)
    assert [(tile.role, tile.rows, tile.columns) for tile in trace.tiles] == [("D", 128, N)]
