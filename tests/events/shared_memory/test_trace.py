"""Who touches which bytes of shared memory, read from a recording, against what the launch was given."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab import gpu
from sglab.events import EventLog, SharedMemoryTrace
from sglab.events.shared_memory import KINDS
from tests.support.launches.pipelines import PIPELINES

STAGE = 0x400  # where static shared memory starts: the first stage of A


@pytest.fixture(params=PIPELINES)
def log(request: pytest.FixtureRequest) -> EventLog:
    pipeline = PIPELINES[request.param]
    return pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments().launch())


def test_a_log_has_traces_of_its_parts(log: EventLog) -> None:
    assert log.cluster(0).ctas == [0, 1][: log.geometry.ranks]
    assert log.shared_memory(0).cluster == log.cluster(0).ctas
    assert log.tensor_memory([0]).log is log


def test_a_stage_is_filled_before_it_is_multiplied(log: EventLog) -> None:
    trace = log.shared_memory(0)
    first = {kind: int(trace.events(kind)[0]) for kind in ("copy", "mma")}
    assert first["copy"] < first["mma"]
    touching = trace.touching(STAGE)
    assert set(trace.events("copy")) & set(touching) and set(trace.events("mma")) & set(touching)
    assert touching[0] == first["copy"] and (np.diff(trace.events()) > 0).all()


def test_operands_lie_in_boxes(log: EventLog) -> None:
    tiles = log.shared_memory(0).tiles
    boxes = [tile for tile in tiles if tile.source == "map"]
    operands = [tile for tile in tiles if tile.source == "descriptor"]
    assert boxes and operands
    for one in operands:
        assert any(box.start <= one.start < box.start + box.bytes for box in boxes), one


def test_bytes_that_no_instruction_names_are_touched_by_none(log: EventLog) -> None:
    trace = SharedMemoryTrace(log)
    end = max(area.start + area.bytes for area in trace.areas)
    assert len(trace.touching(1 << 23, 16)) == 0 and end < 1 << 23


def test_an_unknown_kind_is_refused(log: EventLog) -> None:
    with pytest.raises(ValueError, match=f"one of {', '.join(KINDS)}"):
        log.shared_memory().events("store")
