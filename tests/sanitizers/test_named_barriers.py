"""Warps that arrive several times in a phase of a named barrier, which counts arrivals and not who makes them: right
where it is certain which phase each arrival counts in, a fault where timing decides."""

import pytest

torch = pytest.importorskip("torch")

from typing import Any

from sglab import gpu
from tests.support.emulator.schedulers import SCHEDULERS

TILES, WARPS = 3, 4
THREADS = 32 * WARPS
KIND = "barrier_arrived_twice"

EPILOGUE = """
.version 8.4
.target sm_90a
.address_size 64
.shared .align 16 .b8 tile[512];
.visible .entry epilogue(.param .u64 out) {{
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0;
  mov.u32 %r3, tile; mad.lo.u32 %r4, %r1, 4, %r3;
  setp.ge.u32 %p1, %r1, 96;
TILE:
  {begin}
  mad.lo.u32 %r5, %r2, 1000, %r1;
  st.shared.u32 [%r4], %r5;
  bar.arrive 1, 160;
  @!%p1 bra NEXT;
  bar.sync 1, 160;
  and.b32 %r6, %r1, 31; mov.u32 %r7, 0;
STORE:
  mad.lo.u32 %r8, %r7, 32, %r6;
  mad.lo.u32 %r9, %r8, 4, %r3;
  ld.shared.u32 %r10, [%r9];
  mad.lo.u32 %r8, %r2, 128, %r8;
  mad.wide.u32 %rd2, %r8, 4, %rd1;
  st.global.u32 [%rd2], %r10;
  add.u32 %r7, %r7, 1;
  setp.lt.u32 %p2, %r7, 4;
  @%p2 bra STORE;
NEXT:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p3, %r2, 3;
  @%p3 bra TILE;
  ret;
}}"""
"""All four warps fill a tile and arrive; the last one comes once more, to wait for the others, and stores it."""

ROUNDS = """
.version 8.4
.target sm_90a
.address_size 64
.shared .align 8 .b8 done[8];
.visible .entry rounds(.param .u64 out) {{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, done;
  setp.ne.u32 %p1, %r1, 0;
  @!%p1 mbarrier.init.shared.b64 [%r3], 32;
  bar.sync 0;
  setp.ge.u32 %p2, %r1, 32;
ROUND:
  @%p2 bra WAITER;
  bar.arrive 1, 96;
  bar.arrive 1, 96;
  and.b32 %r4, %r2, 1;
  {between}
  bra NEXT;
WAITER:
  bar.sync 1, 96;
  mbarrier.arrive.shared.b64 %rd1, [%r3];
NEXT:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p3, %r2, 5;
  @%p3 bra ROUND;
  ret;
}}"""
"""Warp 0 arrives twice a round, warp 1 waits; `between` may keep warp 0 from running ahead, by an mbarrier."""
UNTIL_DONE = """
AGAIN:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], %r4;
  @!%p3 bra AGAIN;"""

AHEAD = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry ahead(.param .u64 out) {{
  .reg .pred %p<2>; .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra OTHER;
  bar.sync 1, 64;
  bar.arrive 1, 64;
  {between}
  bar.arrive 1, 64;
  ret;
OTHER:
  bar.sync 1, 64;
  bar.sync 1, 64;
  {between}
  bar.sync 1, 64;
  ret;
}}"""
"""Warp 0 arrives for two phases, and only `between` or luck makes the second arrival wait for the first phase."""


def run(text: str, entry: str, threads: int, scheduler: str, seed: int, sanitize: Any = True) -> tuple[Any, Any, Any]:
    """What is found, the error that ended the launch, and the output."""
    device = gpu.EmulatedDevice("sm_90a", sms=1, scheduler=scheduler, seed=seed, sanitize=sanitize)
    out = torch.zeros(TILES * THREADS, dtype=torch.int32)
    try:
        report = gpu.Module(text, entry)[entry].launch(device, grid=1, block=threads, args=[out])
    except gpu.KernelError as error:
        return error.findings, error, out
    return report.findings, None, out


def kinds(findings: Any) -> set[str]:
    return {finding.kind for finding in findings}


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_warp_that_arrives_and_then_waits_counts_twice(scheduler: str) -> None:
    text = EPILOGUE.format(begin=f"bar.sync 2, {THREADS};")
    for seed in range(5):
        findings, error, out = run(text, "epilogue", THREADS, scheduler, seed)
        assert findings == () and error is None
        assert out.tolist() == [1000 * tile + thread for tile in range(TILES) for thread in range(THREADS)]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_warps_that_run_ahead_into_the_next_tile_are_found(scheduler: str) -> None:
    found = [run(EPILOGUE.format(begin=""), "epilogue", THREADS, scheduler, seed, {"barriers"}) for seed in range(5)]
    assert all(KIND in kinds(findings) for findings, _, _ in found)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_mbarrier_may_keep_the_rounds_apart(scheduler: str) -> None:
    for seed in range(5):
        findings, error, _ = run(ROUNDS.format(between=UNTIL_DONE), "rounds", 64, scheduler, seed)
        assert findings == () and error is None


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_rounds_that_nothing_keeps_apart_are_found(scheduler: str) -> None:
    for seed in range(5):
        findings, _, _ = run(ROUNDS.format(between=""), "rounds", 64, scheduler, seed, {"barriers"})
        (first, *_) = [finding for finding in findings if finding.kind == KIND]
        assert first.at.warp == first.other.warp == 0
        assert first.other.position < first.at.position
        assert first.severity == "error"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_luck_is_no_order(scheduler: str) -> None:
    """Whether or not both arrivals fall into one phase in this run."""
    for seed in range(5):
        findings, _, _ = run(AHEAD.format(between=""), "ahead", 64, scheduler, seed, {"barriers"})
        assert kinds(findings) >= {KIND}, seed
        findings, error, _ = run(AHEAD.format(between="bar.sync 2, 64;"), "ahead", 64, scheduler, seed)
        assert findings == () and error is None


CLUSTER = """
.version 8.4
.target sm_90a
.address_size 64
.visible .entry twice(.param .u64 out) {{
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank;
  setp.ge.u32 %p1, %r1, 32;
  barrier.cluster.arrive.relaxed.aligned;
  {between}
  barrier.cluster.arrive.relaxed.aligned;
  barrier.cluster.wait.aligned;
  {after}
  ret;
}}"""
"""Each thread arrives at the cluster's barrier, and again."""
WAIT = "barrier.cluster.wait.aligned;"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_thread_arrives_at_the_clusters_barrier_once_a_phase(scheduler: str) -> None:
    for seed in range(3):
        for between, after, wrong in (("", WAIT, True), (WAIT, "", False), (f"{WAIT} {WAIT}", "", False)):
            text = CLUSTER.format(between=between, after=after)
            device = gpu.EmulatedDevice("sm_90a", sms=2, scheduler=scheduler, seed=seed, sanitize={"barriers"})
            out = torch.zeros(1, dtype=torch.int32)
            report = gpu.Module(text, "twice")["twice"].launch(device, grid=2, block=64, cluster=2, args=[out])
            assert [each.kind for each in report.findings] == ([KIND] if wrong else [])
