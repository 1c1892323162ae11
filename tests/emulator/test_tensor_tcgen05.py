"""tcgen05.mma on bytes: operands in every canonical layout, every kind, every data path, against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from sglab._core import tensor
from tests.support.emulator.cute_layouts import Operand
from tests.support.emulator.tcgen05 import A_CODE, idesc
from tests.support.emulator.tensor_formats import decode_small, finite_codes, random_raw, values_of

KIND = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "u8": "i8", "s8": "i8"}
BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32}
DOT_SMEM = 1 << 17


def unpack_d(cells: list[np.ndarray], m: int, n: int, column: int, lane: int = 0, **layout: object) -> np.ndarray:
    """D as an (m, n) array of raw words, from tensor memory [column][lane]."""
    d = np.zeros((m, n), np.uint32)
    for cta, first, row, rows, start, count in tensor.datapath(m, n, cta_group=len(cells), **layout):
        d[row : row + rows, start : start + count] = cells[cta][
            column : column + count, lane + first : lane + first + rows
        ].T
    return d


def pack_d(cells: list[np.ndarray], d: np.ndarray, column: int, lane: int = 0, **layout: object) -> None:
    m, n = d.shape
    for cta, first, row, rows, start, count in tensor.datapath(m, n, cta_group=len(cells), **layout):
        cells[cta][column : column + count, lane + first : lane + first + rows] = d[
            row : row + rows, start : start + count
        ].T


def fresh_tmem(rng: np.random.Generator, ctas: int) -> list[np.ndarray]:
    return [rng.integers(0, 1 << 32, (512, 128), dtype=np.uint32) for _ in range(ctas)]


class Problem:
    """One MMA with operands in shared memory: builds the bytes, runs it, says what D should be."""

    def __init__(self, rng, a, b, m, n, ctas=1, swizzles=("128B", "128B"), majors=(False, False), small=True):
        self.kind = KIND.get(a, "f8f6f4")
        self.k = K[self.kind]
        self.a_raw = random_raw(rng, a, (m, self.k), small)
        self.b_raw = random_raw(rng, b, (n, self.k), small)
        self.product = values_of(a, self.a_raw) @ values_of(b, self.b_raw).T
        size = BYTES.get(a, 1)
        layout_a = Operand(m // ctas, self.k, size, swizzles[0], majors[0])
        layout_b = Operand(n // ctas, self.k, size, swizzles[1], majors[1])
        self.smem = [np.full(DOT_SMEM, 0xEE, np.uint8) for _ in range(ctas)]
        for cta in range(ctas):
            layout_a.place(self.smem[cta], 2048, self.a_raw[cta * m // ctas : (cta + 1) * m // ctas])
            layout_b.place(self.smem[cta], 1 << 16, self.b_raw[cta * n // ctas : (cta + 1) * n // ctas])
        self.descriptors = {"a_desc": layout_a.descriptor(2048), "b_desc": layout_b.descriptor(1 << 16)}


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("a_mn", [False, True])
@pytest.mark.parametrize("b_mn", [False, True])
@pytest.mark.parametrize("name", ["f16", "bf16", "e4m3"])
def test_small_integers_are_exact_in_every_layout(name: str, swizzle: str, a_mn: bool, b_mn: bool) -> None:
    rng = np.random.default_rng()
    p = Problem(rng, name, name, 128, 64 if name != "e4m3" else 128, swizzles=(swizzle, swizzle), majors=(a_mn, b_mn))
    n = p.b_raw.shape[0]
    tmem = fresh_tmem(rng, 1)
    old = rng.integers(-8, 9, (128, n)).astype(np.float32)
    pack_d(tmem, old.view(np.uint32), 32)
    untouched = tmem[0].copy()
    tensor.tcgen05_mma(
        p.kind, idesc(name, name, "f32", 128, n, a_mn=a_mn, b_mn=b_mn), p.smem, tmem, 32, **p.descriptors
    )
    np.testing.assert_array_equal(unpack_d(tmem, 128, n, 32).view(np.float32), p.product + old)
    untouched[32 : 32 + n] = tmem[0][32 : 32 + n]
    np.testing.assert_array_equal(tmem[0], untouched)


@pytest.mark.parametrize("mn", [False, True])
def test_tf32(mn: bool) -> None:
    rng = np.random.default_rng()
    swizzle = "128B_atom_32B" if mn else "128B"
    p = Problem(rng, "tf32", "tf32", 128, 96, swizzles=(swizzle, swizzle), majors=(mn, mn))
    tmem = fresh_tmem(rng, 1)
    tensor.tcgen05_mma(
        "tf32",
        idesc("tf32", "tf32", "f32", 128, 96, a_mn=mn, b_mn=mn),
        p.smem,
        tmem,
        0,
        enable_input_d=False,
        **p.descriptors,
    )
    np.testing.assert_array_equal(unpack_d(tmem, 128, 96, 0).view(np.float32), p.product)


@pytest.mark.parametrize(
    ("m", "n", "ctas", "ws", "lane"),
    [
        (128, 256, 1, False, 0),
        (64, 40, 1, False, 0),
        (64, 40, 1, False, 16),
        (128, 128, 2, False, 0),
        (256, 112, 2, False, 0),
        (32, 128, 1, True, 0),
        (64, 64, 1, True, 0),
        (128, 64, 1, True, 0),
    ],
)
def test_every_data_path_layout(m: int, n: int, ctas: int, ws: bool, lane: int) -> None:
    rng = np.random.default_rng()
    p = Problem(rng, "f16", "f16", m, n, ctas)
    tmem = fresh_tmem(rng, ctas)
    old = rng.integers(-8, 9, (m, n)).astype(np.float32)
    pack_d(tmem, old.view(np.uint32), 64, lane, weight_stationary=ws)
    before = [cells.copy() for cells in tmem]
    tensor.tcgen05_mma(
        "f16", idesc("f16", "f16", "f32", m, n), p.smem, tmem, lane << 16 | 64, weight_stationary=ws, **p.descriptors
    )
    got = unpack_d(tmem, m, n, 64, lane, weight_stationary=ws).view(np.float32)
    np.testing.assert_array_equal(got, p.product + old)
    pack_d(tmem, old.view(np.uint32), 64, lane, weight_stationary=ws)
    for cells, was in zip(tmem, before, strict=True):
        np.testing.assert_array_equal(cells, was)


def test_cta_pair_at_m_128_splits_columns_over_lane_halves() -> None:
    """Lanes 0-63 of each CTA hold its 64 rows of columns 0 … N/2-1, lanes 64-127 the rest."""
    blocks = tensor.datapath(128, 128, cta_group=2)
    assert blocks == [(0, 0, 0, 64, 0, 64), (0, 64, 0, 64, 64, 64), (1, 0, 64, 64, 0, 64), (1, 64, 64, 64, 64, 64)]


@pytest.mark.parametrize(("a", "b"), [(a, b) for kind in (("e4m3", "e5m2"), ("s8", "u8")) for a in kind for b in kind])
def test_eight_bit_types_mix(a: str, b: str) -> None:
    rng = np.random.default_rng()
    p = Problem(rng, a, b, 128, 64)
    d = "s32" if a in "s8u8" else "f32"
    tmem = fresh_tmem(rng, 1)
    tensor.tcgen05_mma(p.kind, idesc(a, b, d, 128, 64), p.smem, tmem, 0, enable_input_d=False, **p.descriptors)
    got = unpack_d(tmem, 128, 64, 0).view(np.int32 if d == "s32" else np.float32)
    np.testing.assert_array_equal(got, p.product)


def test_integer_accumulators_wrap_or_saturate() -> None:
    rng = np.random.default_rng()
    p = Problem(rng, "u8", "u8", 128, 16)
    for saturate in (0, 1):
        tmem = fresh_tmem(rng, 1)
        old = np.full((128, 16), 2**31 - 1000, np.int64)
        pack_d(tmem, old.astype(np.int32).view(np.uint32), 0)
        tensor.tcgen05_mma("i8", idesc("u8", "u8", "s32", 128, 16, saturate=saturate), p.smem, tmem, 0, **p.descriptors)
        total = old + p.product.astype(np.int64)
        want = np.minimum(total, 2**31 - 1) if saturate else (total + 2**31) % 2**32 - 2**31
        np.testing.assert_array_equal(unpack_d(tmem, 128, 16, 0).view(np.int32), want)


@pytest.mark.parametrize("name", ["f16", "bf16", "tf32", "e4m3"])
def test_random_floats_stay_within_the_accumulation_error(name: str) -> None:
    rng = np.random.default_rng()
    p = Problem(rng, name, name, 128, 128, small=False)
    tmem = fresh_tmem(rng, 1)
    tensor.tcgen05_mma(
        p.kind, idesc(name, name, "f32", 128, 128), p.smem, tmem, 0, enable_input_d=False, **p.descriptors
    )
    got = unpack_d(tmem, 128, 128, 0).view(np.float32).astype(np.float64)
    bound = np.abs(values_of(name, p.a_raw)) @ np.abs(values_of(name, p.b_raw)).T * p.k * 2.0**-24
    assert np.all(np.abs(got - p.product) <= bound)


def test_f16_accumulators_round_once_per_instruction() -> None:
    rng = np.random.default_rng()
    p = Problem(rng, "f16", "f16", 128, 32, small=False)
    tmem = fresh_tmem(rng, 1)
    old = rng.normal(size=(128, 32)).astype(np.float16)
    pack_d(tmem, old.view(np.uint16).astype(np.uint32), 0)
    tensor.tcgen05_mma("f16", idesc("f16", "f16", "f16", 128, 32), p.smem, tmem, 0, **p.descriptors)
    raw = unpack_d(tmem, 128, 32, 0)
    assert raw.max() < 1 << 16
    got = raw.astype(np.uint16).view(np.float16).astype(np.float64)
    want = p.product + old.astype(np.float64)
    np.testing.assert_allclose(got, want, rtol=2**-10.9, atol=1e-6)


def test_negation_scaling_and_disabled_lanes() -> None:
    rng = np.random.default_rng()
    p = Problem(rng, "f16", "f16", 128, 64)
    tmem = fresh_tmem(rng, 1)
    old = rng.integers(-64, 65, (128, 64)).astype(np.float32) * 8
    pack_d(tmem, old.view(np.uint32), 0)
    disabled = rng.integers(0, 1 << 32, 4, dtype=np.uint64)
    tensor.tcgen05_mma(
        "f16",
        idesc("f16", "f16", "f32", 128, 64, negate_a=1),
        p.smem,
        tmem,
        0,
        scale_input_d=3,
        disabled_lanes=[int(x) for x in disabled],
        **p.descriptors,
    )
    off = np.array([disabled[lane // 32] >> np.uint64(lane % 32) & np.uint64(1) for lane in range(128)], bool)
    want = np.where(off[:, None], old, old / 8 - p.product)
    np.testing.assert_array_equal(unpack_d(tmem, 128, 64, 0).view(np.float32), want)


def test_weight_stationary_zero_columns() -> None:
    rng = np.random.default_rng()
    p = Problem(rng, "f16", "f16", 128, 64)
    mask = 1 << 39 | 2 << 40 | 3 << 48
    tmem = fresh_tmem(rng, 1)
    tensor.tcgen05_mma(
        "f16",
        idesc("f16", "f16", "f32", 128, 64),
        p.smem,
        tmem,
        0,
        enable_input_d=False,
        weight_stationary=True,
        zero_columns=mask,
        **p.descriptors,
    )
    zero = np.arange(64) % 7 >= 4
    want = np.where(zero[None], 0, p.product)
    np.testing.assert_array_equal(unpack_d(tmem, 128, 64, 0).view(np.float32), want)


@pytest.mark.parametrize(
    ("m", "ctas", "ws"), [(128, 1, False), (64, 1, False), (256, 2, False), (128, 2, False), (64, 1, True)]
)
@pytest.mark.parametrize("name", ["f16", "e4m3", "tf32"])
def test_a_in_tensor_memory(name: str, m: int, ctas: int, ws: bool) -> None:
    """A's rows lie in the lanes of D; where D uses lanes twice (2 x 2 data paths), A must be there twice."""
    rng = np.random.default_rng()
    n = 64
    p = Problem(rng, name, name, m, n, ctas)
    tmem = fresh_tmem(rng, ctas)
    words = p.a_raw.view(np.uint32).reshape(m, -1)
    for cta, lane, row, rows, _, _ in tensor.datapath(m, n, cta_group=ctas, weight_stationary=ws):
        tmem[cta][200 : 200 + words.shape[1], lane : lane + rows] = words[row : row + rows].T
    tensor.tcgen05_mma(
        p.kind,
        idesc(name, name, "f32", m, n),
        p.smem,
        tmem,
        0,
        a_tmem=200,
        enable_input_d=False,
        weight_stationary=ws,
        b_desc=p.descriptors["b_desc"],
    )
    got = unpack_d(tmem, m, n, 0, weight_stationary=ws).view(np.float32)
    np.testing.assert_array_equal(got, p.product)


