"""Instructions that are .aligned: all lanes of a warp must execute the same ones. Barriers take lanes that have exited
for arrived, so lanes may leave early; they may not go past a barrier. Others need all lanes of the warp."""

import pytest

torch = pytest.importorskip("torch")

from typing import Any

from sglab import gpu
from tests.support.emulator.schedulers import SCHEDULERS

SOME = 8
FEW, REST = (1 << SOME) - 1, 0xFFFFFFFF & ~((1 << SOME) - 1)
"""Lanes of the last warp that come to the barrier, and those that do not."""

PROGRAM = """
.version 8.7
.target {arch}
.address_size 64
.shared .align 1024 .b8 tile[4096];
.visible .entry program(.param .u64 out) {{
  .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<8>; .reg .b16 %h<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r0, %laneid;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2;
  mov.u32 %r4, 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0;
  setp.ge.u32 %p1, %r1, {some};
  {body}
  ret;
}}"""
"""%p1 holds in the last lanes of the last warp."""


def run(body: str, threads: int = 64, arch: str = "sm_90a", cluster: int = 1, **options: Any) -> tuple[list[Any], Any]:
    """What is found, and the error that ended the launch."""
    text = PROGRAM.format(arch=arch, body=body, some=threads - 32 + SOME)
    device = gpu.EmulatedDevice(arch, sms=1, sanitize={"barriers"}, **options)
    out = torch.zeros(1024, dtype=torch.int32)
    try:
        report = gpu.Module(text, "program")["program"].launch(
            device, grid=cluster, block=threads, cluster=cluster, args=[out]
        )
    except gpu.KernelError as error:
        return list(error.findings), error
    return list(report.findings), None


def kinds(found: list[Any]) -> list[str]:
    return [each.kind for each in found]


BARRIERS = {
    "bar.sync": "bar.sync 0;",
    "barrier.sync.aligned": "barrier.sync.aligned 0;",
    "barrier.cta.red": "barrier.cta.red.popc.aligned.u32 %r9, 0, %p1;",
    "bar.red": "bar.red.and.pred %p4, 0, %p1;",
    "bar.arrive": "bar.arrive 1, 128;",
    "barrier.cluster.arrive": "barrier.cluster.arrive.aligned;",
    "barrier.cluster.arrive.relaxed": "barrier.cluster.arrive.relaxed.aligned;",
}
STORE = "st.global.u32 [%rd2], %r1;"
TWICE_MORE = "add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3; @%p2 bra ROUND;"
LATE = """
ROUND:
  @%p1 bra MEET; mov.u32 %r6, 0;
WORK:
  st.shared.u32 [%r3], %r6; add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 700; @%p3 bra WORK;
MEET:"""
"""Some lanes of the last warp do more than others, and then all go on."""


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("barrier", BARRIERS.values(), ids=list(BARRIERS))
def test_lanes_may_not_go_past_a_barrier(barrier: str, scheduler: str) -> None:
    found, error = run(f"@%p1 bra PAST;\n{barrier}\nPAST:\n{STORE}", scheduler=scheduler)
    assert error is None and kinds(found) == ["barrier_diverged"]
    at, other = found[0].at, found[0].other
    assert (at.warp, at.lanes, other.warp, other.lanes) == (1, REST, 1, FEW)
    assert at.instruction.opcode == "st.global.u32" and other.instruction.opcode in barrier


@pytest.mark.parametrize("barrier", BARRIERS.values(), ids=list(BARRIERS))
def test_nor_by_a_guard(barrier: str) -> None:
    found, error = run(f"@!%p1 {barrier} {STORE}")
    assert error is None and kinds(found) == ["barrier_diverged"]


@pytest.mark.parametrize("barrier", BARRIERS.values(), ids=list(BARRIERS))
def test_a_warp_may_go_past(barrier: str) -> None:
    found, error = run(f"setp.ge.u32 %p2, %r1, 32; @%p2 bra PAST; {barrier} PAST: {STORE}")
    assert (found, error) == ([], None)


