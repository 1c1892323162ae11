"""ptxas's order of straight-line code, by kernels whose loads can or cannot move ahead of what precedes them."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.events.timing import figures_of
from sglab.events.timing.tables import placed
from sglab.gpu import Allocation
from tests.support.timing import events_of, kernel, record

FIGURES = figures_of("sm_90")
CYCLE, LATENCY, FIRST = 1 / FIGURES["clock"], FIGURES["l2_latency"], FIGURES["first_load"]
REGISTERS = ".reg .f32 %f, %g, %sum; .reg .b32 %i, %n, %word; .reg .b64 %at;"


def loop(trips: int, end: str = "setp.ne.u32 %p, %i, 0;", pragma: str = "") -> Any:
    """Adds up a line of memory per trip, each from a line of its own."""
    return kernel(
        f"""
  mov.u32 %i, {trips}; mov.b64 %at, %out; mov.f32 %sum, 0f00000000;
again:
  {pragma}
  ld.global.f32 %f, [%at];
  add.f32 %sum, %sum, %f; add.s64 %at, %at, 128; sub.u32 %i, %i, 1;
  mov.b32 %word, %f;
  {end}
  @%p bra again;
  st.global.f32 [%address], %sum;""",
        REGISTERS,
    )


def cycles(made: Any, **options: Any) -> float:
    timed = record(made).timed("sm_90", **options)
    return float((timed.cta_end[0] - timed.cta_start[0]) / CYCLE)


@pytest.mark.parametrize(("trips", "latencies"), [(1, 1), (2, 1), (4, 1), (6, 2), (8, 2), (16, 4)])
def test_loads_of_four_iterations_of_a_counted_loop_are_in_flight_together(trips: int, latencies: int) -> None:
    assert cycles(loop(trips)) == pytest.approx(FIRST + latencies * LATENCY, rel=0.25, abs=40)


def test_a_pragma_holds_for_its_own_loop_only() -> None:
    """Though lanes meet ahead of the other one, at a place that no line of the text has."""
    other = """
  mov.u32 %n, 2;
other:
  .pragma "nounroll";
  sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0;
  @%p bra other;
  mov.u32 %i, 8; mov.b64 %at, %out; mov.f32 %sum, 0f00000000;
again:
  ld.global.f32 %f, [%at];
  add.f32 %sum, %sum, %f; add.s64 %at, %at, 128; sub.u32 %i, %i, 1;
  setp.ne.u32 %p, %i, 0;
  @%p bra again;
  st.global.f32 [%address], %sum;"""
    assert cycles(kernel(other, REGISTERS)) == pytest.approx(FIRST + 2 * LATENCY, rel=0.25)


def test_iterations_wait_where_registers_run_out() -> None:
    """Four words a trip: 16 registers hold what fewer than four trips load."""
    made = kernel(
        """
  mov.u32 %i, 8; mov.b64 %at, %out; mov.f32 %sum, 0f00000000;
