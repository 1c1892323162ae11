"""Lanes at different .sync instructions with one member mask: they wait "until all non-exited threads corresponding to
membermask have executed" one "with the same qualifiers and same membermask value" (PTX ISA), not this very one."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.emulator.launching import launch
from tests.support.emulator.schedulers import SCHEDULERS

LANES = range(32)
FULL = 0xFFFFFFFF
HEAD = """
.entry k(.param .u64 out) {
  .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %laneid;
  mad.wide.u32 %rd2, %r1, 8, %rd1;
  mad.lo.u32 %r2, %r1, 7, 100;
  and.b32 %r3, %r1, 3;
  setp.ge.u32 %p1, %r1, 12;
  setp.eq.u32 %p2, %r3, 1;
  mov.u32 %r10, 0; mov.u32 %r11, 0;
"""
TAIL = "st.global.v2.u32 [%rd2], {%r10, %r11}; ret;\n}"
VALUE = [7 * lane + 100 for lane in LANES]
SMALL = [lane & 3 for lane in LANES]


def run(body: str, scheduler: str) -> tuple[list[list[int]], list[tuple]]:
    out = np.full((32, 2), 0xDEAD, np.uint32)
    report = launch(HEAD + body + TAIL, [out], scheduler=scheduler)
    return out.tolist(), list(report.warnings)


def ballot(lanes: Callable[[int], bool]) -> int:
    return sum(1 << lane for lane in LANES if lanes(lane))


# What lanes 0 to 11 execute, what the others execute, and what each lane has then.
PAIRS: dict[str, tuple[str, str, Callable[[int], int]]] = {
    "shfl": (
        "shfl.sync.bfly.b32 %r10, %r2, 31, 31, -1;",
        "shfl.sync.bfly.b32 %r10, %r2, 31, 31, -1;",
        lambda lane: VALUE[31 - lane],
    ),
    "shfl of other registers, by other steps": (
        "mov.u32 %r4, %r2; mov.u32 %r5, 31; shfl.sync.idx.b32 %r10, %r4, %r5, 31, -1;",
        "add.u32 %r6, %r2, 1000; shfl.sync.idx.b32 %r10|%p3, %r6, 3, 31, -1;",
        lambda lane: VALUE[31] + 1000 if lane < 12 else VALUE[3],
    ),
    "shfl in place": (
        "mov.u32 %r10, %r2; shfl.sync.bfly.b32 %r10, %r10, 16, 31, -1;",
        "add.u32 %r10, %r2, 1; shfl.sync.bfly.b32 %r10, %r10, 16, 31, -1;",
        lambda lane: VALUE[lane ^ 16] + (lane ^ 16 >= 12),
    ),
    "ballot": (
        "vote.sync.ballot.b32 %r10, %p2, -1;",
        "vote.sync.ballot.b32 %r10, !%p2, -1;",
        lambda lane: ballot(lambda k: (SMALL[k] == 1) == (k < 12)),
    ),
    "vote into its own operand": (
        "vote.sync.any.pred %p2, %p2, -1; selp.u32 %r10, 1, 0, %p2;",
        "setp.eq.u32 %p2, %r1, 99; vote.sync.any.pred %p2, %p2, -1; selp.u32 %r10, 1, 0, %p2;",
        lambda lane: 1,
    ),
    "match any": (
        "match.any.sync.b32 %r10, %r3, -1;",
        "match.any.sync.b32 %r10, %r3, -1;",
        lambda lane: ballot(lambda k: SMALL[k] == SMALL[lane]),
    ),
    "match all": (
        "mov.b64 %rd3, 5; match.all.sync.b64 %r10|%p3, %rd3, -1;",
        "mov.b64 %rd4, 5; match.all.sync.b64 %r10, %rd4, -1;",
        lambda lane: FULL,
    ),
    "redux": (
        "redux.sync.add.u32 %r10, %r2, -1;",
        "redux.sync.add.u32 %r10, %r1, -1;",
        lambda lane: sum(VALUE[:12]) + sum(range(12, 32)),
    ),
    "elect": (
        "elect.sync %r10|%p3, -1; selp.u32 %r11, 1, 0, %p3;",
        "elect.sync %r10|%p3, -1; selp.u32 %r11, 1, 0, %p3;",
        lambda lane: 0,
    ),
    "bar.warp.sync": (
        "bar.warp.sync -1; mov.u32 %r10, 1;",
        "bar.warp.sync -1; mov.u32 %r10, 2;",
        lambda lane: 1 + (lane >= 12),
    ),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("pair", PAIRS.values(), ids=list(PAIRS))
def test_the_branches_of_an_if(pair: tuple[str, str, Callable[[int], int]], scheduler: str) -> None:
    few, rest, expected = pair
    rows, warnings = run(f"@%p1 bra REST; {few} bra.uni MEET;\nREST: {rest}\nMEET: ", scheduler)
    assert [row[0] for row in rows] == [expected(lane) for lane in LANES]
    assert warnings == []
    if "elect" in few:
        assert [row[1] for row in rows] == [1] + [0] * 31


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_one_behind_the_other_in_straight_code(scheduler: str) -> None:
    """Lanes that skip the first meet at the second those that are at the first. These come to the second when the
    others are at the third."""
    rows, warnings = run(
        """
  @%p1 bra SECOND;
  redux.sync.add.u32 %r10, %r2, -1;
SECOND: redux.sync.add.u32 %r11, %r2, -1;
  @!%p1 bra DONE;
  redux.sync.add.u32 %r10, %r1, -1;
DONE: """,
        scheduler,
    )
    first, second = sum(VALUE), sum(VALUE[:12]) + sum(range(12, 32))
    assert rows == [[first, second] if lane < 12 else [second, first] for lane in LANES]
    assert warnings == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_three_places_in_loops(scheduler: str) -> None:
    """Each lane goes round its own loop as often as the others do theirs."""
    loop = """
  {0}: redux.sync.add.u32 %r5, %r4, -1; add.u32 %r4, %r5, %r1;
  add.u32 %r6, %r6, 1; setp.lt.u32 %p4, %r6, 5; @%p4 bra {0};"""
    rows, _ = run(
        "mov.u32 %r4, %r1; mov.u32 %r6, 0; @%p1 bra ELSE;\n"
        + loop.format("A")
        + " bra DONE; ELSE: @%p2 bra THIRD;\n"
        + loop.format("B")
        + " bra DONE;\nTHIRD: "
        + loop.format("C")
        + "\nDONE: mov.u32 %r10, %r4;",
        scheduler,
    )
    value = np.arange(32, dtype=np.uint32)
    for _ in range(5):
        value = value.sum(dtype=np.uint32) + np.arange(32, dtype=np.uint32)
    assert [row[0] for row in rows] == value.tolist()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_members_of_a_part_of_the_warp(scheduler: str) -> None:
    """Halves by masks in registers; within each two places. A lane of the upper half has exited."""
    rows, warnings = run(
        """
  and.b32 %r7, %r1, 16; mov.u32 %r8, 0xffff; shl.b32 %r8, %r8, %r7;
  setp.eq.u32 %p4, %r1, 20; @%p4 exit;
  and.b32 %r9, %r1, 1; setp.eq.u32 %p5, %r9, 1;
  @%p5 bra ODD; redux.sync.add.u32 %r10, %r2, %r8; bra MEET;
ODD: redux.sync.add.u32 %r10, %r1, %r8;
MEET: """,
        scheduler,
    )
    gives = [lane if lane % 2 else VALUE[lane] for lane in LANES]
    gives[20] = 0
    halves = [sum(gives[:16]), sum(gives[16:])]
    assert [row[0] for row in rows] == [0xDEAD if lane == 20 else halves[lane // 16] for lane in LANES]
    assert warnings == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_with_guards_that_the_result_overwrites(scheduler: str) -> None:
    rows, _ = run(
        """
  setp.lt.u32 %p3, %r1, 12; setp.ge.u32 %p4, %r1, 12;
  @%p3 vote.sync.all.pred %p3, %p2, -1;
  @%p4 vote.sync.all.pred %p4, %p2, -1;
  selp.u32 %r10, 1, 0, %p3; selp.u32 %r11, 1, 0, %p4;""",
        scheduler,
    )
    assert rows == [[0, 0]] * 32


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_in_functions_called_from_both_branches(scheduler: str) -> None:
    """One instruction in two calls."""
    function = """
.func (.param .b32 sum) total(.param .b32 x) {
  .reg .b32 %r<2>;
  ld.param.b32 %r0, [x]; redux.sync.add.u32 %r1, %r0, -1; st.param.b32 [sum], %r1; ret;
}
"""
    call = """
  {{ .param .b32 x; .param .b32 sum;
  st.param.b32 [x], {0}; call (sum), total, (x); ld.param.b32 %r10, [sum]; }}"""
    body = f"@%p1 bra REST; {call.format('%r2')} bra.uni MEET;\nREST: {call.format('%r1')}\nMEET: "
    out = np.zeros((32, 2), np.uint32)
    launch(function + HEAD + body + TAIL, [out], scheduler=scheduler)
    assert out[:, 0].tolist() == [sum(VALUE[:12]) + sum(range(12, 32))] * 32


DIFFERENT = {
    "shfl and ballot": (
        "shfl.sync.bfly.b32 %r10, %r2, 1, 31, -1;",
        "vote.sync.ballot.b32 %r10, %p2, -1;",
        lambda lane: VALUE[lane ^ 1] if lane < 12 else ballot(lambda k: k >= 12 and SMALL[k] == 1),
    ),
    "match and bar.warp.sync": (
        "match.any.sync.b32 %r10, %r3, -1;",
        "bar.warp.sync -1; mov.u32 %r10, 5;",
        lambda lane: ballot(lambda k: k < 12 and SMALL[k] == SMALL[lane]) if lane < 12 else 5,
    ),
    "other qualifiers": (
        "redux.sync.max.u32 %r10, %r2, -1;",
        "redux.sync.min.u32 %r10, %r2, -1;",
        lambda lane: VALUE[11] if lane < 12 else VALUE[12],
    ),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=list(DIFFERENT))
def test_different_operations_do_not_deadlock(pair: tuple[str, str, Callable[[int], int]], scheduler: str) -> None:
    """PTX has them wait for each other, for ever."""
    few, rest, expected = pair
    rows, warnings = run(f"@%p1 bra REST; {few} bra.uni MEET;\nREST: {rest}\nMEET: ", scheduler)
    assert [row[0] for row in rows] == [expected(lane) for lane in LANES]
    assert [row[1] for row in warnings] == ["member_operations_differ"]
