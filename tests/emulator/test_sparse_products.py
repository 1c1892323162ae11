"""mma.sp, wgmma.mma_async.sp and the products of older cores: operands by CuTe's traits, products by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.cute_layouts import Operand, offset
from tests.support.emulator.fragment_layouts import (
    A_LAYOUTS,
    B_LAYOUTS,
    C_LAYOUTS,
    CLASS,
    bits_of,
    fragment,
    pack,
    raw_matrix,
    unfragment,
)
from tests.support.emulator.launching import launch
from tests.support.emulator.tensor_core_ptx import A_AT, B_AT, COPY, IMAGE, PARAMETERS, SHARED, vector
from tests.support.emulator.tensor_ptx import kernel_text
from tests.support.emulator.tensor_ptx import launch as launch_text

WIDE_B = {
    ("f16", 32): ((4, 8), (16, 1), (2, 4), (8, 64)),
    ("tf32", 16): ((4, 8), (8, 1), (4,), (32,)),
    ("s8", 64): ((4, 8), (32, 1), (4, 4), (8, 128)),
    ("s4", 128): ((4, 8), (64, 1), (8, 4), (8, 256)),
    **B_LAYOUTS,
}


def metadata_layout(name: str, k: int) -> tuple:
    """(thread, value) -> column-major index into A (16 x K): which elements a lane's register speaks of. Lanes that
    differ in a stride of 0 are chosen among by the selector."""
    if bits_of(name) >= 16:  # 16 bits for a row and 16 for the one eight below
        if k == 16 * 16 // bits_of(name):
            return (4, 8), (0, 1), (k, 2), (16, 8)
        return (2, 2, 8), (8 * k, 0, 1), (k // 2, 2), (16, 8)
    if k == 32 * 8 // bits_of(name):
        return (2, 2, 8), (8, 0, 1), (k,), (16,)
    return (2, 2, 8), (8, 8 * k, 1), (k // 2,), (16,)


def sparse_matrix(rng: np.random.Generator, name: str, rows: int, k: int, ordered: bool = True) -> tuple:
    """Stored elements (rows, k / 2), their values in place (rows, k), four bits of metadata per chunk."""
    raw, values = raw_matrix(rng, name, (rows, k // 2))
    logical = 2 if name == "tf32" else 8 if bits_of(name) == 4 else 4
    unit = max(1, logical // 4)
    spread = np.zeros((rows, k))
    nibbles = np.zeros((rows, k // logical), np.uint32)
    for row in range(rows):
        for chunk in range(k // logical):
            if name == "tf32":
                place = int(rng.integers(0, 2))
                nibbles[row, chunk] = 0b1110 if place else 0b0100
                spread[row, 2 * chunk + place] = values[row, chunk]
                continue
            first, second = rng.choice(4, 2, replace=False)
            if ordered and first > second:
                first, second = second, first
            nibbles[row, chunk] = first | second << 2
            for at, place in enumerate((first, second)):
                for e in range(unit):
                    source = (2 * chunk + at) * unit + e
                    spread[row, chunk * logical + place * unit + e] = values[row, source]
    return raw, spread, nibbles


def metadata_registers(name: str, k: int, nibbles: np.ndarray, selector: int, rng: np.random.Generator) -> np.ndarray:
    """A register of 32 lanes. Those that do not count are anything."""
    threads, strides, values, value_strides = metadata_layout(name, k)
    logical = 2 if name == "tf32" else 8 if bits_of(name) == 4 else 4
    out = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    for lane in range(32):
        if strides[0] == 0 and lane % 4 != selector:
            continue
        if len(strides) == 3 and strides[1] == 0 and lane // 2 % 2 != selector:
            continue
        word = 0
        for at in range(0, int(np.prod(values)), logical):
            index = offset(lane, threads, strides) + offset(at, values, value_strides)
            word |= int(nibbles[index % 16, index // 16 // logical]) << 4 * (at // logical)
        out[lane] = word
    return out


def mma_kernel(instruction: str, counts: tuple[int, int, int, int], tail: str = "") -> str:
    """D, A, B, C registers per lane from and to arrays [register][32]."""
    d, a, b, c = counts
    first = {"a": 10, "b": 30, "c": 50, "d": 70}
    loads = "".join(
        f"ld.global.u32 %r{first[name] + n}, [%d{index}+{128 * n}];"
        for index, (name, count) in enumerate((("a", a), ("b", b), ("c", c)))
        for n in range(count)
    )
    stores = "".join(f"st.global.u32 [%d4+{128 * n}], %r{first['d'] + n};" for n in range(d))
    operands = ", ".join(vector(first[name], count) for name, count in (("d", d), ("a", a), ("b", b), ("c", c)))
    names = ("a", "b", "c", "e", "out")
    setup = "".join(f"ld.param.u64 %d{n}, [{name}]; add.s64 %d{n}, %d{n}, %d9;" for n, name in enumerate(names))
    return f""".visible .entry k({", ".join(f".param .u64 {name}" for name in names)}) {{
    .reg .b32 %r<100>; .reg .b64 %d<10>;
    mov.u32 %r0, %tid.x; mul.wide.u32 %d9, %r0, 4; {setup} {loads} ld.global.u32 %r1, [%d3];
    {instruction} {operands}{tail}; {stores} ret; }}"""


SPARSE = [
    ("f16", "f16", 16, "f32"),
    ("f16", "f16", 16, "f16"),
    ("f16", "f16", 32, "f32"),
    ("bf16", "bf16", 16, "f32"),
    ("bf16", "bf16", 32, "f32"),
    ("tf32", "tf32", 8, "f32"),
    ("tf32", "tf32", 16, "f32"),
    ("s8", "u8", 32, "s32"),
    ("u8", "s8", 64, "s32"),
    ("s4", "u4", 64, "s32"),
    ("u4", "s4", 128, "s32"),
    ("e4m3", "e5m2", 64, "f32"),
    ("e5m2", "e4m3", 64, "f32"),
]


@pytest.mark.parametrize("spelling", ["sp", "sp::ordered_metadata"])
@pytest.mark.parametrize(("a", "b", "k", "d"), SPARSE)
def test_sparse_warp_product(a: str, b: str, k: int, d: str, spelling: str) -> None:
    rng = np.random.default_rng()
    raw, spread, nibbles = sparse_matrix(rng, a, 16, k, ordered=spelling != "sp")
    b_raw, b_values = raw_matrix(rng, b, (8, k))
    layout = CLASS.get(a, a)
    left = pack(fragment(A_LAYOUTS[layout, 16, k // 2], raw), bits_of(a))
    right = pack(fragment(WIDE_B[layout, k], b_raw), bits_of(b))
    c = rng.integers(-8, 9, (16, 8))
    kind, width = {"f32": (np.float32, 32), "f16": (np.float16, 16), "s32": (np.int32, 32)}[d]
    unsigned = np.uint16 if width == 16 else np.uint32
    added = pack(fragment(C_LAYOUTS[16], np.ascontiguousarray(c.astype(kind)).view(unsigned)), width)
    short = k == 256 // bits_of(a)  # the smaller shape of the type
    selectors = (4 if short else 2) if bits_of(a) >= 16 else (2 if short else 1)
    selector = int(rng.integers(0, selectors))
    metadata = metadata_registers(a, k, nibbles, selector, rng)
    out = np.zeros_like(added)
    name = f"mma.{spelling}.sync.aligned.m16n8k{k}.row.col.{d}.{a}.{b}.{d}"
    counts = (len(added), len(left), len(right), len(added))
    launch(mma_kernel(name, counts, f", %r1, {selector}"), [left, right, added, metadata, out])
    lanes = out.view(np.uint32)
    values = (
        np.stack([lanes & 0xFFFF, lanes >> 16], 1).reshape(-1, 32).astype(np.uint16).view(np.float16)
        if d == "f16"
        else lanes.view(kind)
    )
    got = unfragment(C_LAYOUTS[16], values, 16, 8).astype(np.float64)
    np.testing.assert_array_equal(got, (spread @ b_values.T + c).astype(kind).astype(np.float64))


@pytest.mark.parametrize("bits", [0b0000, 0b0101])
def test_metadata_that_names_one_place_twice_is_a_fault(bits: int) -> None:
    zeros = [np.zeros((n, 32), np.uint32) for n in (2, 2, 4)]
    text = mma_kernel("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", (4, 2, 2, 4), ", %r1, 0")
    with pytest.raises(_core.LaunchError, match="metadata") as caught:
        launch(text, [*zeros, np.full(32, bits * 0x11111111, np.uint32), np.zeros((4, 32), np.uint32)])
    assert caught.value.kind == "tensor_core"


def lane_of(pair: int, line: int) -> int:
    return 4 * pair + line % 4 + 16 * (line // 4)


@pytest.mark.parametrize("types", [("f16", "f16"), ("f32", "f32"), ("f32", "f16")], ids="-".join)
@pytest.mark.parametrize("b_layout", ["row", "col"])
@pytest.mark.parametrize("a_layout", ["row", "col"])
def test_quad_pairs_multiply_by_themselves(a_layout: str, b_layout: str, types: tuple[str, str]) -> None:
    """mma.m8n8k4 of f16: four products of 8 x 4 and 4 x 8, each in the lanes of a quad pair."""
    d_type, c_type = types
    rng = np.random.default_rng()
    a, b, c = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((4, 8, 4), (4, 4, 8), (4, 8, 8)))

    def halves(place: object) -> np.ndarray:
        lanes = np.zeros((32, 4), np.float16)
        for pair in range(4):
            for line in range(8):
                lanes[lane_of(pair, line)] = place(pair, line)
        return np.ascontiguousarray(lanes.view(np.uint32).T)

    by_line = {
        "a row": lambda p, n: a[p, n],
        "a col": lambda p, n: a[p, n // 4 * 4 : n // 4 * 4 + 4, n % 4],
        "b row": lambda p, n: b[p, n % 4, n // 4 * 4 : n // 4 * 4 + 4],
        "b col": lambda p, n: b[p, :, n],
    }
    left, right = halves(by_line["a " + a_layout]), halves(by_line["b " + b_layout])

    def wide(pair: int, row: int, column: int) -> tuple[int, int]:
        """Register and lane of an f32: CuTe's SM70_8x8_32b."""
        return (column & 1) | (row & 2) | (column & 4), 4 * pair + (row & 1) + (column & 2) + 16 * (row >> 2)

    if c_type == "f32":
        added = np.zeros((8, 32), np.float32)
        for p, row, column in np.ndindex(4, 8, 8):
            added[wide(p, row, column)] = c[p, row, column]
    else:
        added = np.zeros((32, 8), np.float16)
        for p, row in np.ndindex(4, 8):
            added[lane_of(p, row)] = c[p, row]
        added = np.ascontiguousarray(added.view(np.uint32).T)
    out = np.zeros((8 if d_type == "f32" else 4, 32), np.uint32)
    name = f"mma.sync.aligned.m8n8k4.{a_layout}.{b_layout}.{d_type}.f16.f16.{c_type}"
    text = mma_kernel(name, (len(out), 2, 2, len(added)))
    launch(text, [left, right, added.view(np.uint32), np.zeros(32, np.uint32), out])
    got = np.zeros((4, 8, 8))
    for p, row, column in np.ndindex(4, 8, 8):
        register, lane = wide(p, row, column)
        halves_of_row = np.ascontiguousarray(out[:4].T).view(np.float16)
        got[p, row, column] = (
            out.view(np.float32)[register, lane] if d_type == "f32" else halves_of_row[lane_of(p, row), column]
        )
    np.testing.assert_array_equal(got, a.astype(float) @ b.astype(float) + c)


