"""fused_experts and moe_align_block_size: every implementation agrees with the reference, padding and absent experts
included."""

import pytest
import torch

from sglab.kernels import ContractError, fused_experts, moe_align_block_size

TOLERANCE = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


def drawn(
    tokens: int, topk: int, experts: int, hidden: int, size: int, dtype: torch.dtype, seed: int, absent: bool = False
) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    ids = torch.rand(tokens, experts, generator=generator).argsort(-1)[:, :topk].contiguous()
    if absent:
        ids[torch.rand(ids.shape, generator=generator) < 0.4] = -1
    return {
        "hidden": normal(tokens, hidden),
        "w1": normal(experts, 2 * size, hidden) * hidden**-0.5,
        "w2": normal(experts, hidden, size) * size**-0.5,
        "topk_weights": torch.rand(tokens, topk, generator=generator),
        "topk_ids": ids,
        "w1_bias": normal(experts, 2 * size),
        "w2_bias": normal(experts, hidden),
    }


CASES = [
    pytest.param((1, 2, 4, 32, 16), "silu", False, id="one token"),
    pytest.param((5, 3, 6, 40, 24), "swiglu_oai", False, id="few tokens, odd sizes"),
    pytest.param((33, 2, 4, 32, 48), "gelu", True, id="many tokens, absent experts"),
]


@pytest.mark.parametrize("implementation", ["torch", "triton"])
@pytest.mark.parametrize(("shape", "activation", "absent"), CASES)
@pytest.mark.parametrize("biased", [False, True])
def test_every_implementation_agrees(
    shape: tuple[int, ...], activation: str, absent: bool, biased: bool, implementation: str
) -> None:
    given = drawn(*shape, torch.float32, sum(shape), absent)
    if not biased:
        given |= {"w1_bias": None, "w2_bias": None}  # type: ignore[dict-item]
    expected = fused_experts(**given, activation=activation, implementation="reference")
    out = fused_experts(**given, activation=activation, implementation=implementation)
    assert float((out - expected).abs().max()) <= TOLERANCE[torch.float32] * float(expected.abs().max())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("tokens", [1, 7, 200])
def test_on_a_gpu(tokens: int, dtype: torch.dtype) -> None:
    given = {name: tensor.cuda() for name, tensor in drawn(tokens, 4, 16, 256, 192, dtype, tokens).items()}
    expected = fused_experts(**given, implementation="reference").float()
    out = fused_experts(**given, implementation="triton").float()
    assert float((out - expected).abs().max()) <= TOLERANCE[dtype] * float(expected.abs().max())


@pytest.mark.parametrize("implementation", ["torch", "reference"])
def test_blocks_belong_to_one_expert_each(implementation: str) -> None:
    ids = torch.tensor([[2, 3, 4], [1, 2, 4], [1, 3, 4], [1, 2, 3]])
    sorted_ids, expert_ids, end = moe_align_block_size(ids, 4, 5, implementation=implementation)
    assert sorted_ids[:16].tolist() == [3, 6, 9, 12, 0, 4, 10, 12, 1, 7, 11, 12, 2, 5, 8, 12]
    assert expert_ids[:4].tolist() == [1, 2, 3, 4]
    assert end.tolist() == [16]


@pytest.mark.parametrize("seed", range(5))
def test_sorting_agrees_with_the_reference(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(-1, 7, (1 + seed * 9, 3), generator=generator)
    given = [moe_align_block_size(ids, 8, 7, implementation=name) for name in ("torch", "reference")]
    for mine, expected in zip(*given, strict=True):
        assert torch.equal(mine, expected)


def test_what_is_wrong_is_named() -> None:
    given = drawn(3, 2, 4, 16, 8, torch.float32, 0)
    with pytest.raises(ContractError, match=r"topk_ids must be from -1 to 3; got topk_ids\[0, 0\] = 4"):
        fused_experts(**{**given, "topk_ids": torch.full((3, 2), 4)})
    with pytest.raises(ContractError, match="w2 must be of shape"):
        fused_experts(**{**given, "w2": given["w2"][:, :, :4]})
    with pytest.raises(ContractError, match="activation must be"):
        fused_experts(**given, activation="relu")


@pytest.mark.parametrize("tokens", [1, 3])
def test_calls_like_one_before_are_served_and_give_what_a_checked_call_gives(tokens: int) -> None:
    """The weights are parameters, as a layer's are; -1 stands for an expert of another rank."""
    generator = torch.Generator().manual_seed(0)
    w1, w2 = (
        torch.nn.Parameter(torch.randn(shape, generator=generator), requires_grad=False)
        for shape in ((4, 12, 8), (4, 8, 6))
    )
    for _ in range(4):
        x, weights = torch.randn(tokens, 8, generator=generator), torch.rand(tokens, 3, generator=generator)
        ids = torch.stack([torch.randperm(5, generator=generator)[:3] - 1 for _ in range(tokens)])
        given = (x, w1, w2, weights, ids)
        found = fused_experts(*given, check_values=False)
        wanted = fused_experts(*given, implementation="reference")
        torch.testing.assert_close(found, wanted)
    with pytest.raises(ContractError, match="w2 must be"):
        fused_experts(x, w1, w2[:, :-1], weights, ids, check_values=False)
