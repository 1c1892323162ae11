"""Number formats and layouts: values worked out by hand, bounds on random input, and the formats' own packages."""

from collections.abc import Callable

import pytest
import torch

from sglab.kernels.contract import ContractError
from sglab.kernels.formats.int4 import interleave_scales
from sglab.kernels.formats.int8 import int8_mm
from sglab.kernels.formats.microscaling import e2m1_codes
from sglab.kernels.formats.packing import pack, unpack
from sglab.layers.quantization import (
    awq_marlin_repack,
    awq_to_marlin_zero_points,
    block_quant_dequant,
    dequantize_awq,
    dequantize_ggml,
    dequantize_gptq,
    dequantize_mxfp4,
    dequantize_mxfp8,
    dequantize_nvfp4,
    gptq_marlin_repack,
    marlin_permute_scales,
    marlin_unpack,
    per_block_cast_to_fp8,
    per_token_group_quant_fp8,
    per_token_group_quant_int8,
    per_token_quant_int8,
    quantize_mxfp4,
    quantize_mxfp8,
    quantize_nvfp4,
    scaled_fp8_quant,
)
from sglab.layers.quantization.fp8 import Fp8
from sglab.layers.quantization.int8 import Int8
from sglab.layers.quantization.microscaling import Mxfp8
from sglab.layers.quantization.nvfp4 import Nvfp4
from sglab.layers.quantization.scheme import Scheme
from sglab.layers.quantization.weight import Cut, QuantizedWeight
from tests.support.quantized import (
    Written,
    awq,
    fp8_block,
    fp8_channel,
    fp8_tensor,
    gptq,
    int8_channel,
    mxfp8,
    nvfp4,
    words,
)


def e4m3_values() -> torch.Tensor:
    """Every value from 0 up, by the format's definition: bias 7, three bits of mantissa, no infinity."""
    return torch.tensor([(m / 8) * 2**-6 if e == 0 else (1 + m / 8) * 2 ** (e - 7)
                         for e in range(16) for m in range(8)][:-1], dtype=torch.float64)  # fmt: skip


def test_groups_by_hand() -> None:
    q, scale = per_token_group_quant_fp8(torch.tensor([[1.0, -3.0, 896.0]]), 3)
    assert scale.tolist() == [[2.0]] and q.float().tolist() == [[0.5, -1.5, 448.0]]
    _, scale = per_token_group_quant_fp8(torch.tensor([[3.0, 0.0]]), 2, scale_ue8m0=True)
    assert scale.tolist() == [[2.0**-7]]
    q, scale = per_token_group_quant_fp8(torch.zeros(1, 4), 4)
    assert q.float().abs().sum() == 0 and torch.isfinite(scale).all()
    with pytest.raises(ContractError, match="group_size must be a divisor of 10 columns; got 4"):
        per_token_group_quant_fp8(torch.zeros(1, 10), 4)


def test_scales_by_column_start_at_sixteen_bytes() -> None:
    x = torch.randn(5, 8)
    _, plain = per_token_group_quant_fp8(x, 4)
    _, scales = per_token_group_quant_fp8(x, 4, column_major_scales=True, scale_tma_aligned=True)
    assert torch.equal(scales, plain) and scales.stride() == (1, 8)


@pytest.mark.parametrize("kind", ["tensor", "token", "group", "block"])
def test_fp8_is_rounded_to_the_nearest_value(kind: str) -> None:
    x = torch.randn(40, 96) * torch.rand(40, 1) * 10
    if kind == "block":
        q, scale = per_block_cast_to_fp8(x, (32, 32))
        step, wide = (
            scale.repeat_interleave(32, 0)[:40].repeat_interleave(32, 1),
            block_quant_dequant(q, scale, (32, 32)),
        )
    elif kind == "group":
        q, scale = per_token_group_quant_fp8(x, 32)
        step = scale.repeat_interleave(32, 1)
        wide = q.float() * step
    else:
        q, scale = scaled_fp8_quant(x, use_per_token_if_dynamic=kind == "token")
        step = scale.expand(40, 96)
        wide = q.float() * scale
    exact = (x / step).double()
    nearest = (exact.abs()[..., None] - e4m3_values()).abs().amin(-1)
    assert torch.equal((exact - q.double()).abs(), nearest)
    assert ((wide - x).abs() <= (x.abs() * 2.0**-4).clamp(min=2.0**-10) * 1.0001 + step * 2.0**-10).all()


def test_a_static_scale_saturates() -> None:
    q, scale = scaled_fp8_quant(torch.tensor([[1.0, 900.0, -1e6]]), torch.tensor(1.0))
    assert q.float().tolist() == [[1.0, 448.0, -448.0]] and scale.tolist() == [1.0]


