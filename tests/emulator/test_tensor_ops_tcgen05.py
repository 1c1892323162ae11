"""tcgen05 as instructions: alloc, mma, commit, ld, st, cp, shift; what a missing wait shows; what misuse is called."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from sglab._core import tensor
from tests.support.emulator.cute_layouts import Operand
from tests.support.emulator.tcgen05 import idesc
from tests.support.emulator.tensor_core_ptx import A_AT, B_AT, C_AT, PARAMETERS, SHARED, WAIT, Operands, vector
from tests.support.emulator.tensor_core_ptx import COPY as COPY_IMAGE
from tests.support.emulator.tensor_ptx import kernel_text, launch

N, COLUMNS, ONE = 64, 128, 0x3F800000
ALLOC = f"""
@%p2 tcgen05.alloc.cta_group::GROUP.sync.aligned.shared::cta.b32 [slot], {COLUMNS};
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.shared.u32 %r9, [slot]; shl.b32 %r8, %r2, 21; add.u32 %r8, %r8, %r9;
"""
OLD = "mov.u32 %r7, 0x3f800000;\n" + "".join(
    f"add.u32 %r15, %r8, {at}; tcgen05.st.sync.aligned.32x32b.x32.b32 [%r15], {{{', '.join(['%r7'] * 32)}}};\n"
    for at in range(0, COLUMNS, 32)
)
STORED = "tcgen05.wait::st.sync.aligned;\n"
SYNC = "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
MMA = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd10, %rd11, {idesc}, 1;\n"
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [full];\n"
READ_D = "tcgen05.fence::after_thread_sync;\n" + "".join(
    f"add.u32 %r15, %r8, {at}; tcgen05.ld.sync.aligned.32x32b.x32.b32 {vector(20, 32)}, [%r15];"
    "tcgen05.wait::ld.sync.aligned;"
    f"mov.u32 %r15, %ntid.x; mad.lo.u32 %r15, %r10, %r15, %r0; mul.wide.u32 %rd4, %r15, {4 * COLUMNS};"
    "add.s64 %rd4, %rd4, %rd0;" + "".join(f"st.global.u32 [%rd4+{4 * (at + c)}], %r{20 + c};" for c in range(32))
    for at in range(0, COLUMNS, 32)
)
FREE = f"bar.sync 0; @%p2 tcgen05.dealloc.cta_group::GROUP.sync.aligned.b32 %r9, {COLUMNS};\n"


def run(*parts: str, image: np.ndarray | None = None, pair: bool = False, **options: object) -> np.ndarray:
    """D of every CTA: (ctas, 128 lanes, COLUMNS) raw words."""
    body = COPY_IMAGE + ALLOC + "".join(parts) + READ_D + FREE
    text = kernel_text(body.replace("GROUP", "2" if pair else "1"), PARAMETERS, shared=SHARED)
    ctas = 2 if pair else 1
    out = np.zeros((ctas, 128, COLUMNS), np.uint32)
    image = np.zeros((ctas, 65536), np.uint8) if image is None else image
    launch(text, out, image, grid=ctas, cluster=ctas, block=128, smem=65536, **options)
    return out


def load_idesc(m: int = 128, n: int = N, **bits: int) -> str:
    return f"mov.u32 %r16, {idesc('f16', 'f16', 'f32', m, n, **bits)};\n"


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_mma_adds_to_what_the_warps_stored(scheduler: str) -> None:
    ops = Operands("f16", 128, N, 16)
    mma = load_idesc() + ops.descriptors + MMA.format(idesc="%r16")
    d = run(OLD, STORED, SYNC, mma, COMMIT, WAIT, image=ops.image, scheduler=scheduler, seed=3)[0].view(np.float32)
    np.testing.assert_array_equal(d[:, :N], ops.product + 1)
    np.testing.assert_array_equal(d[:, N:], 1)


def test_mma_is_not_done_before_its_commit_is_waited_for() -> None:
    ops = Operands("f16", 128, N, 16)
    mma = load_idesc() + ops.descriptors + MMA.format(idesc="%r16")
    d = run(OLD, STORED, SYNC, mma, COMMIT, image=ops.image)[0].view(np.float32)
    np.testing.assert_array_equal(d, 1)


def test_a_commit_ahead_of_the_mma_does_not_cover_it() -> None:
    ops = Operands("f16", 128, N, 16)
    mma = load_idesc() + ops.descriptors + MMA.format(idesc="%r16")
    d = run(OLD, STORED, SYNC, COMMIT, mma, WAIT, image=ops.image)[0].view(np.float32)
    np.testing.assert_array_equal(d, 1)


def test_a_store_is_not_done_before_its_wait() -> None:
    ops = Operands("f16", 128, N, 16)
    mma = load_idesc() + ops.descriptors + MMA.format(idesc="%r16")
    zero = OLD.replace("0x3f800000", "0") + STORED
    d = run(zero, OLD, SYNC, mma, COMMIT, WAIT, STORED, image=ops.image)[0].view(np.float32)
    np.testing.assert_array_equal(d, 1)  # the stores, late, overwrite the product


def warned(*parts: str, image: np.ndarray | None = None) -> list[str]:
    body = COPY_IMAGE + ALLOC + "".join(parts) + READ_D + FREE
    text = kernel_text(body.replace("GROUP", "1"), PARAMETERS, shared=SHARED)
    image = np.zeros((1, 65536), np.uint8) if image is None else image
    report = launch(text, np.zeros((1, 128, COLUMNS), np.uint32), image, block=128, smem=65536)
    return [row[1] for row in report.warnings]


def test_a_plain_launch_warns_of_a_store_that_is_read_before_its_wait() -> None:
    ops = Operands("f16", 128, N, 16)
    mma = load_idesc() + ops.descriptors + MMA.format(idesc="%r16") + COMMIT + WAIT
    assert warned(OLD, STORED, SYNC, mma, image=ops.image) == []
    assert warned(OLD, SYNC) == ["tmem_store_unfinished"] * (COLUMNS // 32)
    assert "tmem_store_unfinished" in warned(OLD, SYNC, mma, STORED, image=ops.image)  # by the product


def test_operands_written_after_issue_are_what_the_mma_reads() -> None:
    ops = Operands("f16", 128, N, 16)
    mma = load_idesc() + ops.descriptors + MMA.format(idesc="%r16") + COMMIT
    clear = "mov.u32 %r18, 0; shl.b32 %r15, %r0, 7; add.u32 %r15, %r15, %r1;" + "".join(
        f"st.shared.v4.u32 [%r15+{at}], {{%r18, %r18, %r18, %r18}};" for at in range(0, 128, 16)
    )
    d = run(OLD, STORED, SYNC, mma, SYNC, clear, "bar.sync 0;", WAIT, image=ops.image)[0].view(np.float32)
    np.testing.assert_array_equal(d, 1)  # a product of zeros


FORMS = {
    "no input D": ("tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd10, %rd11, %r16, %p5;", lambda p: p),
    "scaled input D": ("tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd10, %rd11, %r16, 1, 3;", lambda p: p + 0.125),
    "disabled lanes": (
        "tcgen05.mma.cta_group::1.kind::f16 [%r9], %rd10, %rd11, %r16, {%r17, %r18, %r18, %r17}, 1;",
        lambda p: np.where((np.arange(128)[:, None] < 32) | (np.arange(128)[:, None] >= 96), 1, p + 1),
    ),
    "collector": (
        "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [%r9], %rd10, %rd11, %r16, %p5;"
        "@%p0 tcgen05.mma.cta_group::1.kind::f16.collector::a::lastuse [%r9], %rd10, %rd11, %r16, 1;",
        lambda p: 2 * p,
    ),
    "weight stationary": ("tcgen05.mma.ws.cta_group::1.kind::f16 [%r9], %rd10, %rd11, %r16, 1;", lambda p: p + 1),
    "zero columns": (
        "mov.b64 %rd12, 0; @%p0 tcgen05.mma.ws.cta_group::1.kind::f16 [%r9], %rd10, %rd11, %r16, 1, %rd12;",
        lambda p: p + 1,
    ),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_operand_forms_of_mma(form: str) -> None:
    mma, want = FORMS[form]
    ops = Operands("f16", 128, N, 16)
    constants = "setp.ne.u32 %p5, %r1, %r1; mov.u32 %r17, 0xffffffff; mov.u32 %r18, 0;\n"
    d = run(OLD, STORED, SYNC, load_idesc(), constants, ops.descriptors, "@%p0 " + mma, COMMIT, WAIT, image=ops.image)[
        0
    ].view(np.float32)
    np.testing.assert_array_equal(d[:, :N], want(ops.product))


OTHER_D = "add.u32 %r15, %r9, 64;"
STEP = "@%p0 tcgen05.mma.cta_group::CTAS.kind::f16 [{d}], %rd10, %rd11, %r16, {old};\n"
FORWARD = "add.s64 %rd10, %rd10, 2; add.s64 %rd11, %rd11, 2;\n"
SERIES = {
    "whole": [("%r9", "%p5"), ("%r9", "1"), ("%r9", "1"), ("%r9", "1")],
    "onto what was there": [("%r9", "1")] * 4,
    "starts again": [("%r9", "1"), ("%r9", "1"), ("%r9", "%p5"), ("%r9", "1")],
    "two by turns": [("%r9", "1"), ("%r15", "1"), ("%r15", "1"), ("%r9", "1")],
    "scales what was there": [("%r9", "1"), ("%r9", "1"), ("%r9", "1, 3"), ("%r9", "1")],
}


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("series", list(SERIES))
def test_a_series_of_mma_has_the_bits_of_each_after_the_other(series: str, pair: bool) -> None:
    """A plain launch makes one product of those that add to one D; whoever observes a launch sees each alone."""
    together, alone = series_of(FORWARD.join(STEP.format(d=d, old=old) for d, old in SERIES[series]), pair)
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("ways", ["A alone", "B alone", "back", "first rows, then others"])
def test_a_series_may_go_elsewhere_than_along_its_rows(ways: str) -> None:
    """What lies side by side is gathered at once; anything else step by step."""
    a, b = (f"add.s64 {which}, {which}, {{by}};" for which in ("%rd10", "%rd11"))
    moves = {
        "A alone": [a.format(by=2)] * 3,
        "B alone": [b.format(by=2)] * 3,
        "back": [(a + b).format(by=4), (a + b).format(by=-2), (a + b).format(by=-2)],
        "first rows, then others": [(a + b).format(by=2), (a + b).format(by=2), (a + b).format(by=60)],
    }[ways]
    step = STEP.format(d="%r9", old="1")
    together, alone = series_of(step + "".join(move + "\n" + step for move in moves), pair=False)
    np.testing.assert_array_equal(together, alone)


def series_of(steps: str, pair: bool) -> tuple[np.ndarray, np.ndarray]:
    """D of a plain launch, and of one that is observed."""
    ctas = 2 if pair else 1
    ops = Operands("f16", 128 * ctas, N, 64, ctas=ctas, small=False)
    halves, a, b = ops.image.view(np.uint16), A_AT // 2, B_AT // 2
    halves[:, [a + 5, a + 60, b + 9]] = 0xFE01, 0xFE01, 0xFC00  # NaN in the first and last step, an infinity
    steps = steps.replace("CTAS", str(ctas))
    constants = "setp.ne.u32 %p5, %r1, %r1;\n" + OTHER_D
    commit, start = COMMIT, SYNC
    if pair:
        steps, start = steps.replace("@%p0", "@%p6"), SYNC + CLUSTER
        constants += "setp.eq.u32 %p6, %r10, 0; and.pred %p6, %p6, %p0; mov.u16 %h1, 3;\n"
        commit = (
            "@%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [full], %h1;"
        )
    parts = OLD, STORED, start, load_idesc(128 * ctas), constants, ops.descriptors, steps, commit, WAIT
    together, alone = (run(*parts, image=ops.image, pair=pair, observed=observed) for observed in (False, True))
    assert np.isfinite(together.view(np.float32)).any()
    assert np.isnan(together.view(np.float32)).any()
    return together, alone


@pytest.mark.parametrize("column", [64, 56, 40], ids=["beside D", "from D's end on", "in D"])
def test_a_series_with_a_in_tensor_memory_has_the_bits_of_each_after_the_other(column: int) -> None:
    """Where D covers a later A, the earlier products write that."""
    ops = Operands("f16", 128, N, 64, small=False)
    rows = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float16)
    ops.image[0, C_AT : C_AT + rows.nbytes] = rows.view(np.uint8).reshape(-1)
    put_a = f"add.u32 %r15, %r1, {C_AT}; shl.b32 %r14, %r0, 7; add.u32 %r15, %r15, %r14;" + "".join(
        f"ld.shared.v4.u32 {vector(20 + at, 4)}, [%r15+{4 * at}];" for at in range(0, 32, 4)
    )
    put_a += f"add.u32 %r15, %r8, {column}; tcgen05.st.sync.aligned.32x32b.x32.b32 [%r15], {vector(20, 32)};" + STORED
    mma = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r9], [%r18], %rd11, %r16, 1;\n"
    steps = f"add.u32 %r18, %r9, {column};" + ("add.u32 %r18, %r18, 8;" + FORWARD).join([mma] * 4)
    parts = OLD, STORED, put_a, SYNC, load_idesc(), ops.descriptors, steps, COMMIT, WAIT
    together, alone = (run(*parts, image=ops.image, observed=observed) for observed in (False, True))
    assert (together[0, :, :N] != np.float32(1).view(np.uint32)).any()
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("shift", ["", ".ashift", ".collector::a::lastuse.ashift"])
def test_mma_reads_a_from_tensor_memory(shift: str) -> None:
    """.ashift takes each row from the lane after it; the last one stays."""
    ops = Operands("f16", 128, N, 16)
    packed = np.ascontiguousarray(ops.a_raw).view(np.uint32)  # (128, 8): a lane's row of A
    ops.image[0, C_AT : C_AT + packed.nbytes] = packed.view(np.uint8).reshape(-1)
    put_a = (
        f"add.u32 %r15, %r1, {C_AT}; shl.b32 %r14, %r0, 5; add.u32 %r15, %r15, %r14;"
        f"ld.shared.v4.u32 {vector(20, 4)}, [%r15]; ld.shared.v4.u32 {vector(24, 4)}, [%r15+16];"
        f"add.u32 %r15, %r8, 64; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r15], {vector(20, 8)};" + STORED
    )
    mma = f"add.u32 %r18, %r9, 64; @%p0 tcgen05.mma.cta_group::1.kind::f16{shift} [%r9], [%r18], %rd11, %r16, 1;"
    d = run(OLD, STORED, put_a, SYNC, load_idesc(), ops.descriptors, mma, COMMIT, WAIT, image=ops.image)
    rows = np.minimum(np.arange(128) + bool(shift), 127)
    np.testing.assert_array_equal(d[0, :, :N].view(np.float32), ops.product[rows] + 1)


def test_block_scaled_mma_reads_its_scales_from_tensor_memory() -> None:
    ops = Operands("e4m3", 128, N, 32)
    scales = "mov.u32 %r7, 0x80808080; add.u32 %r15, %r8, 96; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r15],"
    scales += " {%r7, %r7, %r7, %r7};" + STORED  # every scale 2^1
    mma = "mov.u32 %r16, " + str(N >> 3 << 17 | 1 << 23 | 128 >> 7 << 27) + "; add.u32 %r18, %r9, 96;"
    mma += "@%p0 tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r9], %rd10, %rd11, %r16, [%r18], [%r18], 1;"
    d = run(OLD, STORED, scales, SYNC, ops.descriptors, mma, COMMIT, WAIT, image=ops.image)
    np.testing.assert_array_equal(d[0, :, :N].view(np.float32), 4 * ops.product + 1)


CLUSTER = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial"])
def test_a_cta_pair_multiplies_together_and_signals_both(scheduler: str) -> None:
    ops = Operands("f16", 256, N, 16, ctas=2)
    issue = (
        "setp.eq.u32 %p6, %r10, 0; and.pred %p6, %p6, %p0; mov.u16 %h1, 3;"
        "@%p6 tcgen05.mma.cta_group::2.kind::f16 [%r9], %rd10, %rd11, %r16, 1;"
        "@%p6 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [full], %h1;"
    )
    d = run(
        OLD, STORED, SYNC, CLUSTER, load_idesc(m=256), ops.descriptors, issue, WAIT,
        image=ops.image, pair=True, scheduler=scheduler, seed=2,
    )  # fmt: skip
    got = d[:, :, :N].reshape(256, N).view(np.float32)
    np.testing.assert_array_equal(got, ops.product + 1)


@pytest.mark.parametrize(
    ("shape", "count", "registers"),
    [("32x32b", 4, 4), ("16x64b", 8, 8), ("16x128b", 4, 8), ("16x256b", 2, 8), ("16x32bx2", 8, 8)],
)
def test_store_shapes(shape: str, count: int, registers: int) -> None:
    split = ", 16" if shape == "16x32bx2" else ""
    fill = "".join(f"mad.lo.u32 %r{20 + n}, %r0, 256, {n + 1};" for n in range(registers))
    zero = OLD.replace("0x3f800000", "0") + STORED
    store = f"tcgen05.st.sync.aligned.{shape}.x{count}.b32 [%r8]{split}, {vector(20, registers)};" + STORED
    got = run(zero, fill, store, SYNC)[0]
    cells = np.zeros((512, 128), np.uint32)
    for warp in range(4):
        thread = 32 * warp + np.arange(32, dtype=np.uint32)
        values = np.stack([thread * 256 + n + 1 for n in range(registers)]).astype(np.uint32)
        options = {"half_split": 16} if split else {}
        tensor.tmem_store(cells, values, shape, count, 32 * warp << 16, **options)
    np.testing.assert_array_equal(got, cells.T[:, :COLUMNS])


def test_cp_and_shift_run_before_the_commit_that_follows() -> None:
    rng = np.random.default_rng()
    rows = Operand(128, 32, 1, "none", False)
    image = np.zeros((1, 65536), np.uint8)
    source = rng.integers(0, 256, (128, 32), dtype=np.uint8)
    rows.place(image[0], 0, source)
    moves = (
        f"mov.b64 %rd10, {rows.descriptor(0)}; add.s64 %rd10, %rd10, %rd3;"
        "@%p0 tcgen05.cp.cta_group::1.128x256b [%r9], %rd10; @%p0 tcgen05.shift.cta_group::1.down [%r9];"
    )
    d = run(OLD, STORED, SYNC, moves, COMMIT, WAIT, image=image)[0]
    want = np.concatenate([source.view(np.uint32), np.full((1, 8), ONE, np.uint32)])
    np.testing.assert_array_equal(d[:31, :8], want[1:32])
    np.testing.assert_array_equal(d[32:127, :8], want[32:127])
    np.testing.assert_array_equal(d[:, 8:], ONE)


def alone(body: str, block: int = 128, **options: object) -> None:
    text = kernel_text("mov.u32 %r0, %tid.x; shr.u32 %r2, %r0, 5; setp.eq.u32 %p2, %r2, 0;" + body, "", shared=SHARED)
    launch(text, block=block, **options)


GET = "@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {0}; bar.sync 0; ld.shared.u32 %r9, [slot];"
PUT = "bar.sync 0; @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, {0};"
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r20}, [%r8];"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (GET.format(32), "exited without releasing"),
        (GET.format(48), "48 columns"),
        (GET.format(64) + PUT.format(32), "release of 32 columns"),
        (GET.format(32) + "shl.b32 %r8, %r2, 21; add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, 32;" + LOAD + PUT.format(32),
         "column 32 .* not allocated"),
        ("@%p2 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" + GET.format(32) + PUT.format(32), "permit"),
    ],
)  # fmt: skip
def test_misuse_of_tensor_memory_is_a_fault(body: str, message: str) -> None:
    with pytest.raises(_core.LaunchError, match=message) as caught:
        alone(body)
    assert caught.value.kind == "tensor_memory"


@pytest.mark.parametrize(("shape", "lane", "half"), [("32x32b", 0, 0), ("32x32b", 96, 0), ("16x64b", 16, 16)])
def test_a_warp_reaches_its_own_lanes_whatever_the_lane_field_says(shape: str, lane: int, half: int) -> None:
    """Warp 2 stores one word per thread, naming lanes of another warp; each thread of 32x32b has one lane."""
    store = f"""setp.eq.u32 %p1, %r2, 2; mov.u32 %r7, 77; shl.b32 %r15, {lane}, 16; add.u32 %r15, %r15, %r9;
