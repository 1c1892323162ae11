"""Matrix and instruction descriptors decode, and operand addresses follow the ISA's canonical layouts."""

import pytest

from sglab._core import tensor
from tests.support.emulator.cute_layouts import Operand

K_SWIZZLES = ["none", "32B", "64B", "128B"]


@pytest.mark.parametrize("flavour", ["tcgen05", "wgmma"])
@pytest.mark.parametrize("swizzle", K_SWIZZLES)
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_chunk_addresses_are_the_canonical_layout(
    flavour: str, swizzle: str, mn_major: bool, element_bytes: int
) -> None:
    t = 16 // element_bytes
    k = 32 if element_bytes == 1 or mn_major else 2 * t
    operand = Operand(128, k, element_bytes, swizzle, mn_major)
    base = 4096
    bits = operand.descriptor(base, flavour)
    lines, length = (k, 128) if mn_major else (128, k)
    for line in range(lines):
        for chunk in range(length // t):
            row, at = (chunk * t, line) if mn_major else (line, chunk * t)
            got = tensor.chunk_address(bits, mn_major, line, chunk, flavour)
            assert got == base + operand.address(row, at)


@pytest.mark.parametrize("swizzle", [*K_SWIZZLES, "128B_atom_32B"])
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("base", [4096, 4096 + 16, 4096 + 32, 4096 + 64, 4096 + 1024])
@pytest.mark.parametrize("chunks", [1, 2, 3, 4, 6, 8, 16])
def test_the_chunks_of_a_run_fill_an_aligned_block(swizzle: str, mn_major: bool, base: int, chunks: int) -> None:
    """Sanitizers look at blocks where they would otherwise look at each chunk."""
    if swizzle == "128B_atom_32B" and not mn_major:
        pytest.skip("an MN-major layout")
    for base_offset in (0, 1, 6):
        bits = Operand(128, 128, 2, swizzle, mn_major).descriptor(base) | base_offset << 49
        step = tensor.chunks_of_a_run(bits, mn_major, chunks)
        assert chunks % step == 0
        for line in range(20):
            for first in range(0, chunks, step):
                got = [tensor.chunk_address(bits, mn_major, line, first + i) for i in range(step)]
                assert got == [got[0] ^ 16 * i for i in range(step)]
                assert min(got) == got[0] & ~(16 * step - 1)


def test_the_usual_operands_are_read_in_long_runs() -> None:
    """Rows of Q and K of which an instruction takes 16 columns, and rows of V."""
    assert tensor.chunks_of_a_run(Operand(128, 64, 2, "128B", False).descriptor(4096 + 32), False, 2) == 2
    assert tensor.chunks_of_a_run(Operand(128, 16, 2, "128B", True).descriptor(4096), True, 16) == 8


def test_swizzle_128b_with_32b_atoms_is_for_mn_major_operands() -> None:
    operand = Operand(64, 8, 4, "128B_atom_32B", True)
    bits = operand.descriptor(2048)
    for k in range(8):
        for chunk in range(16):
            assert tensor.chunk_address(bits, True, k, chunk) == 2048 + operand.address(4 * chunk, k)
    with pytest.raises(ValueError, match="MN-major"):
        tensor.chunk_address(bits, False, 0, 0)


def test_base_offset_moves_the_pattern() -> None:
    """A tile that begins at row 3 of its own pattern: base offset 3 makes it look like one on a boundary."""
    operand = Operand(64, 16, 2, "128B", False)
    shifted = operand.descriptor(1024 + 3 * 128) | 3 << 49
    for row in range(64):
        for chunk in range(2):
            want = operand.address(row, chunk * 8) + 1024 + 3 * 128
            assert tensor.chunk_address(shifted, False, row, chunk) == want


def test_smem_descriptor_fields_are_readable() -> None:
    fields = tensor.smem_descriptor(0x4000_4040_0001_1000 | 1 << 46 & 0, "wgmma")
    assert fields["start"] == 0x1000 << 4 & 0x3FFFF
    assert fields["leading_offset"] == 16
    assert fields["stride_offset"] == 0x40 << 4
    assert fields["swizzle"] == "128B"


@pytest.mark.parametrize(("bits", "message"), [(3 << 61 | 1 << 46, "layout"), (2 << 61, "46-48")])
def test_reserved_descriptor_fields_are_refused(bits: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tensor.smem_descriptor(bits)


def instruction(c: int, a: int, b: int, m: int, n: int, **more: int) -> int:
    at = {"negate_a": 13, "negate_b": 14, "a_mn": 15, "b_mn": 16, "sparse": 2, "saturate": 3}
    bits = c << 4 | a << 7 | b << 10 | (n >> 3) << 17 | (m >> 4) << 24
    for name, value in more.items():
        bits |= value << at[name]
    return bits


def test_instruction_descriptor_is_readable() -> None:
    got = tensor.instruction_descriptor("f16", instruction(1, 1, 1, 128, 256, negate_b=1, b_mn=1))
    want = {"kind": "f16", "m": 128, "n": 256, "k": 16, "a_type": "bf16", "b_type": "bf16", "d_type": "f32"}
    assert want.items() <= got.items()
    assert (got["a_major"], got["b_major"], got["negate_a"], got["negate_b"]) == ("K", "MN", False, True)


def test_block_scaled_descriptor_is_readable() -> None:
    bits = 2 << 4 | 0 << 7 | 5 << 10 | (64 >> 3) << 17 | 1 << 23 | (128 >> 7) << 27 | 3 << 29
    got = tensor.instruction_descriptor("mxf8f6f4", bits)
    want = {"m": 128, "n": 64, "k": 32, "a_type": "e4m3", "b_type": "e2m1", "a_scale_id": 3, "b_scale_id": 2}
    assert want.items() <= got.items()


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        ("f16", instruction(2, 0, 0, 128, 64)),
        ("tf32", instruction(1, 0, 0, 128, 64)),
        ("i8", instruction(2, 1, 1, 128, 64, negate_a=1)),
        ("f16", instruction(1, 0, 0, 128, 64, saturate=1)),
        ("f8f6f4", instruction(1, 5, 0, 128, 64) | 1 << 15),
        ("mxf4", 1 << 7 | 1 << 10 | 1 << 23 | 1 << 27 | 1 << 31),
    ],
)
def test_reserved_instruction_descriptors_are_refused(kind: str, bits: int) -> None:
    with pytest.raises(ValueError, match=f"kind::{kind}"):
        tensor.instruction_descriptor(kind, bits)


