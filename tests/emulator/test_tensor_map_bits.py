"""Where hardware has the fields of a tensor map: the bits that CuTe DSL's host code and ptxas's code write."""

import json
from pathlib import Path

import pytest

from sglab import _core

tma = _core.tma
GOLDEN = Path(__file__).parent / "golden" / "tensor_maps.json"
MAPS = json.loads(GOLDEN.read_text())
IDS = [f"{len(one['global_dim'])}d-{index}" for index, one in enumerate(MAPS)]
TILED = ("data_type", "address", "global_dim", "global_strides", "box_dim", "element_strides")
IM2COL = (*TILED[:4], "lower_corner", "upper_corner", "channels_per_pixel", "pixels_per_column", "element_strides")

MASKS = {
    ("rank", 0): (0x8, 0x70),
    ("elemtype", 0): (0x8, 0x10780),
    ("interleave_layout", 0): (0x8, 0x1800),
    ("swizzle_mode", 0): (0x8, 0x406000),
    ("swizzle_atomicity", 0): (0x8, 0x380000),
    ("fill_mode", 0): (0x8, 0x8000),
    ("box_dim", 0): (0x34, 0xFF000000),
    ("box_dim", 1): (0x38, 0xFF),
    ("box_dim", 4): (0x38, 0xFF000000),
    ("element_stride", 0): (0x34, 0x7),
    ("element_stride", 1): (0x34, 0x38),
    ("element_stride", 4): (0x34, 0x7000),
    ("global_dim", 0): (0x20, 0xFFFFFFFF),
    ("global_dim", 4): (0x30, 0xFFFFFFFF),
}
"""Byte and mask of what `ptxas -arch=sm_100a` 13.0 loads, changes and stores for tensormap.replace of a field, read in
nvdisasm's listing of a kernel with nothing else in it. A global stride is stored at 0xc + 4i, its highest bits at
0x1c."""

ELEMENT_TYPES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 7 | 1 << 9, 8 | 1 << 9, 11, 12, 13]
"""tensormap.replace's number of a type to what ptxas sets from bit 7 on: tf32 is float32 with bit 16."""


def encoded(arguments: dict[str, object]) -> bytes:
    im2col = "lower_corner" in arguments
    names = IM2COL if im2col else TILED
    values = [{"address": 0, **arguments}[name] for name in names]
    options = {name: arguments[name] for name in ("swizzle", "l2_promotion")}
    return (tma.encode_im2col if im2col else tma.encode_tiled)(*values, **options)


@pytest.mark.parametrize("arguments", MAPS, ids=IDS)
def test_a_map_has_the_bits_that_cute_dsl_writes(arguments: dict[str, object]) -> None:
    words = [int.from_bytes(encoded(arguments)[8 * i : 8 * i + 8], "little") for i in range(16)]
    assert [f"{word:016x}" for word in words[:8]] == arguments["words"]
    assert not any(words[8:])


@pytest.mark.parametrize("arguments", MAPS, ids=IDS)
def test_what_follows_the_first_64_bytes_is_not_read(arguments: dict[str, object]) -> None:
    bits = encoded(arguments)
    assert tma.decode(bits[:64] + bytes(range(64))) == tma.decode(bits)


@pytest.mark.parametrize(("field", "ordinal"), MASKS)
@pytest.mark.parametrize("value", [1, 2])
def test_a_replaced_field_changes_the_bits_that_ptxas_changes(field: str, ordinal: int, value: int) -> None:
    value = 1 if field == "fill_mode" else value
    before = encoded({**MAPS[11], "swizzle": 3, "box_dim": [32, 16, 2, 3, 4]})
    after = tma.replace(before, field, value, ordinal)
    byte, mask = MASKS[field, ordinal]
    changed = int.from_bytes(before, "little") ^ int.from_bytes(after, "little")
    assert changed & ~(mask << 8 * byte) == 0
    kept = after[byte : byte + 4]
    less_one = field in {"box_dim", "global_dim", "element_stride"}
    stored = (int.from_bytes(kept, "little") & mask) // (mask & -mask)
    assert stored == {"elemtype": ELEMENT_TYPES[value]}.get(field, value - less_one)


@pytest.mark.parametrize("number", range(16))
def test_types_have_their_own_numbers(number: int) -> None:
    bits = tma.replace(encoded(MAPS[0]), "elemtype", number)
    assert int.from_bytes(bits[8:12], "little") >> 7 & 0x20F == ELEMENT_TYPES[number]


@pytest.mark.parametrize("ordinal", range(4))
def test_a_stride_is_kept_in_two_places(ordinal: int) -> None:
    before, stride = encoded(MAPS[11]), 0xAB_1234_5670
    after = tma.replace(before, "global_stride", stride, ordinal)
    assert int.from_bytes(after[12 + 4 * ordinal :][:4], "little") == stride >> 4 & 0xFFFFFFFF
    assert int.from_bytes(after[28:32], "little") >> 4 * ordinal & 15 == stride >> 36
    assert tma.decode(after)["global_strides"][ordinal] == stride