again:
  ld.global.v4.f32 {%f, %g, %h, %k}, [%at];
  add.f32 %sum, %sum, %f; add.f32 %sum, %sum, %k; add.s64 %at, %at, 128; sub.u32 %i, %i, 1;
  setp.ne.u32 %p, %i, 0;
  @%p bra again;
  st.global.f32 [%address], %sum;""",
        REGISTERS + ".reg .f32 %h, %k;",
    )
    assert cycles(made, registers=32) == pytest.approx(FIRST + 2 * LATENCY, rel=0.25)
    assert cycles(made, registers=16) == pytest.approx(FIRST + 4 * LATENCY, rel=0.25)


@pytest.mark.parametrize(
    "made",
    [
        loop(8, pragma='.pragma "nounroll";'),
        loop(8, end="setp.eq.u32 %p, %word, 0; setp.ne.and.u32 %p, %i, 0, %p;"),
        loop(8, end="setp.ne.u32 %p, %t, 99; setp.ne.and.u32 %p, %i, 0, %p; setp.ne.and.u32 %p, %n, %i, %p;"),
    ],
    ids=["nounroll", "left on what was loaded", "left for two reasons"],
)
def test_other_loops_load_once_per_iteration(made: Any) -> None:
    assert cycles(made) > 8 * LATENCY


def test_a_taken_branch_costs_more_than_its_issue_slot() -> None:
    lines = ["again:", '.pragma "nounroll";', "sub.u32 %i, %i, 1;", "setp.ne.u32 %p, %i, 0;", "@%p bra again;"]
    empty = [kernel("\n".join([f"mov.u32 %i, {trips};", *lines]), REGISTERS) for trips in (10, 110)]
    few, many = (cycles(made) for made in empty)
    assert (many - few) / 100 > FIGURES["branch"] + 3


@pytest.mark.parametrize(
    ("store", "load", "ahead"),
    [
        ("st.global.f32 [%address], %g;", "ld.global.f32 %g, [%address+128];", False),
        ("st.global.f32 [%address], %g;", "ld.global.nc.f32 %g, [%address+128];", True),
        ("st.shared.f32 [%n], %g;", "ld.global.f32 %g, [%address+128];", True),
        ("st.shared.f32 [%n], %g;", "ld.shared.f32 %g, [%n+4]; ld.global.f32 %g, [%address+128];", True),
        ("st.f32 [%address], %g;", "ld.global.f32 %g, [%address+128];", False),
        ("bar.sync 0;", "ld.global.f32 %g, [%address+128];", False),
        ("bra next; next:", "ld.global.f32 %g, [%address+128];", False),
    ],
)
def test_loads_pass_what_cannot_change_their_data(store: str, load: str, ahead: bool) -> None:
    body = f"""
  mov.u32 %n, memory;
  ld.global.f32 %f, [%address];
  add.f32 %g, %f, %f;
  {store}
  {load}
  add.f32 %sum, %g, %g;
  st.global.f32 [%address], %sum;"""
    took = cycles(kernel(body, REGISTERS, 256))
    assert took == pytest.approx(FIRST + (1 if ahead else 2) * LATENCY, abs=110)


def test_what_issued_early_is_shown_in_the_programs_order() -> None:
    log = record(loop(8))
    timed = log.timed("sm_90")
    assert (np.diff(timed.start) >= 0).all()
    assert (timed.end >= timed.start).all()
    loads, sums = events_of(log, "ld.global"), events_of(log, "add.f32")
    assert (timed.end[loads] <= timed.start[sums] + 1e-9).all()
    assert (timed.end[loads[1:4]] - timed.end[loads[0]]).max() / CYCLE < 40


def test_conversions_of_16_bit_integers_take_the_special_function_unit() -> None:
    def convert(prepare: str) -> float:
        lines = [prepare, "cvt.rn.f32.u32 %g, %n;", "add.f32 %sum, %sum, %g;", "add.u32 %t, %t, 3;"] * 64
        log = record(kernel("\n".join(lines), REGISTERS), block=512)
        return float((log.timed("sm_90").cta_end[0] - log.timed("sm_90").cta_start[0]) / CYCLE)

    assert convert("shr.u32 %n, %t, 16;") == pytest.approx(64 * 4 * 8, rel=0.1)
    assert convert("shr.u32 %n, %t, 15;") < 64 * 4 * 7


def test_streaming_loads_are_not_found_in_the_l2_cache() -> None:
    for opcode, where in (("ld.global", "l2_latency"), ("ld.global.cs", "hbm_latency")):
        log = record(kernel(f"  {opcode}.f32 %f, [%address];", REGISTERS))
        timed = log.timed("sm_90")
        (load,) = events_of(log, opcode)
        assert (timed.end[load] - timed.start[load]) / CYCLE == pytest.approx(FIRST + FIGURES[where], abs=5)


def test_where_a_process_has_its_tensors_changes_nothing() -> None:
    """Two tensors lie in the order in which they were given, whichever has the lower address."""
    low, high = Allocation(0x10000, 1000, "low"), Allocation(0x90000, 700, "high")
    here = placed(np.array([0x10000, 0x90000], np.uint64), (low, high))
    there = placed(np.array([0x90000, 0x10000], np.uint64), (high, low))
    assert here[1] - here[0] == there[1] - there[0] == 1024
    assert placed(np.array([0x10000 + 2048], np.uint64), (low,)).tolist() == [0x10000 + 2048], "memory of nobody stays"