@%p1 tcgen05.st.sync.aligned.{shape}.x1.b32 [%r15], {{%r7}};\n"""
    d = run(OLD, STORED, store, STORED, SYNC)[0]
    changed = {row for row in range(128) if (d[row] == 77).any()}
    assert changed == set(range(64 + half, 96 if shape == "32x32b" else 80 + half))


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_an_allocation_waits_until_columns_are_free(scheduler: str) -> None:
    body = """
    shl.b32 %r3, %r2, 2; mov.u32 %r4, slots; add.u32 %r3, %r3, %r4;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 256;
    bar.warp.sync 0xffffffff; ld.shared.u32 %r9, [%r3];
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 256;
    """
    text = kernel_text("mov.u32 %r0, %tid.x; shr.u32 %r2, %r0, 5;" + body, "", shared=".shared .align 4 .b32 slots[4];")
    launch(text, block=128, scheduler=scheduler, seed=1)


def test_an_allocation_that_never_fits_is_a_deadlock() -> None:
    with pytest.raises(_core.LaunchError) as caught:
        alone(GET.format(512) + GET.format(32))
    assert caught.value.kind == "deadlock"


def test_a_wrong_instruction_descriptor_is_a_fault_with_the_reason() -> None:
    ops = Operands("f16", 128, N, 16)
    with pytest.raises(_core.LaunchError, match="M = 96; expected 64 or 128") as caught:
        run(load_idesc(m=96), ops.descriptors, MMA.format(idesc="%r16"), COMMIT, WAIT, image=ops.image)
    assert caught.value.kind == "tensor_core"