def shifted(rows: np.ndarray, ctas: int) -> np.ndarray:
    """What .ashift makes of A: each row is the next one, but for the last one of each CTA's tensor memory."""
    return np.concatenate([np.concatenate([part[1:], part[-1:]]) for part in np.split(rows, ctas)])


@pytest.mark.parametrize(("m", "ctas"), [(128, 1), (256, 2), (128, 2)])
@pytest.mark.parametrize("name", ["f16", "e4m3", "tf32", "s8"])
def test_shifted_a(name: str, m: int, ctas: int) -> None:
    rng = np.random.default_rng()
    n, d = 64, "s32" if name == "s8" else "f32"
    p = Problem(rng, name, name, m, n, ctas)
    tmem = fresh_tmem(rng, ctas)
    words = p.a_raw.view(np.uint32).reshape(m, -1)
    for cta, lane, row, rows, _, _ in tensor.datapath(m, n, cta_group=ctas):
        tmem[cta][200 : 200 + words.shape[1], lane : lane + rows] = words[row : row + rows].T
    options = {"a_tmem": 200, "enable_input_d": False, "b_desc": p.descriptors["b_desc"], "shift_a": True}
    tensor.tcgen05_mma(p.kind, idesc(name, name, d, m, n), p.smem, tmem, 0, **options)
    got = unpack_d(tmem, m, n, 0).view(np.int32 if d == "s32" else np.float32)
    np.testing.assert_array_equal(got, shifted(p.product, ctas))


