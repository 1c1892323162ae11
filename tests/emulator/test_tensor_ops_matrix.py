"""wgmma, mma.sync, ldmatrix, stmatrix, movmatrix as instructions."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.tensor_core_ptx import COPY, PARAMETERS, SHARED, Operands, vector
from tests.support.emulator.tensor_formats import random_raw, values_of
from tests.support.emulator.tensor_ptx import aligned, kernel_text, launch

N = 32
POISON = 0x7FFF7FFF
WGMMA = f"wgmma.mma_async.sync.aligned.m64n{N}k16.f32.f16.f16 {vector(20, N // 2)}, %rd10, %rd11, 1, 1, 1, 0, 0;\n"
COMMIT, FENCE = "wgmma.commit_group.sync.aligned;\n", "wgmma.fence.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned {};\n"
ONES = "".join(f"mov.u32 %r{20 + n}, 0x3f800000;" for n in range(N // 2))
STORE = f"mul.wide.u32 %rd4, %r0, {2 * N}; add.s64 %rd4, %rd4, %rd0;" + "".join(
    f"st.global.u32 [%rd4+{4 * n}], %r{20 + n};" for n in range(N // 2)
)


def matrix(registers: np.ndarray) -> np.ndarray:
    """D (64, N) of accumulator registers (128 threads, N / 2), by the ISA's figure for m64nNk16."""
    thread, register = np.meshgrid(np.arange(128), np.arange(N // 2), indexing="ij")
    row = thread // 32 * 16 + thread % 32 // 4 + register % 4 // 2 * 8
    column = register // 4 * 8 + thread % 4 * 2 + register % 2
    d = np.zeros((64, N), registers.dtype)
    d[row, column] = registers
    return d


def run_wgmma(ops: Operands, *parts: str, block: int = 128, **options: object) -> np.ndarray:
    body = COPY + "bar.sync 0;" + ops.descriptors + ONES + "".join(parts) + STORE
    out = np.zeros((128, N // 2), np.uint32)
    text = kernel_text(body, PARAMETERS, arch="sm_90a", shared=SHARED)
    launch(text, out, ops.image, block=block, smem=65536, arch="sm_90a", **options)
    return out


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_wgmma_adds_to_its_accumulators(scheduler: str) -> None:
    ops = Operands("f16", 64, N, 16, flavour="wgmma")
    parts = (FENCE, WGMMA, WGMMA, COMMIT, WAIT.format(0))
    d = matrix(run_wgmma(ops, *parts, scheduler=scheduler, seed=4).view(np.float32))
    np.testing.assert_array_equal(d, 2 * ops.product + 1)


@pytest.mark.parametrize("wait", ["", WAIT.format(1)])
def test_accumulators_are_poison_until_their_group_is_waited_for(wait: str) -> None:
    ops = Operands("f16", 64, N, 16, flavour="wgmma")
    np.testing.assert_array_equal(run_wgmma(ops, FENCE, WGMMA, COMMIT, wait), POISON)


def test_waiting_for_all_but_the_newest_group() -> None:
    ops = Operands("f16", 64, N, 16, flavour="wgmma")
    second = WGMMA.replace(vector(20, N // 2), vector(60, N // 2))
    parts = (FENCE, WGMMA, COMMIT, second, COMMIT, WAIT.format(1))
    np.testing.assert_array_equal(matrix(run_wgmma(ops, *parts).view(np.float32)), ops.product + 1)


def test_a_in_registers() -> None:
    ops = Operands("f16", 64, N, 16, flavour="wgmma")
    packed = np.ascontiguousarray(ops.a_raw).view(np.uint32)  # (64, 8): pairs of columns
    thread = np.arange(128)
    row, pair = thread // 32 * 16 + thread % 32 // 4, thread % 4
    registers = np.stack(
        [packed[row, pair], packed[row + 8, pair], packed[row, pair + 4], packed[row + 8, pair + 4]], 1
    )
    ops.image[0, : registers.nbytes] = registers.view(np.uint8).reshape(-1)
    mma = WGMMA.replace("%rd10", "{%r11, %r12, %r13, %r14}").replace("1, 0, 0;", "1, 0;")
    load = "shl.b32 %r15, %r0, 4; add.u32 %r15, %r15, %r1; ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%r15];"
    d = matrix(run_wgmma(ops, load, FENCE, mma, COMMIT, WAIT.format(0)).view(np.float32))
    np.testing.assert_array_equal(d, ops.product + 1)


def test_a_warpgroup_without_its_fourth_warp_is_a_deadlock() -> None:
    ops = Operands("f16", 64, N, 16, flavour="wgmma")
    with pytest.raises(_core.LaunchError) as caught:
        run_wgmma(ops, FENCE, WGMMA, COMMIT, WAIT.format(0), block=96)
    assert caught.value.kind == "deadlock"


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_mma_sync_on_ldmatrix_fragments(name: str) -> None:
    rng = np.random.default_rng()
    a, b = random_raw(rng, name, (16, 16), True), random_raw(rng, name, (8, 16), True)
    body = f"""
    mov.u32 %r0, %tid.x; mov.u32 %r1, tile; ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [src];
    mul.wide.u32 %rd4, %r0, 24; add.s64 %rd2, %rd2, %rd4; mad.lo.u32 %r2, %r0, 24, %r1;
    ld.global.v2.u32 {{%r4, %r5}}, [%rd2]; st.shared.v2.u32 [%r2], {{%r4, %r5}};
    ld.global.v2.u32 {{%r4, %r5}}, [%rd2+8]; st.shared.v2.u32 [%r2+8], {{%r4, %r5}};
    ld.global.v2.u32 {{%r4, %r5}}, [%rd2+16]; st.shared.v2.u32 [%r2+16], {{%r4, %r5}};
    bar.warp.sync 0xffffffff;
    and.b32 %r3, %r0, 15; shl.b32 %r3, %r3, 5; shr.u32 %r6, %r0, 4; shl.b32 %r6, %r6, 4;
    add.u32 %r3, %r3, %r6; add.u32 %r3, %r3, %r1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r3];
    and.b32 %r3, %r0, 7; shl.b32 %r3, %r3, 5; shr.u32 %r6, %r0, 3; and.b32 %r6, %r6, 1; shl.b32 %r6, %r6, 4;
    add.u32 %r3, %r3, %r6; add.u32 %r3, %r3, %r1; add.u32 %r3, %r3, 512;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%r14, %r15}}, [%r3];
    mov.f32 %f0, 0f3F800000;
    mma.sync.aligned.m16n8k16.row.col.f32.{name}.{name}.f32
      {{%f1, %f2, %f3, %f4}}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {{%f0, %f0, %f0, %f0}};
    mul.wide.u32 %rd4, %r0, 8; add.s64 %rd0, %rd0, %rd4;
    st.global.v2.f32 [%rd0], {{%f1, %f2}}; st.global.v2.f32 [%rd0+256], {{%f3, %f4}};
    """
    out = aligned((16, 8), np.float32)
    source = aligned((24, 16), np.uint16)
    source[:16], source[16:] = a, b
    text = kernel_text(body, ".param .u64 out, .param .u64 src", shared=".shared .align 128 .b8 tile[1024];")
    launch(text, out, source)
    np.testing.assert_array_equal(out, values_of(name, a) @ values_of(name, b).T + 1)


@pytest.mark.parametrize("route", ["movmatrix", "stmatrix", "ldmatrix"])
def test_three_ways_to_transpose(route: str) -> None:
    source, out = aligned((8, 4), np.uint32), aligned((8, 4), np.uint32)
    source.view(np.uint16)[:] = np.random.default_rng().integers(0, 1 << 16, (8, 8))
    load, move, store = "ldmatrix.sync.aligned.m8n8.x1{0}.shared.b16 {{%r10}}, [%r4];", "", ""
    store = "stmatrix.sync.aligned.m8n8.x1{0}.shared.b16 [%r4], {{%r10}};"
    if route == "movmatrix":
        move = "movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r10;"
    body = f"""
    mov.u32 %r0, %tid.x; mov.u32 %r1, tile; ld.param.u64 %rd0, [out]; ld.param.u64 %rd2, [src];
    mul.wide.u32 %rd4, %r0, 4; add.s64 %rd2, %rd2, %rd4; add.s64 %rd0, %rd0, %rd4; shl.b32 %r2, %r0, 2;
    add.u32 %r2, %r2, %r1; ld.global.u32 %r3, [%rd2]; st.shared.u32 [%r2], %r3;
    and.b32 %r4, %r0, 7; shl.b32 %r4, %r4, 4; add.u32 %r4, %r4, %r1; bar.warp.sync 0xffffffff;
    {load.format(".trans" if route == "ldmatrix" else "")} {move}
    bar.warp.sync 0xffffffff; {store.format(".trans" if route == "stmatrix" else "")}
    bar.warp.sync 0xffffffff; ld.shared.u32 %r3, [%r2]; st.global.u32 [%rd0], %r3;
    """
    text = kernel_text(body, ".param .u64 out, .param .u64 src", shared=".shared .align 128 .b8 tile[128];")
    launch(text, out, source)
    np.testing.assert_array_equal(out.view(np.uint16), source.view(np.uint16).T)


def test_diverged_lanes_meet_at_a_warp_wide_instruction() -> None:
    body = """
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd0, %rd0, %rd4;
    setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
    mov.u32 %r10, 0x10001; bra MEET;
    LOW: mov.u32 %r10, 0;
    MEET: movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r10;
    st.global.u32 [%rd0], %r10;
    """
    out = aligned((8, 4), np.uint32)
    launch(kernel_text(body, ".param .u64 out"), out)
    np.testing.assert_array_equal(out.view(np.uint16), np.repeat([[0, 1]], 4, 1).repeat(8, 0))


@pytest.mark.parametrize("before", ["add.rz.f32", "add.rp.f32", "add.rm.f32", "mul.ftz.f32"])
@pytest.mark.parametrize(
    ("a", "b", "c", "want"),
    [
        (2.0**-13, 2.0**-13, -1.0, -1.0),  # every product is lost to rounding to nearest
        (2.0**-13, -(2.0**-13), 1.0, 1.0),
        (2.0**-133, 2.0**100, 0.0, 2.0**-30),  # a subnormal counts
    ],
)
def test_matrices_keep_their_rounding_whatever_scalar_code_ran(
    before: str, a: float, b: float, c: float, want: float
) -> None:
    def word(value: float) -> str:
        half = int(np.float32(value).view(np.uint32)) >> 16
        return hex(half << 16 | half)

    body = f"""
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd0, %rd0, %rd4;
    mov.f32 %f1, 0f33333333; mov.f32 %f2, 0f40400000; mov.b32 %f0, {hex(int(np.float32(c).view(np.uint32)))};
    mov.u32 %r10, {word(a)}; mov.u32 %r11, {word(b)};
    {before} %f3, %f1, %f2;
    mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32
      {{%f4, %f5, %f6, %f7}}, {{%r10, %r10}}, {{%r11}}, {{%f0, %f0, %f0, %f0}};
    st.global.f32 [%rd0], %f4;
    """
    out = np.zeros(32, np.float32)
    launch(kernel_text(body, ".param .u64 out"), out)
    np.testing.assert_array_equal(out, np.float32(want))
