"""gptq_marlin_gemm against float64 of the integers that were packed: widths, groups, zero points, activation order."""

import pytest
import torch

from sglab.kernels import ContractError, gptq_marlin_gemm
from sglab.kernels.formats.marlin import marlin_permute_scales
from sglab.layers.quantization.marlin import Marlin, marlin_pack, marlin_zero_points

TOLERANCE = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Of the largest output: its own rounding."""


def drawn(k: int, n: int, group: int, bits: int, dtype: torch.dtype, with_zeros: bool):  # type: ignore[no-untyped-def]
    """Marlin's tensors, and the float64 matrix (in, out) that they stand for."""
    generator = torch.Generator().manual_seed(k + n + group + bits)
    groups = 1 if group < 0 else k // group
    q = torch.randint(0, 2**bits, (k, n), generator=generator)
    scales = (torch.rand(groups, n, generator=generator) + 0.1).to(dtype)
    zeros = torch.randint(0, 2**bits, (groups, n), generator=generator)
    wide = torch.full_like(zeros, 2 ** (bits - 1)) if not with_zeros else zeros
    each = k // groups
    matrix = (q - wide.repeat_interleave(each, 0)).double() * scales.double().repeat_interleave(each, 0)
    packed = marlin_zero_points(zeros, bits) if with_zeros else None
    return marlin_pack(q, bits), marlin_permute_scales(scales), packed, matrix


@pytest.mark.parametrize("implementation", ["triton", "torch", "reference"])
@pytest.mark.parametrize(
    ("tokens", "k", "n", "group", "bits", "dtype", "with_zeros"),
    [
        (3, 64, 128, -1, 4, torch.float16, False),
        (5, 96, 64, 32, 4, torch.float16, True),
        (18, 128, 64, 64, 4, torch.bfloat16, False),
        (2, 256, 64, 128, 4, torch.float32, True),
        (4, 80, 64, -1, 8, torch.float16, False),
        (4, 64, 128, 32, 8, torch.bfloat16, False),
    ],
)
def test_every_implementation_agrees_with_the_integers(  # type: ignore[no-untyped-def]
    tokens, k, n, group, bits, dtype, with_zeros, implementation
) -> None:
    words, scales, zeros, matrix = drawn(k, n, group, bits, dtype, with_zeros)
    x = torch.randn(tokens, k, generator=torch.Generator().manual_seed(2)).to(dtype)
    out = gptq_marlin_gemm(x, words, scales, zeros, bits=bits, implementation=implementation)
    wanted = x.double() @ matrix
    assert out.dtype == dtype and out.shape == (tokens, n)
    assert (out.double() - wanted).abs().max() <= TOLERANCE[dtype] * wanted.abs().max()


@pytest.mark.parametrize("implementation", ["triton", "reference"])
def test_a_desc_act_checkpoint_is_multiplied_in_its_order(implementation: str) -> None:
    k, n, generator = 64, 64, torch.Generator().manual_seed(3)
    g_idx = (torch.arange(k) // 32)[torch.randperm(k, generator=generator)]
    q, scales = torch.randint(0, 16, (k, n), generator=generator), torch.rand(2, n, generator=generator).half()
    perm = g_idx.argsort(stable=True)
    x = torch.randn(2, k, generator=generator).half()
    given = marlin_pack(q[perm]), marlin_permute_scales(scales)
    out = gptq_marlin_gemm(x, *given, perm=perm, implementation=implementation)
    wanted = x.double() @ ((q - 8).double() * scales.double()[g_idx])
    assert (out.double() - wanted).abs().max() <= 2e-3 * wanted.abs().max()
    unordered = gptq_marlin_gemm(x, *given, implementation="reference")
    assert (unordered.double() - wanted).abs().max() > 0.1 * wanted.abs().max()


def test_no_tokens_and_a_layers_checkpoint() -> None:
    words, scales, _, matrix = drawn(64, 64, -1, 4, torch.float32, False)
    assert gptq_marlin_gemm(torch.zeros(0, 64), words, scales, implementation="triton").shape == (0, 64)
    layer, tensors = Marlin(-1), {"B": words, "s": scales}
    dense = layer.dequantize(tensors, (64, 64))
    assert (dense.double() - matrix.T).abs().max() <= 1e-6 * matrix.abs().max()
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(2))
    for out in (layer.product(x, tensors, "triton"), layer.linear(x, tensors, (64, 64))):
        assert out.shape == (2, 3, 64)
        assert (out.double() - x.double() @ matrix).abs().max() <= 1e-5 * matrix.abs().max()


def test_what_does_not_fit_is_refused() -> None:
    words, scales, _, _ = drawn(64, 64, 32, 4, torch.float16, False)
    x = torch.zeros(2, 64).half()
    with pytest.raises(ContractError, match=r"bits.*4 or 8"):
        gptq_marlin_gemm(x, words, scales, bits=3)
    with pytest.raises(ContractError, match="b_q_weight"):
        gptq_marlin_gemm(x, words, scales, bits=8)
    with pytest.raises(ContractError, match=r"b_scales.*groups of multiples of 32"):
        gptq_marlin_gemm(x, words, scales.repeat(2, 1))
    with pytest.raises(ContractError, match=r"perm.*from 0 to 63"):
        gptq_marlin_gemm(x, words, scales, perm=torch.arange(1, 65))
    with pytest.raises(ContractError, match="b_scales"):
        gptq_marlin_gemm(x, words, scales.bfloat16())
