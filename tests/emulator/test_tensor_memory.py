"""Tensor memory: ld/st shapes and tcgen05.cp against CuTe's copy traits, packing, shift, allocation."""

from __future__ import annotations

import numpy as np
import pytest

from sglab._core import tensor
from tests.support.emulator.cute_layouts import Operand, offset

# CuTe's Copy_Traits<SM100_TMEM_LOAD_*>::DstLayout for .x1, as (thread, value-bit) -> bit of the accessed lanes, where a
# lane's bits are contiguous: (lanes, bits per lane, thread layout, value layout).
LOADS = {
    "32x32b": (32, 32, (32, 32), (32, 1)),
    "16x64b": (16, 64, ((2, 2, 8), (512, 32, 64)), (32, 1)),
    "16x128b": (16, 128, ((4, 8), (32, 128)), ((32, 2), (1, 1024))),
    "16x256b": (16, 256, ((4, 8), (64, 256)), ((64, 2), (1, 2048))),
    "16x32bx2": (16, 64, ((16, 2), (64, 32)), (32, 1)),
}
PER_COUNT = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def cells_read(shape: str, thread: int, reg: int, count: int) -> tuple[int, int]:
    """(lane, column) that register `reg` of a thread maps to, from CuTe's layout of the unit and its repetition."""
    _, bits, threads, values = LOADS[shape]
    unit, part = divmod(reg, PER_COUNT[shape])
    bit = offset(thread, *threads) + offset(32 * part, *values)
    lane, column = bit // bits, bit % bits // 32
    if shape == "16x32bx2":
        return lane, column * count + reg  # the second half begins `count` columns on
    return lane, column + unit * bits // 32


@pytest.mark.parametrize("shape", list(LOADS))
@pytest.mark.parametrize("count", [1, 2, 8, 32])
@pytest.mark.parametrize("packed", [False, True])
def test_ld_and_st_follow_cutes_traits(shape: str, count: int, packed: bool) -> None:
    rng = np.random.default_rng()
    base_lane = 32 * int(rng.integers(4)) + (16 * int(rng.integers(2)) if shape != "32x32b" else 0)
    base_column = int(rng.integers(32))
    if shape == "16x256b" and count == 32:
        count = 16  # keeps the widest access inside 512 columns
    cells = rng.integers(0, 1 << 32, (512, 128), dtype=np.uint32)
    registers = PER_COUNT[shape] * count
    scale = 2 if packed else 1
    address = base_lane << 16 | base_column
    want = np.zeros((registers, 32), np.uint32)
    stored = rng.integers(0, 1 << 32, (registers, 32), dtype=np.uint32)
    after = cells.copy()
    for reg in range(registers):
        for thread in range(32):
            lane, column = cells_read(shape, thread, reg, count)
            at = base_column + column * scale, base_lane + lane
            value = stored[reg, thread]
            if packed:
                want[reg, thread] = cells[at] & 0xFFFF | cells[at[0] + 1, at[1]] << 16
                after[at], after[at[0] + 1, at[1]] = value & 0xFFFF, value >> 16
            else:
                want[reg, thread] = cells[at]
                after[at] = value
    got = np.zeros_like(want)
    split = {"half_split": count * scale} if shape == "16x32bx2" else {}
    tensor.tmem_load(cells, got, shape, count, address, pack=packed, **split)
    np.testing.assert_array_equal(got, want)
    tensor.tmem_store(cells, stored, shape, count, address, unpack=packed, **split)
    np.testing.assert_array_equal(cells, after)


def test_32x32b_thread_is_lane_and_register_is_column() -> None:
    cells = np.arange(512 * 128, dtype=np.uint32).reshape(512, 128)
    got = np.zeros((4, 32), np.uint32)
    tensor.tmem_load(cells, got, "32x32b", 4, 64 << 16 | 100)
    np.testing.assert_array_equal(got, cells[100:104, 64:96])


