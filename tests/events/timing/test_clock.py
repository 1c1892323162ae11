"""The modelled clock: order, dependencies, throughput, by kernels whose time can be worked out by hand."""

import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.events.tables import FAILED, MBARRIER
from sglab.events.timing import STALLS, figures_of
from sglab.gpu.errors import LaunchError
from tests.support.timing import chain, events_of, kernel, record

CYCLE = 1 / figures_of("sm_90")["clock"]
SMS = int(figures_of("sm_90")["sms"])


def span(timed: Any, events: np.ndarray) -> float:
    """Cycles from the first issue to the last result."""
    return float((timed.end[events].max() - timed.start[events].min()) / CYCLE)


def lasted(timed: Any, events: np.ndarray) -> float:
    """Cycles from the first CTA's start to the last result."""
    return float((timed.end[events].max() - timed.cta_start.min()) / CYCLE)


@pytest.mark.parametrize(("count", "chains"), [(50, 1), (200, 1), (50, 2), (50, 4), (50, 16)])
def test_a_chain_takes_its_latency_and_chains_share_the_issue_slots(count: int, chains: int) -> None:
    log = record(chain("fma.rn.f32", count, chains))
    cycles = lasted(log.timed("sm_90"), events_of(log, "fma"))
    assert cycles == pytest.approx(count * max(4, chains), abs=chains + 6)  # and the address's few


@pytest.mark.parametrize("warps", [4, 8, 32])
def test_a_sub_partition_issues_one_instruction_per_cycle(warps: int) -> None:
    log = record(chain("fma.rn.f32", 64, 4), block=32 * warps)
    cycles = lasted(log.timed("sm_90"), events_of(log, "fma"))
    assert cycles == pytest.approx(256 * warps / 4, rel=0.05)


@pytest.mark.parametrize("warps", [4, 16])
def test_special_functions_take_eight_cycles_of_a_sub_partition(warps: int) -> None:
    body = "\n".join(f"  ex2.approx.ftz.f32 %f{i % 8}, %f{i % 8};" for i in range(64))
    log = record(kernel(body, ".reg .f32 %f<8>;"), block=32 * warps)
    assert lasted(log.timed("sm_90"), events_of(log, "ex2")) == pytest.approx(64 * 8 * warps / 4, rel=0.05)


def test_shared_memory_moves_128_bytes_per_cycle() -> None:
    body = "  mov.u32 %s, memory; and.b32 %t, %t, 31; mad.lo.u32 %s, %t, 16, %s;\n"
    body += "\n".join("  ld.shared.v4.f32 {%f0, %f1, %f2, %f3}, [%s];" for _ in range(32))
    log = record(kernel(body, ".reg .f32 %f<4>; .reg .b32 %s;", 1024), block=512)
    assert span(log.timed("sm_90"), events_of(log, "ld.shared")) == pytest.approx(16 * 32 * 4, rel=0.05)


def test_twice_the_work_takes_twice_the_time() -> None:
    logs = [record(chain("fma.rn.f32", count, 4), grid=SMS, block=512) for count in (100, 200, 400)]
    spans = [span(log.timed("sm_90"), events_of(log, "fma")[log.cta[events_of(log, "fma")] == 7]) for log in logs]
    assert spans[1] / spans[0] == pytest.approx(2, rel=0.03)
    assert spans[2] / spans[1] == pytest.approx(2, rel=0.03)


def test_ctas_beyond_those_resident_wait_for_a_place() -> None:
    log = record(chain("fma.rn.f32", 100, 4), grid=2 * SMS, block=1024)
    timed = log.timed("sm_90", registers=64)
    assert timed.ctas_per_sm == 1
    first, second = timed.cta_end[:SMS], timed.cta_start[SMS:]
    assert (second[np.argsort(timed.cta_sm[SMS:])] >= first[np.argsort(timed.cta_sm[:SMS])]).all()
    assert log.timed("sm_90", registers=32).ctas_per_sm == 2


def test_a_load_takes_the_latency_of_where_it_finds_its_data() -> None:
    log = record(kernel("  ld.global.f32 %f, [%address];\n  ld.global.f32 %g, [%address];", ".reg .f32 %f, %g;"))
    loads = events_of(log, "ld.global")
    figures = figures_of("sm_90")
    warm, cold = ((t.end - t.start)[loads] / CYCLE for t in (log.timed("sm_90"), log.timed("sm_90", l2="cold")))
    assert warm == pytest.approx(figures["first_load"] + figures["l2_latency"], abs=5)
    assert cold[0] == pytest.approx(figures["hbm_latency"] + figures["translation"], abs=5)


def test_a_line_on_its_way_from_memory_is_waited_for() -> None:
    log = record(kernel("  ld.global.f32 %f, [%address];", ".reg .f32 %f;"), grid=2)
    timed = log.timed("sm_90", l2="cold")
    first, second = ((timed.end - timed.start)[events_of(log, "ld.global")] / CYCLE).tolist()
    assert second == pytest.approx(first, abs=5)
    assert timed.hbm_bytes == 128