WRONG = {
    "other warps make up for them": "@%p1 bra PAST; bar.arrive 2, 96; PAST: st.shared.u32 [%r3], %r1;",
    "past the cluster's wait": "barrier.cluster.arrive.aligned; @%p1 bra PAST; barrier.cluster.wait.aligned; PAST:",
    "barriers of two names": f"@%p1 bra OTHER; bar.arrive 1, 64; {STORE} ret; OTHER: bar.arrive 2, 64;",
    "two places for one barrier": f"@%p1 bra OTHER; bar.sync 0; {STORE} ret; OTHER: bar.sync 0;",
    "fewer rounds": f"@%p1 mov.u32 %r4, 2; ROUND: bar.sync 0; {TWICE_MORE}",
    "past it in each round": f"ROUND: @%p1 bra PAST; bar.sync 0; PAST: {STORE} {TWICE_MORE}",
    "past one and to the next": "@%p1 bra PAST; bar.arrive 1, 64; PAST: bar.sync 0;",
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_all_lanes_come_to_the_same_barriers(wrong: str, scheduler: str) -> None:
    found, error = run(f"{wrong} {STORE}", scheduler=scheduler)
    assert error is None and set(kinds(found)) == {"barrier_diverged"}
    assert {each.at.warp for each in found} == {1}


UNSEEN = {
    "an if": "@%p1 bra PAST; bar.sync 0; PAST: add.u32 %r4, %r4, 1;",
    "an if in a loop": f"ROUND: @%p1 bra PAST; bar.sync 0; PAST: {TWICE_MORE}",
    "fewer rounds": "@%p1 mov.u32 %r4, 2; ROUND: bar.sync 0; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 3;"
    " @%p2 bra ROUND; mov.u32 %r5, 1;",
    "a reduction": "mov.u32 %r4, 32; ROUND: setp.ge.u32 %p2, %r1, %r4; @%p2 bra PAST;"
    " st.shared.u32 [%r3], %r1; bar.sync 0; PAST: shr.u32 %r4, %r4, 1; setp.ne.u32 %p3, %r4, 0; @%p3 bra ROUND;",
    "behind a jump": "@%p1 bra PAST; bar.sync 0; bra JOIN; PAST: mov.u32 %r5, 1; JOIN: add.u32 %r4, %r4, 1;",
}
"""Lanes go past a barrier and do nothing that others could notice, where all have met again or would have."""


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("wrong", UNSEEN.values(), ids=list(UNSEEN))
def test_lanes_that_go_past_need_not_do_anything(wrong: str, scheduler: str) -> None:
    for seed in range(3):
        found, error = run(wrong, scheduler=scheduler, seed=seed)
        assert error is None and kinds(found) == ["barrier_diverged"]
        assert found[0].other.instruction.opcode == "bar.sync"
        assert found[0].at.lanes & found[0].other.lanes == 0


CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
RIGHT = {
    "leave at once": f"@%p1 ret; bar.sync 0; {STORE}",
    "leave after work": f"@!%p1 bra STAY; {STORE} ret; STAY: bar.sync 0; {STORE}",
    "leave by code behind": f"@%p1 bra LEAVE; bar.sync 0; {STORE} bar.sync 0; {STORE} ret; LEAVE: {STORE}",
    "leave a cluster": f"@%p1 bra LEAVE; {CLUSTER} {STORE} ret; LEAVE: {STORE}",
    "leave a loop": f"ROUND: bar.sync 0; st.shared.u32 [%r3], %r1; @%p1 ret; bar.sync 0; {TWICE_MORE} {STORE}",
    "leave at the end": "@%p1 bra END; bar.sync 0; END:",
    "leave by a jump to it": f"@%p1 bra END; bar.sync 0; {STORE} END:",
    "leave a loop for the end": f"ROUND: bar.sync 0; @%p1 bra END; bar.sync 0; {TWICE_MORE} END:",
    "leave later": f"ROUND: bar.sync 0; {STORE} @%p1 bra GONE; {TWICE_MORE} ret; GONE: {STORE}",
    "a barrier of threads": f"@%p1 bra PAST; barrier.sync 0; PAST: {STORE}",
    "late": f"{LATE} bar.sync 0; {STORE} {TWICE_MORE}",
    "late, and nobody waits": f"{LATE} bar.arrive 1, 128; {STORE}",
}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("right", RIGHT.values(), ids=list(RIGHT))
def test_lanes_may_leave_early_or_come_late(right: str, scheduler: str) -> None:
    for seed in range(3):
        assert run(right, scheduler=scheduler, seed=seed) == ([], None)


WAITING = """
.version 8.4
.target sm_90a
.address_size 64
.shared .align 8 .b8 words[64];
.visible .entry waiting(.param .u64 out) {
  .reg .pred %p<8>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, words; mov.u32 %r4, 0;
  mad.wide.u32 %rd2, %r1, 4, %rd1;
  setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p4, %r1, 32;
  @!%p1 mbarrier.init.shared.b64 [%r2], 1;
  bar.sync 0;
ROUND:
  and.b32 %r5, %r4, 1;
  @%p1 bra MEET;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r5;
  @!%p2 bra WAIT;
MEET:
  @!%p4 mbarrier.arrive.shared.b64 %rd3, [%r2];
  st.global.u32 [%rd2], %r4;
  bar.sync 0;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, 4;
  @%p3 bra ROUND;
  ret;
}"""
"""One lane of warp 0 waits for warp 1, while the other 31 have come to the barrier."""


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_lanes_may_be_held_up(scheduler: str) -> None:
    for seed in range(5):
        device = gpu.EmulatedDevice("sm_90a", sms=1, sanitize=True, scheduler=scheduler, seed=seed)
        out = torch.zeros(64, dtype=torch.int32)
        report = gpu.Module(WAITING, "waiting")["waiting"].launch(device, grid=1, block=64, args=[out])
        assert report.findings == ()


ALIGNED = {
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16": "{0} {{%r9}}, [%r2];",
    "stmatrix.sync.aligned.m8n8.x1.shared.b16": "{0} [%r2], {{%r9}};",
    "movmatrix.sync.aligned.m8n8.trans.b16": "{0} %r9, %r4;",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": (
        "{0} {{%f0,%f1,%f2,%f3}}, {{%r4,%r4,%r4,%r4}}, {{%r4,%r4}}, {{%f4,%f4,%f4,%f4}};"
    ),
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16": "{0} {{%r9,%r10,%r11,%r12,%r13,%r14,%r15,%r16}}, [%r2];",
    "setmaxnreg.dec.sync.aligned.u32": "{0} 24;",
    "wgmma.fence.sync.aligned": "{0};",
    "wgmma.commit_group.sync.aligned": "{0};",
    "wgmma.wait_group.sync.aligned": "{0} 0;",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned": "{0};",
    "tcgen05.wait::ld.sync.aligned": "{0};",
    "tcgen05.wait::st.sync.aligned": "{0};",
}


