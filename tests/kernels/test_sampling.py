"""Sampling: what each filter keeps, and that draws follow what it leaves."""

import pytest
import torch

from sglab.kernels import ContractError, sampling
from tests.support.kernels.compare import assert_close

PROBS = torch.tensor([[0.1, 0.4, 0.05, 0.3, 0.15], [0.2, 0.2, 0.2, 0.2, 0.2]])


def test_filters_by_hand(device) -> None:
    """0.4 + 0.3 < 0.75 ≤ 0.4 + 0.3 + 0.15; among equals all pass together."""
    probs = PROBS.to(device)
    top_k = sampling.top_k_renorm_probs(probs, torch.tensor([2, 2], device=device))
    assert_close(top_k, torch.tensor([[0, 4 / 7, 0, 3 / 7, 0], [0.2] * 5]), 1e-6)
    top_p = sampling.top_p_renorm_probs(probs, torch.tensor([0.75, 1.0], device=device))
    assert_close(top_p, torch.tensor([[0, 8 / 17, 0, 6 / 17, 3 / 17], [0.2] * 5]), 1e-6)
    masked = sampling.top_k_mask_logits(probs, 3)
    assert masked[0].tolist()[0] == -torch.inf and (masked[0] > -torch.inf).sum() == 3
    assert_close(sampling.softmax(probs.log(), 0.5)[0], PROBS[0] ** 2 / (PROBS[0] ** 2).sum(), 1e-6)
    assert_close(sampling.top_p_renorm_probs(probs, 1.0), probs, 1e-6)


def frequencies(draw, rows: int = 20_000) -> torch.Tensor:
    tokens = draw(PROBS[:1].expand(rows, -1))
    return torch.bincount(tokens.long(), minlength=5) / rows


def test_draws_follow_the_filters(generator) -> None:
    """20,000 draws: a frequency is off by 0.02 once in 10^7 runs."""
    third = torch.tensor([0, 8 / 17, 0, 6 / 17, 3 / 17])
    pair = torch.tensor([0, 4 / 7, 0, 3 / 7, 0])
    for draw, wanted in (
        (lambda p: sampling.sampling_from_probs(p, generator), PROBS[0]),
        (lambda p: sampling.sampling_from_logits(p.log(), generator), PROBS[0]),
        (lambda p: sampling.top_k_sampling_from_probs(p, 2, generator), pair),
        (lambda p: sampling.top_p_sampling_from_probs(p, 0.75, generator), third),
        (lambda p: sampling.min_p_sampling_from_probs(p, 0.3, generator), third),
        (lambda p: sampling.top_k_top_p_sampling_from_probs(p, 3, 0.8, "top_k_first", generator), pair),
        (lambda p: sampling.top_k_top_p_sampling_from_logits(p.log(), 3, 0.8, "joint", generator), third),
    ):
        assert ((frequencies(draw) - wanted).abs() < 0.02).all()


def test_a_seed_repeats() -> None:
    draws = [sampling.sampling_from_probs(PROBS, torch.Generator().manual_seed(3)).tolist() for _ in range(2)]
    assert draws[0] == draws[1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sampling.top_k_renorm_probs(PROBS, 0), "top_k must be at least 1"),
        (lambda: sampling.top_p_renorm_probs(PROBS, 0.0), "top_p must be within"),
        (lambda: sampling.sampling_from_probs(PROBS * torch.nan), "probs must be finite and not negative"),
        (lambda: sampling.sampling_from_probs(PROBS * 0), "probs must be above 0"),
        (lambda: sampling.sampling_from_logits(PROBS - torch.inf), "logits must be above −inf"),
        (lambda: sampling.softmax(PROBS, 0.0), "temperature must be positive"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises(ContractError, match=message):
        call()