WGMMA = [
    ("f16", "f32", 32, False),
    ("f16", "f16", 32, True),
    ("bf16", "f32", 32, False),
    ("tf32", "f32", 16, False),
    ("tf32", "f32", 16, True),
    ("e4m3", "f32", 64, False),
    ("s8", "s32", 64, False),
    ("u8", "s32", 64, True),
]
N = 32


@pytest.mark.parametrize(("name", "d", "k", "in_registers"), WGMMA)
def test_sparse_warpgroup_product(name: str, d: str, k: int, in_registers: bool) -> None:
    rng = np.random.default_rng()
    raw, spread, nibbles = sparse_matrix(rng, name, 64, k)
    b_raw, b_values = raw_matrix(rng, name, (N, k))
    image = np.zeros((1, IMAGE), np.uint8)
    stored, right = (
        Operand(64, k // 2, raw.itemsize, "64B", False),
        Operand(N, k, raw.itemsize, "64B", False),
    )
    stored.place(image[0], A_AT, raw)
    right.place(image[0], B_AT, b_raw)
    selector = int(rng.integers(0, 2)) if bits_of(name) >= 16 else 0
    lanes = [metadata_registers(name, k, nibbles[16 * w : 16 * w + 16], selector, rng) for w in range(4)]
    layout = A_LAYOUTS[CLASS.get(name, name), 16, k // 2]
    fragments = [pack(fragment(layout, raw[16 * w : 16 * w + 16]), bits_of(name)) for w in range(4)]
    # Each thread's metadata and four registers of A, after the operands.
    own = np.concatenate([np.vstack([lanes[w][None], *fragments[w][:, None]]) for w in range(4)], axis=1)
    image[0, 40960 : 40960 + own.size * 4] = np.ascontiguousarray(own.T).view(np.uint8).reshape(-1)
    registers = N // 4 if d == "f16" else N // 2
    a = "{%r101, %r102, %r103, %r104}" if in_registers else "%rd10"
    immediates = {"s32": "", "f32": ", 1, 1", "f16": ", 1, 1"}[d]
    if bits_of(name) == 16:
        immediates += ", 0" if in_registers else ", 0, 0"
    body = (
        COPY
        + f"""bar.sync 0;
    mov.b64 %rd10, {stored.descriptor(A_AT, "wgmma")}; add.s64 %rd10, %rd10, %rd3;
    mov.b64 %rd11, {right.descriptor(B_AT, "wgmma")}; add.s64 %rd11, %rd11, %rd3;
    mad.lo.u32 %r99, %r0, 20, %r1;
    """
        + "".join(f"ld.shared.u32 %r{100 + n}, [%r99+{40960 + 4 * n}];" for n in range(5))
    )
    body += "".join(f"mov.u32 %r{20 + n}, 0;" for n in range(registers))
    body += f"""wgmma.fence.sync.aligned; setp.ne.u32 %p5, %r1, 0;
    wgmma.mma_async.sp.sync.aligned.m64n{N}k{k}.{d}.{name}.{name} {vector(20, registers)}, {a}, %rd11, %r100,
      {selector}, %p5{immediates};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mul.wide.u32 %rd4, %r0, {4 * registers}; add.s64 %rd4, %rd4, %rd0;
    """ + "".join(f"st.global.u32 [%rd4+{4 * n}], %r{20 + n};" for n in range(registers))
    out = np.zeros((128, registers), np.uint32)
    text = kernel_text(body, PARAMETERS, arch="sm_90a", shared=SHARED)
    launch_text(text, out, image, block=128, smem=65536, arch="sm_90a")
    cells = out.view({"f32": np.float32, "f16": np.float16, "s32": np.int32}[d]).astype(np.float64)
    per = cells.shape[1]
    thread, at = np.meshgrid(np.arange(128), np.arange(per), indexing="ij")
    got = np.zeros((64, N))
    row = thread // 32 * 16 + thread % 32 // 4 + at % 4 // 2 * 8
    got[row, at // 4 * 8 + thread % 4 * 2 + at % 2] = cells
    np.testing.assert_array_equal(got, spread @ b_values.T)


def test_warpgroup_product_of_bits() -> None:
    """wgmma of b1: how many bits two rows of 256 have in common."""
    rng = np.random.default_rng()
    a, b = (rng.integers(0, 256, (rows, 32), dtype=np.uint8) for rows in (64, N))
    image = np.zeros((1, IMAGE), np.uint8)
    left, right = (Operand(rows, 32, 1, "32B", False) for rows in (64, N))
    left.place(image[0], A_AT, a)
    right.place(image[0], B_AT, b)
    body = (
        COPY
        + f"""bar.sync 0;
    mov.b64 %rd10, {left.descriptor(A_AT, "wgmma")}; add.s64 %rd10, %rd10, %rd3;
    mov.b64 %rd11, {right.descriptor(B_AT, "wgmma")}; add.s64 %rd11, %rd11, %rd3;
    wgmma.fence.sync.aligned; setp.ne.u32 %p5, %r1, %r1;
    wgmma.mma_async.sync.aligned.m64n{N}k256.s32.b1.b1.and.popc {vector(20, N // 2)}, %rd10, %rd11, %p5;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    mul.wide.u32 %rd4, %r0, {2 * N}; add.s64 %rd4, %rd4, %rd0;
    """
        + "".join(f"st.global.u32 [%rd4+{4 * n}], %r{20 + n};" for n in range(N // 2))
    )
    out = np.zeros((128, N // 2), np.uint32)
    text = kernel_text(body, PARAMETERS, arch="sm_90a", shared=SHARED)
    launch_text(text, out, image, block=128, smem=65536, arch="sm_90a")
    thread, at = np.meshgrid(np.arange(128), np.arange(N // 2), indexing="ij")
    got = np.zeros((64, N), np.int64)
    got[thread // 32 * 16 + thread % 32 // 4 + at % 4 // 2 * 8, at // 4 * 8 + thread % 4 * 2 + at % 2] = out
    wanted = np.unpackbits(a, axis=1).astype(np.int64) @ np.unpackbits(b, axis=1).astype(np.int64).T
    np.testing.assert_array_equal(got, wanted)
