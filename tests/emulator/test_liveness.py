"""A waiting warp is served although another spins: a warp blocks on an mbarrier, a second one issues late what
completes it, a third one polls memory that the first one writes when it continues."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.late_copy import BULK, EXPECT, PARAMETERS, STORAGE, roles
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.emulator.tensor_ptx import Map, aligned, kernel_text, launch

# Of a lane of warp 1: its word of the tile (%r12), and of the source (%rd5).
MINE = (
    "and.b32 %r2, %r0, 31; shl.b32 %r4, %r2, 2; mov.u32 %r12, tile; add.u32 %r12, %r12, %r4;"
    "cvt.u64.u32 %rd4, %r4; add.s64 %rd5, %rd2, %rd4;"
)


def copied(text: str, cluster: int, scheduler: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What the reader found in its tile, and what the source of the copy holds."""
    source = aligned((32,), np.uint32)
    source[:] = np.random.default_rng().integers(1, 2**32, 32, dtype=np.uint32)
    out = np.zeros(32, np.uint32)
    maps = [Map(source.reshape(1, 32), (32, 1))] if "map[128]" in text else []
    flag = np.zeros(1, np.uint32)
    shape = {"grid": cluster, "cluster": cluster, "block": 96}
    launch(text, out, source, flag, *maps, **shape, scheduler=scheduler, seed=seed)
    return out, source


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(
    ("issue", "arrivals", "cluster"),
    [
        pytest.param(EXPECT + f"@%p4 {BULK} [tile], [%rd2], 128, [full];", 1, 1, id="bulk copy"),
        pytest.param(
            EXPECT + "mov.b64 %rd6, map; cvta.param.u64 %rd6, %rd6; mov.u32 %r8, 0;"
            "@%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
            " [tile], [%rd6, {%r8, %r8}], [full];",
            1,
            1,
            id="tensor copy",
        ),
        pytest.param(
            EXPECT + f"mov.u16 %h0, 3;@%p5 {BULK}.multicast::cluster [tile], [%rd2], 128, [full], %h0;",
            1,
            2,
            id="multicast copy",
        ),
        pytest.param(
            MINE + "@%p5 mbarrier.arrive.shared::cta.b64 _, [full];"
            "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;"
            "setp.ne.u32 %p2, %r10, 0; @%p2 bra DONE;"
            "mov.u32 %r11, 1; mov.u32 %r13, full; ld.global.u32 %r9, [%rd5];"
            "mapa.shared::cluster.u32 %r12, %r12, %r11; mapa.shared::cluster.u32 %r13, %r13, %r11;"
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r9, [%r13];",
            1,
            2,
            id="remote stores",
        ),
        pytest.param(
            MINE + "cp.async.ca.shared.global [%r12], [%rd5], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [full];",
            32,
            1,
            id="cp.async",
        ),
    ],
)
def test_a_copy_issued_after_the_wait_arrives(issue: str, arrivals: int, cluster: int, scheduler: str) -> None:
    parameters = PARAMETERS + (", .param .align 64 .b8 map[128]" if "tensor" in issue else "")
    text = kernel_text(roles(issue, arrivals, reader=cluster - 1), parameters, shared=STORAGE)
    for seed in range(3):
        out, source = copied(text, cluster, scheduler, seed)
        np.testing.assert_array_equal(out, source)