# tcgen05.cp: rows of the source, 16-byte chunks per row, and the lanes each row lands in (CuTe's UTCCP traits).
COPIES = {
    ("128x256b", ""): (128, 2, lambda r: [r]),
    ("4x256b", ""): (4, 2, lambda r: [32 * r]),
    ("128x128b", ""): (128, 1, lambda r: [r]),
    ("64x128b", "warpx2::02_13"): (64, 1, lambda r: [r, r + 64]),
    ("64x128b", "warpx2::01_23"): (64, 1, lambda r: [r % 32 + 64 * (r // 32), r % 32 + 64 * (r // 32) + 32]),
    ("32x128b", "warpx4"): (32, 1, lambda r: [r, r + 32, r + 64, r + 96]),
}


@pytest.mark.parametrize(("shape", "multicast"), list(COPIES))
@pytest.mark.parametrize("swizzle", ["none", "32B", "128B"])
def test_cp_lands_rows_in_their_lanes(shape: str, multicast: str, swizzle: str) -> None:
    rng = np.random.default_rng()
    rows, chunks, lanes = COPIES[shape, multicast]
    layout = Operand(max(rows, 8), 16 * max(chunks, 2), 1, swizzle, False)
    data = rng.integers(0, 256, (layout.rows, layout.k), dtype=np.uint8)
    smem = np.zeros(1 << 16, np.uint8)
    layout.place(smem, 4096, data)
    cells = rng.integers(0, 1 << 32, (512, 128), dtype=np.uint32)
    want = cells.copy()
    words = data.view(np.uint32)
    for row in range(rows):
        for lane in lanes(row):
            want[48 : 48 + 4 * chunks, lane] = words[row, : 4 * chunks]
    tensor.tmem_copy(cells, smem, layout.descriptor(4096), shape, multicast, 48)
    np.testing.assert_array_equal(cells, want)


@pytest.mark.parametrize(("fmt", "bits", "shift"), [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 0)])
def test_cp_decompresses_sub_byte_elements(fmt: str, bits: int, shift: int) -> None:
    rng = np.random.default_rng()
    codes = rng.integers(0, 1 << bits, (128, 16), dtype=np.uint8)
    packed = np.zeros((128, 32), np.uint8)
    for row in range(128):
        packed[row, :16] = list(sum(int(c) << (bits * i) for i, c in enumerate(codes[row])).to_bytes(16, "little"))
    layout = Operand(128, 32, 1, "none", False)
    smem = np.zeros(1 << 16, np.uint8)
    layout.place(smem, 0, packed)
    cells = np.zeros((512, 128), np.uint32)
    tensor.tmem_copy(cells, smem, layout.descriptor(0), "128x128b", "", 0, fmt)
    got = np.ascontiguousarray(cells[:4].T).view(np.uint8)
    np.testing.assert_array_equal(got, codes << shift)


def test_shift_moves_each_lane_to_the_one_before() -> None:
    rng = np.random.default_rng()
    cells = rng.integers(0, 1 << 32, (512, 128), dtype=np.uint32)
    want = cells.copy()
    want[16:24, 32:63] = cells[16:24, 33:64]
    tensor.tmem_shift(cells, 32 << 16 | 16)
    np.testing.assert_array_equal(cells, want)


def test_allocation_is_first_fit_in_aligned_powers_of_two() -> None:
    tmem = tensor.TmemAllocator()
    assert tmem.allocate(256) == ("done", 0)
    assert tmem.allocate(128) == ("done", 256)
    assert tmem.allocate(128) == ("done", 384)
    assert tmem.allocate(32) == ("must_wait", 0)
    assert tmem.release(256, 128) == "done"
    assert tmem.allocate(64) == ("done", 256)
    assert tmem.allocate(32) == ("done", 320)
    assert tmem.anything_allocated


@pytest.mark.parametrize("columns", [0, 16, 48, 1024])
def test_column_counts_are_powers_of_two_from_32_to_512(columns: int) -> None:
    assert tensor.TmemAllocator().allocate(columns)[0] == "bad_column_count"


def test_misuse_of_the_allocator_is_named() -> None:
    tmem = tensor.TmemAllocator()
    tmem.allocate(64)
    assert tmem.allocate(128)[0] == "larger_than_previous_allocation"
    assert tmem.release(0, 32) == "not_allocated"
    assert tmem.release(32, 64) == "not_allocated"
    assert tmem.release(0, 64) == "done"
    assert tmem.release(0, 64) == "not_allocated"
    assert not tmem.anything_allocated
    tmem.relinquish()
    assert tmem.allocate(32)[0] == "permit_relinquished"