@pytest.mark.parametrize(("m", "ctas", "ws"), [(64, 1, False), (64, 1, True)])
def test_a_is_shifted_at_m_128_and_256_only(m: int, ctas: int, ws: bool) -> None:
    p = Problem(np.random.default_rng(), "f16", "f16", m, 64, ctas)
    with pytest.raises(ValueError, match="ashift needs M = 128 or 256, not 64"):
        tensor.tcgen05_mma(
            "f16", idesc("f16", "f16", "f32", m, 64), p.smem, fresh_tmem(np.random.default_rng(), 1), 0, a_tmem=200,
            b_desc=p.descriptors["b_desc"], shift_a=True, weight_stationary=ws,
        )  # fmt: skip


def pad_sub_byte(raw: np.ndarray, bits: int) -> np.ndarray:
    """Rows of 4- or 6-bit codes as shared memory holds them: sixteen elements packed, padded to sixteen bytes."""
    rows, k = raw.shape
    out = np.zeros((rows, k), np.uint8)
    for row in range(rows):
        for group in range(k // 16):
            packed = sum(int(c) << (bits * i) for i, c in enumerate(raw[row, 16 * group : 16 * group + 16]))
            out[row, 16 * group : 16 * group + 16] = list(packed.to_bytes(16, "little"))
    return out


@pytest.mark.parametrize("a", ["e2m1", "e3m2", "e2m3"])
@pytest.mark.parametrize("from_tmem", [False, True])
def test_sub_byte_types_of_kind_f8f6f4(a: str, from_tmem: bool) -> None:
    rng = np.random.default_rng()
    m, n, k, bits = 128, 64, 32, 4 if a == "e2m1" else 6
    a_raw, b_raw = rng.choice(finite_codes(a), (m, k)), rng.choice(finite_codes("e4m3")[:32], (n, k))
    layout = Operand(m, k, 1, "32B", False), Operand(n, k, 1, "128B", False)
    smem = [np.zeros(DOT_SMEM, np.uint8)]
    layout[1].place(smem[0], 1 << 16, b_raw)
    tmem = fresh_tmem(rng, 1)
    where = {}
    if from_tmem:
        container = a_raw << 2 if a == "e2m1" else a_raw
        tmem[0][100:108] = np.ascontiguousarray(container.astype(np.uint8)).view(np.uint32).T
        where["a_tmem"] = 100
    else:
        layout[0].place(smem[0], 2048, pad_sub_byte(a_raw, bits))
        where["a_desc"] = layout[0].descriptor(2048)
    tensor.tcgen05_mma(
        "f8f6f4",
        idesc(a, "e4m3", "f32", m, n),
        smem,
        tmem,
        0,
        enable_input_d=False,
        b_desc=layout[1].descriptor(1 << 16),
        **where,
    )
    want = values_of(a, a_raw) @ values_of("e4m3", b_raw).T
    np.testing.assert_allclose(unpack_d(tmem, m, n, 0).view(np.float32), want, rtol=0, atol=1e-5)


def put_scales(tmem: np.ndarray, column: int, codes: np.ndarray, ids: int, halves: int = 1) -> None:
    """Scale factors (rows, blocks) at lane row % 32 of each 32-lane partition, column row / 32, byte block + id."""
    rows, blocks = codes.shape
    share = rows // halves
    for row in range(rows):
        for block in range(blocks):
            for partition in range(4):
                if halves == 2 and partition // 2 != row // share:
                    continue
                index = row % share
                word = tmem[column + index // 32, 32 * partition + index % 32]
                shift = 8 * (block + ids)
                tmem[column + index // 32, 32 * partition + index % 32] = (
                    int(word) & ~(0xFF << shift) | int(codes[row, block]) << shift
                )


@pytest.mark.parametrize(
    ("kind", "a", "scale", "block", "ids"),
    [
        ("mxf8f6f4", "e4m3", "ue8m0", 32, 0),
        ("mxf8f6f4", "e5m2", "ue8m0", 32, 3),
        ("mxf4", "e2m1", "ue8m0", 32, 2),
        ("mxf4nvf4", "e2m1", "ue4m3", 16, 0),
        ("mxf4nvf4", "e2m1", "ue8m0", 16, 0),
    ],
)
@pytest.mark.parametrize(("m", "ctas"), [(128, 1), (256, 2), (128, 2)])
def test_block_scaled_kinds(kind: str, a: str, scale: str, block: int, ids: int, m: int, ctas: int) -> None:
    rng = np.random.default_rng()
    n, k = 64, 32 if kind == "mxf8f6f4" else 64
    codes = finite_codes(a)
    a_raw, b_raw = rng.choice(codes[codes < 0x40], (m, k)), rng.choice(codes[codes < 0x40], (n, k))
    span = (lambda *s: rng.integers(120, 134, s)) if scale == "ue8m0" else (lambda *s: rng.integers(1, 127, s))
    sfa, sfb = span(m, k // block), span(n, k // block)
    pack = (lambda raw: (raw[:, ::2] | raw[:, 1::2] << 4).astype(np.uint8)) if k == 64 else (lambda raw: raw)
    layout = Operand(m // ctas, 32, 1, "32B", False), Operand(n // ctas, 32, 1, "32B", False)
    smem = [np.zeros(DOT_SMEM, np.uint8) for _ in range(ctas)]
    tmem = fresh_tmem(rng, ctas)
    for cta in range(ctas):
        rows = slice(cta * m // ctas, (cta + 1) * m // ctas)
        layout[0].place(smem[cta], 2048, pack(a_raw[rows]))
        layout[1].place(smem[cta], 1 << 16, pack(b_raw[cta * n // ctas : (cta + 1) * n // ctas]))
        put_scales(tmem[cta], 300, sfa[rows], ids)
        put_scales(tmem[cta], 320, sfb, ids, halves=2 if (m, ctas) == (128, 2) else 1)
    code = 1 if k == 64 else A_CODE[a]
    word = ids << 4 | code << 7 | code << 10 | (n >> 3) << 17 | (scale == "ue8m0") << 23 | (m >> 7) << 27 | ids << 29
    tensor.tcgen05_mma(
        kind,
        word,
        smem,
        tmem,
        0,
        enable_input_d=False,
        scale_a=300,
        scale_b=320,
        scale_block=block,
        a_desc=layout[0].descriptor(2048),
        b_desc=layout[1].descriptor(1 << 16),
    )
    table = np.array([decode_small(scale, c) for c in range(256 if scale == "ue8m0" else 128)])
    left = values_of(a, a_raw) * np.repeat(table[sfa], block, 1)
    right = values_of(a, b_raw) * np.repeat(table[sfb], block, 1)
    bound = np.abs(left) @ np.abs(right).T * k * 2.0**-23
    got = unpack_d(tmem, m, n, 0).view(np.float32)
    assert np.all(np.abs(got - left @ right.T) <= bound)


SPARSE_PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def sparse_metadata(kind: str, nibbles: np.ndarray) -> np.ndarray:
    """Metadata nibbles (rows, chunks) as (columns, 128 lanes) words, by CuTe's tmem_e_frg layouts."""
    rows, chunks = nibbles.shape
    out = np.zeros((2, 128), np.uint64)
    for row in range(rows):
        for chunk in range(chunks):
            nibble = np.uint64(nibbles[row, chunk])
            if kind in ("f16", "tf32"):
                # (8,2,8),(16,2) : (1,2048,16),(128,8) over a lane stride of 1 and a bit stride of 128
                bit = 4 * (chunk % 4) + 16 * (row // 8 % 2)
                lane = row % 8 + 16 * (row // 16) + 8 * (chunk // 4)
                out[0, lane] |= nibble << np.uint64(bit)
            else:
                out[chunk // 8, row] |= nibble << np.uint64(4 * (chunk % 8))
    return out.astype(np.uint32)


@pytest.mark.parametrize("name", ["f16", "tf32", "e4m3", "s8"])
@pytest.mark.parametrize("shift", [False, True])
def test_structured_sparse_a(name: str, shift: bool) -> None:
    """Shifted, A is in tensor memory: its stored elements move, the metadata stays with the rows of the product."""
    rng = np.random.default_rng()
    m, n, kind = 128, 64, KIND.get(name, "f8f6f4")
    k = 2 * K[kind]
    size = BYTES.get(name, 1)
    stored = random_raw(rng, name, (m, k // 2), True)
    values, dense = values_of(name, stored), np.zeros((m, k))
    chunk = 2 if name == "tf32" else 4
    nibbles = np.zeros((m, k // chunk), np.uint8)
    if shift:
        values = shifted(values, 1)
    for row in range(m):
        for c in range(k // chunk):
            if name == "tf32":
                at = rng.integers(2)
                nibbles[row, c] = 0b1110 if at else 0b0100
                dense[row, 2 * c + at] = values[row, c]
            else:
                first, second = SPARSE_PAIRS[rng.integers(6)]
                nibbles[row, c] = first | second << 2
                dense[row, 4 * c + first], dense[row, 4 * c + second] = values[row, 2 * c], values[row, 2 * c + 1]
    b_raw = random_raw(rng, name, (n, k), True)
    layout = Operand(m, k // 2, size, "128B", False), Operand(n, k, size, "128B", False)
    smem = [np.zeros(DOT_SMEM, np.uint8)]
    layout[0].place(smem[0], 2048, stored)
    layout[1].place(smem[0], 1 << 16, b_raw)
    tmem = fresh_tmem(rng, 1)
    tmem[0][400:402] = sparse_metadata(kind, nibbles)
    words = stored.view(np.uint32).reshape(m, -1)
    tmem[0][200 : 200 + words.shape[1]] = words.T
    d = "s32" if name == "s8" else "f32"
    tensor.tcgen05_mma(
        kind,
        idesc(name, name, d, m, n, sparse=1),
        smem,
        tmem,
        0,
        enable_input_d=False,
        metadata=400,
        a_desc=None if shift else layout[0].descriptor(2048),
        a_tmem=200,
        shift_a=shift,
        b_desc=layout[1].descriptor(1 << 16),
    )
    got = unpack_d(tmem, m, n, 0).view(np.int32 if d == "s32" else np.float32)
    np.testing.assert_array_equal(got, dense @ values_of(name, b_raw).T)


def test_operands_outside_shared_memory_are_refused() -> None:
    rng = np.random.default_rng()
    p = Problem(rng, "f16", "f16", 128, 64)
    tmem = fresh_tmem(rng, 1)
    before = tmem[0].copy()
    p.smem[0] = p.smem[0][: (1 << 16) + 100].copy()
    with pytest.raises(IndexError, match="shared address"):
        tensor.tcgen05_mma("f16", idesc("f16", "f16", "f32", 128, 64), p.smem, tmem, 0, **p.descriptors)
    np.testing.assert_array_equal(tmem[0], before)
    with pytest.raises(IndexError, match="matrix D covers columns"):
        tensor.tcgen05_mma("f16", idesc("f16", "f16", "f32", 128, 64), p.smem, tmem, 480, **p.descriptors)
