"""Named barriers and the cluster barrier."""

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import launch
from tests.support.emulator.schedulers import SCHEDULERS


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("block", [64, 100, 1024])
def test_sync_orders_stores_before_loads(block: int, scheduler: str) -> None:
    ptx = """
.extern .shared .align 16 .b8 buffer[];
.entry k(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, buffer;
  mad.lo.u32 %r4, %r1, 4, %r3;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  sub.u32 %r5, %r2, %r1; sub.u32 %r5, %r5, 1;
  mad.lo.u32 %r6, %r5, 4, %r3;
  ld.shared.u32 %r7, [%r6];
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1;
  st.global.u32 [%rd1], %r7;
  ret;
}"""
    out = np.zeros(block, np.uint32)
    launch(ptx, [out], block=(block, 1, 1), smem=4 * block, scheduler=scheduler)
    assert out.tolist() == list(range(block))[::-1]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_producer_arrives_and_consumer_waits(scheduler: str) -> None:
    """Two barriers hand a slot to and fro between two warps."""
    ptx = """
.shared .align 4 .b8 slot[4];
.entry k(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 0;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra CONSUME;
PRODUCE:
  bar.sync 1, 64;
  st.shared.u32 [slot], %r2;
  bar.arrive 2, 64;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 50;
  @%p2 bra PRODUCE;
  ret;
CONSUME:
  bar.arrive 1, 64;
  bar.sync 2, 64;
  ld.shared.u32 %r4, [slot];
  add.u32 %r3, %r3, %r4;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, 50;
  @%p2 bra CONSUME;
  st.global.u32 [%rd1], %r3;
  ret;
}"""
    out = np.zeros(1, np.uint32)
    launch(ptx, [out], block=(64, 1, 1), scheduler=scheduler)
    assert out[0] == sum(range(50))


def test_reductions_over_a_barrier() -> None:
    ptx = """
.entry k(.param .u64 out) {
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<3>;
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 77;
  barrier.cta.red.popc.aligned.u32 %r2, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 0, 128, %p1;
  selp.b32 %r3, 1000, 0, %p2; selp.b32 %r4, 2000, 0, %p3;
  add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1;
  st.global.u32 [%rd1], %r2;
  ret;
}"""
    out = np.zeros(128, np.uint32)
    launch(ptx, [out], block=(128, 1, 1))
    assert (out == 77 + 2000).all()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("size", [1, 2, 8, 16])
def test_cluster_reads_its_neighbours_shared_memory(size: int, scheduler: str) -> None:
    ptx = """
.shared .align 4 .b8 word[4];
.entry k(.param .u64 out) {
  .reg .b32 %r<10>; .reg .b64 %rd<3>;
  mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %ctaid.x;
  st.shared.u32 [word], %r3;
  barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
  add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2;
  mov.u32 %r5, word;
  mapa.shared::cluster.u32 %r6, %r5, %r4;
  ld.shared::cluster.u32 %r7, [%r6];
  ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r3, 4, %rd1;
  st.global.u32 [%rd1], %r7;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  ret;
}"""
    out = np.zeros(32, np.uint32)
    launch(ptx, [out], grid=(32, 1, 1), block=(64, 1, 1), cluster=(size, 1, 1), scheduler=scheduler)
    assert out.tolist() == [c // size * size + (c + 1) % size for c in range(32)]


def test_barrier_misuse_is_named() -> None:
    ptx = """
.entry k() {
  .reg .pred %p<2>; .reg .b32 %r<2>;
  mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
  @%p1 bra A;
  bar.sync 3, 96;
A: bar.sync 3, 64;
  ret;
}"""
    with pytest.raises(_core.LaunchError, match="barrier 3 is in use for") as caught:
        launch(ptx, [], block=(64, 1, 1))
    assert caught.value.kind == "barrier"


@pytest.mark.parametrize("warps", [2, 8])
@pytest.mark.parametrize("steps", [2, 5])
@pytest.mark.parametrize("scheduler", ["fair", "in_order"])
def test_a_wait_is_over_once_its_phase_has_ended_even_if_the_next_has_ended_as_well(
    warps: int, steps: int, scheduler: str
) -> None:
    """All warps wait for each copy of thread 0, which waits for none of them: here it comes last to the first wait."""
    if scheduler == "in_order" and (steps, warps) != (2, 2):
        pytest.skip("thread 0 runs on for as long as it can, to phases that the others could not tell from the first")
    out = np.zeros(32 * warps, np.uint32)
    source = np.arange(4, dtype=np.uint32)
    launch(
        f"""
.shared .align 16 .b8 bytes[16];
.shared .align 8 .b64 full;
.entry k(.param .u64 out, .param .u64 source) {{
  .reg .b32 %tid, %parity, %step, %loaded; .reg .b64 %at, %from; .reg .pred %first, %done, %more;
  ld.param.u64 %from, [source];
  mov.u32 %tid, %tid.x; setp.eq.u32 %first, %tid, 0;
  @%first mbarrier.init.shared.b64 [full], 1;
  bar.sync 0;
  mov.u32 %parity, 0; mov.u32 %step, 0;
STEP:
  @!%first bra WAIT;
  @%more bra COPY;
  nanosleep.u32 100;
COPY:
  mbarrier.arrive.expect_tx.shared.b64 _, [full], 16;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bytes], [%from], 16, [full];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %done, [full], %parity;
  @!%done bra WAIT;
  xor.b32 %parity, %parity, 1; add.u32 %step, %step, 1;
  setp.lt.u32 %more, %step, {steps};
  @%more bra STEP;
  ld.shared.u32 %loaded, [bytes+12];
  add.u32 %step, %step, %loaded;
  ld.param.u64 %at, [out]; mad.wide.u32 %at, %tid, 4, %at; st.global.u32 [%at], %step;
  ret;
}}""",
        [out, source],
        block=(32 * warps, 1, 1),
        scheduler=scheduler,
    )
    assert (out == steps + 3).all()


@pytest.mark.parametrize("shift", [0, 3])
def test_each_lane_asks_for_its_own_phase_of_its_own_mbarrier(shift: int) -> None:
    """The first mbarrier's phase 0 is over, the other's is not; lanes ask for either parity of either."""
    out = np.full(32, 9, np.uint32)
    launch(
        f"""
.entry k(.param .u64 out) {{
  .reg .pred %done, %first; .reg .b32 %lane, %which, %parity, %at, %result; .reg .b64 %to;
  .shared .align 8 .b64 both[2];
  mov.u32 %lane, %tid.x; setp.eq.u32 %first, %lane, 0;
  @%first mbarrier.init.shared.b64 [both], 1;
  @%first mbarrier.init.shared.b64 [both+8], 1;
  @%first mbarrier.arrive.shared.b64 _, [both];
  bar.sync 0;
  shr.u32 %which, %lane, {shift}; and.b32 %parity, %which, 2; shr.u32 %parity, %parity, 1; and.b32 %which, %which, 1;
  mov.u32 %at, both; mad.lo.u32 %at, %which, 8, %at;
  mbarrier.test_wait.parity.shared.b64 %done, [%at], %parity;
  selp.u32 %result, 1, 0, %done;
  ld.param.u64 %to, [out]; mad.wide.u32 %to, %lane, 4, %to; st.global.u32 [%to], %result;
  ret;
}}""",
        [out],
        block=(32, 1, 1),
    )
    place = np.arange(32) >> shift
    assert (out == ((place & 1) == (place >> 1 & 1))).all()
