"""Sampling against the distributions that it is said to have."""

import math

import pytest
import torch

from sglab.engine import Req, SamplingParams
from sglab.serving.sampler import Sampler, distribution, uniform
from sglab.serving.sampling_info import SamplingInfo

CPU = torch.device("cpu")


def info(*params: dict) -> SamplingInfo:
    return SamplingInfo.of([Req(str(i), [1], sampling_params=SamplingParams(**p)) for i, p in enumerate(params)], CPU)


def expected(
    logits: torch.Tensor, temperature: float = 1.0, top_k: int = -1, top_p: float = 1.0, min_p: float = 0.0
) -> torch.Tensor:
    """The distribution, token by token in float64."""
    probs = (logits.double() / temperature).softmax(-1)
    kept = torch.zeros_like(probs)
    before = 0.0
    for rank, token in enumerate(sorted(range(len(probs)), key=lambda i: (-float(probs[i]), i))):
        p = float(probs[token])
        if (top_k == -1 or rank < top_k) and before <= top_p and p >= min_p * float(probs.max()):
            kept[token] = p
        before += p
    return kept / kept.sum()


CUTS = [{}, {"top_k": 3}, {"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 5, "top_p": 0.8, "min_p": 0.05, "temperature": 0.7}]


@pytest.mark.parametrize("cut", CUTS)
def test_the_cuts_keep_the_tokens_that_they_should(cut: dict) -> None:
    logits = torch.randn(4, 11, generator=torch.Generator().manual_seed(1)) * 2
    given = distribution(logits, info(*[cut] * 3, {"top_k": 2})).softmax(-1)
    for row in range(3):
        torch.testing.assert_close(given[row].double(), expected(logits[row], **cut), rtol=1e-5, atol=1e-7)


def chi_square(counts: torch.Tensor, probs: torch.Tensor) -> float:
    """The statistic over its degrees' mean, in standard deviations."""
    live = probs > 0
    assert int(counts[~live].sum()) == 0
    wanted = probs[live] * counts.sum()
    degrees = int(live.sum()) - 1
    statistic = float(((counts[live] - wanted) ** 2 / wanted).sum())
    return (statistic - degrees) / math.sqrt(2 * max(degrees, 1))


def test_tokens_of_one_pass_come_as_often_as_they_should() -> None:
    """As on a GPU; greedy rows between them take the largest logit."""
    rows = 20_000
    logits = torch.randn(8, generator=torch.Generator().manual_seed(3)).expand(rows, 8)
    sampler = Sampler(CPU, seed=1)
    sampler.in_one_pass = True
    params = [{"temperature": 0.7}, {"temperature": 0}] * (rows // 2)
    tokens = sampler(logits, logits, torch.zeros(rows, dtype=torch.int64), info(*params)).tokens
    assert (tokens[1::2] == logits[0].argmax()).all()
    assert chi_square(torch.bincount(tokens[::2], minlength=8), expected(logits[0], temperature=0.7)) < 5
    assert sampler.state.tolist() == [1, 1]


@pytest.mark.parametrize("seeded", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_tokens_come_as_often_as_they_should(cut: dict, seeded: bool) -> None:
    rows = 20_000
    logits = torch.randn(8, generator=torch.Generator().manual_seed(2)).expand(rows, 8)
    params = {**cut, **({"sampling_seed": 5} if seeded else {})}
    tokens = Sampler(CPU, 3)(logits, logits, torch.arange(rows), info(*[params] * rows)).tokens
    assert abs(chi_square(torch.bincount(tokens, minlength=8).double(), expected(logits[0], **cut))) < 5


def test_the_hash_is_uniform_and_depends_on_seed_position_and_token() -> None:
    values = uniform(torch.tensor([1, 2, 1]), torch.tensor([7, 7, 8]), 50_000)
    assert not torch.equal(values[0], values[1]) and not torch.equal(values[0], values[2])
    assert abs(float(values.mean()) - 0.5) < 0.005 and float(values.min()) > 0 and float(values.max()) < 1
    assert abs(float(torch.corrcoef(values)[0, 1])) < 0.02


def test_greedy_rows_are_greedy_among_others() -> None:
    logits = torch.randn(2, 9)
    tokens = Sampler(CPU)(logits, logits, torch.zeros(2, dtype=torch.int64), info({"temperature": 0}, {})).tokens
    assert tokens[0] == logits[0].argmax()