def test_int8() -> None:
    q, scale = per_token_quant_int8(torch.tensor([[127.0, 0.5, 1.5, -2.5], [0.0, 0.0, 0.0, 0.0]]))
    assert q.tolist() == [[127, 0, 2, -2], [0, 0, 0, 0]] and float(scale[0]) == 1.0  # ties to even
    x = torch.randn(9, 64)
    q, scale = per_token_group_quant_int8(x, 16)
    wide = q.float() * scale.repeat_interleave(16, 1)
    assert ((wide - x).abs() <= scale.repeat_interleave(16, 1) * 0.5001).all()


def test_integer_products_are_exact() -> None:
    a, b = torch.full((3, 5000), 127, dtype=torch.int8), torch.full((2, 5000), -127, dtype=torch.int8)
    assert int8_mm(a, b).tolist() == [[float(torch.tensor(-127 * 127 * 5000.0))] * 2] * 3


def test_e2m1_ties_go_to_the_even_code() -> None:
    middles = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 100.0, -0.25, -5.0])
    assert e2m1_codes(middles).tolist() == [0, 2, 2, 4, 4, 6, 6, 7, 8, 14]


def test_microscaling_bounds() -> None:
    x = torch.randn(11, 96) * 2.0 ** torch.randint(-20, 20, (11, 1))
    four, scales = quantize_mxfp4(x)
    amax = x.unflatten(1, (-1, 32)).abs().amax(-1)
    assert torch.equal(scales.int() - 127, amax.log2().floor().int() - 2)
    wide = dequantize_mxfp4(four.unflatten(1, (-1, 16)), scales, torch.float32)
    step = torch.exp2(scales.float() - 127).repeat_interleave(32, 1)
    assert ((wide - x).abs() <= (x.abs() / 4).clamp(min=step / 4) + 1e-30).all()  # up to 8 steps are cut to 6
    eight, scales = quantize_mxfp8(x)
    wide = dequantize_mxfp8(eight, scales)
    step = torch.exp2(scales.float() - 127).repeat_interleave(32, 1)
    assert ((wide - x).abs() <= (x.abs() / 8).clamp(min=step * 2.0**-10)).all()  # up to 512 are cut to 448


def test_nvfp4_bounds() -> None:
    x = torch.randn(7, 64)
    packed, scales, whole = quantize_nvfp4(x)
    assert float(scales.float().max()) == 448.0
    wide = dequantize_nvfp4(packed, scales, whole)
    step = (scales.float() * whole).repeat_interleave(16, 1)
    assert ((wide - x).abs() <= step * 1.0001 + 0.07 * x.abs()).all()
    zeros = quantize_nvfp4(torch.zeros(2, 16))
    assert torch.equal(dequantize_nvfp4(*zeros), torch.zeros(2, 16))


def test_words_by_hand() -> None:
    rows = torch.arange(8)[:, None]
    assert pack(rows, 4, 0).item() == words(rows).item() == 0x76543210
    assert pack(rows.T, 4, 1, (0, 2, 4, 6, 1, 3, 5, 7)).item() == 0x75316420
    big = torch.randint(0, 256, (3, 8))
    assert torch.equal(unpack(pack(big, 8, 1), 8, 1), big.int())


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("version", [1, 2])
def test_gptq(bits: int, version: int) -> None:
    tensors, wide = gptq(torch.randn(40, 64), 16, bits, desc_act=True, version=version)
    found = dequantize_gptq(**tensors, bits=bits, zero_offset=int(version == 1))
    assert torch.equal(found, wide)


def test_awq() -> None:
    tensors, wide = awq(torch.randn(24, 64))
    assert torch.equal(dequantize_awq(**tensors, group_size=32), wide)


