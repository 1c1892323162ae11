"""Sampling: what each filter keeps, and that draws follow what it leaves."""

import pytest
import torch

from sglab.kernels import ContractError, sampling
from sglab.kernels.sampling.gumbel import gumbel_argmax
from sglab.kernels.sampling.gumbel_torch import philox
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


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        (0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_philox_is_random123s(word: int, wanted: tuple[int, ...]) -> None:
    """Its known answers for 10 rounds: counter and key all zeros, all ones."""
    seed = torch.tensor(-1 if word else 0)
    assert tuple(int(part) for part in philox(seed, (torch.tensor(word),) * 4)) == wanted


@pytest.mark.parametrize(("rows", "width"), [(3, 1000), (2, 5003), (5, 1), (1, 1024), (130, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_pass_draws_the_same_tokens_as_torch(rows, width, dtype, device, generator) -> None:
    """The noise is a function of seed, draw, row and token, so both draw one token."""
    logits = torch.randn(rows, width + 8, generator=generator).mul(3).to(device, dtype)[:, :width]
    temperatures = (torch.rand(rows, generator=generator) + 0.3).to(device)
    greedy = torch.zeros(rows, dtype=torch.bool, device=device)
    greedy[-1] = True
    states = [torch.tensor([0x123456789ABCDEF, 2**33 + 5], device=device) for _ in range(2)]
    for _ in range(2):
        mine, theirs = (
            gumbel_argmax(logits, temperatures, greedy, state, implementation=name)
            for name, state in zip(("triton", "torch"), states, strict=True)
        )
        assert mine.tolist() == theirs.tolist()
        assert int(mine[-1]) == int(logits[-1].argmax())
    assert [state.tolist() for state in states] == [[0x123456789ABCDEF, 2**33 + 7]] * 2


def test_one_pass_follows_the_softmax(device) -> None:
    """20,000 draws at two temperatures: a frequency is off by 0.02 once in 10^7 runs. Banned tokens never come."""
    probs = torch.tensor([0.1, 0.4, 0.05, 0.3, 0.0, 0.15], device=device)
    for temperature in (1.0, 0.5):
        rows = 20_000
        state = torch.tensor([7, 0], device=device)
        greedy = torch.zeros(rows, dtype=torch.bool, device=device)
        given = torch.full((rows,), temperature, device=device)
        tokens = gumbel_argmax(probs.log().expand(rows, -1), given, greedy, state)
        wanted = probs ** (1 / temperature)
        found = torch.bincount(tokens, minlength=6) / rows
        assert float((found - wanted / wanted.sum()).abs().max()) < 0.02
        assert found[4] == 0


def test_what_one_pass_refuses(device) -> None:
    state = torch.tensor([0, 0], device=device)
    logits, greedy = torch.zeros(2, 5, device=device), torch.zeros(2, dtype=torch.bool, device=device)
    with pytest.raises(ContractError, match="temperatures must be above 0"):
        gumbel_argmax(logits, torch.tensor([1.0, 0.0], device=device), greedy, state, check_values=True)
    with pytest.raises(ContractError, match="adjacent columns"):
        gumbel_argmax(logits.T.contiguous().T, torch.ones(2, device=device), greedy, state)
    with pytest.raises(ContractError, match="logits must be numbers below"):
        gumbel_argmax(logits / 0, torch.ones(2, device=device), greedy, state, check_values=True)
