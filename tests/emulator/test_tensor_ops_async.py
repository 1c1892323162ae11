"""mbarriers, bulk and tensor copies, cp.async as instructions: right when waited for, old data when not."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.tensor_ptx import Map, aligned, kernel_text, launch

THREAD = "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;\n"
BARRIER = ".shared .align 8 .b64 full;\n.shared .align 1024 .b8 tile[4096];"
INIT = "setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;\n"
WAIT = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [full], 0; @!%p1 bra WAIT;\n"
MINE = "mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2;\n"
READ = MINE + "ld.shared.u32 %r3, [%r1]; st.global.u32 [%rd0], %r3;"


def bulk_kernel(wait: str) -> str:
    load = (
        "ld.param.u64 %rd2, [src];"
        "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;"
        "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd2], 128, [full];"
    )
    return kernel_text(THREAD + INIT + load + wait + READ, ".param .u64 out, .param .u64 src", shared=BARRIER)


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_bulk_copy_arrives_by_its_mbarrier(scheduler: str) -> None:
    source = aligned((32,), np.uint32)
    source[:] = np.arange(32) + 100
    out = np.zeros(32, np.uint32)
    launch(bulk_kernel(WAIT), out, source, scheduler=scheduler, seed=5)
    np.testing.assert_array_equal(out, source)


def test_bulk_copy_without_a_wait_is_not_there_yet() -> None:
    source = aligned((32,), np.uint32)
    source[:] = 7
    out = np.ones(32, np.uint32)
    launch(bulk_kernel(""), out, source)
    np.testing.assert_array_equal(out, 0)


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_a_barrier_that_is_invalidated_before_its_copy_has_arrived_warns(scheduler: str) -> None:
    """Triton leaves its pipelines so: the memory is not used again, and a GPU does not mind."""
    source = aligned((32,), np.uint32)
    source[:] = 7
    out = np.ones(32, np.uint32)
    report = launch(
        bulk_kernel("@%p0 mbarrier.inval.shared::cta.b64 [full]; bar.sync 0;"), out, source, scheduler=scheduler
    )
    assert [row[1] for row in report.warnings if row[1] != "never_waited_for"] == ["mbarrier_invalidated_early"]
    report = launch(bulk_kernel(WAIT + "bar.sync 0; @%p0 mbarrier.inval.shared::cta.b64 [full];"), out, source)
    assert report.warnings == []


@pytest.mark.parametrize(("shift", "size", "kind"), [(4, 32, "misaligned"), (0, 30, "out_of_bounds")])
def test_bulk_copy_of_bad_global_memory_is_refused(shift: int, size: int, kind: str) -> None:
    memory = aligned((64,), np.uint32)
    with pytest.raises(_core.LaunchError) as caught:
        launch(bulk_kernel(WAIT), np.zeros(32, np.uint32), memory[shift // 4 : shift // 4 + size])
    assert caught.value.kind == kind
    assert caught.value.lane == 0


def test_missing_bytes_are_a_deadlock_that_names_the_mbarrier() -> None:
    text = bulk_kernel(WAIT).replace("_, [full], 128", "_, [full], 144")
    with pytest.raises(_core.LaunchError, match="mbarrier") as caught:
        launch(text, np.zeros(32, np.uint32), aligned((32,), np.uint32))
    assert caught.value.kind == "deadlock"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [full];", "uninitialised"),
        ("mbarrier.init.shared::cta.b64 [full], 1; mbarrier.arrive.shared::cta.b64 _, [full], 2;", "arrival_underflow"),
        ("mbarrier.init.shared::cta.b64 [full], 0;", "count_out_of_range"),
        (
            "mbarrier.init.shared::cta.b64 [full], 1; mbarrier.expect_tx.shared::cta.b64 [full], 0x100000;",
            "tx_overflow",
        ),
    ],
)
def test_mbarrier_misuse_is_a_fault_with_its_line(body: str, status: str) -> None:
    text = kernel_text(
        f"mov.u32 %r0, %tid.x; setp.eq.u32 %p0, %r0, 0; @!%p0 bra OUT;\n{body}\nOUT:", "", shared=BARRIER
    )
    with pytest.raises(_core.LaunchError, match=status) as caught:
        launch(text)
    assert caught.value.kind == "mbarrier"
    assert caught.value.ptx_line == text[: text.index(body)].count("\n") + 1


def test_a_warp_arrives_together_and_state_waits_see_it() -> None:
    body = """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;
    setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], 64; bar.sync 0;
    mbarrier.arrive.shared::cta.b64 %rd3, [full];
    WAIT: mbarrier.test_wait.shared::cta.b64 %p1, [full], %rd3; @!%p1 bra WAIT;
    mbarrier.pending_count.b64 %r5, %rd3;
    st.global.u32 [%rd0], %r5;
    """
    out = np.zeros(64, np.uint32)
    launch(kernel_text(body, ".param .u64 out", shared=BARRIER), out, block=64)
    assert sorted(set(out.tolist()))[-1] <= 64
    assert np.all(out >= 1)


class WideMap(Map):
    """im2col along the width: the box is (channels, pixels per column); 0 pixels: for im2col::w::128."""

    def encode(self) -> bytes:
        a = self.array
        dims = list(reversed(a.shape))
        strides = [a.itemsize * int(np.prod(dims[: i + 1])) for i in range(len(dims) - 1)]
        channels, pixels = self.box
        return _core.tma.encode_im2col(
            7, a.ctypes.data, dims, strides, [-1], [-1], channels, pixels, [1] * len(dims), swizzle=self.swizzle,
            wide_mode=int(pixels == 0),
        )  # fmt: skip


WIDE_SHARED = ".shared .align 8 .b64 full;\n.shared .align 1024 .b8 tile[36864];"
WIDE = (
    "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u16 %h1, {halo}; mov.u16 %h2, {offset};"
    "@%p0 cp.async.bulk.prefetch.tensor.4d.L2.global.{mode} [%rd2, {{0, -1, 1, 0}}], {{%h1, %h2}};"
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {bytes};"
    "@%p0 cp.async.bulk.tensor.4d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes"
    " [tile], [%rd2, {{0, -1, 1, 0}}], [full], {{%h1, %h2}};"
)


def wide_launch(mode: str, pixels: int, halo: int, nbytes: int, array: np.ndarray, **options: object) -> np.ndarray:
    out = np.zeros(nbytes // 4, np.uint32)
    copies = (
        "LOOP: add.u32 %r2, %r1, %r5; ld.shared.u32 %r3, [%r2]; mul.wide.u32 %rd3, %r5, 1; add.s64 %rd3, %rd0, %rd3;"
    )
    copies += "st.global.u32 [%rd3], %r3; add.u32 %r5, %r5, 512; setp.lt.u32 %p2, %r5, %r6; @%p2 bra LOOP;"
    body = (
        "mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out];"
        + INIT
        + WIDE.format(mode=mode, halo=halo, offset=1, bytes=nbytes)
    )
    body += WAIT + f"mov.u32 %r1, tile; shl.b32 %r5, %r0, 2; mov.u32 %r6, {nbytes};" + copies
    text = kernel_text(body, ".param .u64 out, .param .align 64 .b8 map[128]", shared=WIDE_SHARED)
    launch(text, out, WideMap(array, (16, pixels), 2), block=128, **options)
    return out


@pytest.mark.parametrize("scheduler", ["fair", "random"])
@pytest.mark.parametrize(
    ("mode", "pixels", "halo"), [("im2col::w", 20, 3), ("im2col::w", 8, 0), ("im2col::w::128", 0, 2)]
)
def test_im2col_w_brings_a_row_of_each_image_and_its_halo(mode: str, pixels: int, halo: int, scheduler: str) -> None:
    """Rows of the box [-1, W - 2], moved by wOffset = 1: [0, W - 1]; row 1 of every image."""
    array = aligned((24, 3, 8, 16), np.float32)
    array[:] = np.arange(array.size).reshape(array.shape)
    places = np.arange((pixels or 128) + halo)
    if not pixels:
        places = np.concatenate([np.arange(128), (np.arange(halo)[:, None] + 32 * np.arange(1, 5)).reshape(-1)])
    want = array[places // 8, 1, places % 8]
    out = wide_launch(mode, pixels, halo, want.nbytes, array, scheduler=scheduler, seed=7)
    at = np.arange(want.nbytes)
    got = out.view(np.uint8)[at ^ (at >> 3 & 0x30)].view(np.float32)
    np.testing.assert_array_equal(got.reshape(want.shape), want)


@pytest.mark.parametrize(("mode", "pixels", "halo"), [("im2col::w", 20, 512), ("im2col::w::128", 0, 32)])
def test_a_halo_has_its_limits(mode: str, pixels: int, halo: int) -> None:
    with pytest.raises(_core.LaunchError, match="wHalo") as caught:
        wide_launch(mode, pixels, halo, 4096, aligned((24, 3, 8, 16), np.float32))
    assert caught.value.kind == "tensor_map"


def test_a_copy_that_the_map_is_not_for_is_refused() -> None:
    with pytest.raises(_core.LaunchError, match="mode"):
        wide_launch("im2col::w::128", 8, 0, 8192, aligned((24, 3, 8, 16), np.float32))


TMA = (
    "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;"
    "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {bytes};"
    "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    " [tile], [%rd2, {{{x}, {y}}}], [full];"
)


def test_tensor_copy_swizzles_and_fills() -> None:
    rng = np.random.default_rng()
    array = aligned((20, 64), np.float16)
    array[:] = rng.normal(size=array.shape)
    out = np.zeros(512, np.uint32)
    body = THREAD + INIT + TMA.format(bytes=2048, x=32, y=8) + WAIT + READ
    text = kernel_text(body, ".param .u64 out, .param .align 64 .b8 map[128]", shared=BARRIER)
    launch(text, out, Map(array, (64, 16), 3), block=512)
    want = np.zeros((16, 64), np.float16)
    want[:12, :32] = array[8:20, 32:64]
    raw = want.view(np.uint8).reshape(-1)
    address = np.arange(2048)
    np.testing.assert_array_equal(out.view(np.uint8), raw[address ^ (address >> 7 & 7) << 4])


def test_tensor_store_happens_at_the_wait_and_not_before() -> None:
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; add.u32 %r3, %r0, 1;
    st.shared.u32 [%r1], %r3; fence.proxy.async.shared::cta; bar.sync 0;
    mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; setp.eq.u32 %p0, %r0, 0;
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {0, 0}], [tile];
    @%p0 cp.async.bulk.commit_group;
    WAITING
    bar.sync 0; st.shared.u32 [%r1], 0;
    """
    array = aligned((4, 16), np.uint32)
    parameters = ".param .align 64 .b8 map[128]"
    good = kernel_text(body.replace("WAITING", "@%p0 cp.async.bulk.wait_group.read 0;"), parameters, shared=BARRIER)
    launch(good, Map(array, (16, 4)), block=64)
    np.testing.assert_array_equal(array.reshape(-1), np.arange(64) + 1)
    launch(kernel_text(body.replace("WAITING", ""), parameters, shared=BARRIER), Map(array, (16, 4)), block=64)
    np.testing.assert_array_equal(array, 0)  # the copy read what was written over its source