def test_rows_that_a_warp_gathers_come_from_memory_whole() -> None:
    body = """
  mov.u32 %s, memory; mad.lo.u32 %s, %t, 16, %s; shr.u32 %row, %t, 3; and.b32 %lane, %t, 7; shl.b32 %lane, %lane, 4;
  mad.lo.u32 %row, %row, 4096, %lane; cvt.u64.u32 %wide, %row; add.s64 %wide, %wide, %out;
  cp.async.cg.shared.global [%s], [%wide], 16;
  cp.async.cg.shared.global [%s], [%wide+128], 16;
  cp.async.wait_all;"""
    log = record(kernel(body, ".reg .b32 %s, %row, %lane; .reg .b64 %wide;", 512))
    assert log.timed("sm_90", l2="cold").hbm_bytes == 2 * 512


@pytest.mark.parametrize(("instructions", "each"), [(1024, 1), (4096, 2.2)])
def test_code_beyond_the_instruction_cache_is_fetched(instructions: int, each: float) -> None:
    log = record(chain("fma.rn.f32", instructions // 4, 4))
    timed = log.timed("sm_90")
    assert lasted(timed, events_of(log, "fma")) == pytest.approx(instructions * each, rel=0.03)
    assert ("instruction fetch" in timed.stall_ns()) == (each > 1)


def test_a_branch_waits_for_its_predicate_and_costs_what_follows() -> None:
    body = "\n".join(
        f"  setp.gt.u32 %p, %t, {99 + i};\n  @%p bra over{i};\n  add.u32 %i, %i, %t;\nover{i}:" for i in range(16)
    )
    taken = body.replace("gt", "lt")
    spans = [
        lasted(log.timed("sm_90"), events_of(log, "bra"))
        for log in (record(kernel(text, ".reg .b32 %i;")) for text in (body, taken))
    ]
    figures = figures_of("sm_90")
    waits = 5 + figures["predicate"]  # for a comparison, to branch
    assert spans[0] == pytest.approx(16 * (waits + 2), abs=40)
    assert spans[1] - spans[0] == pytest.approx(15 * (figures["branch"] - 1), abs=20)


def test_a_cold_launch_starts_later() -> None:
    log = record(chain("fma.rn.f32", 2))
    starts = [log.timed("sm_90", l2=l2).cta_start[0] / CYCLE for l2 in ("warm", "cold")]
    assert starts[1] - starts[0] == pytest.approx(figures_of("sm_90")["cold_start"])


def test_streams_run_at_the_bandwidth_of_the_memory() -> None:
    body = "\n".join(
        f"  ld.global.v4.f32 {{%f{4 * i}, %f{4 * i + 1}, %f{4 * i + 2}, %f{4 * i + 3}}}, [%wide+{i * 2**21}];"
        for i in range(8)
    )
    setup = "  mov.u32 %c, %ctaid.x; mad.lo.u32 %t, %c, 1024, %t; mad.wide.u32 %wide, %t, 16, %out;\n"
    made = kernel(setup + body, ".reg .f32 %f<32>; .reg .b32 %c; .reg .b64 %wide;")
    log = record(made, grid=128, block=1024, elements=2**22)
    timed = log.timed("sm_90", l2="cold", registers=32)
    loads = events_of(log, "ld.global")
    assert timed.hbm_bytes == 2**24
    rate = figures_of("sm_90")["hbm_rate"]
    assert 2**24 / span(timed, loads) == pytest.approx(rate, rel=0.2)


def test_every_warp_issues_in_order_and_waits_for_what_it_reads() -> None:
    log = record(chain("fma.rn.f32", 30, 2), grid=3, block=96)
    timed = log.timed("sm_90")
    for warp in range(3):
        mine = np.flatnonzero((log.cta == 1) & (log.warp == warp))
        assert (np.diff(timed.start[mine]) >= 0).all()
        fma = mine[np.isin(mine, events_of(log, "fma"))]
        assert (timed.start[fma[2:]] >= timed.end[fma[:-2]] - 1e-9).all()
    assert (timed.end >= timed.start).all()
    assert timed.total_ns >= timed.end.max()


def test_stalls_name_their_cause() -> None:
    log = record(chain("fma.rn.f32", 100))
    stalls = log.timed("sm_90").stall_ns()
    assert max(stalls, key=stalls.__getitem__) == "arithmetic"
    load = "  ld.global.f32 %f, [%address];\n  add.f32 %f, %f, %f;"
    log = record(kernel(load, ".reg .f32 %f;"))
    timed = log.timed("sm_90")
    (add,) = events_of(log, "add.f32")
    assert STALLS[timed.stall[add]] == "global memory"
    figures = figures_of("sm_90")
    assert timed.stalled[add] / CYCLE == pytest.approx(figures["first_load"] + figures["l2_latency"], abs=5)


def test_the_model_is_deterministic() -> None:
    log = record(chain("fma.rn.f32", 20, 3), grid=300, block=128)
    first, second = log.timed("sm_90"), log.timed("sm_90")
    np.testing.assert_array_equal(first.start, second.start)
    np.testing.assert_array_equal(first.end, second.end)


def test_tests_of_an_mbarrier_that_fail_wait_for_nothing() -> None:
    body = """
  mov.u32 %m, memory; setp.ne.u32 %p, %t, 0;
  @!%p mbarrier.init.shared.b64 [%m], 1;
  bar.sync 0;
  @%p bra done;
spin:
  mbarrier.test_wait.parity.shared.b64 %q, [%m], 0;
  add.u32 %i, %i, 1; setp.eq.u32 %p, %i, 20;
  @%p mbarrier.arrive.shared.b64 %state, [%m];
  @!%q bra spin;
done:"""
    log = record(kernel(body, ".reg .b32 %m, %i; .reg .pred %q; .reg .b64 %state;", 8), block=64)
    assert (log.barriers.passed == FAILED).sum() >= 19
    timed = log.timed("sm_90")
    assert timed.unresolved == 0
    assert (timed.end >= timed.start).all()
    assert (timed.end > 0).all()


def test_half_a_million_events_take_less_than_a_second() -> None:
    log = record(chain("fma.rn.f32", 100, 4), grid=148, block=256)
    assert len(log) > 450_000
    start = time.process_time()
    log.timed("sm_90")
    assert time.process_time() - start < 1


def test_busy_intervals_do_not_overlap_and_lie_within_the_launch() -> None:
    log = record(chain("fma.rn.f32", 50, 2), block=256)
    timed = log.timed("sm_90")
    intervals = timed.busy("FMA", 0)
    assert (intervals[:, 1] > intervals[:, 0]).all()
    assert (intervals[1:, 0] > intervals[:-1, 1]).all()
    assert intervals[-1, 1] <= timed.total_ns + 1
    assert len(timed.busy("FMA", 1)) == 0


def test_wrong_arguments_are_refused() -> None:
    log = record(chain("fma.rn.f32", 2))
    with pytest.raises(LaunchError, match="b200, h100, h200, sm_100, sm_90; got arch 'sm_80'"):
        log.timed("sm_80")
    with pytest.raises(LaunchError, match="l2 must be 'warm' or 'cold'; got 'hot'"):
        log.timed("sm_90", l2="hot")
    with pytest.raises(LaunchError, match="registers must be 1 to 255 per thread; got 300"):
        log.timed("sm_90", registers=300)
    with pytest.raises(LaunchError, match=r"unit must be one of .*got 'gpu'"):
        log.timed("sm_90").busy("gpu", 0)
    with pytest.raises(LaunchError, match="no details"):
        record(chain("fma.rn.f32", 2), details=False).timed("sm_90")


def test_lanes_that_arrive_at_barriers_of_several_ctas_end_the_phase_of_each() -> None:
    body = """
  mov.u32 %bar, memory; mov.u32 %rank, %cluster_ctarank; setp.ne.u32 %p, %t, 0;
  @!%p mbarrier.init.shared.b64 [%bar], 1;
  barrier.cluster.arrive; barrier.cluster.wait;
  setp.ne.u32 %q, %rank, 0; @%q bra wait;
  mov.u32 %n, 0;
work:
  div.rn.f32 %f, %f, %f; add.u32 %n, %n, 1; setp.lt.u32 %q, %n, 50; @%q bra work;
  setp.lt.u32 %q, %t, 2;
  @%q mapa.shared::cluster.u32 %far, %bar, %t;
  @%q mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%far];
wait:
  mbarrier.try_wait.parity.shared.b64 %q, [%bar], 0; @!%q bra wait;
  barrier.cluster.arrive; barrier.cluster.wait;
"""
    registers = ".reg .f32 %f; .reg .b32 %bar, %rank, %n, %far; .reg .pred %q;"
    log = record(kernel(body, registers, 8), grid=2, cluster=2)
    arrival = events_of(log, "mbarrier.arrive")
    assert log.barriers.object[np.isin(log.barriers.event, arrival)].tolist() == [1024, 1024 | 1 << 24]
    timed = log.timed("sm_90")
    waits = events_of(log, "mbarrier.try_wait")
    assert set(log.cta[waits]) == {0, 1}
    assert timed.end[waits].min() > timed.start[arrival].min()
    assert timed.phases[log.phases.kind == MBARRIER].min() > timed.start[arrival].min()


def test_copies_that_only_write_zeros_read_nothing() -> None:
    body = """
  mov.u32 %bar, memory; mad.lo.u32 %bar, %t, 16, %bar;
  cp.async.cg.shared.global [%bar], [%out], 16, %size;
  cp.async.commit_group; cp.async.wait_group 0;
"""
    registers = ".reg .b32 %bar, %size; mov.u32 %size, {};"
    read = {
        size: record(kernel(body, registers.format(size), 512)).timed("sm_90").l2_bytes  # of each lane
        for size in (0, 16)
    }
    assert read == {0: 0, 16: 512}
