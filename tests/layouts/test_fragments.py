"""Fragments against the emulator: the owners are those whose registers the real instructions read and write."""

from __future__ import annotations

import numpy as np
import pytest

from sglab._core import tensor
from sglab.layouts import FRAGMENTS, Fragment, fragment, tile_of
from tests.support.emulator.fragment_layouts import A_LAYOUTS, B_LAYOUTS, C_LAYOUTS
from tests.support.emulator.fragment_layouts import fragment as cute_fragment
from tests.support.emulator.tensor_core_ptx import vector
from tests.support.emulator.tensor_ptx import kernel_text, launch


def registers_of(made: Fragment, matrix: np.ndarray) -> np.ndarray:
    """(registers, lanes) of 32 bits that hold a matrix so."""
    bits = 32 // made.parts
    packed = np.zeros((made.registers, made.lanes), np.uint32)
    raw = np.ascontiguousarray(matrix).view(f"u{matrix.itemsize}")
    for row, column, owner in made.owners():
        packed[owner.register, owner.lane] |= np.uint32(raw[row, column]) << np.uint32(bits * owner.part)
    return packed


def matrix_of(made: Fragment, registers: np.ndarray) -> np.ndarray:
    """The matrix of 32-bit elements, or of halves, that registers (registers, lanes) hold so."""
    out = np.zeros((made.rows, made.columns), np.uint32)
    for row, column, owner in made.owners():
        word = int(registers[owner.register, owner.lane])
        out[row, column] = word >> (32 // made.parts * owner.part) & ((1 << 32 // made.parts) - 1)
    return out


LOADS = "".join(f"ld.global.u32 %r{20 + i}, [%rd4+{128 * i}];" for i in range(10))
MMA = (
    "mov.u32 %r0, %laneid; ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; mul.wide.u32 %rd4, %r0, 4;"
    "add.s64 %rd4, %rd4, %rd0;"
    + LOADS
    + "mma.sync.aligned.SHAPE.row.col.f32.TYPES.f32 {%r30,%r31,%r32,%r33}, {A}, {B}, {%r26,%r27,%r28,%r29};"
    "mul.wide.u32 %rd5, %r0, 4; add.s64 %rd5, %rd5, %rd1;"
    + "".join(f"st.global.u32 [%rd5+{128 * i}], %r{30 + i};" for i in range(4))
)


@pytest.mark.parametrize(
    ("shape", "element"), [("m16n8k16", "f16"), ("m16n8k8", "f16"), ("m16n8k8", "tf32"), ("m16n8k4", "tf32")]
)
def test_mma_sync_multiplies_the_matrices_of_the_picture(shape: str, element: str) -> None:
    """Random matrices, put into registers as the fragments say: the kernel's product is the matrices' product."""
    a, b, c = (fragment(f"mma.{shape}.{element}.{operand}") for operand in "ABC")
    draw = np.random.default_rng()
    dtype = np.float16 if element == "f16" else np.float32
    left, right = (draw.integers(-9, 10, (made.rows, made.columns)).astype(dtype) for made in (a, b))
    added = draw.integers(-9, 10, (16, 8)).astype(np.float32)
    given = np.zeros((10, 32), np.uint32)
    given[: a.registers], given[4 : 4 + b.registers] = registers_of(a, left), registers_of(b, right)
    given[6:] = registers_of(c, added)
    out = np.zeros((4, 32), np.uint32)
    names = [",".join(f"%r{first + i}" for i in range(made.registers)) for first, made in ((20, a), (24, b))]
    body = MMA.replace("SHAPE", shape).replace("TYPES", f"{element}.{element}")
    body = body.replace("{A}", f"{{{names[0]}}}").replace("{B}", f"{{{names[1]}}}")
    launch(kernel_text(body, ".param .u64 p, .param .u64 q"), given, out)
    product = left.astype(np.float64) @ right.astype(np.float64) + added
    np.testing.assert_array_equal(matrix_of(c, out).view(np.float32), product)


@pytest.mark.parametrize(
    "name", ["ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "ldmatrix.x2.trans", "ldmatrix.x4.trans"]
)
def test_ldmatrix_hands_out_what_the_picture_says(name: str) -> None:
    made = fragment(name)
    count, trans = made.registers, ".trans" if "trans" in name else ""
    matrix = np.random.default_rng().integers(0, 1 << 16, (8 * count, 8)).astype(np.uint16)
    out = np.zeros((4, 32), np.uint32)
    body = (
        "mov.u32 %r0, %laneid; ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q];"
        f"mul.lo.u32 %r1, %r0, 16; and.b32 %r2, %r1, {128 * count - 1};"
        "cvt.u64.u32 %rd2, %r2; add.s64 %rd3, %rd0, %rd2;"
        "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd3]; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2;"
        "st.shared.v4.u32 [%r3], {%r4,%r5,%r6,%r7}; bar.warp.sync -1;"
        f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {vector(20, count)}, [%r3];"
        "mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %rd1;"
        + "".join(f"st.global.u32 [%rd4+{128 * i}], %r{20 + i};" for i in range(count))
    )
    text = kernel_text(body, ".param .u64 p, .param .u64 q", shared=".shared .align 16 .b8 tile[512];")
    launch(text, matrix, out)
    np.testing.assert_array_equal(matrix_of(made, out), matrix)


@pytest.mark.parametrize("shape", ["32x32b", "16x64b", "16x128b", "16x256b"])
@pytest.mark.parametrize("pack", ["", ".pack::16b"])
def test_tcgen05_ld_reads_the_cells_of_the_picture(shape: str, pack: str) -> None:
    """A kernel numbers tensor memory through 32x32b, whose lane is the thread, and loads it in the other shape."""
    made = fragment(f"tcgen05.ld.{shape}.x2{pack}")
    out = np.zeros((8, 32), np.uint32)
    body = (
        "mov.u32 %r0, %laneid; ld.param.u64 %rd1, [q];"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32; ld.shared.u32 %r9, [slot];"
        + "".join(f"shl.b32 %r{20 + c}, %r0, 8; or.b32 %r{20 + c}, %r{20 + c}, {c};" for c in range(32))
        + f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r9], {vector(20, 32)}; tcgen05.wait::st.sync.aligned;"
        f"tcgen05.ld.sync.aligned.{shape}.x2{pack}.b32 {vector(60, made.registers)}, [%r9];"
        "tcgen05.wait::ld.sync.aligned; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd4, %rd4, %rd1;"
        + "".join(f"st.global.u32 [%rd4+{128 * i}], %r{60 + i};" for i in range(made.registers))
        + "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;"
    )
    launch(kernel_text(body, ".param .u64 q", shared=".shared .align 4 .b32 slot;"), out)
    lanes, columns = np.meshgrid(np.arange(made.rows), np.arange(made.columns), indexing="ij")
    np.testing.assert_array_equal(matrix_of(made, out), lanes << 8 | columns)


@pytest.mark.parametrize(
    "name", ["tcgen05.mma.m128n64.D", "tcgen05.mma.m64n64.D", "tcgen05.mma.m128n64.cta_group::2.D",
             "tcgen05.mma.m256n64.cta_group::2.D"],
)  # fmt: skip
def test_tcgen05_mma_leaves_d_where_the_picture_says(name: str) -> None:
    made, pair = fragment(name), "cta_group::2" in name
    m = int(name.split("n64")[0].split(".m")[-1])
    wanted = {}
    for cta, lane, row, rows, column, columns in tensor.datapath(m, 64, 2 if pair else 1):
        if cta == 0:
            for r in range(rows):
                for c in range(columns):
                    wanted[row + r, column + c] = (lane + r, c)
    assert {(row, column): owner[:2] for row, column, owner in made.owners()} == wanted


@pytest.mark.parametrize(("element", "m", "k"), list(A_LAYOUTS))
def test_operands_of_mma_sync_are_cute_traits(element: str, m: int, k: int) -> None:
    if element == "b1":
        return
    for operand, layout, rows, columns in (
        ("A", A_LAYOUTS[element, m, k], m, k),
        ("B", B_LAYOUTS[element, k], 8, k),
        ("C", C_LAYOUTS[m], m, 8),
    ):
        try:
            made = fragment(f"mma.m{m}n8k{k}.{element}.{operand}")
        except ValueError:
            assert m == 8 and element != "f64"  # m8n8k16 of s8 and the like: not offered
            continue
        numbers = np.arange(rows * columns).reshape(rows, columns)
        held = cute_fragment(layout, numbers)
        for row, column, owner in made.owners():
            wanted = numbers[column, row] if operand == "B" else numbers[row, column]
            assert held[owner.register * made.parts + owner.part, owner.lane] == wanted


def test_d_of_wgmma_is_that_of_the_isa_s_figure() -> None:
    made = fragment("wgmma.m64n32k16.f16.D")
    for row, column, owner in made.owners():
        thread, register = owner.lane, owner.register
        assert row == thread // 32 * 16 + thread % 32 // 4 + register % 4 // 2 * 8
        assert column == register // 4 * 8 + thread % 4 * 2 + register % 2


@pytest.mark.parametrize("name", list(FRAGMENTS))
def test_no_two_elements_have_one_place(name: str) -> None:
    made = fragment(name)
    owners = [owner for _, _, owner in made.owners()]
    assert len(set(owners)) == made.rows * made.columns
    assert all(o.lane < made.lanes and o.register < made.registers and o.part < made.parts for o in owners)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mma.m16n8k7.f16.A", "mma.sync has no m16n8k7 of f16; expected m16n8k16 or m16n8k8"),
        ("mma.m16n8k32.f16.A", "expected m16n8k16 or m16n8k8"),
        ("mma.m16n8k64.e4m3.A", "expected m16n8k16 or m16n8k32"),
        ("mma.m8n8k8.f16.A", "mma.sync has no m8n8k8 of f16"),
        ("mma.m8n8k4.f16.A", "Volta"),
        ("mma.m8n8k4.tf32.B", "mma.sync has no m8n8k4 of tf32"),
        ("mma.m16n8k8.f32.A", "it multiplies f16, bf16"),
        ("wgmma.m64n64k8.f32.A", "wgmma multiplies f16, bf16, tf32"),
        ("wgmma.m64n64k4.f64.D", "wgmma multiplies f16, bf16, tf32"),
        ("wgmma.m64n40k32.s8.D", "n of 8, 16, 24, 32, 48"),
        ("mma.m16n8k16.f99.A", "expected an element among"),
        ("wgmma.m64n12k16.f16.D", "n of 8, 16, … 256"),
        ("tcgen05.ld.16x256b.x64", "up to 32"),
        ("tcgen05.mma.m32n32.D", "M of 64 or 128"),
        ("movmatrix", "expected a name such as"),
    ],
)
def test_what_is_no_fragment_is_said(name: str, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        fragment(name)
    assert said in str(raised.value)


def test_names_are_read_as_people_write_them() -> None:
    assert fragment("MMA.m16n8k16.F16.a").name == tile_of("Mma.m16n8k16.f16.a").text == "mma.m16n8k16.f16.A"
    (d, c) = (fragment(f"mma.m16n8k16.f16.{operand}") for operand in "DC")
    assert list(d.owners()) == list(c.owners())
    (stored, loaded) = (fragment(f"{name}.x4") for name in ("stmatrix", "ldmatrix"))
    assert list(stored.owners()) == list(loaded.owners()) and "stmatrix collects" in stored.instruction
