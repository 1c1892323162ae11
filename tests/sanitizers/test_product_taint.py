"""Operands of tcgen05.mma that were never written, in all its forms: what of D is unknown then, and what is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.sanitizers.products import (
    A_AT,
    A_COLUMN,
    ALL,
    ASHIFT,
    B_AT,
    IN_TENSOR_MEMORY,
    METADATA,
    NARROW,
    SCALE_A,
    SCALE_B,
    Form,
    Memory,
    N,
    Product,
    memory,
)


def each(forms: dict[str, Form]) -> Callable:
    return pytest.mark.parametrize("form", forms.values(), ids=forms)


def counts(form: Form, element: str) -> int:
    """Of a chunk of 16 bytes in shared memory those that hold elements."""
    return NARROW[element][0] * 2 if element in NARROW and not form.packed else 16


def forget(form: Form, given: Memory, element: str, at: int, rows: int, k: int, mn: bool, row: int, along: int) -> None:
    """An element of an operand is not written: `row` of all the group's rows, the unit `along` of K."""
    share = rows // form.ctas
    operand = form.operand(rows, k, element, mn)
    units = operand.k
    size = operand.element_bytes
    if counts(form, element) < 16:
        along = along % units // 16 * 16 + along % counts(form, element)
    place = at + operand.address(row % share, along % units)
    given.mask[row // share, place : place + size] = 0


@each(ALL)
def test_a_product_of_what_was_written_is_known(form: Form) -> None:
    product = Product(form)
    whole = product.placed(np.ones((form.m, N), bool))
    found, cells = product.launch(memory(form), whole)
    assert found == []
    got = cells.view(np.int32 if form.d == "s32" else np.float32) if form.d != "f16" else None
    if got is None:
        got = cells.astype(np.uint16).view(np.float16).astype(float)
    wanted = np.full((form.m, N), form.stored_k)
    if form.zeroed:
        wanted[:, :32] = 0
    at = np.zeros(whole.shape)
    for cta, lane, row, rows, column, columns in form.blocks:
        at[cta, lane : lane + rows, :columns] = wanted[row : row + rows, column : column + columns]
    np.testing.assert_array_equal(got[whole], at[whole])


FROM_SHARED = {name: form for name, form in ALL.items() if not form.a_tmem}


@each(FROM_SHARED)
def test_a_row_of_a_makes_a_row(form: Form) -> None:
    product, rng = Product(form), np.random.default_rng()
    given = memory(form)
    rows = {0, form.m - 1, int(rng.integers(form.m))}
    for row in rows:
        forget(form, given, form.a, A_AT, form.m, form.stored_k, form.a_mn, row, int(rng.integers(64)))
    product.check(given, product.cells(rows))


@each(ALL)
def test_a_row_of_b_makes_a_column(form: Form) -> None:
    product, rng = Product(form), np.random.default_rng()
    given = memory(form)
    columns = {N // 2, N - 1, int(rng.integers(N // 2, N))}
    if not form.zeroed:
        columns.add(0)
    for column in columns:
        forget(form, given, form.b, B_AT, N, form.k, form.b_mn, column, int(rng.integers(64)))
    if form.zeroed:
        forget(form, given, form.b, B_AT, N, form.k, form.b_mn, 0, 0)
    product.check(given, product.cells(columns=columns))


PADDED = {name: form for name, form in ALL.items() if not form.packed and {form.a, form.b} & set(NARROW)}


@each(PADDED)
def test_padding_is_no_operand(form: Form) -> None:
    given = memory(form)
    for at, element, rows, k in ((A_AT, form.a, form.m, form.stored_k), (B_AT, form.b, N, form.k)):
        operand = form.operand(rows, k, element, False)
        for row in range(rows // form.ctas):
            for along in range(k):
                if along % 16 >= counts(form, element):
                    given.mask[:, at + operand.address(row, along)] = 0
    found, _ = Product(form).launch(given, np.ones((form.ctas, 128, N), bool))
    assert found == []


def lanes_of(form: Form) -> np.ndarray:
    """(ctas, 128): which row of D a lane has, -1 for none."""
    rows = np.full((form.ctas, 128), -1)
    for cta, lane, row, count, _, _ in form.blocks:
        rows[cta, lane : lane + count] = row + np.arange(count)
    return rows


@each(IN_TENSOR_MEMORY)
def test_a_lane_of_a_in_tensor_memory_makes_its_lane(form: Form) -> None:
    """Computed from something that was never written."""
    product, rng = Product(form), np.random.default_rng()
    given = memory(form)
    rows = lanes_of(form)
    used = np.argwhere(rows >= 0)
    lanes = np.zeros(rows.shape, bool)
    words = 8  # of A, whatever its elements
    for cta, lane in (used[0], used[-1], used[rng.integers(len(used))]):
        lanes[cta, lane] = True
        given.words(given.mask)[cta, lane, rng.integers(words), rng.integers(4)] = 0
    unused = np.argwhere(rows < 0)
    if len(unused):
        given.words(given.mask)[tuple(unused[0])][0] = 0
    given.words(given.mask)[:, :, words : SCALE_A - A_COLUMN] = 0  # behind A
    product.check(given, product.placed(np.ones((form.m, N), bool)) & lanes[:, :, None])


@each(IN_TENSOR_MEMORY)
def test_lanes_of_a_in_tensor_memory_that_were_never_stored(form: Form) -> None:
    product = Product(form)
    given = memory(form)
    given.stored[2, 7] = False
    lanes = np.zeros((form.ctas, 128), bool)
    lanes[:, 64:96] = True
    product.check(given, product.placed(np.ones((form.m, N), bool)) & lanes[:, :, None])


@each(ASHIFT)
@pytest.mark.parametrize("lane", [1, 31, 32, 63, 64, 100, 127])
def test_a_shifted_row_is_of_the_next_lane(form: Form, lane: int) -> None:
    """The first row of a CTA's A goes nowhere, the last one also to its own place."""
    product = Product(form)
    given = memory(form)
    given.words(given.mask)[0, lane, 3] = 0
    first = next(block for block in form.blocks if block[0] == 0 and block[1] <= lane < block[1] + block[3])
    lanes = np.zeros((form.ctas, 128), bool)
    if lane > first[1]:
        lanes[0, lane - 1] = True
    if lane == first[1] + first[3] - 1:
        lanes[0, lane] = True
    unknown = product.placed(np.ones((form.m, N), bool)) & lanes[:, :, None]
    if unknown.any():
        product.check(given, unknown)
    else:
        assert product.launch(given, product.placed(np.ones((form.m, N), bool)))[0] == []


SCALES = {name: form for name, form in ALL.items() if form.scaled}


def scaled_cells(form: Form, partition: int, cta: int, rows: set[int], columns: set[int]) -> np.ndarray:
    """Cells in a partition of 32 lanes whose scale factors are those of the CTA's `rows` and of `columns`, as its
    datapath counts them."""
    where = np.zeros((form.ctas, 128, N), bool)
    for of, lane, row, count, _, width in form.blocks:
        if of != cta:
            continue
        for r in range(count):
            if (lane + r) // 32 != partition:
                continue
            if row + r - cta * (form.m // form.ctas) in rows:
                where[cta, lane + r, :width] = True
            where[cta, lane + r, [c for c in columns if c < width]] = True
    return where


@each(SCALES)
@pytest.mark.parametrize("stored", [True, False], ids=["computed of nothing", "never stored"])
def test_a_scale_factor_of_a_makes_rows(form: Form, stored: bool) -> None:
    product = Product(form)
    given = memory(form)
    if stored:
        given.words(given.mask)[form.ctas - 1, 2 * 32 + 5, SCALE_A - A_COLUMN] = 0
        # Of rows 5, 37, ... the partition has one or none: here the factors of rows 0 to 31 stand.
        unknown = scaled_cells(form, 2, form.ctas - 1, {5}, set())
        given.words(given.mask)[form.ctas - 1, 5, SCALE_A - A_COLUMN] = 0
        unknown |= scaled_cells(form, 0, form.ctas - 1, {5}, set())
    else:
        given.stored[1, SCALE_A + 1 - A_COLUMN] = False
        unknown = sum(
            (scaled_cells(form, 1, cta, set(range(32, 64)), set()) for cta in range(form.ctas)),
            np.zeros((form.ctas, 128, N), bool),
        )
    product.check(given, unknown)


@each(SCALES)
@pytest.mark.parametrize("stored", [True, False], ids=["computed of nothing", "never stored"])
def test_a_scale_factor_of_b_makes_columns(form: Form, stored: bool) -> None:
    """Each partition of 32 lanes has its own copy."""
    product = Product(form)
    given = memory(form)
    if stored:
        given.words(given.mask)[0, 3 * 32 + 7, SCALE_B - A_COLUMN] = 0
        unknown = scaled_cells(form, 3, 0, set(), {7})
    else:
        given.stored[0, SCALE_B - A_COLUMN] = False
        unknown = np.zeros((form.ctas, 128, N), bool)
        for cta in range(form.ctas):
            unknown |= scaled_cells(form, 0, cta, set(), set(range(32)))
    product.check(given, unknown)


SPARSE_FORMS = {name: form for name, form in ALL.items() if form.sparse}


@each(SPARSE_FORMS)
def test_metadata_computed_of_nothing_make_their_rows(form: Form) -> None:
    """Those of 16-bit elements and of tf32 speak of two rows, eight apart, and of half of K."""
    product = Product(form)
    given = memory(form)
    wide = form.kind in ("f16", "tf32")
    cta, lane = form.blocks[-1][:2]
    given.words(given.mask)[cta, lane + 5, METADATA - A_COLUMN] = 2
    if not wide:
        given.words(given.mask)[cta, lane + 3, METADATA + 1 - A_COLUMN] = 2
    given.words(given.mask)[:, :, METADATA + (1 if wide else 2) - A_COLUMN :] = 0  # behind them
    lanes = np.zeros((form.ctas, 128), bool)
    lanes[cta, [lane + 5, lane + 13] if wide else [lane + 5, lane + 3]] = True
    product.check(given, product.placed(np.ones((form.m, N), bool)) & lanes[:, :, None])


@each(SPARSE_FORMS)
def test_metadata_that_were_never_stored_are_no_metadata(form: Form) -> None:
    """What a fresh allocation holds names no two elements."""
    given = memory(form)
    given.stored[:, METADATA - A_COLUMN] = False
    with pytest.raises(gpu.KernelError, match=r"tcgen05\.mma\.sp: metadata 0"):
        Product(form).launch(given, np.zeros((form.ctas, 128, N), bool))


ADDING = {
    name: replace(form, adds=True)
    for name, form in ALL.items()
    if name in ("f16", "s8", "f16 accumulators", "M = 64", "pair", "pair, M = 128", ".ws, M = 32", "sparse, f16",
                "scaled, mxf4", "A in tensor memory, f16")
}  # fmt: skip


@each(ADDING)
def test_a_sum_upon_nothing_is_found_where_it_is_read(form: Form) -> None:
    """Nobody reads: no finding. Then one that names the instruction that added, and the cell."""
    product, given = Product(form), memory(form)
    nowhere = np.zeros((form.ctas, 128, N), bool)
    assert product.launch(given, nowhere)[0] == []
    unknown = product.placed(np.ones((form.m, N), bool))
    product.check(given, unknown)
    place = np.argwhere(unknown)[-1]
    chosen = nowhere.copy()
    chosen[tuple(place)] = True
    (found,) = product.launch(given, chosen)[0]
    columns = form.blocks[0][5]
    assert f"tcgen05.mma adds to columns 0 to {columns - 1} of tensor memory, not all of which was written" in found
    assert "and the value is written to global memory" in found
    assert f"tcgen05.mma{'.ws' * form.ws}{'.sp' * form.sparse}.cta_group::{form.ctas}.kind::{form.kind}" in found


def test_lanes_that_are_left_out_stay_unwritten() -> None:
    product = Product(ALL["disabled"])
    chosen = np.zeros((1, 128, N), bool)
    chosen[0, 31, 5] = True
    (found,) = product.launch(memory(product.form), chosen)[0]
    assert "the instruction reads columns 0 to 31 of tensor memory, not all of which was written" in found


def test_what_is_found_names_the_operand() -> None:
    """Of shared memory the sixteen bytes, of tensor memory the cell; where it was read, and where it mattered."""
    form = ALL["pair"]
    given = memory(form)
    forget(form, given, form.b, B_AT, N, form.k, False, 40, 3)
    product = Product(form)
    (found,) = product.launch(given, product.cells(columns=[40]) & (np.arange(128) == 100)[:, None])[0]
    assert "16 bytes of shared memory at 0x1" in found  # of the odd CTA
    assert "tcgen05.mma.cta_group::2.kind::f16" in found and "used the value" in found
    form = ALL["scaled, mxf4"]
    given = memory(form)
    given.stored[:, SCALE_A + 2 - A_COLUMN] = False
    product = Product(form)
    (found,) = product.launch(given, product.cells(rows=[70]) & (np.arange(N) == 9))[0]
    assert f"the instruction reads column {SCALE_A + 2} of tensor memory, not all of which was written" in found
    assert "kind::mxf4.block_scale" in found