@pytest.mark.parametrize(
    ("kind", "m", "n", "cta_group", "ws", "fine"),
    [
        ("f16", 128, 256, 1, False, True),
        ("f16", 64, 8, 1, False, True),
        ("f16", 32, 64, 1, False, False),
        ("f16", 32, 64, 1, True, True),
        ("f16", 256, 64, 1, False, False),
        ("f16", 256, 64, 2, False, True),
        ("f16", 128, 24, 2, False, False),
        ("f16", 64, 32, 2, True, False),
        ("i8", 128, 24, 1, False, True),
        ("i8", 128, 40, 1, False, False),
        ("i8", 256, 48, 2, False, False),
    ],
)
def test_shapes_are_those_of_the_table(kind: str, m: int, n: int, cta_group: int, ws: bool, fine: bool) -> None:
    c = 2 if kind == "i8" else 1
    problem = tensor.check_mma_shape(kind, instruction(c, 0, 0, m, n), cta_group, ws)
    assert (problem == "") == fine, problem


@pytest.mark.parametrize(
    ("m", "start", "first", "want"),
    [
        (128, [0], [0], ["…11100001110000"]),
        (64, [0, 0], [1, 0], ["…11100001110000111", "…00001110000111 0000".replace(" ", "")]),
        (32, [0, 1, 2, 1], [1, 1, 0, 0], ["…00001110000111", "…0000111000011", "…111000011100", "…1110000111000"]),
    ],
)
def test_zero_column_masks_are_the_manuals_examples(m: int, start: list, first: list, want: list) -> None:
    """The ISA's examples 2 to 4 (example 4 without its shift): skip span 2, use span 3."""
    n = 128
    bits = 1 << 39 | 2 << 40 | 3 << 48
    for i, (s, f) in enumerate(zip(start, first, strict=True)):
        bits |= s << (8 * i) | f << (32 + i)
    words = tensor.zero_column_mask(bits, m, n)
    mask = words[0] | words[1] << 64
    part = n // len(want)
    for i, text in enumerate(want):
        digits = text.lstrip("…")
        got = mask >> (part * i) & ((1 << len(digits)) - 1)
        assert f"{got:0{len(digits)}b}" == digits
