"""Tiles in shared memory: canonical layouts against the emulator's descriptors, banks against its count."""

from __future__ import annotations

import numpy as np
import pytest

from sglab._core import tensor
from sglab.emulator.bank_conflicts import count_passes
from sglab.layouts import bank_use, shared_tile, tile_of
from sglab.layouts.fragments import BITS
from sglab.layouts.tiles import SPANS
from tests.support.emulator.cute_layouts import Operand


@pytest.mark.parametrize("swizzle", SPANS)
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_a_descriptor_addresses_the_chunks_of_the_tile(swizzle: str, mn_major: bool, bits: int) -> None:
    """Addresses that the emulator's tensor core would read for the same descriptor."""
    span, rows, size = 8 * SPANS[swizzle] // bits, 64, bits // 8
    if mn_major:
        rows, k = max(64, span), 16
    else:
        k = max(span, 2 * 128 // bits if swizzle == "none" else span)
    layout = shared_tile(swizzle, rows, k, bits, mn_major=mn_major)
    operand = Operand(rows, k, size, swizzle, mn_major)
    per = 16 // size
    chunks = tensor.chunk_addresses(operand.descriptor(0), mn_major, k if mn_major else rows,
                                    (rows if mn_major else k) // per)  # fmt: skip
    for line in range(chunks.shape[0]):
        for chunk in range(chunks.shape[1]):
            row, column = (chunk * per, line) if mn_major else (line, chunk * per)
            assert layout((row, column)) * size == chunks[line, chunk]


@pytest.mark.parametrize("order", ["rows", "columns"])
@pytest.mark.parametrize("text", ["(32,32):(32,1)", "(32,32):(33,1)", "(32,32):(1,32)", "Sw<3,3,3> o (64,64):(64,1)"])
@pytest.mark.parametrize("lane_bytes", [4, 8, 16])
@pytest.mark.parametrize("element", ["f16", "f32", "s8"])
def test_passes_are_the_emulators(order: str, text: str, lane_bytes: int, element: str) -> None:
    tile = tile_of(text, element, order, lane_bytes)
    nbytes = tile.lane_bytes
    for number, use in enumerate(tile.uses):
        addresses = np.zeros((1, 32), np.int64)
        mine = tile.group == number
        for lane in set(tile.lane[mine].tolist()):
            addresses[0, lane] = tile.place[mine & (tile.lane == lane)].min() * BITS[element] // 8
        mask = np.array([sum(1 << lane for lane in set(tile.lane[mine].tolist()))])
        passes, least = count_passes(addresses, mask, nbytes)
        assert (use.passes, use.least) == (int(passes[0]), int(least[0]))


def test_a_swizzle_takes_the_conflicts_of_reading_down_a_column_away() -> None:
    plain, swizzled = tile_of(shared_tile("none", 64, 64)), tile_of(shared_tile("128B", 64, 64))
    rows = tile_of("(64,64):(64,1)")
    assert [sum(use.passes for use in tile.uses) for tile in (plain, swizzled, rows)] == [64, 64, 512]
    assert "bank conflicts of 8 ways" in rows.steps[0] and "no bank conflict" in swizzled.steps[0]


def test_every_element_has_its_place_and_its_lane() -> None:
    tile = tile_of("Sw<2,3,3> o (16,32):(32,1)", "f16", "columns", 16)
    assert sorted(tile.place.tolist()) == list(range(512))
    assert (tile.rows, tile.columns, tile.place_rows, tile.place_columns) == (16, 32, 8, 64)
    for number in range(len(tile.uses)):
        lanes, counts = np.unique(tile.lane[tile.group == number], return_counts=True)
        assert lanes.tolist() == list(range(32)) and set(counts) == {8}


def test_a_lane_takes_no_more_than_is_contiguous() -> None:
    assert tile_of("(8,8):(3,24)", "f16", "rows", 16).lane_bytes == 2
    assert tile_of("(8,(2,4)):(2,(1,16))", "f16", "rows", 16).lane_bytes == 4
    assert "1 pass through the banks" in tile_of("(8,8)", "f16", "rows", 16).said
    assert "no 16 are contiguous" in tile_of("(8,8):(3,24)", "f16", "rows", 16).said
    assert tile_of("7:1", "f64", "rows", 4).lane_bytes == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("8:1", "f17"), "element: expected one of"),
        (("8:1", "f16", "diagonal"), "order: expected one of rows, columns"),
        (("8:1", "f16", "rows", 5), "lane_bytes: expected 4, 8 or 16, got 5"),
        (("(256,256):(256,1)",), "65,536 elements"),
        (("2:1000000",), "shared memory has 228 KiB"),
    ],
)
def test_what_cannot_be_shown_is_said(arguments: tuple, said: str) -> None:
    with pytest.raises(ValueError) as raised:
        tile_of(*arguments)
    assert said in str(raised.value)


def test_bad_tiles_and_accesses_are_named() -> None:
    with pytest.raises(ValueError, match="swizzle: expected one of none, 32B, 64B, 128B, got '256B'"):
        shared_tile("256B", 64, 64)
    with pytest.raises(ValueError, match="k: expected a multiple of 64"):
        shared_tile("128B", 64, 32)
    with pytest.raises(ValueError, match="element_bits"):
        shared_tile("128B", 64, 64, 12)
    with pytest.raises(ValueError, match="at most 32"):
        bank_use(range(33), 4)
    with pytest.raises(ValueError, match="1 to 16 bytes"):
        bank_use([0], 32)


def test_a_swizzle_of_byte_addresses_is_told_from_one_of_elements() -> None:
    """What CuTe prints before a pointer, typed without the pointer, would leave bank conflicts."""
    told = tile_of("Sw<3,4,3> o (8,64):(64,1)").said
    assert "permutes elements, here 32 bytes at a time" in told and "it is Sw<3,3,3> for elements of 16 bits" in told
    for text, element in (("Sw<3,3,3> o (8,64):(64,1)", "f16"), ("Sw<3,4,3> o (8,128):(128,1)", "e4m3")):
        assert "permutes elements" not in tile_of(text, element).said
    pasted = tile_of("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)")
    assert sum(use.passes for use in pasted.uses) == sum(use.least for use in pasted.uses)


def test_one_byte_is_no_bytes() -> None:
    tile = tile_of("(5,7):(7,1)", "s4")
    assert "1 byte a lane" in tile.said and "3 lanes of 1 byte in 1 phase" in tile.steps[-1]
