"""Layers on several GPUs over NCCL: what every rank ends with is what one CPU computes."""

import pytest
import torch

from sglab.layers import SINGLE
from sglab.layers.dp_attention import DpPaddingMode
from tests.support.ranked_layers import HIDDEN, WIDTH, drawn, experts, gathered, layers, routed, travelled, weights
from tests.support.ranks import on_ranks

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _enough_gpus(size: int) -> None:
    if torch.cuda.device_count() < size:
        pytest.skip(f"needs {size} NVIDIA GPUs; there are {torch.cuda.device_count()}")


@pytest.mark.parametrize(("size", "ep_size"), [(2, 1), (2, 2), (4, 2), (4, 4)])
def test_sharded_layers_are_the_unsharded_ones(size: int, ep_size: int) -> None:
    given, x = drawn(), torch.randn(5, WIDTH)
    expected = layers(SINGLE, given, x)
    for found in on_ranks(size, layers, given, x, ep_size=ep_size, device="cuda"):
        for name, tensor in expected.items():
            assert torch.allclose(found[name], tensor, rtol=1e-4, atol=1e-4), name


@pytest.mark.parametrize("mode", list(DpPaddingMode))
@pytest.mark.parametrize(("size", "counts"), [(2, (3, 2)), (4, (3, 2)), (4, (0, 5))])
def test_every_rank_has_all_groups_tokens(size: int, counts: tuple[int, ...], mode: DpPaddingMode) -> None:
    share = size // 2
    parts = [torch.arange(n * 3).view(-1, 3) + 100.0 * group for group, n in enumerate(counts)]
    if mode is DpPaddingMode.MAX_LEN:
        rows = -(-max(counts) // share) * share
        parts = [torch.cat((part, torch.zeros(rows - len(part), 3))) for part in parts]
    for whole, difference in on_ranks(size, gathered, counts, mode, dp_size=2, device="cuda"):
        assert torch.equal(whole, torch.cat(parts))
        assert not difference.any()


@pytest.mark.parametrize(("size", "physical"), [(2, None), (2, (0, 1, 2, 3, 0, 3)), (4, (0, 1, 2, 3, 0, 3, 1, 2))])
def test_tokens_travel_to_their_experts_and_back(size: int, physical: tuple[int, ...] | None) -> None:
    given, xs = weights(), [torch.randn(n, HIDDEN) for n in (6, 1, 0, 3)[:size]]
    whole = experts(SINGLE, given)
    answers = on_ranks(size, travelled, given, xs, physical, ep_size=size, device="cuda")
    for x, (normal, low_latency, in_fp8, copies) in zip(xs, answers, strict=True):
        expected = whole(x, routed(x))
        assert torch.allclose(normal, expected, rtol=1e-4, atol=1e-5)
        assert torch.allclose(low_latency, expected, rtol=1e-4, atol=1e-5)
        assert float((in_fp8 - expected).norm()) <= 0.1 * float(expected.norm()) + 1e-6
        assert torch.allclose(copies, torch.zeros_like(x), atol=1e-5)
