"""Tensor maps and box copies: numpy slicing with padding, and the ISA's printed swizzle tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sglab._core import tma

U8, U16, U32, S32, U64, S64, F16, F32, F64, BF16, F32_FTZ, TF32, TF32_FTZ, B4, B4P, B6P = range(16)
NUMPY = {U8: np.uint8, U16: np.uint16, U32: np.uint32, S32: np.int32, U64: np.uint64, F16: np.float16, F32: np.float32}
BASE = 0x7000_0000_0000


def tensor_map(data_type: int, shape: tuple[int, ...], box: tuple[int, ...], **options: object) -> bytes:
    """A map of a dense C-order array; `shape` and `box` outermost first, as numpy's."""
    size = {U8: 1, U16: 2, F16: 2, BF16: 2, U64: 8, S64: 8, F64: 8}.get(data_type, 4)
    dims = list(reversed(shape))
    strides = [size * math.prod(dims[: i + 1]) for i in range(len(dims) - 1)]
    steps = options.pop("element_strides", [1] * len(dims))
    return tma.encode_tiled(data_type, BASE, dims, strides, list(reversed(box)), steps, **options)


def padded_box(array: np.ndarray, start: tuple[int, ...], box: tuple[int, ...], fill: object = 0) -> np.ndarray:
    """array[start : start + box] with what is outside filled in."""
    out = np.full(box, fill, array.dtype)
    for index in np.ndindex(*box):
        at = tuple(s + i for s, i in zip(start, index, strict=True))
        if all(0 <= a < n for a, n in zip(at, array.shape, strict=True)):
            out[index] = array[at]
    return out


# The ISA's tables: row r of the pattern lists which 16-byte piece of the row is at each place.
TABLES = {
    1: ["01234567", "10325476"],
    2: ["01234567", "10325476", "23016745", "32107654"],
    3: ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
    4: ["01234567", "23016745", "45670123", "67452301"],
    6: ["01234567", "45670123"],
}


@pytest.mark.parametrize("mode", list(TABLES))
def test_swizzles_are_the_printed_tables(mode: int) -> None:
    for line in range(16):
        row = TABLES[mode][line % len(TABLES[mode])]
        for place, piece in enumerate(row):
            source = 128 * line + 16 * int(piece)
            assert tma.swizzle_address(mode, source) == 128 * line + 16 * place


