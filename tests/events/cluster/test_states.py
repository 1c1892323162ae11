"""Barriers over modelled time: the recorded changes, each phase in the model's order, adding up to the same."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.events.log import EventLog
from sglab.labs.pipelines import Pipeline
from sglab.widgets import Barriers
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


def array(widget: Barriers, name: str) -> np.ndarray:
    return widget._tensor(name).array


def test_every_barrier_goes_through_the_same_phases_to_the_same_end(log: EventLog) -> None:
    widget = Barriers(log)
    recorded, timed = by_barrier(array(widget, "states")[1:]), by_barrier(array(widget, "timed.states"))
    assert recorded.keys() == timed.keys()
    for barrier, states in recorded.items():
        assert timed[barrier][-1] == states[-1]
        assert [parity for parity, *_ in timed[barrier]] == [parity for parity, *_ in states]
        assert all(0 <= pending <= expected for _, pending, expected, _ in timed[barrier])


def test_changes_come_in_the_order_of_modelled_time_and_phases_end_when_the_model_ends_them(log: EventLog) -> None:
    widget = Barriers(log)
    changed = array(widget, "times.states")[0]
    assert (np.diff(changed) >= 0).all()
    states = array(widget, "timed.states")
    ends = defaultdict(list)
    for barrier, when in zip(
        array(widget, "phases")[1].tolist(), array(widget, "times.phases")[0].tolist(), strict=True
    ):
        ends[barrier].append(when)
    for barrier, expected in ends.items():
        mine = states[0] == barrier
        flips = np.flatnonzero(np.diff(states[1, mine], prepend=0))
        assert changed[mine][flips] == pytest.approx(expected)


def test_bytes_arrive_when_their_copies_end(log: EventLog) -> None:
    """A copy is under way for as long as the barrier that it signals lacks its bytes."""
    widget = Barriers(log)
    assert widget.timed is not None
    states, changed = array(widget, "timed.states"), array(widget, "times.states")[0]
    arrived = set()
    for barrier in set(states[0].tolist()):
        mine = states[0] == barrier
        fewer = np.flatnonzero(np.diff(np.abs(states[4, mine]), prepend=0) < 0)
        arrived |= set(changed[mine][fewer].tolist())
    ends = np.float32(widget.timed.copies.end[log.copies.mbarrier >= 0])
    # the last bytes of a phase count when it ends, which the model puts at once behind them
    assert len(set(ends.tolist()) & arrived) >= 0.5 * len(arrived)
