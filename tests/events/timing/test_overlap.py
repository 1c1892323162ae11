"""Barriers and asynchronous operations in modelled time, on kernels that ship."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab.events.tables import NAMED
from sglab.events.timing import figures_of
from tests.support.launches.timed import mla
from tests.support.timing import kernel, record


def covered(intervals: np.ndarray) -> float:
    return float((intervals[:, 1] - intervals[:, 0]).sum())


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """ns in which an interval of `a` and one of `b` run."""
    low = np.maximum(a[:, None, 0], b[None, :, 0])
    high = np.minimum(a[:, None, 1], b[None, :, 1])
    return float(np.maximum(high - low, 0).sum())


ARCHES = ["sm_90", "sm_100"]


@pytest.mark.parametrize("arch", ARCHES)
def test_nothing_waited_for_an_unknown_cause(arch: str) -> None:
    _, timed = mla(arch)
    assert timed.unresolved == 0


@pytest.mark.parametrize("arch", ARCHES)
def test_a_wait_ends_after_what_released_it(arch: str) -> None:
    log, timed = mla(arch)
    passed = log.barriers.passed >= 0
    waits, phases = log.barriers.event[passed], log.barriers.passed[passed]
    assert len(waits) > 100
    assert (timed.end[waits] >= timed.phases[phases]).all()


@pytest.mark.parametrize("arch", ARCHES)
def test_a_phase_ends_after_the_copies_and_arrivals_that_it_counts(arch: str) -> None:
    log, timed = mla(arch)
    ended = np.flatnonzero(~log.phases.asynchronous)
    assert (timed.phases[ended] >= timed.start[log.phases.event[ended]]).all()
    for row in np.flatnonzero(log.copies.mbarrier >= 0).tolist():
        own = (log.phases.object == log.copies.mbarrier[row]) & (log.phases.position >= log.copies.done[row])
        phase = np.flatnonzero(own)[0]
        assert timed.phases[phase] >= timed.copies.end[row] - 1e-6


@pytest.mark.parametrize("arch", ARCHES)
def test_warps_issue_in_order(arch: str) -> None:
    log, timed = mla(arch)
    key = log.cta.astype(np.int64) * 64 + log.warp
    for warp in np.unique(key):
        mine = key == warp
        assert (np.diff(timed.start[mine]) >= 0).all()
    assert np.isfinite(timed.start).all()
    assert np.isfinite(timed.mmas.end).all()


def test_a_named_barrier_holds_every_warp_until_the_last_arrives() -> None:
    body = "  setp.gt.u32 %p, %t, 31;\n  @%p bra join;\n"
    body += "  fma.rn.f32 %f, %f, %f, %f;\n" * 200
    body += "join:\n  bar.sync 0;\n"
    log = record(kernel(body, ".reg .f32 %f;"), block=128)
    timed = log.timed("sm_90")
    (row,) = np.flatnonzero(log.phases.kind == NAMED)
    waits = log.barriers.event
    assert len(waits) == 4
    released = timed.end[waits]
    assert released.max() - released.min() < 1e-6
    cycle = 1 / figures_of("sm_90")["clock"]
    slow = timed.stalled[waits].max()
    assert slow / cycle == pytest.approx(800, rel=0.05)
    assert (released >= timed.phases[row]).all()


def test_the_producer_of_the_sm90_kernel_runs_ahead_of_its_consumers() -> None:
    """The load warp requests the next tile while the warpgroups multiply this one, and is done before they are."""
    log, timed = mla("sm_90", 16_384)
    cta = int(np.bincount(log.cta[log.copies.event]).argmax())
    copies, products = (np.flatnonzero(log.cta[table.event] == cta) for table in (log.copies, log.mmas))
    asked, started = np.sort(timed.copies.start[copies]), np.sort(timed.mmas.start[products])
    ahead = [(timed.mmas.end[products] > moment).mean() for moment in (asked[0], asked[-1])]
    assert ahead[0] == 1
    assert ahead[1] > 0.2
    assert started[0] > timed.copies.end[copies].min()
    assert overlap(timed.busy("copy", int(timed.cta_sm[cta])), timed.busy("mma", int(timed.cta_sm[cta]))) > 100


def test_copies_products_and_softmax_of_the_sm100_kernel_overlap() -> None:
    """The TMA warp, the MMA warp and the softmax warps work at the same time."""
    log, timed = mla("sm_100", 1024)
    copies, products = timed.busy("copy", 0), timed.busy("mma", 0)
    exponentials = timed.busy("XU", 0)
    assert overlap(copies, products) > 0.3 * covered(products)
    assert overlap(products, exponentials) > 0.05 * covered(exponentials)
    assert (log.cta[log.mmas.event] % 2 == 0).all()
    alone = covered(copies) + covered(products) + covered(exponentials)
    assert timed.cta_end[0] - timed.cta_start[0] < alone


def test_products_of_the_sm100_kernel_take_at_least_the_tensor_cores_time() -> None:
    log, timed = mla("sm_100")
    figures = figures_of("sm_100")
    m, n, k = (getattr(log.mmas, name).astype(np.float64) for name in "mnk")
    per_sm = (m * n * k / log.mmas.cta_group).sum() / figures["tcgen05_macs"] / figures["clock"]
    assert covered(timed.busy("mma", 0)) >= per_sm


def test_a_longer_context_takes_longer_by_its_tiles() -> None:
    times = [mla("sm_100", tokens)[1].total_ns for tokens in (512, 1024, 1536)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=0.1)
