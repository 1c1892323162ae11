"""fused_experts over FP8 in blocks, W4A8 and MXFP4, and the dense FP8 product: Triton and torch agree with float64.

A product that differs in its last bit may round an activation of the second product to the next e4m3 value, so results
are compared to within one such step of a few activations.
"""

import pytest
import torch

from sglab.kernels import ContractError, fused_experts, w8a8_block_fp8_matmul
from sglab.kernels.formats.fp8 import per_block_cast_to_fp8, per_token_group_quant_fp8
from sglab.kernels.formats.int4 import pack_int4, unpack_int4
from sglab.kernels.formats.microscaling import quantize_mxfp4
from sglab.kernels.fused_moe import ExpertQuantization, mxfp4_experts

EXPERTS, HIDDEN, SIZE = 4, 64, 32
TOLERANCE = {"fp8_block": 1e-2, "w4a8": 1e-2, "mxfp4": 1e-5}
"""Of the largest output; in bfloat16 four times that and 1e-2."""


def fp8_blocks(w: torch.Tensor, block: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [per_block_cast_to_fp8(one, block) for one in w]
    return torch.stack([q for q, _ in pairs]), torch.stack([s for _, s in pairs])


def int4_groups(w: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    groups = w.unflatten(-1, (-1, size))
    scale = groups.abs().amax(-1) / 7
    return pack_int4((groups / scale[..., None]).round().clamp(-8, 7).flatten(-2).to(torch.int8)), scale


def drawn(kind: str, tokens: int, seed: int, hidden: int = HIDDEN, size: int = SIZE, group: int = 32):  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(seed)
    w1 = torch.randn(EXPERTS, 2 * size, hidden, generator=generator) * hidden**-0.5
    w2 = torch.randn(EXPERTS, hidden, size, generator=generator) * size**-0.5
    if kind == "fp8_block":
        (q1, s1), (q2, s2) = fp8_blocks(w1, (48, group)), fp8_blocks(w2, (48, group))
        quantization = ExpertQuantization(kind, s1, s2, (48, group))
    elif kind == "w4a8":
        (q1, s1), (q2, s2) = int4_groups(w1, group), int4_groups(w2, group)
        quantization = ExpertQuantization(kind, s1, s2, (1, group), torch.tensor([0.01]), torch.tensor([0.004]))
    else:
        (q1, s1), (q2, s2) = quantize_mxfp4(w1), quantize_mxfp4(w2)
        quantization = mxfp4_experts(s1, s2)
    ids = torch.rand(tokens, EXPERTS, generator=generator).argsort(-1)[:, :2].contiguous()
    ids[torch.rand(ids.shape, generator=generator) < 0.2] = -1
    return {
        "hidden": torch.randn(tokens, hidden, generator=generator),
        "w1": q1,
        "w2": q2,
        "topk_weights": torch.rand(tokens, 2, generator=generator),
        "topk_ids": ids,
    }, quantization


@pytest.mark.parametrize("implementation", ["torch", "triton"])
@pytest.mark.parametrize("kind", list(TOLERANCE))
@pytest.mark.parametrize("tokens", [3, 19])
def test_every_implementation_agrees(kind: str, tokens: int, implementation: str) -> None:
    given, quantization = drawn(kind, tokens, tokens)
    expected = fused_experts(**given, quantization=quantization, implementation="reference")
    out = fused_experts(**given, quantization=quantization, implementation=implementation)
    assert float((out - expected).abs().max()) <= TOLERANCE[kind] * float(expected.abs().max())


@pytest.mark.parametrize("implementation", ["torch", "triton"])
def test_the_dense_product(implementation: str) -> None:
    x, w = torch.randn(5, 96), torch.randn(70, 96)
    (qx, sx), (qw, sw) = per_token_group_quant_fp8(x, 32), per_block_cast_to_fp8(w, (48, 32))
    expected = w8a8_block_fp8_matmul(qx, qw, sx, sw, (48, 32), torch.float32, implementation="reference")
    out = w8a8_block_fp8_matmul(qx, qw, sx, sw, (48, 32), torch.float32, implementation=implementation)
    assert torch.allclose(out, expected, rtol=1e-5, atol=1e-4)
    assert float((expected - x @ w.T).norm() / (x @ w.T).norm()) < 0.05


def test_signed_nibbles() -> None:
    values = torch.arange(-8, 8, dtype=torch.int8)
    assert torch.equal(unpack_int4(pack_int4(values)), values)
    assert pack_int4(torch.tensor([1, -2], dtype=torch.int8)).view(torch.uint8).item() == 0xE1


def test_what_does_not_fit_is_refused() -> None:
    given, quantization = drawn("w4a8", 3, 0)
    bad = ExpertQuantization("w4a8", quantization.w1_scale[:, :-1], quantization.w2_scale, (1, 32))
    with pytest.raises(ContractError, match=r"w1_scale must be of shape \(experts, 64, 2\)"):
        fused_experts(**given, quantization=bad)
    bad = ExpertQuantization("w4a8", quantization.w1_scale, quantization.w2_scale, (1, 32))
    with pytest.raises(ContractError, match="a1_scale must be one number for w4a8"):
        fused_experts(**given, quantization=bad)
    with pytest.raises(ContractError, match=r"w1 must be .*uint8"):
        fused_experts(**given, quantization=mxfp4_experts(quantization.w1_scale, quantization.w2_scale))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("kind", list(TOLERANCE))
@pytest.mark.parametrize("tokens", [3, 200])
def test_on_a_gpu(kind: str, tokens: int) -> None:
    given, quantization = drawn(kind, tokens, tokens, 512, 256, 32 if kind == "mxfp4" else 128)
    moved = {name: None if one is None else one.cuda() if isinstance(one, torch.Tensor) else one
             for name, one in vars(quantization).items()}  # fmt: skip
    on_gpu = ExpertQuantization(**moved)
    inputs = {name: tensor.cuda() for name, tensor in given.items()}
    inputs["hidden"] = inputs["hidden"].bfloat16()
    expected = fused_experts(**inputs, quantization=on_gpu, implementation="reference").float()
    out = fused_experts(**inputs, quantization=on_gpu, implementation="triton").float()
    assert float((out - expected).abs().max()) <= (4 * TOLERANCE[kind] + 1e-2) * float(expected.abs().max())
