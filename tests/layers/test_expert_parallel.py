"""Experts on several ranks: where EPLB puts copies, and tokens that travel to their experts and back."""

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.layers import SINGLE
from sglab.layers.moe import (
    ExpertExchange,
    ExpertLoad,
    rebalance_experts,
)
from tests.support.ranked_layers import HIDDEN, experts, routed, travelled, weights
from tests.support.ranks import on_ranks

LOAD = torch.tensor(
    [
        [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
        [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
    ]
)


def test_placements_are_upstreams() -> None:
    """Values of DeepSeek's own program, for its example: 12 experts in 4 groups, 16 copies, 2 nodes, 8 ranks."""
    placed = rebalance_experts(LOAD, 16, 4, 2, 8)
    assert placed.physical_to_logical.tolist() == [
        [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
        [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
    ]
    everywhere = rebalance_experts(LOAD, 16, 4, 2, 8, hierarchical=False)
    assert everywhere.physical_to_logical[0].tolist() == [10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1]
    assert everywhere.physical_to_logical[1].tolist() == [1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7]


@pytest.mark.parametrize("copies", [32, 48])
@pytest.mark.parametrize("hierarchical", [True, False])
def test_placements_hold_every_expert_and_level_the_load(copies: int, hierarchical: bool) -> None:
    load = torch.rand(3, 32) ** 4 * 1000
    placed = rebalance_experts(load, copies, 8, 2, 8, hierarchical)
    for layer in range(3):
        row = placed.physical_to_logical[layer]
        assert torch.equal(torch.bincount(row, minlength=32), placed.logical_count[layer])
        for expert in range(32):
            own = [place for place in placed.logical_to_physical[layer, expert].tolist() if place >= 0]
            assert len(own) == placed.logical_count[layer, expert] >= 1
            assert all(row[place] == expert for place in own)
        if hierarchical:  # a group's copies are on one node
            nodes = row.view(2, -1) // 4
            assert not set(nodes[0].tolist()) & set(nodes[1].tolist())
    plain = load.unflatten(1, (8, -1)).sum(-1).amax(-1)
    if not hierarchical:
        assert (placed.rank_loads(load, 8).amax(-1) <= plain + 1e-3).all()


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(BadArgumentError, match="num_gpus: expected a divisor of the 16 copies, got 5"):
        rebalance_experts(LOAD, 16, 1, 1, 5)
    with pytest.raises(BadArgumentError, match="num_replicas: expected at least 12, got 8"):
        rebalance_experts(LOAD, 8, 4, 2, 8)
    with pytest.raises(BadArgumentError, match="num_experts: expected a multiple of the 4 ranks, got 6"):
        ExpertExchange(6, 0, 4)


@pytest.mark.parametrize("physical", [None, (0, 1, 2, 3, 0, 3)], ids=["each once", "redundant"])
def test_tokens_travel_to_their_experts_and_back(physical: tuple[int, ...] | None) -> None:
    given, xs = weights(), [torch.randn(n, HIDDEN) for n in (6, 1)]
    whole = experts(SINGLE, given)
    answers = on_ranks(2, travelled, given, xs, physical, ep_size=2)
    for x, (normal, low_latency, in_fp8, copies) in zip(xs, answers, strict=True):
        expected = whole(x, routed(x))
        assert torch.allclose(normal, expected, rtol=1e-4, atol=1e-5)
        assert torch.allclose(low_latency, expected, rtol=1e-4, atol=1e-5)
        assert float((in_fp8 - expected).norm()) <= 0.1 * float(expected.norm()) + 1e-6
        assert torch.allclose(copies, torch.zeros_like(x), atol=1e-5)  # a token comes back once from each rank


def test_more_tokens_than_there_is_room_for() -> None:
    with pytest.raises(BadArgumentError, match="x: expected at most 2 tokens, got 3"):
        ExpertExchange(4, 0, 2, room=2).low_latency_dispatch(torch.zeros(3, 128), torch.zeros(3, 1, dtype=torch.int64))


def test_the_load_of_experts_is_counted() -> None:
    layer = experts(SINGLE, weights())
    load = ExpertLoad(layer)
    x = torch.randn(9, HIDDEN)
    layer(x, routed(x))
    layer(x, routed(x))
    load.close()
    layer(x, routed(x))
    assert int(load.counts.sum()) == 2 * 2 * 8