def test_the_8_byte_flip_exchanges_halves_on_every_other_line() -> None:
    for address in range(0, 2048, 8):
        flipped = tma.swizzle_address(4, address) ^ (8 if address // 128 % 2 else 0)
        assert tma.swizzle_address(5, address) == flipped


@pytest.mark.parametrize(
    ("shape", "box"),
    [((100,), (64,)), ((40, 64), (16, 32)), ((9, 20, 32), (3, 5, 16)), ((4, 5, 6, 16), (2, 3, 4, 8)),
     ((3, 4, 5, 3, 16), (2, 2, 2, 2, 16))],
)  # fmt: skip
@pytest.mark.parametrize("data_type", [U16, F32])
def test_boxes_load_with_zeros_outside(data_type: int, shape: tuple[int, ...], box: tuple[int, ...]) -> None:
    rng = np.random.default_rng()
    shape = (*shape[:-1], shape[-1] // 8 * 8)
    array = rng.integers(1, 1000, shape).astype(NUMPY[data_type])
    bits = tensor_map(data_type, shape, box)
    for _ in range(6):
        start = tuple(int(rng.integers(-b, n + 1)) for b, n in zip(box, shape, strict=True))
        smem = np.full(1 << 16, 0xEE, np.uint8)
        tma.copy_box("load", bits, list(reversed(start)), array.view(np.uint8).reshape(-1), BASE, smem, 1024)
        want = padded_box(array, start, box)
        size = want.nbytes
        assert tma.box_bytes(bits) == size
        np.testing.assert_array_equal(smem[1024 : 1024 + size].view(array.dtype).reshape(box), want)
        assert np.all(smem[:1024] == 0xEE) and np.all(smem[1024 + size :] == 0xEE)


@pytest.mark.parametrize("mode", [1, 2, 3, 4, 5, 6])
def test_swizzled_boxes_load_and_store(mode: int) -> None:
    rng = np.random.default_rng()
    inner = {1: 16, 2: 32}.get(mode, 64)
    array = rng.integers(0, 1 << 16, (40, 96), dtype=np.uint16)
    bits = tensor_map(U16, (40, 96), (24, inner), swizzle=mode)
    start = (5, 8)
    smem = np.zeros(1 << 14, np.uint8)
    tma.copy_box("load", bits, [start[1], start[0]], array.view(np.uint8).reshape(-1), BASE, smem, 2048)
    box = padded_box(array, start, (24, inner)).view(np.uint8).reshape(-1)
    at = [tma.swizzle_address(mode, 2048 + i) for i in range(box.size)]
    np.testing.assert_array_equal(smem[at], box)
    if mode == 5:  # the flip exists for loads only
        return
    out = np.zeros_like(array)
    tma.copy_box("store", bits, [start[1], start[0]], out.view(np.uint8).reshape(-1), BASE, smem, 2048)
    want = np.zeros_like(array)
    want[5:29, 8 : 8 + inner] = array[5:29, 8 : 8 + inner]
    np.testing.assert_array_equal(out, want)


def test_element_strides_skip_rows() -> None:
    rng = np.random.default_rng()
    array = rng.integers(0, 255, (64, 64), dtype=np.uint8)
    bits = tensor_map(U8, (64, 64), (16, 32), element_strides=[1, 3])
    smem = np.zeros(4096, np.uint8)
    tma.copy_box("load", bits, [16, 2], array.reshape(-1), BASE, smem, 0)
    assert tma.box_bytes(bits) == 6 * 32
    np.testing.assert_array_equal(smem[: 6 * 32].reshape(6, 32), array[2:20:3, 16:48])


def test_nan_fill() -> None:
    array = np.ones((8, 16), np.float16)
    bits = tensor_map(F16, (8, 16), (8, 16), oob_fill=1)
    smem = np.zeros(4096, np.uint8)
    tma.copy_box("load", bits, [8, 4], array.view(np.uint8).reshape(-1), BASE, smem, 0)
    got = smem[:256].view(np.float16).reshape(8, 16)
    want = np.full((8, 16), np.nan, np.float16)
    want[:4, :8] = 1
    np.testing.assert_array_equal(got, want)


def test_stores_drop_what_is_outside() -> None:
    rng = np.random.default_rng()
    bits = tensor_map(F32, (10, 12), (8, 8))
    box = rng.normal(size=(8, 8)).astype(np.float32)
    smem = np.zeros(1024, np.uint8)
    smem[:256] = box.view(np.uint8).reshape(-1)
    out = np.zeros((10, 12), np.float32)
    tma.copy_box("store", bits, [-3, 6], out.view(np.uint8).reshape(-1), BASE, smem, 0)
    want = np.zeros_like(out)
    want[6:10, 0:5] = box[0:4, 3:8]
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize(
    ("data_type", "op"),
    [(U32, "add"), (S32, "min"), (S32, "max"), (U32, "inc"), (U32, "dec"), (U64, "and"), (U32, "or"), (U32, "xor"),
     (F32, "add"), (F16, "add"), (F16, "min"), (F16, "max")],
)  # fmt: skip
def test_reductions(data_type: int, op: str) -> None:
    rng = np.random.default_rng()
    dtype = NUMPY[data_type]
    box, out = (rng.integers(0, 100, (4, 16)).astype(dtype) for _ in range(2))
    bits = tensor_map(data_type, (4, 16), (4, 16))
    smem = np.zeros(1024, np.uint8)
    smem[: box.nbytes] = box.view(np.uint8).reshape(-1)
    old = out.copy()
    tma.copy_box("reduce", bits, [0, 0], out.view(np.uint8).reshape(-1), BASE, smem, 0, op=op)
    want = {
        "add": lambda: old + box,
        "min": lambda: np.minimum(old, box),
        "max": lambda: np.maximum(old, box),
        "inc": lambda: np.where(old >= box, 0, old + 1),
        "dec": lambda: np.where((old == 0) | (old > box), box, old - 1),
        "and": lambda: old & box,
        "or": lambda: old | box,
        "xor": lambda: old ^ box,
    }[op]()
    np.testing.assert_array_equal(out, want.astype(dtype))


@pytest.mark.parametrize(("data_type", "op"), [(F32, "max"), (F16, "xor"), (S32, "inc"), (U16, "add")])
def test_reductions_that_do_not_exist_are_refused(data_type: int, op: str) -> None:
    bits = tensor_map(data_type, (4, 16), (4, 16))
    with pytest.raises(ValueError, match=r"cp\.reduce"):
        tma.copy_box("reduce", bits, [0, 0], np.zeros(1024, np.uint8), BASE, np.zeros(1024, np.uint8), 0, op=op)


def test_gather_and_scatter_take_four_rows() -> None:
    rng = np.random.default_rng()
    array = rng.integers(0, 1 << 16, (20, 64), dtype=np.uint16)
    bits = tensor_map(U16, (20, 64), (1, 32))
    smem = np.zeros(1024, np.uint8)
    rows = [7, 0, 25, 19]
    tma.copy_box("load", bits, [8, *rows], array.view(np.uint8).reshape(-1), BASE, smem, 0, gather=True)
    want = np.stack([array[r, 8:40] if r < 20 else np.zeros(32, np.uint16) for r in rows])
    np.testing.assert_array_equal(smem[:256].view(np.uint16).reshape(4, 32), want)
    out = np.zeros_like(array)
    tma.copy_box("store", bits, [8, *rows], out.view(np.uint8).reshape(-1), BASE, smem, 0, gather=True)
    for i, row in enumerate(rows):
        if row < 20:
            np.testing.assert_array_equal(out[row, 8:40], want[i])


@pytest.mark.parametrize(("data_type", "bits"), [(B4P, 4), (B6P, 6)])
def test_sub_byte_elements_are_padded_on_the_way_in(data_type: int, bits: int) -> None:
    rng = np.random.default_rng()
    data = rng.integers(0, 256, (4, 256 * bits // 8), dtype=np.uint8)
    encoded = tma.encode_tiled(data_type, BASE, [256, 4], [data.shape[1]], [128, 4], [1, 1])
    smem = np.zeros(1024, np.uint8)
    tma.copy_box("load", encoded, [128, 0], data.reshape(-1), BASE, smem, 0)
    got = smem[:512].reshape(4, 8, 16)
    want = data[:, 128 * bits // 8 :].reshape(4, 8, 2 * bits)
    np.testing.assert_array_equal(got[:, :, : 2 * bits], want)


def test_map_is_readable_and_survives_cutlass_edit() -> None:
    bits = tensor_map(F16, (30, 128), (64, 64), swizzle=3, l2_promotion=2)
    assert len(bits) == 128
    word = int.from_bytes(bits[8:16], "little") & ~(1 << 21)  # what CUTLASS does to small tensors
    fields = tma.decode(bits[:8] + word.to_bytes(8, "little") + bits[16:])
    assert fields == tma.decode(bits)
    want = {"type": "f16", "address": BASE, "global_dim": [128, 30], "global_strides": [256], "box_dim": [64, 64]}
    assert want.items() <= fields.items()
    assert fields["swizzle"] == "128B"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address": BASE + 8}, "globalAddress"),
        ({"global_dim": [0, 32]}, r"globalDim\[0\]"),
        ({"global_strides": [72]}, r"globalStrides\[0\]"),
        ({"global_strides": [1 << 40]}, r"globalStrides\[0\]"),
        ({"box_dim": [64, 257]}, r"boxDim\[1\]"),
        ({"box_dim": [0, 8]}, r"boxDim\[0\]"),
        ({"box_dim": [4, 8]}, "multiple of 16"),
        ({"box_dim": [64, 8], "swizzle": 2}, "swizzle 64B"),
        ({"element_strides": [1, 9]}, r"elementStrides\[1\]"),
        ({"element_strides": [1, 0]}, r"elementStrides\[1\]"),
        ({"oob_fill": 1, "data_type": U16}, "NaN"),
        ({"interleave": 1}, "rank of at least 3"),
        ({"data_type": 16}, "tensorDataType"),
        ({"swizzle": 7}, "swizzle"),
        ({"global_strides": []}, "globalStrides"),
        ({"box_dim": [64, -8]}, "boxDim"),
    ],
)
def test_what_the_driver_refuses_is_refused(change: dict, message: str) -> None:
    good = {
        "data_type": F16, "address": BASE, "global_dim": [64, 32], "global_strides": [128], "box_dim": [64, 8],
        "element_strides": [1, 1], "swizzle": 3,
    }  # fmt: skip
    tma.encode_tiled(**good)
    with pytest.raises(tma.TensorMapError, match=message):
        tma.encode_tiled(**(good | change))


def test_bytes_that_are_no_map_are_refused() -> None:
    with pytest.raises(tma.TensorMapError, match="not a tensor map"):
        tma.decode(bytes(128))


def test_misplaced_boxes_are_refused() -> None:
    bits = tensor_map(F32, (8, 8), (8, 8))
    memory = np.zeros(256, np.uint8)
    with pytest.raises(ValueError, match="aligned to 128"):
        tma.copy_box("load", bits, [0, 0], memory, BASE, np.zeros(1024, np.uint8), 64)
    with pytest.raises(ValueError, match="leave the CTA"):
        tma.copy_box("load", bits, [0, 0], memory, BASE, np.zeros(1024, np.uint8), 896)
    with pytest.raises(IndexError, match="global access"):
        tma.copy_box("load", bits, [0, 0], memory, BASE + 64, np.zeros(1024, np.uint8), 0)


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "key", "want"),
    [
        ("global_address", 0, BASE + 4096, "address", BASE + 4096),
        ("global_dim", 1, 77, "global_dim", [64, 77]),
        ("global_stride", 0, 256, "global_strides", [256]),
        ("box_dim", 1, 16, "box_dim", [64, 16]),
        ("element_stride", 1, 2, "element_strides", [1, 2]),
        ("elemtype", 0, 10, "type", "bf16"),
        ("swizzle_mode", 0, 1, "swizzle", "32B"),
        ("swizzle_atomicity", 0, 1, "swizzle", "128B_atom_32B"),
        ("fill_mode", 0, 1, "nan_fill", True),
    ],
)
def test_tensormap_replace(field: str, ordinal: int, value: int, key: str, want: object) -> None:
    bits = tma.encode_tiled(F16, BASE, [64, 32], [128], [64, 8], [1, 1], swizzle=3)
    before = tma.decode(bits)
    after = tma.decode(tma.replace(bits, field, value, ordinal))
    assert after == before | {key: want}


def test_replaced_rank_counts_from_zero() -> None:
    bits = tma.encode_tiled(F16, BASE, [64, 32], [128], [64, 8], [1, 1])
    assert tma.decode(tma.replace(bits, "rank", 0))["global_dim"] == [64]
    with pytest.raises(tma.TensorMapError, match="rank"):
        tma.replace(bits, "rank", 5)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("tap", [(0, 0), (2, 1)])
def test_im2col_walks_the_pixels_of_a_filter_tap(stride: int, tap: tuple[int, int]) -> None:
    rng = np.random.default_rng()
    images, height, width, channels, pixels, pad, reach = 2, 5, 7, 16, 20, 1, 3
    array = rng.normal(size=(images, height, width, channels)).astype(np.float32)
    encoded = tma.encode_im2col(
        F32, BASE, [channels, width, height, images], [64, 64 * width, 64 * width * height],
        [-pad, -pad], [pad - (reach - 1)] * 2, channels, pixels, [1, stride, stride, 1],
    )  # fmt: skip
    assert tma.box_bytes(encoded) == 4 * channels * pixels
    smem = np.zeros(4 * channels * pixels, np.uint8)
    where = [0, -pad + stride, -pad, 0]  # the second output pixel of the first image
    memory = array.view(np.uint8).reshape(-1)
    tma.copy_box("load", encoded, where, memory, BASE, smem, im2col_offsets=list(tap))
    padded = np.pad(array, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taps = [
        padded[n, y + tap[1], x + tap[0]]
        for n in range(images)
        for y in range(0, height + 2 * pad - reach + 1, stride)
        for x in range(0, width + 2 * pad - reach + 1, stride)
    ]
    want = np.zeros((pixels, channels), np.float32)
    want[: len(taps) - 1] = taps[1 : pixels + 1]
    np.testing.assert_array_equal(smem.view(np.float32).reshape(pixels, channels), want)


def wide_pixels(
    array: np.ndarray,
    first: tuple[int, int, int],
    box: tuple[int, int],
    stride: int,
    halo: int,
    offset: int,
    count: int,
) -> np.ndarray:
    """What im2col::w loads, by the ISA's text: a walk along W inside the moved box, on into the next image, at one H.

    first: (w, h, n); box: the corners; count: pixels, 0 for the 128 of im2col::w::128 with their four halos.
    """
    images, _, width, channels = array.shape

    def walk(steps: int) -> list[tuple[int, int]]:
        w, n, places = first[0] + offset, first[2], []
        for _ in range(steps):
            places.append((w, n))
            w += stride
            if w > width - 1 + box[1] + offset:
                w, n = box[0] + offset, n + 1
        return places

    if count:
        places = walk(count + halo)
    else:
        all_places = walk(128 + halo)
        groups = [all_places[32 * (g + 1) : 32 * (g + 1) + halo] for g in range(4)]
        places = all_places[:128] + [groups[g][h] for h in range(halo) for g in range(4)]
    rows = np.zeros((len(places), channels), array.dtype)
    for row, (w, n) in enumerate(places):
        if 0 <= w < width and n < images:
            rows[row] = array[n, first[1], w]
    return rows


def unswizzled(smem: np.ndarray, rows: int, pitch: int, swizzle: int) -> np.ndarray:
    at = np.arange(rows * pitch, dtype=np.int64)
    mask, shift = {2: (0x30, 3), 3: (0x70, 3), 4: (0x60, 2)}[swizzle]
    return smem[at ^ (at >> shift & mask)]


@pytest.mark.parametrize(("halo", "offset"), [(0, 0), (2, 0), (1, 1), (0, 2), (3, 2)])
@pytest.mark.parametrize(("stride", "box"), [(1, (0, 0)), (2, (-1, 0)), (3, (-1, -1))])
@pytest.mark.parametrize("pixels", [37, 0])
def test_im2col_w_walks_one_row_of_every_image(
    pixels: int, stride: int, box: tuple[int, int], halo: int, offset: int
) -> None:
    rng = np.random.default_rng()
    images, height, width, channels = 24, 3, 9, 16
    array = rng.normal(size=(images, height, width, channels)).astype(np.float32)
    encoded = tma.encode_im2col(
        F32, BASE, [channels, width, height, images], [64, 64 * width, 64 * width * height],
        [box[0]], [box[1]], channels, pixels, [1, stride, 1, 1], swizzle=2, wide_mode=int(pixels == 0),
    )  # fmt: skip
    first = (box[0] + stride, 1, 2)
    want = wide_pixels(array, first, box, stride, halo, offset, pixels)
    assert tma.box_bytes(encoded, halo=halo) == want.nbytes
    smem = np.full(-(-want.nbytes // 64) * 64, 0xEE, np.uint8)
    memory = array.view(np.uint8).reshape(-1)
    tma.copy_box("load", encoded, [0, *first], memory, BASE, smem, im2col_offsets=[halo, offset])
    got = unswizzled(smem, len(want), 64, 2).view(np.float32).reshape(want.shape)
    np.testing.assert_array_equal(got, want)


def test_im2col_w_begins_in_its_box_or_to_its_left() -> None:
    array = np.zeros((2, 2, 8, 16), np.float32)
    encoded = tma.encode_im2col(
        F32, BASE, [16, 8, 2, 2], [64, 512, 1024], [-2], [-2], 16, 8, [1, 1, 1, 1], swizzle=2, wide_mode=0
    )
    for w, halo, offset, message in (
        (6, 0, 0, "right of the box"),
        (0, 512, 0, "at most 511 and 31"),
        (0, 0, 32, "at most 511 and 31"),
    ):
        with pytest.raises(tma.TensorMapError, match=message):
            tma.copy_box("load", encoded, [0, w, 0, 0], array.view(np.uint8).reshape(-1), BASE,
                         np.zeros(2**16, np.uint8), im2col_offsets=[halo, offset])  # fmt: skip
    smem = np.zeros(512, np.uint8)
    tma.copy_box("load", encoded, [0, -5, 0, 0], array.view(np.uint8).reshape(-1), BASE, smem, im2col_offsets=[0, 0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"swizzle": 0}, "needs swizzle"),
        ({"swizzle": 1}, "needs swizzle"),
        ({"swizzle": 5}, "needs swizzle"),
        ({"lower_corner": [3], "upper_corner": [-6]}, "is empty"),
        ({"lower_corner": [0, 0]}, "wide ones a single one"),
        ({"pixels_per_column": 0}, "pixelsPerColumn"),
        ({"wide_mode": 2}, "mode must be 0 or 1"),
    ],
)
def test_wide_maps_that_the_driver_refuses(changes: dict[str, object], message: str) -> None:
    options = {"lower_corner": [0], "upper_corner": [0], "pixels_per_column": 8, "swizzle": 2, "wide_mode": 0}
    with pytest.raises(tma.TensorMapError, match=message):
        tma.encode_im2col(
            F32, BASE, [16, 8, 2, 2], [64, 512, 1024], channels_per_pixel=16, element_strides=[1, 1, 1, 1],
            **options | changes,
        )  # fmt: skip


@pytest.mark.parametrize(("wide_mode", "pixels"), [(0, 8), (1, 128)])
def test_a_wide_map_serves_no_gather(wide_mode: int, pixels: int) -> None:
    encoded = tma.encode_im2col(
        F32, BASE, [16, 8, 2, 2], [64, 512, 1024], [0], [0], 16, 8, [1, 1, 1, 1], swizzle=2, wide_mode=wide_mode
    )
    assert tma.box_bytes(encoded) == 64 * pixels
    memory, smem = np.zeros(2**12, np.uint8), np.zeros(2**14, np.uint8)
    with pytest.raises(tma.TensorMapError, match="mode and the tensor map's differ"):
        tma.copy_box("load", encoded, [0] * 5, memory, BASE, smem, gather=True)
