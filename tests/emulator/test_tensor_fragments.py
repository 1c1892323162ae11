"""wgmma, mma.sync, ldmatrix, stmatrix and movmatrix: fragments by CuTe's traits, products by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from sglab._core import tensor
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
from tests.support.emulator.tensor_formats import random_raw, values_of

BYTES = {"f16": 2, "bf16": 2, "tf32": 4}

FLOAT_CASES = [
    ("f16", "f16", 16, 8, "f32"),
    ("f16", "f16", 16, 16, "f32"),
    ("f16", "f16", 16, 16, "f16"),
    ("bf16", "bf16", 16, 8, "f32"),
    ("bf16", "bf16", 16, 16, "f32"),
    ("tf32", "tf32", 16, 4, "f32"),
    ("tf32", "tf32", 16, 8, "f32"),
    ("e4m3", "e5m2", 16, 16, "f32"),
    ("e5m2", "e4m3", 16, 32, "f32"),
    ("e4m3", "e4m3", 16, 32, "f16"),
]
INTEGER_CASES = [
    ("s8", "u8", 8, 16, "s32"),
    ("u8", "s8", 16, 16, "s32"),
    ("s8", "s8", 16, 32, "s32"),
    ("s4", "u4", 8, 32, "s32"),
    ("u4", "s4", 16, 32, "s32"),
    ("s4", "s4", 16, 64, "s32"),
]


@pytest.mark.parametrize(("a", "b", "m", "k", "d"), FLOAT_CASES + INTEGER_CASES)
def test_mma_sync(a: str, b: str, m: int, k: int, d: str) -> None:
    rng = np.random.default_rng()
    a_raw, a_values = raw_matrix(rng, a, (m, k))
    b_raw, b_values = raw_matrix(rng, b, (8, k))
    layout = CLASS.get(a, a)
    left = pack(fragment(A_LAYOUTS[layout, m, k], a_raw), bits_of(a))
    right = pack(fragment(B_LAYOUTS[layout, k], b_raw), bits_of(b))
    c = rng.integers(-8, 9, (m, 8))
    if d == "f16":
        registers = pack(fragment(C_LAYOUTS[m], c.astype(np.float16).view(np.uint16)), 16)
    else:
        dtype = np.float32 if d == "f32" else np.int32
        registers = fragment(C_LAYOUTS[m], c.astype(dtype)).copy().view(np.uint32)
    out = np.zeros_like(registers)
    tensor.warp_mma(m, k, a, b, d, d, left, right, registers, out)
    if d == "f16":
        halves = np.stack([out & 0xFFFF, out >> 16], 1).reshape(-1, 32).astype(np.uint16)
        got = unfragment(C_LAYOUTS[m], halves, m, 8).copy().view(np.float16)
    else:
        got = unfragment(C_LAYOUTS[m], out, m, 8).copy().view(dtype)
    np.testing.assert_array_equal(got, a_values @ b_values.T + c)


@pytest.mark.parametrize("op", ["xor", "and"])
@pytest.mark.parametrize(("m", "k"), [(8, 128), (16, 256)])
def test_mma_sync_of_single_bits(op: str, m: int, k: int) -> None:
    rng = np.random.default_rng()
    a, b = rng.integers(0, 2, (m, k), dtype=np.uint8), rng.integers(0, 2, (8, k), dtype=np.uint8)
    left, right = pack(fragment(A_LAYOUTS["b1", m, k], a), 1), pack(fragment(B_LAYOUTS["b1", k], b), 1)
    c = rng.integers(-9, 9, (m, 8), dtype=np.int32)
    registers = fragment(C_LAYOUTS[m], c).copy().view(np.uint32)
    out = np.zeros_like(registers)
    tensor.warp_mma(m, k, "b1", "b1", "s32", "s32", left, right, registers, out, bit_op=op)
    pairs = a[:, None] ^ b[None] if op == "xor" else a[:, None] & b[None]
    got = unfragment(C_LAYOUTS[m], out, m, 8).copy().view(np.int32)
    np.testing.assert_array_equal(got, pairs.astype(np.int32).sum(-1) + c)


def test_integer_mma_saturates_or_wraps() -> None:
    ones = np.full((4, 32), 0x01010101, np.uint32)
    high = np.full((4, 32), 2**31 - 8, np.uint32)
    for saturate, want in ((True, 2**31 - 1), (False, -(2**31) + 24)):
        out = np.zeros_like(high)
        tensor.warp_mma(16, 32, "s8", "s8", "s32", "s32", ones, ones, high, out, saturate=saturate)
        assert np.all(out.view(np.int32) == want)


@pytest.mark.parametrize(("m", "k"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_mma_sync_f64(m: int, k: int) -> None:
    rng = np.random.default_rng()
    a, b, c = rng.normal(size=(m, k)), rng.normal(size=(8, k)), rng.normal(size=(m, 8))
    out = np.zeros((m // 4, 32))
    operands = fragment(A_LAYOUTS["f64", m, k], a), fragment(B_LAYOUTS["f64", k], b), fragment(C_LAYOUTS[m], c)
    tensor.warp_mma_f64(m, k, *(np.ascontiguousarray(x) for x in operands), out)
    np.testing.assert_allclose(unfragment(C_LAYOUTS[m], out, m, 8), a @ b.T + c, rtol=1e-13, atol=1e-13)


def wgmma_registers(matrix: np.ndarray, per_register: int) -> np.ndarray:
    """CuTe's CLayout_64xN: ((4,8,4),(2,2,N/8)) : ((128,1,16),(64,8,512)), per warp."""
    n = matrix.shape[1]
    layout = (4, 8, 4), (128, 1, 16), (2, 2, n // 8), (64, 8, 512)
    threads, thread_strides, values, value_strides = layout
    flat = matrix.T.reshape(-1)
    index = [
        [[offset(128 // 4 * w + t, threads, thread_strides) + offset(v, values, value_strides) for t in range(32)]
         for v in range(n // 2)]
        for w in range(4)
    ]  # fmt: skip
    return flat[np.array(index)].reshape(4, -1, 32)


def wgmma_matrix(registers: np.ndarray, n: int) -> np.ndarray:
    where = wgmma_registers(np.arange(64 * n).reshape(n, 64).T, 1)
    flat = np.zeros(64 * n, registers.dtype)
    flat[where.reshape(-1)] = registers.reshape(-1)
    return flat.reshape(n, 64).T


WGMMA_K = {"f16": 16, "bf16": 16, "tf32": 8}


@pytest.mark.parametrize(
    ("name", "d", "n", "swizzle", "a_mn", "b_mn"),
    [
        ("f16", "f32", 128, "128B", False, False),
        ("f16", "f32", 64, "128B", True, True),
        ("bf16", "f32", 256, "64B", False, True),
        ("f16", "f16", 48, "32B", True, False),
        ("f16", "f32", 8, "none", False, False),
        ("f16", "f32", 64, "none", True, True),
        ("tf32", "f32", 40, "128B", False, False),
        ("e4m3", "f32", 96, "128B", False, False),
        ("s8", "s32", 64, "64B", False, False),
    ],
)
@pytest.mark.parametrize("a_in_registers", [False, True])
def test_wgmma(name: str, d: str, n: int, swizzle: str, a_mn: bool, b_mn: bool, a_in_registers: bool) -> None:
    rng = np.random.default_rng()
    k, size = WGMMA_K.get(name, 32), BYTES.get(name, 1)
    a_raw, b_raw = random_raw(rng, name, (64, k), True), random_raw(rng, name, (n, k), True)
    layouts = Operand(64, k, size, swizzle, a_mn), Operand(n, k, size, swizzle, b_mn)
    smem = np.zeros(1 << 17, np.uint8)
    layouts[0].place(smem, 1024, a_raw)
    layouts[1].place(smem, 1 << 16, b_raw)
    where: dict = {"b_desc": layouts[1].descriptor(1 << 16, "wgmma"), "b_mn_major": b_mn}
    if a_in_registers:
        layout = A_LAYOUTS[CLASS.get(name, name), 16, k]
        per_warp = [pack(fragment(layout, a_raw[16 * w : 16 * w + 16]), 8 * size) for w in range(4)]
        where["a_registers"] = np.ascontiguousarray(np.stack(per_warp))
    else:
        where |= {"a_desc": layouts[0].descriptor(1024, "wgmma"), "a_mn_major": a_mn}
    old = rng.integers(-8, 9, (64, n))
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[d]
    registers = wgmma_registers(old.astype(dtype), 1)
    if d == "f16":
        halves = registers.view(np.uint16).astype(np.uint32).reshape(4, -1, 2, 32)
        registers = halves[:, :, 0] | halves[:, :, 1] << 16
    registers = np.ascontiguousarray(registers).view(np.uint32)
    tensor.wgmma(smem, registers, n, k, name, name, d, **where)
    if d == "f16":
        halves = np.stack([registers & 0xFFFF, registers >> 16], 2).reshape(4, -1, 32).astype(np.uint16)
        got = wgmma_matrix(halves.view(np.float16), n)
    else:
        got = wgmma_matrix(registers.view(dtype), n)
    np.testing.assert_array_equal(got, values_of(name, a_raw) @ values_of(name, b_raw).T + old)


def test_wgmma_without_input_d_and_negated() -> None:
    rng = np.random.default_rng()
    a_raw, b_raw = random_raw(rng, "f16", (64, 16), True), random_raw(rng, "f16", (16, 16), True)
    layouts = Operand(64, 16, 2, "128B", False), Operand(16, 16, 2, "128B", False)
    smem = np.zeros(1 << 15, np.uint8)
    layouts[0].place(smem, 1024, a_raw)
    layouts[1].place(smem, 1 << 14, b_raw)
    registers = rng.integers(0, 1 << 32, (4, 8, 32), dtype=np.uint32)
    tensor.wgmma(
        smem, registers, 16, 16, "f16", "f16", "f32", a_desc=layouts[0].descriptor(1024, "wgmma"),
        b_desc=layouts[1].descriptor(1 << 14, "wgmma"), scale_d=False, negate_a=True,
    )  # fmt: skip
    got = wgmma_matrix(registers.view(np.float32), 16)
    np.testing.assert_array_equal(got, -values_of("f16", a_raw) @ values_of("f16", b_raw).T)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_and_stmatrix_of_16_bit_elements(count: int, transposed: bool) -> None:
    """Thread t of a matrix holds row t/4, columns 2(t%4) and 2(t%4)+1 of it, or of its transpose."""
    rng = np.random.default_rng()
    matrices = rng.integers(0, 1 << 16, (count, 8, 8), dtype=np.uint16)
    rows = np.zeros((32, 16), np.uint8)
    rows[: 8 * count] = matrices.reshape(-1, 8).view(np.uint8)
    seen = matrices.transpose(0, 2, 1) if transposed else matrices
    want = np.ascontiguousarray(seen).view(np.uint32).reshape(count, 32)
    registers = np.zeros((count, 32), np.uint32)
    tensor.ldmatrix(rows, registers, "m8n8", count, transposed)
    np.testing.assert_array_equal(registers, want)
    back = np.zeros_like(rows)
    tensor.stmatrix(back, registers, "m8n8", count, transposed)
    np.testing.assert_array_equal(back, rows)


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_of_bytes_is_transposed(count: int) -> None:
    """Four consecutive columns of two rows of the transpose, per thread."""
    rng = np.random.default_rng()
    matrices = rng.integers(0, 256, (count, 16, 16), dtype=np.uint8)
    rows = np.zeros((32, 16), np.uint8)
    rows[: 16 * count] = matrices.reshape(-1, 16)
    registers = np.zeros((2 * count, 32), np.uint32)
    tensor.ldmatrix(rows, registers, "m16n16", count, True)
    want = np.ascontiguousarray(matrices.transpose(0, 2, 1)).view(np.uint32).reshape(count * 2, 32)
    np.testing.assert_array_equal(registers, want)


@pytest.mark.parametrize(("fmt", "bits", "shift"), [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 0)])
def test_ldmatrix_unpacks_sub_byte_elements(fmt: str, bits: int, shift: int) -> None:
    rng = np.random.default_rng()
    codes = rng.integers(0, 1 << bits, (32, 16), dtype=np.uint8)
    rows = np.zeros((32, 16), np.uint8)
    for i in range(32):
        rows[i] = list(sum(int(c) << (bits * j) for j, c in enumerate(codes[i])).to_bytes(16, "little"))
    registers = np.zeros((4, 32), np.uint32)
    tensor.ldmatrix(rows, registers, "m8n16", 4, False, fmt)
    np.testing.assert_array_equal(registers, (codes << shift).view(np.uint32).reshape(4, 32))


def test_stmatrix_of_bytes() -> None:
    """CuTe's SM100_U8x16_STSM_T: ((4,8),(8,2,2,…)) : ((256,8),(1,128,64,1024)) bits of rows of 128."""
    rng = np.random.default_rng()
    registers = rng.integers(0, 1 << 32, (4, 32), dtype=np.uint32)
    want = np.zeros((32, 16), np.uint8)
    for reg in range(4):
        for thread in range(32):
            for byte in range(4):
                bit = offset(thread, (4, 8), (256, 8)) + offset(byte, (2, 2), (128, 64)) + 1024 * reg
                want[bit // 128, bit % 128 // 8] = registers[reg, thread] >> (8 * byte) & 0xFF
    rows = np.zeros((32, 16), np.uint8)
    tensor.stmatrix(rows, registers, "m16n8", 4, True)
    np.testing.assert_array_equal(rows, want)


def test_movmatrix_transposes() -> None:
    matrix = np.random.default_rng().integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    out = np.zeros(32, np.uint32)
    tensor.movmatrix(np.ascontiguousarray(matrix).view(np.uint32).reshape(32), out)
    np.testing.assert_array_equal(out, np.ascontiguousarray(matrix.T).view(np.uint32).reshape(32))