@pytest.mark.parametrize("bits", [4, 8])
def test_marlin_repacks_and_back(bits: int) -> None:
    q = torch.randint(0, 2**bits, (64, 128), dtype=torch.int32)
    words_of = pack(q, bits, 0)
    marlin = gptq_marlin_repack(words_of, bits=bits)
    assert marlin.shape == (4, 128 * bits // 2) and torch.equal(marlin_unpack(marlin, bits), q)
    perm = torch.randperm(64)
    assert torch.equal(marlin_unpack(gptq_marlin_repack(words_of, perm, bits), bits), q[perm])


def test_a_marlin_word_is_what_one_thread_multiplies() -> None:
    """Word t of the first tile: thread t's rows 2 (t mod 4) + {0, 1, 8, 9}, columns t div 4 and + 8, two by two."""
    q = torch.randint(0, 16, (16, 64))
    first = pack(q, 4, 0)
    marlin = gptq_marlin_repack(first)[0]
    for thread in (0, 5, 31):
        row, column = 2 * (thread % 4), thread // 4
        for tile in range(4):
            own = [q[row + r, 16 * tile + column + c] for c in (0, 8) for r in (0, 1, 8, 9)]
            word = sum(int(own[i]) << (4 * at) for at, i in enumerate((0, 2, 4, 6, 1, 3, 5, 7)))
            assert int(marlin[4 * thread + tile]) & 0xFFFFFFFF == word


def test_marlin_of_awq_and_its_scales() -> None:
    tensors, _ = awq(torch.randn(64, 64))
    q = unpack(tensors["qweight"], 4, 1, (0, 2, 4, 6, 1, 3, 5, 7))
    assert torch.equal(marlin_unpack(awq_marlin_repack(tensors["qweight"])), q)
    for groups in (1, 3):
        scales = torch.randn(groups, 128)
        permuted = marlin_permute_scales(scales)
        assert torch.equal(marlin_permute_scales(permuted, inverse=True), scales)
        expected = [0, 8, 16, 24, 32, 40, 48, 56] if groups > 1 else [0, 1, 8, 9, 16, 17, 24, 25]
        assert torch.equal(permuted[:, :8], scales[:, expected])
    zeros = unpack(tensors["qzeros"], 4, 1, (0, 2, 4, 6, 1, 3, 5, 7))
    read = unpack(awq_to_marlin_zero_points(tensors["qzeros"]), 4, 1, (0, 2, 4, 6, 1, 3, 5, 7))
    assert torch.equal(marlin_permute_scales(read, inverse=True), zeros)


def test_w4a8_scales_are_interleaved_by_fours() -> None:
    scales = torch.arange(16).view(1, 2, 8)
    assert interleave_scales(scales).tolist() == [[[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]]


def rounded(x: torch.Tensor, scheme: Scheme) -> torch.Tensor:
    """Activations as a scheme sees them, by the formats' own functions."""
    if isinstance(scheme, Int8):
        q, scale = per_token_quant_int8(x)
    elif isinstance(scheme, Mxfp8):
        return dequantize_mxfp8(*quantize_mxfp8(x))
    elif isinstance(scheme, Nvfp4):
        return dequantize_nvfp4(*quantize_nvfp4(x, torch.tensor(0.01)))
    elif scheme.activations == "group":
        q, scale = per_token_group_quant_fp8(x, 16)
        scale = scale.repeat_interleave(16, 1)
    else:
        static = torch.tensor(0.05) if scheme.activations == "static" else None
        q, scale = scaled_fp8_quant(x, static, scheme.activations == "token")
    return q.double() * scale


@pytest.mark.parametrize(("scheme", "write"), [
    (Fp8("tensor", "static"), lambda w: fp8_tensor(w, 0.05)), (Fp8("tensor", "tensor"), fp8_tensor),
    (Fp8("channel", "token"), fp8_channel), (Fp8("block", "group", (16, 16), "weight_scale_inv"), fp8_block),
    (Int8("channel", "token"), int8_channel), (Mxfp8(scale_name="weight_scale_inv"), mxfp8), (Nvfp4(), nvfp4),
])  # fmt: skip
def test_a_linear_multiplies_rounded_activations(scheme: Scheme, write: Callable[[torch.Tensor], Written]) -> None:
    x, (tensors, wide) = torch.randn(9, 64), write(torch.randn(48, 64))
    part = QuantizedWeight(scheme, (48, 64), 64)
    for name, tensor in tensors.items():
        part.load(name, tensor, Cut(0, 48, 0, 64))
    expected = rounded(x, scheme).double() @ wide.double().T
    assert torch.allclose(part(x).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "size", "scales"), [
    ("Q4_0", 18, [0]), ("Q8_0", 34, [0]), ("Q4_K", 144, [0, 2]), ("Q6_K", 210, [208]), ("MXFP4", 17, []),
])  # fmt: skip
def test_ggml_blocks_are_what_the_gguf_package_reads(name: str, size: int, scales: list[int]) -> None:
    quants = pytest.importorskip("gguf.quants", reason="gguf is not installed")
    from gguf import GGMLQuantizationType

    rows = torch.randint(0, 256, (6, 3 * size), dtype=torch.uint8)
    for at in scales:
        halves = rows.view(18, size)[:, at : at + 2]
        halves.copy_((torch.randn(18, 1) * 0.1).half().view(torch.uint8).view(18, 2))
    expected = torch.from_numpy(quants.dequantize(rows.numpy(), GGMLQuantizationType[name]))
    assert torch.equal(dequantize_ggml(rows, name), expected)