def test_reduction_adds_across_host_threads() -> None:
    body = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2;
    st.shared.u32 [%r1], 1; fence.proxy.async.shared::cta; bar.sync 0;
    ld.param.u64 %rd2, [out]; setp.eq.u32 %p0, %r0, 0;
    @%p0 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [tile], 128;
    """
    out = aligned((32,), np.uint32)
    launch(kernel_text(body, ".param .u64 out", shared=BARRIER), out, grid=500, threads=2)
    np.testing.assert_array_equal(out, 500)


@pytest.mark.parametrize("scheduler", ["fair", "random"])
def test_multicast_reaches_every_cta_of_the_mask(scheduler: str) -> None:
    body = (
        THREAD + "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd4, %r9, 128; add.s64 %rd0, %rd0, %rd4;" + INIT
        + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;"
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        + "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u16 %h0, 0xd;"
        + "setp.eq.u32 %p2, %r9, 2; and.pred %p2, %p2, %p0;"
        + "@%p2 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        + " [tile], [%rd2, {32}], [full], %h0;"
        + "setp.eq.u32 %p3, %r9, 1; @%p3 bra DONE;" + WAIT + "DONE:" + READ
    )  # fmt: skip
    array = aligned((64,), np.uint32)
    array[:] = np.arange(64)
    out = np.zeros((4, 32), np.uint32)
    text = kernel_text(body, ".param .u64 out, .param .align 64 .b8 map[128]", shared=BARRIER)
    launch(text, out, Map(array, (32,)), grid=4, cluster=4, scheduler=scheduler, seed=2)
    for cta in range(4):
        np.testing.assert_array_equal(out[cta], 0 if cta == 1 else array[32:])


@pytest.mark.parametrize("scheduler", ["fair", "random"])
def test_both_ctas_of_a_pair_complete_on_its_one_mbarrier(scheduler: str) -> None:
    body = (
        THREAD + "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd4, %r9, 128; add.s64 %rd0, %rd0, %rd4;" + INIT
        + "setp.eq.u32 %p4, %r9, 0; selp.u32 %r7, 256, 128, %p4;"  # both of pair 0 get the data, one of pair 1
        + "and.b32 %r8, %r9, 1; setp.eq.u32 %p5, %r8, 0; and.pred %p6, %p5, %p0;"
        + "@%p6 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], %r7;"
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        + "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2; mov.u16 %h0, 0x7; mov.u32 %r10, full;"
        + "setp.eq.u32 %p2, %r9, 2; and.pred %p2, %p2, %p0;"
        + "@%p2 cp.async.bulk.tensor.1d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes"
        + ".multicast::cluster [tile], [%rd2, {32}], [%r10], %h0;"
        + "@!%p5 bra DONE;" + WAIT + "DONE:"
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" + READ
    )  # fmt: skip
    array = aligned((64,), np.uint32)
    array[:] = np.arange(64)
    out = np.zeros((4, 32), np.uint32)
    text = kernel_text(body, ".param .u64 out, .param .align 64 .b8 map[128]", shared=BARRIER)
    launch(text, out, Map(array, (32,)), grid=4, cluster=4, scheduler=scheduler, seed=2)
    for cta in range(4):
        np.testing.assert_array_equal(out[cta], 0 if cta == 3 else array[32:])


class PaddedMap(Map):
    """A map of 128 elements of 4 or 6 bits, which shared memory holds in 8 bits each."""

    def encode(self) -> bytes:
        data_type = {4: 14, 6: 15}[self.array.size // 16]
        return _core.tma.encode_tiled(data_type, self.array.ctypes.data, [128], [], [128], [1])


@pytest.mark.parametrize("bits", [4, 6])
def test_padded_elements_complete_on_the_mbarrier_unpadded(bits: int) -> None:
    body = (
        THREAD + INIT
        + f"@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], {16 * bits};"
        + "mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;"
        + "@%p0 cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"
        + " [tile], [%rd2, {0}], [full];"
        + WAIT + READ
    )  # fmt: skip
    array = aligned((16 * bits,), np.uint8)
    array[:] = np.arange(16 * bits) + 1
    out = np.zeros(32, np.uint32)
    text = kernel_text(body, ".param .u64 out, .param .align 64 .b8 map[128]", shared=BARRIER)
    launch(text, out, PaddedMap(array, (128,)))
    rows = out.view(np.uint8).reshape(8, 16)
    np.testing.assert_array_equal(rows[:, : 2 * bits], array.reshape(8, 2 * bits))


@pytest.mark.parametrize("mask", ["3", "%h0"])
@pytest.mark.parametrize("lane", [0, 5, 31])
def test_a_multicast_mask_holds_for_every_lane(mask: str, lane: int) -> None:
    body = (
        THREAD + "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd4, %r9, 128; add.s64 %rd0, %rd0, %rd4;" + INIT
        + "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;"
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        + f"mov.u32 %r8, %laneid; setp.eq.u32 %p2, %r8, {lane}; setp.eq.and.u32 %p2, %r9, 1, %p2; mov.u16 %h0, 3;"
        + "ld.param.u64 %rd2, [src];"
        + "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        + f" [tile], [%rd2], 128, [full], {mask};" + WAIT + READ
    )  # fmt: skip
    array = aligned((32,), np.uint32)
    array[:] = np.arange(32) + 7
    out = np.zeros((2, 32), np.uint32)
    launch(kernel_text(body, ".param .u64 out, .param .u64 src", shared=BARRIER), out, array, grid=2, cluster=2)
    np.testing.assert_array_equal(out, np.stack([array, array]))


@pytest.mark.parametrize(("bytes_read", "word"), [(16, 4), (8, 2), (0, 0)])
def test_cp_async_fills_with_zeros_and_completes_by_group(bytes_read: int, word: int) -> None:
    body = f"""
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [src]; mul.wide.u32 %rd1, %r0, 16;
    add.s64 %rd0, %rd0, %rd1; add.s64 %rd2, %rd2, %rd1;
    mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2; mov.u32 %r3, {bytes_read};
    st.shared.v4.u32 [%r1], {{%r0, %r0, %r0, %r0}};
    cp.async.cg.shared.global [%r1], [%rd2], 16, %r3;
    cp.async.commit_group;
    WAITING
    ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r1]; st.global.v4.u32 [%rd0], {{%r4, %r5, %r6, %r7}};
    """
    source = aligned((32, 4), np.uint32)
    source[:] = np.arange(128).reshape(32, 4) + 1000
    for wait, fresh in (("cp.async.wait_group 0;", True), ("cp.async.wait_group 1;", False)):
        out = aligned((32, 4), np.uint32)
        text = kernel_text(body.replace("WAITING", wait), ".param .u64 out, .param .u64 src", shared=BARRIER)
        launch(text, out, source)
        want = source.copy()
        want[:, word:] = 0
        np.testing.assert_array_equal(out, want if fresh else np.arange(32)[:, None].repeat(4, 1))


COPY_LANES = """
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 16; ld.param.u64 %rd0, [out]; add.s64 %rd0, %rd0, %rd1;
    ld.param.u64 %rd2, [sizes]; mul.wide.u32 %rd3, %r0, 4; add.s64 %rd2, %rd2, %rd3; ld.global.u32 %r3, [%rd2];
    ld.param.u64 %rd4, [places]; mul.wide.u32 %rd5, %r0, 8; add.s64 %rd4, %rd4, %rd5; ld.global.u64 %rd6, [%rd4];
    mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2;
    st.shared.v4.u32 [%r1], {%r0, %r0, %r0, %r0};
    cp.async.cg.shared.global [%r1], [%rd6], 16, %r3; cp.async.wait_all;
    ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r1]; st.global.v4.u32 [%rd0], {%r4, %r5, %r6, %r7};
    """


def copy_lanes(sizes: np.ndarray, places: np.ndarray, *sources: np.ndarray) -> np.ndarray:
    """What a cp.async of 32 lanes leaves: of so many bytes each, from these addresses."""
    out = aligned((32, 4), np.uint32)
    parameters = ".param .u64 out, .param .u64 sizes, .param .u64 places, .param .u64 one, .param .u64 other"
    launch(kernel_text(COPY_LANES, parameters, shared=BARRIER), out, sizes, places, *sources)
    return out


@pytest.mark.parametrize("odd", [16, 0, 8], ids=["all or nothing", "none", "a part"])
def test_each_lane_of_a_cp_async_reads_as_much_as_it_says_from_either_tensor(odd: int) -> None:
    one, other = (aligned((32, 4), np.uint32) for _ in range(2))
    one[:], other[:] = np.arange(128).reshape(32, 4) + 1000, np.arange(128).reshape(32, 4) + 5000
    lanes = np.arange(32)
    for source in (one, other):  # the second is not the allocation that a copy looked at last
        sizes = np.where(lanes % 3 == 0, 0, 16).astype(np.uint32)
        sizes[7] = odd
        places = (source.ctypes.data + 16 * lanes[::-1]).astype(np.uint64)
        places[sizes == 0] = 1  # of which nothing is read
        want = np.where(np.arange(4) * 4 < sizes[:, None], source[::-1], 0)
        np.testing.assert_array_equal(copy_lanes(sizes, places, one, other), want)


@pytest.mark.parametrize(
    ("lane", "shift", "size", "message"),
    [
        (31, 4, 16, "cp.async of 16 bytes"),
        (0, 32 * 16, 16, "out of bounds|outside|past"),
        (5, -6 * 16, 16, "out of bounds|outside|before"),
        (9, 0, 24, "cp.async reads 24 bytes but writes 16"),
    ],
)
def test_one_lane_of_a_cp_async_that_is_wrong_is_named(lane: int, shift: int, size: int, message: str) -> None:
    room = aligned((96, 4), np.uint32)
    source, other = room[32:64], aligned((32, 4), np.uint32)
    sizes, lanes = np.full(32, 16, np.uint32), np.arange(32)
    places = (source.ctypes.data + 16 * lanes).astype(np.uint64)
    assert copy_lanes(sizes, places, source, other).shape == (32, 4)
    sizes[lane] = size
    places[lane] = int(places[lane]) + shift
    with pytest.raises(_core.LaunchError, match=message):
        copy_lanes(sizes, places, source, other)


def test_a_hundred_copies_in_flight_are_carried_out_in_order_of_their_groups() -> None:
    body = """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [src]; mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd0, %rd0, %rd1; add.s64 %rd2, %rd2, %rd1; mov.u32 %r1, tile; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2;
    mov.u32 %r3, 0;
    LOOP: cp.async.ca.shared.global [%r1], [%rd2], 4; cp.async.commit_group; cp.async.wait_group 3;
    ld.shared.u32 %r4, [%r1]; st.global.u32 [%rd0], %r4;
    add.s64 %rd2, %rd2, 128; add.s64 %rd0, %rd0, 128; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 100; @%p0 bra LOOP;
    """
    source, out = aligned((100, 32), np.uint32), aligned((100, 32), np.uint32)
    source[:] = np.arange(3200).reshape(100, 32)
    launch(kernel_text(body, ".param .u64 out, .param .u64 src", shared=BARRIER), out, source)
    np.testing.assert_array_equal(out[3:], source[:-3])


@pytest.mark.parametrize(("noinc", "count"), [("", 32), (".noinc", 32)])
def test_cp_async_signals_an_mbarrier(noinc: str, count: int) -> None:
    body = (
        THREAD + f"setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [full], {count}; bar.sync 0;"
        + "ld.param.u64 %rd2, [src]; add.s64 %rd2, %rd2, %rd1;" + MINE
        + "cp.async.ca.shared.global [%r1], [%rd2], 4;"
        + f"cp.async.mbarrier.arrive{noinc}.shared::cta.b64 [full];"
        + ("" if noinc else "mbarrier.arrive.shared::cta.b64 _, [full];") + WAIT + READ
    )  # fmt: skip
    source = aligned((32,), np.uint32)
    source[:] = np.arange(32) + 5
    out = np.zeros(32, np.uint32)
    launch(kernel_text(body, ".param .u64 out, .param .u64 src", shared=BARRIER), out, source)
    np.testing.assert_array_equal(out, source)


def test_a_kernel_edits_a_tensor_map() -> None:
    body = THREAD + INIT + """
    ld.param.u64 %rd3, [where]; mov.b64 %rd2, scratch_map;
    mov.b64 %rd5, map; @%p0 bra EDIT; bra READY;
    EDIT: mov.u32 %r8, 0;
    LOOP: cvt.u64.u32 %rd6, %r8; add.s64 %rd7, %rd5, %rd6; ld.param.u64 %rd8, [map];
    mov.u32 %r10, scratch_map; add.u32 %r10, %r10, %r8;
    ld.u64 %rd8, [%rd7]; st.shared.u64 [%r10], %rd8; add.u32 %r8, %r8, 8; setp.lt.u32 %p4, %r8, 128; @%p4 bra LOOP;
    mov.u32 %r10, scratch_map;
    tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r10], %rd3;
    mov.u32 %r11, 16; tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r10], 0, %r11;
    READY: bar.sync 0;
    ld.param.u64 %rd9, [global_map]; mov.u32 %r10, scratch_map;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd9], [%r10], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd9], 128;
    @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;
    @%p0 cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%rd9, {0}], [full];
    """ + WAIT + READ  # fmt: skip
    body = body.replace("mov.b64 %rd2, scratch_map;", "").replace("ld.param.u64 %rd8, [map];", "")
    body = body.replace("mov.b64 %rd5, map;", "mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5;")
    parameters = ".param .u64 out, .param .u64 where, .param .u64 global_map, .param .align 64 .b8 map[128]"
    first, second = aligned((32,), np.uint32), aligned((32,), np.uint32)
    second[:] = np.arange(32) + 1
    out = np.zeros(32, np.uint32)
    shared = BARRIER + ".shared .align 128 .b8 scratch_map[128];"
    launch(kernel_text(body, parameters, shared=shared), out, second, aligned((128,), np.uint8), Map(first, (32,)))
    np.testing.assert_array_equal(out, np.where(np.arange(32) < 16, second, 0))


def test_a_wrong_tensor_map_is_a_fault() -> None:
    body = THREAD + INIT + TMA.format(bytes=2048, x=0, y=0) + WAIT
    text = kernel_text(body, ".param .u64 out, .param .align 64 .b8 map[128]", shared=BARRIER)
    with pytest.raises(_core.LaunchError, match="rank 1") as caught:
        launch(text, np.zeros(32, np.uint32), Map(aligned((64,), np.uint32), (32,)))
    assert caught.value.kind == "tensor_map"
