"""Routing by hand: what is chosen, and with what weight."""

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.layers.moe import TopK


def sigmoid_logits(scores: list[float]) -> torch.Tensor:
    return torch.tensor([scores]).logit()


def test_softmax_and_renormalisation() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 3.0]]).log1p()  # scores 0.1, 0.2, 0.3, 0.4
    kept, whole = TopK(2, renormalize=False)(logits), TopK(2)(logits)
    assert kept.ids.tolist() == whole.ids.tolist() == [[3, 2]]
    assert torch.allclose(kept.weights, torch.tensor([[0.4, 0.3]]))
    assert torch.allclose(whole.weights, torch.tensor([[4 / 7, 3 / 7]]))


def test_the_correction_bias_only_chooses() -> None:
    bias = torch.tensor([0.0, 0.0, 0.5, 0.0])
    routing = TopK(2, "sigmoid", renormalize=False)(sigmoid_logits([0.9, 0.6, 0.3, 0.1]), bias)
    assert set(routing.ids[0].tolist()) == {0, 2}
    assert sorted(routing.weights[0].tolist()) == pytest.approx([0.3, 0.9])


def test_groups_by_their_best_expert_or_with_a_bias_by_the_two_best() -> None:
    scores = sigmoid_logits([0.9, 0.1, 0.6, 0.5])  # groups {0, 1} and {2, 3}
    by_best = TopK(1, "sigmoid", num_expert_group=2, topk_group=1)(scores)
    by_two = TopK(1, "sigmoid", num_expert_group=2, topk_group=1)(scores, torch.zeros(4))
    assert by_best.ids.tolist() == [[0]]
    assert by_two.ids.tolist() == [[2]]


def test_the_scaling_factor_comes_after_renormalisation() -> None:
    routing = TopK(3, "sigmoid", routed_scaling_factor=2.5)(torch.randn(7, 8))
    assert torch.allclose(routing.weights.sum(-1), torch.full((7,), 2.5))


def test_more_experts_than_the_groups_have_are_refused() -> None:
    with pytest.raises(BadArgumentError, match="top_k: expected 5 experts to choose, got 8 experts in 4 groups, 2"):
        TopK(5, num_expert_group=4, topk_group=2)(torch.randn(1, 8))