def finishes(text: str, scheduler: str, **shape: int) -> int:
    """The number that the kernel leaves in its flag."""
    flag = np.zeros(1, np.uint32)
    launch(text, np.zeros(32, np.uint32), aligned((32,), np.uint32), flag, scheduler=scheduler, **shape)
    return int(flag[0])


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_tensor_core_commit_after_the_wait_arrives(scheduler: str) -> None:
    issue = "@%p4 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];"
    assert finishes(kernel_text(roles(issue), PARAMETERS, shared=STORAGE), scheduler, block=96) == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_multicast_commit_after_the_wait_arrives(scheduler: str) -> None:
    issue = (
        "mov.u16 %h0, 3; @%p5 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [full], %h0;"
    )
    text = kernel_text(roles(issue, reader=1), PARAMETERS, shared=STORAGE)
    assert finishes(text, scheduler, block=96, grid=2, cluster=2) == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_warpgroup_s_wait_ends_when_the_last_warp_has_issued(scheduler: str) -> None:
    body = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; ld.param.u64 %rd3, [flag]; mov.b64 %rd1, 0;
    setp.eq.u32 %p0, %r1, 4; @%p0 bra POLL;
    setp.ne.u32 %p0, %r1, 3; mov.u32 %r6, 0; @%p0 bra ISSUE;
    LATER: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 2000; @%p2 bra LATER;
    ISSUE: wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd1, %rd1, 0, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    setp.eq.u32 %p0, %r0, 0; @%p0 red.release.gpu.global.add.u32 [%rd3], 1;
    bra DONE;
    POLL: ld.acquire.gpu.global.u32 %r7, [%rd3]; setp.eq.u32 %p2, %r7, 0; @%p2 bra POLL;
    DONE:"""
    text = kernel_text(body, PARAMETERS, arch="sm_90a", shared=STORAGE)
    assert finishes(text, scheduler, block=160, smem=8192, arch="sm_90a") == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_store_without_a_wait_is_seen_by_a_polling_warp(scheduler: str) -> None:
    """The issuer waits for the poller, and not for its own bulk group."""
    body = """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd3, [flag]; mov.u32 %r1, 7; mov.u32 %r2, 0;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra JOIN;
    st.shared.v4.u32 [tile], {%r1, %r2, %r2, %r2};
    fence.proxy.async.shared::cta;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd3], [tile], 16;
    cp.async.bulk.commit_group;
    JOIN: setp.lt.u32 %p1, %r0, 32; @%p1 bra DONE;
    POLL: ld.acquire.gpu.global.u32 %r7, [%rd3]; setp.eq.u32 %p2, %r7, 0; @%p2 bra POLL;
    DONE: bar.sync 0;"""
    flag = aligned((4,), np.uint32)
    text = kernel_text(body, PARAMETERS, shared=STORAGE)
    launch(text, np.zeros(32, np.uint32), np.zeros(32, np.uint32), flag, block=64, scheduler=scheduler)
    assert flag.tolist() == [7, 0, 0, 0]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_try_wait_gives_up_in_the_end(scheduler: str) -> None:
    """Its phase never completes: warp 0 leaves the loop when warp 1 has asked it to, and warp 2 polls meanwhile."""
    body = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; ld.param.u64 %rd0, [out]; ld.param.u64 %rd3, [flag];
    setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;
    mov.u32 %r6, 0;
    setp.eq.u32 %p1, %r1, 1; @%p1 bra STOP;
    setp.eq.u32 %p1, %r1, 2; @%p1 bra POLL;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    ld.acquire.gpu.global.u32 %r7, [%rd0]; setp.eq.u32 %p3, %r7, 0; @%p3 bra WAIT;
    @%p0 red.release.gpu.global.add.u32 [%rd3], 1;
    bra DONE;
    STOP: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 2000; @%p2 bra STOP;
    mov.u32 %r8, 1; st.release.gpu.global.u32 [%rd0], %r8;
    bra DONE;
    POLL: ld.acquire.gpu.global.u32 %r7, [%rd3]; setp.eq.u32 %p2, %r7, 0; @%p2 bra POLL;
    DONE:"""
    assert finishes(kernel_text(body, PARAMETERS, shared=STORAGE), scheduler, block=96) == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_lanes_run_whose_siblings_wait_for_them(scheduler: str) -> None:
    """Lane 0 blocks until lane 1 of its warp arrives, further down in the program."""
    body = """
    mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; ld.param.u64 %rd3, [flag];
    setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;
    setp.eq.u32 %p1, %r1, 1; @%p1 bra POLL;
    @!%p0 bra ARRIVE;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0; @!%p2 bra WAIT;
    red.release.gpu.global.add.u32 [%rd3], 1;
    bra DONE;
    ARRIVE: setp.eq.u32 %p3, %r0, 1; @%p3 mbarrier.arrive.shared::cta.b64 _, [full];
    bra DONE;
    POLL: ld.acquire.gpu.global.u32 %r7, [%rd3]; setp.eq.u32 %p2, %r7, 0; @%p2 bra POLL;
    DONE:"""
    assert finishes(kernel_text(body, PARAMETERS, shared=STORAGE), scheduler, block=64) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_cluster_at_rest_may_be_woken_by_another(scheduler: str, threads: int) -> None:
    """CTA 0 leaves its loop around try_wait when CTA 1 has signalled it in global memory, late."""
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; ld.param.u64 %rd0, [out]; ld.param.u64 %rd3, [flag];
    setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;
    mov.u32 %r6, 0;
    setp.eq.u32 %p1, %r1, 1; @%p1 bra STOP;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    ld.acquire.gpu.global.u32 %r7, [%rd0]; setp.eq.u32 %p3, %r7, 0; @%p3 bra WAIT;
    @%p0 red.release.gpu.global.add.u32 [%rd3], 1;
    bra DONE;
    STOP: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 100000; @%p2 bra STOP;
    mov.u32 %r8, 1; st.release.gpu.global.u32 [%rd0], %r8;
    DONE:"""
    text = kernel_text(body, PARAMETERS, shared=STORAGE)
    assert finishes(text, scheduler, block=32, grid=2, threads=threads) == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_clusters_that_wake_each_other_many_times_go_on(scheduler: str) -> None:
    """Two CTAs hand a number to and fro in global memory; each looks at it when its try_wait gives up."""
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; ld.param.u64 %rd0, [out]; ld.param.u64 %rd3, [flag];
    setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;
    @!%p0 bra DONE;
    NEXT:
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0;
    ld.acquire.gpu.global.u32 %r7, [%rd0]; and.b32 %r8, %r7, 1; setp.ne.u32 %p3, %r8, %r1; @%p3 bra WAIT;
    add.u32 %r7, %r7, 1; st.release.gpu.global.u32 [%rd0], %r7;
    red.release.gpu.global.add.u32 [%rd3], 1;
    setp.lt.u32 %p3, %r7, 99; @%p3 bra NEXT;
    DONE:"""
    assert finishes(kernel_text(body, PARAMETERS, shared=STORAGE), scheduler, block=32, grid=2) == 100


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_clusters_that_all_wait_for_ever_are_a_deadlock(scheduler: str, threads: int) -> None:
    body = """
    mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [full], 0; @!%p2 bra WAIT;"""
    with pytest.raises(_core.LaunchError, match="no warp can continue") as caught:
        finishes(kernel_text(body, PARAMETERS, shared=STORAGE), scheduler, block=32, grid=40, threads=threads)
    assert caught.value.kind == "deadlock"
    assert threads > 1 or caught.value.cta == (0, 0, 0)