def of_all_lanes(opcode: str) -> tuple[str, str]:
    """The instruction, and a GPU that has it."""
    text = ".reg .f32 %f<8>; mov.f32 %f4, 0f00000000;\n" if "%f" in ALIGNED[opcode] else ""
    return text, "sm_100a" if opcode.startswith("tcgen05") else "sm_90a"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("how", ["@%p1 ret; {0}", "@!%p1 {0}", "@%p1 bra PAST; {0} PAST:"])
@pytest.mark.parametrize("opcode", ALIGNED)
def test_others_need_all_lanes(opcode: str, how: str, scheduler: str) -> None:
    before, arch = of_all_lanes(opcode)
    found, error = run(f"{before}{how.format(ALIGNED[opcode].format(opcode))} {STORE}", arch=arch, scheduler=scheduler)
    assert error is None and kinds(found) == ["lanes_exited"]
    at, other = found[0].at, found[0].other
    assert (at.warp, at.lanes, other.lanes) == (1, FEW, REST)
    assert at.instruction.opcode == opcode and other.instruction.opcode in ("ret", "exit")


@pytest.mark.parametrize("opcode", ALIGNED)
def test_a_warp_may_leave_others_alone(opcode: str) -> None:
    before, arch = of_all_lanes(opcode)
    leave = "setp.ge.u32 %p2, %r1, 32; @%p2 ret;"
    assert run(f"{before}{leave} {ALIGNED[opcode].format(opcode)} {STORE} @%p1 ret; {STORE}", arch=arch) == ([], None)
