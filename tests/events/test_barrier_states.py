"""Logged states of barriers agree with what a session shows at the same positions."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.log import CLUSTER, MBARRIER, NAMED
from tests.support.launches.recorded import mla_sm100, mla_sm100_session
from tests.support.launches.session_lines import SESSION_PTX

KERNELS = gpu.load(SESSION_PTX)


def latest(log: Any, before: int, kind: int, rank: int) -> dict[int, tuple[int, int, int, int]]:
    """Per barrier of a CTA: parity, pending, expected, tx-count when the events before a position have happened."""
    states = log.barrier_states
    rows = np.flatnonzero((states.position < before) & (states.kind == kind) & (states.cta == rank))
    columns = (states.phase, states.pending, states.expected, states.tx_count)
    return {int(states.object[row]) & 0xFFFFFF: tuple(int(column[row]) for column in columns) for row in rows}


def test_states_of_mbarriers_are_those_that_a_session_shows() -> None:
    log, session = mla_sm100(128), mla_sm100_session(128)
    moments = np.random.default_rng().integers(0, len(log) - 1, 12)
    for position in sorted(moments.tolist()):
        session.seek(position)
        for cta in session.ctas:
            shown = {
                each.offset: (each.phase, each.pending, each.expected, each.tx_count) for each in session.mbarriers(cta)
            }
            assert latest(log, position, MBARRIER, cta.linear) == shown, (position, cta)


def test_named_barriers_count_threads_up_to_what_ends_a_phase() -> None:
    values = torch.from_numpy(np.random.default_rng(0).standard_normal(2000, np.float32))
    log = KERNELS["reduce"].record(gpu.EmulatedDevice("sm_90a"), grid=3, block=128, args=[values, torch.zeros(1), 2000])
    states = log.barrier_states
    assert (states.kind == NAMED).all()
    for cta in range(3):
        pending = states.pending[states.cta == cta].tolist()
        assert pending == [96, 64, 32, 0, 0] * 8  # and once more when the phase has ended
        assert states.phase[states.cta == cta].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 1, 0] * 4


def test_the_cluster_s_barrier_counts_all_its_threads() -> None:
    states = mla_sm100(128).barrier_states
    of_cluster = states.kind == CLUSTER
    assert set(states.expected[of_cluster].tolist()) == {704, 0}
    assert states.pending[of_cluster].tolist()[:3] == [672, 640, 608]
