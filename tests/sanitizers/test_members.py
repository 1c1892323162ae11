"""Lanes that a member mask names and that never come to the .sync instruction. It "waits until all non-exited threads"
have come (PTX ISA), so lanes may leave early: what they would have given is undefined for who takes it."""

import pytest

torch = pytest.importorskip("torch")

from typing import Any

from sglab import gpu
from tests.support.emulator.schedulers import SCHEDULERS

PROGRAM = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry program(.param .u64 out) {{
  .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 1; mov.u32 %r7, 0;
  setp.ge.u32 %p1, %r1, 40;
  setp.eq.u32 %p2, %r1, 32;
  {body}
  ret;
}}"""
"""%p1 holds in lanes 8 to 31 of the second warp, %p2 in its first lane."""
FEW, REST = 0xFF, 0xFFFFFF00


def run(body: str, detectors: set[str], threads: int = 64, **options: Any) -> list[Any]:
    device = gpu.EmulatedDevice("sm_90a", sms=1, sanitize=detectors, **options)
    out = torch.zeros(64, dtype=torch.int32)
    report = gpu.Module(PROGRAM.format(body=body), "program")["program"].launch(
        device, grid=1, block=threads, args=[out]
    )
    return list(report.findings)


def kinds(found: list[Any]) -> list[str]:
    return [each.kind for each in found]


SYNCS = {
    "shfl": "shfl.sync.down.b32 %r5, %r1, 1, 31, -1;",
    "vote": "vote.sync.ballot.b32 %r5, %p2, -1;",
    "match": "match.any.sync.b32 %r5, %r1, -1;",
    "redux": "redux.sync.add.u32 %r5, %r1, -1;",
    "elect": "elect.sync %r5|%p3, -1;",
    "bar.warp.sync": "bar.warp.sync -1;",
}
STORE = "st.global.u32 [%rd2], %r1;"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("sync", SYNCS.values(), ids=list(SYNCS))
def test_members_that_go_past_are_missing(sync: str, scheduler: str) -> None:
    found = run(f"@%p1 bra PAST;\n{sync}\nPAST:\n{STORE}", {"barriers"}, scheduler=scheduler)
    assert kinds(found) == ["member_missing"] and found[0].severity == "warning"
    at, other = found[0].at, found[0].other
    assert (at.warp, at.lanes, other.warp, other.lanes) == (1, REST, 1, FEW)
    assert at.instruction.opcode == "st.global.u32" and other.instruction.opcode in sync


@pytest.mark.parametrize("sync", SYNCS.values(), ids=list(SYNCS))
def test_nor_may_a_guard_leave_members_out(sync: str) -> None:
    assert kinds(run(f"@!%p1 {sync} {STORE}", {"barriers"})) == ["member_missing"]


RIGHT = {
    "leave early": "@%p1 ret; {sync} " + STORE,
    "leave by code of their own": "@%p1 bra LEAVE; {sync} " + STORE + " ret; LEAVE: " + STORE,
    "come later": "@%p1 bra MEET; " + STORE + " MEET: {sync} " + STORE,
    "come later each time": (
        "ROUND: @%p1 bra MEET; " + STORE + " MEET: {sync} " + STORE + " add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 3; "
        "@%p4 bra ROUND;"
    ),
    "one lane works": "@!%p2 bra MEET; " + STORE + STORE + " MEET: {sync} " + STORE,
    "all come": "{sync} " + STORE,
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("sync", SYNCS.values(), ids=list(SYNCS))
@pytest.mark.parametrize("right", RIGHT.values(), ids=list(RIGHT))
def test_members_that_come_or_leave_are_not(right: str, sync: str, scheduler: str) -> None:
    assert run(right.format(sync=sync), {"barriers", "memory"}, scheduler=scheduler) == []


TAKEN = "st.global.u32 [%rd2], %r5;"
ABSENT = {
    "exited": "@%p1 ret; shfl.sync.down.b32 %r5, %r1, 1, 31, -1; {use}",
    "gone past": "@%p1 bra PAST; shfl.sync.down.b32 %r5, %r1, 1, 31, -1; PAST: {use}",
    "outside the block": "shfl.sync.bfly.b32 %r5, %r1, 16, 31, -1; {use}",
    "in place": "@%p1 ret; mov.u32 %r5, %r1; shfl.sync.down.b32 %r5, %r5, 1, 31, -1; {use}",
    "into the operand that says from where": "@%p1 ret; mov.u32 %r5, 9; shfl.sync.idx.b32 %r5, %r1, %r5, 31, -1; {use}",
}


@pytest.mark.parametrize("absent", ABSENT.values(), ids=list(ABSENT))
def test_a_value_of_a_lane_that_is_absent(absent: str) -> None:
    found = run(absent.format(use=TAKEN), {"memory"}, threads=48)
    assert kinds(found) == ["shuffle_from_absent_lane"] and found[0].severity == "error"
    assert found[0].at.instruction.opcode.startswith("shfl.sync")
    assert found[0].other.instruction.opcode == "st.global.u32"


@pytest.mark.parametrize("absent", ABSENT.values(), ids=list(ABSENT))
def test_is_no_fault_until_it_matters(absent: str) -> None:
    assert run(absent.format(use=STORE), {"memory"}, threads=48) == []


HARMLESS = {
    "from those that are there": "@%p1 ret; mov.u32 %r5, 7; shfl.sync.idx.b32 %r5, %r1, %r5, 31, -1; " + TAKEN,
    "clamped": "@%p1 ret; shfl.sync.down.b32 %r5, %r1, 1, 7, -1; " + TAKEN,
    "another is chosen": (
        "@%p1 ret; shfl.sync.down.b32 %r5, %r1, 1, 31, -1; setp.eq.u32 %p5, %r1, 39; "
        "selp.b32 %r5, %r1, %r5, %p5; " + TAKEN
    ),
    "quads": (
        "and.b32 %r8, %r1, 28; mov.u32 %r9, 15; shl.b32 %r9, %r9, %r8; "
        "shfl.sync.bfly.b32 %r5, %r1, 3, 31, %r9; " + TAKEN
    ),
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("harmless", HARMLESS.values(), ids=list(HARMLESS))
def test_lanes_that_are_absent_may_be_so(harmless: str, scheduler: str) -> None:
    assert run(harmless, {"memory"}, scheduler=scheduler) == []


def test_sets_do_not_take_from_each_other() -> None:
    halves = "and.b32 %r8, %r1, 16; mov.u32 %r9, 0xffff; shl.b32 %r9, %r9, %r8;"
    assert kinds(run(f"{halves} shfl.sync.bfly.b32 %r5, %r1, 16, 31, %r9; {TAKEN}", {"memory"})) == [
        "shuffle_from_absent_lane"
    ]


APART = "@%p1 bra FEW; {rest} bra.uni MEET; FEW: {few} MEET: {use}"
"""Lanes 8 to 31 of the second warp execute `few`, all others `rest`."""


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("sync", SYNCS.values(), ids=list(SYNCS))
def test_members_may_come_to_another_instruction(sync: str, scheduler: str) -> None:
    use = f"{STORE} {TAKEN}"
    body = APART.format(few=STORE + sync, rest=sync, use=use)
    assert run(body, {"barriers", "memory", "races"}, scheduler=scheduler) == []
    loop = "ROUND: " + body + " add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 3; @%p4 bra ROUND;"
    assert run(loop, {"barriers", "memory", "races"}, scheduler=scheduler) == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_members_that_came_to_another_have_missed_nothing(scheduler: str) -> None:
    """Lanes 8 to 31 store what the others will store, come to the second shuffle and exit; only then these go on."""
    sync = SYNCS["shfl"]
    body = f"""
    .shared .align 4 .b32 flag; setp.ge.u32 %p1, %r1, 8;
    @%p1 bra LATER; {sync}
    WAIT: ld.volatile.shared.u32 %r8, [flag]; setp.eq.u32 %p4, %r8, 0; @%p4 bra WAIT;
    LATER: {STORE}
    @!%p1 bra DONE; {sync} st.volatile.shared.u32 [flag], 1; ret;
    DONE: """
    assert run(body, {"barriers"}, threads=32, scheduler=scheduler) == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_garbage_is_handed_on_from_another_instruction(scheduler: str) -> None:
    """%r12 was never written: lanes 8 to 31 of the second warp give it, the others take it."""
    few = "shfl.sync.bfly.b32 %r7, %r12, 31, 31, -1;"
    rest = "shfl.sync.bfly.b32 %r5, %r1, 31, 31, -1;"
    found = run(APART.format(few=few, rest=rest, use=TAKEN), {"memory"}, scheduler=scheduler)
    assert kinds(found) == ["uninitialised_register"]
    assert found[0].at.warp == 1 and found[0].at.lanes == FEW & 0xFF
    clean = "shfl.sync.bfly.b32 %r7, %r12, 1, 31, -1;", "shfl.sync.bfly.b32 %r5, %r1, 1, 31, -1;"
    assert run(APART.format(few=clean[0], rest=clean[1], use=TAKEN), {"memory"}, scheduler=scheduler) == []


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_garbage_spoils_what_all_compute_together(scheduler: str) -> None:
    few, rest = "redux.sync.add.u32 %r5, %r12, -1;", "redux.sync.add.u32 %r5, %r1, -1;"
    found = run(APART.format(few=few, rest=rest, use=TAKEN), {"memory"}, scheduler=scheduler)
    assert kinds(found) == ["uninitialised_register"] and found[0].at.lanes == 0xFFFFFFFF


def test_what_a_shuffle_takes_from_lanes_at_another_operation_is_undefined() -> None:
    found = run(APART.format(few="bar.warp.sync -1;", rest=SYNCS["shfl"], use=TAKEN), {"memory"})
    assert sorted(kinds(found)) == ["member_operations_differ", "shuffle_from_absent_lane"]
    assert next(each for each in found if each.kind == "member_operations_differ").severity == "warning"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("pairs", [("bar.warp.sync -1;", "bar.warp.sync -1;"), (SYNCS["vote"], SYNCS["vote"])])
def test_two_barriers_of_a_warp_order_memory_as_one_does(pairs: tuple[str, str], scheduler: str) -> None:
    """Lane 8 stores, lane 0 loads behind the barrier; a vote orders nothing."""
    few = f"st.shared.u32 [cell], %r1; {pairs[0]}"
    rest = f"{pairs[1]} ld.shared.u32 %r5, [cell];"
    one = "setp.eq.u32 %p1, %r1, 8;"
    body = ".shared .align 4 .b32 cell; " + one + APART.format(few=few, rest=rest, use=TAKEN)
    found = kinds(run(body, {"races"}, threads=32, scheduler=scheduler))
    assert found == ([] if "bar" in pairs[0] else ["missing_warp_sync"])
