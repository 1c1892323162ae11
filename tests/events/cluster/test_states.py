"""Barriers over modelled time: the recorded changes, each phase in the model's order, adding up to the same."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.events.cluster import ClusterTrace
from sglab.events.cluster.states import _replayed, _State
from sglab.events.log import NAMED, EventLog
from sglab.events.modelled import modelled
from sglab.events.timing import TimedLog
from sglab.labs.pipelines import Pipeline
from tests.support.launches.recorded import mla_sm90, mla_sm100


@pytest.fixture(params=["sm90", "sm100", "lesson"])
def log(request: pytest.FixtureRequest) -> EventLog:
    if request.param == "lesson":
        return Pipeline("4_stages", tiles=16).record()
    return mla_sm90() if request.param == "sm90" else mla_sm100(512)


def by_barrier(columns: np.ndarray) -> dict[int, list[list[int]]]:
    found: dict[int, list[list[int]]] = defaultdict(list)
    for barrier, *state in columns.T.tolist():
        found[barrier].append(state)
    return found


def timed_of(log: EventLog) -> TimedLog:
    timed = modelled(log, None)
    assert timed is not None
    return timed


def test_every_barrier_goes_through_the_same_phases_to_the_same_end(log: EventLog) -> None:
    trace = ClusterTrace(log)
    recorded, timed = by_barrier(trace.states()[1:]), by_barrier(trace.timed_states(timed_of(log))[0])
    assert recorded.keys() == timed.keys()
    for barrier, states in recorded.items():
        assert timed[barrier][-1] == states[-1]
        assert [parity for parity, *_ in timed[barrier]] == [parity for parity, *_ in states]
        assert all(0 <= pending <= expected for _, pending, expected, _ in timed[barrier])


def test_arrivals_that_are_too_many_count_in_the_next_phase() -> None:
    """Four warps arrive at a barrier for three: who is last on the emulator may be first in the model."""
    columns = np.array([[0, 5, 6, 7, 8], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [3, 2, 1, 3, 2], [3, 3, 3, 3, 3], [0] * 5])
    changes = [(position, _State(*state)) for position, _, *state in columns.T.tolist()]
    times = SimpleNamespace(
        of=lambda position, _: {0: 1.0, 5: 20.0, 6: 30.0, 7: 40.0, 8: 10.0}[position],
        resets=lambda position, _: position == 0,
        end=lambda *_: 50.0,
    )
    made = _replayed(0, changes, cast(Any, times))
    assert [when for when, _ in made] == sorted(when for when, _ in made)
    assert made[-1][1] == changes[-1][1]


def test_changes_come_in_the_order_of_modelled_time_and_phases_end_when_the_model_ends_them(log: EventLog) -> None:
    trace, timed = ClusterTrace(log), timed_of(log)
    states, changed = trace.timed_states(timed)
    assert (np.diff(changed) >= 0).all()
    ends = defaultdict(list)
    for barrier, when in zip(trace.phases()[1].tolist(), timed.phases[trace.phase_rows].tolist(), strict=True):
        ends[barrier].append(when)
    for barrier, expected in ends.items():
        mine = states[0] == barrier
        flips = np.flatnonzero(np.diff(states[1, mine], prepend=0))
        assert changed[0][mine][flips] == pytest.approx(expected)


def test_threads_arrive_at_a_named_barrier_when_their_instruction_begins(log: EventLog) -> None:
    trace, timed = ClusterTrace(log), timed_of(log)
    states, (changed,) = trace.timed_states(timed)
    if not (trace.barriers.kind == NAMED).any():
        pytest.skip("it has none")
    arrivals = (trace.barriers.kind[states[0]] == NAMED) & (states[3] > 0)
    assert arrivals.any()
    assert np.isin(changed[arrivals], np.float32(timed.start)).all()


def test_bytes_arrive_when_their_copies_end(log: EventLog) -> None:
    """A copy is under way for as long as the barrier that it signals lacks its bytes."""
    timed = timed_of(log)
    states, (changed,) = ClusterTrace(log).timed_states(timed)
    arrived = set()
    for barrier in set(states[0].tolist()):
        mine = states[0] == barrier
        fewer = np.flatnonzero(np.diff(np.abs(states[4, mine]), prepend=0) < 0)
        arrived |= set(changed[mine][fewer].tolist())
    ends = np.float32(timed.copies.end[log.copies.mbarrier >= 0])
    # the last bytes of a phase count when it ends, which the model puts at once after them
    assert len(set(ends.tolist()) & arrived) >= 0.5 * len(arrived)
