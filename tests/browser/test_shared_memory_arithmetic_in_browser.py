"""SharedMemory's own address arithmetic in a real browser, held against the emulator's on random descriptors,
swizzles and tensor maps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from playwright.sync_api import Page

from sglab._core import tensor, tma
from sglab.emulator.bank_conflicts import PERMUTATIONS, permute
from sglab.events.shared_memory import SWIZZLES
from sglab.widgets import SharedMemory
from tests.support.browser.shared_memory_pages import show
from tests.support.browser.widget_host import Host
from tests.support.launches.memory_sessions import corpus

MMA_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
ARITHMETIC = "sglabHost.modules.get('shared_memory').arithmetic"


@pytest.fixture
def arithmetic(host: Host) -> Page:
    return show(host, SharedMemory(corpus("wgmma_gemm.sm_90a")))


def refusing(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ValueError:
        return None


def random_descriptor(draw: random.Random, flavour: str) -> int:
    bits = draw.getrandbits(14) | draw.getrandbits(14) << 16 | draw.getrandbits(14) << 32
    bits |= draw.choice([0, 0, 0, draw.getrandbits(3)]) << 49
    if flavour == "wgmma":
        return bits | draw.getrandbits(2) << 62
    version = draw.choice([1] * 9 + [draw.getrandbits(3)])
    return bits | version << 46 | draw.choice([0, 1, 2, 4, 6, 2, 4, 6, 3]) << 61


def test_shared_memory_descriptors_are_decoded_as_the_emulator_does(arithmetic: Page) -> None:
    draw = random.Random()
    cases = []
    for _ in range(400):
        flavour, major = draw.choice(["tcgen05", "wgmma"]), draw.choice(["K", "MN"])
        places = [(draw.randrange(256), draw.randrange(32)) for _ in range(8)]
        cases.append((random_descriptor(draw, flavour), flavour, major, places))
    found = arithmetic.evaluate(
        f"""(cases) => cases.map(([bits, flavour, major, places]) => {{
          try {{
            const decoded = {ARITHMETIC}.decodeSmemDescriptor(BigInt(bits), flavour);
            const address = {ARITHMETIC}.chunkAddresses(decoded, major);
            return places.map(([line, chunk]) => address(line, chunk));
          }} catch {{ return null; }}
        }})""",
        [[str(bits), flavour, major, places] for bits, flavour, major, places in cases],
    )
    accepted = 0
    for (bits, flavour, major, places), got in zip(cases, found, strict=True):
        expected = refusing(
            lambda b=bits, f=flavour, m=major, p=places: [tensor.chunk_address(b, m == "MN", *at, f) for at in p]
        )
        assert got == expected, (hex(bits), flavour, major)
        accepted += got is not None
    assert accepted > 200


def test_instruction_descriptors_are_decoded_as_the_emulator_does(arithmetic: Page) -> None:
    draw = random.Random()
    cases = []
    for _ in range(1500):
        kind = draw.choice(MMA_KINDS)
        types = {"f16": (0, 1), "tf32": (2, 2), "i8": (0, 1)}.get(kind, (0, 1))
        bits = draw.choice([draw.getrandbits(32), draw.getrandbits(32) & ~0xC0001FFF])
        bits = bits & ~0x1FF0 | draw.choice(types) << 7 | draw.choice(types) << 10 | draw.choice([0, 1, 2]) << 4
        cases.append((bits & ~0x800000 | draw.getrandbits(1) << 23, kind, draw.choice([1, 2])))
    found = arithmetic.evaluate(
        f"""(cases) => cases.map(([bits, kind, group]) => {{
          try {{
            const d = {ARITHMETIC}.decodeInstructionDescriptor(bits, kind);
            const types = [d.aType, d.bType, d.dType, d.aMajor, d.bMajor];
            const values = [d.m, d.n, d.k, ...types, d.negateA, d.negateB, d.sparse];
            return [values, {ARITHMETIC}.shapeProblem(d, kind, group) === ""];
          }} catch {{ return null; }}
        }})""",
        cases,
    )
    names = ("m", "n", "k", "a_type", "b_type", "d_type", "a_major", "b_major", "negate_a", "negate_b", "sparse")
    accepted = 0
    for (bits, kind, group), got in zip(cases, found, strict=True):
        decoded = refusing(lambda b=bits, k=kind: tensor.instruction_descriptor(k, b))
        expected = decoded and [
            [decoded[name] for name in names],
            tensor.check_mma_shape(kind, bits, group) == "",
        ]
        assert got == expected, (hex(bits), kind, group)
        accepted += got is not None
    assert accepted > 200


def test_swizzles_permute_as_the_emulators(arithmetic: Page) -> None:
    draw = random.Random()
    cases = [(draw.randrange(len(SWIZZLES)), draw.randrange(1 << 18)) for _ in range(1000)]
    found = arithmetic.evaluate(
        f"([names, cases]) => cases.map(([s, a]) => {ARITHMETIC}.swizzleAddress(names[s], a))", [SWIZZLES, cases]
    )
    assert found == [tma.swizzle_address(swizzle, address) for swizzle, address in cases]


def random_map(draw: random.Random) -> dict[str, Any]:
    """Of 16-bit elements in memory that begins at 0; now and then one that the encoder refuses."""
    rank = draw.randint(1, 4)
    dims = [draw.randint(8, 80), *(draw.randint(1, 6) for _ in range(rank - 1))]
    strides, packed = [], -(-dims[0] * 2 // 16) * 16
    for dim in dims[1:]:
        strides.append(packed if draw.random() < 0.95 else packed + 8)
        packed *= dim
    swizzle = draw.randint(0, 3)
    inner = draw.choice([8, 16, 24, 32, 64, 12]) if draw.random() < 0.3 else min(64, (8, 16, 32, 64)[swizzle])
    return {
        "dims": dims,
        "strides": strides,
        "box": [inner, *(draw.randint(1, 5) for _ in range(rank - 1))],
        "elementStrides": [1, *(draw.choice([1, 1, 2]) for _ in range(rank - 1))],
        "elementBits": 16,
        "swizzle": swizzle,
    }


def test_boxes_take_and_leave_the_bytes_that_the_emulator_moves(arithmetic: Page) -> None:
    draw = random.Random()
    cases = []
    for _ in range(120):
        fields = random_map(draw)
        at = [draw.randint(-12, 60), *(draw.randint(-2, 5) for _ in fields["dims"][1:])]
        cases.append((fields, at, draw.randrange(8) * 1024 + draw.choice([0, 128, 512])))
    found = arithmetic.evaluate(
        f"""(cases) => cases.map(([map, at, base]) =>
          {ARITHMETIC}.mapProblems(map).length ? null : {ARITHMETIC}.boxChunks(map, at, base))""",
        cases,
    )
    moved = 0
    for (fields, at, base), chunks in zip(cases, found, strict=True):
        encode = [fields[name] for name in ("dims", "strides", "box", "elementStrides")]
        encoded = refusing(lambda e=encode, f=fields: tma.encode_tiled(6, 0x10000, *e, swizzle=f["swizzle"]))
        assert (encoded is None) == (chunks is None), fields
        if chunks is None:
            continue
        size = 16 + sum(s * (d - 1) for s, d in zip(fields["strides"], fields["dims"][1:], strict=True))
        size += fields["dims"][0] * 2
        memory = np.random.default_rng(draw.getrandbits(30)).integers(1, 255, size, dtype=np.uint8)
        smem = np.zeros(1 << 17, np.uint8)
        tma.copy_box("load", encoded, at, memory, 0x10000, smem, base)
        expected = np.zeros_like(smem)
        for chunk in chunks:
            first = at[0] + chunk["chunk"] * 8
            skipped = max(0, -first)
            if chunk["inside"]:
                begin = chunk["global"]
                part = memory[begin : begin + 2 * chunk["inside"]]
                expected[chunk["address"] + 2 * skipped : chunk["address"] + 2 * skipped + len(part)] = part
        np.testing.assert_array_equal(smem, expected, err_msg=str((fields, at, base)))
        moved += 1
    assert moved > 40


def test_bank_conflicts_of_known_accesses(arithmetic: Page) -> None:
    lanes = range(32)
    patterns = {
        "a row": ([4 * lane for lane in lanes], 4, (1, 1)),
        "one word for all": ([64] * 32, 4, (1, 1)),
        "a column of 128-byte rows": ([128 * lane for lane in lanes], 4, (32, 1)),
        "every other word": ([8 * lane for lane in lanes], 4, (2, 1)),
        "padded rows": ([132 * lane for lane in lanes], 4, (1, 1)),
        "16 bytes a lane": ([16 * lane for lane in lanes], 16, (4, 4)),
        "ldmatrix without a swizzle": ([128 * lane for lane in lanes], 16, (32, 4)),
        "ldmatrix with the 128-byte swizzle": ([tma.swizzle_address(3, 128 * lane) for lane in lanes], 16, (4, 4)),
    }
    for name, (addresses, size, expected) in patterns.items():
        use = arithmetic.evaluate(f"([a, b]) => {ARITHMETIC}.bankUse(a, -1, b)", [addresses, size])
        assert (use["passes"], use["least"]) == expected, name


def test_the_page_permutes_as_python_does(arithmetic: Page) -> None:
    draw = random.Random()
    cases = [(draw.choice([*PERMUTATIONS]), draw.randrange(1 << 18)) for _ in range(500)]
    found = arithmetic.evaluate(f"(cases) => cases.map(([s, a]) => {ARITHMETIC}.swizzleAddress(s, a))", cases)
    assert found == [int(permute(np.array([address]), name)[0]) for name, address in cases]
