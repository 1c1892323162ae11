"""Penalties against their formula, and what they count."""

import torch

from sglab.engine import Req, SamplingParams
from sglab.serving.logits_adjuster import LogitsAdjuster
from sglab.serving.sampling_info import SamplingInfo

CPU = torch.device("cpu")


def test_a_repeated_token_is_scaled_and_the_others_stay() -> None:
    req = Req("r", [1], [2, 2, 3], sampling_params=SamplingParams(repetition_penalty=1.5, frequency_penalty=0.5))
    adjuster, rows = LogitsAdjuster(4, 5, CPU), torch.tensor([2])
    info = SamplingInfo.of([req], CPU)
    adjuster.start(2, req)
    logits = torch.tensor([[1.0, 1.0, 3.0, -3.0, 0.5]])
    given = adjuster.adjust(logits, info, rows, [req], [3])
    torch.testing.assert_close(given, torch.tensor([[1.0, 1.0, 2.0 - 1.0, -4.5 - 0.5, 0.5]]))
    assert logits[0, 2] == 3.0, "the model's logits stay"
    adjuster.count(info, rows, torch.tensor([4]))
    given = adjuster.adjust(logits, info, rows, [req], [4])
    assert given[0, 4] == torch.tensor(0.5) / 1.5 - 0.5


def test_a_row_of_a_former_owner_starts_at_nothing() -> None:
    params = SamplingParams(presence_penalty=1.0)
    old, new = Req("old", [1], [2, 3], sampling_params=params), Req("new", [1], sampling_params=params)
    adjuster = LogitsAdjuster(1, 5, CPU)
    adjuster.start(0, old)
    adjuster.start(0, new)
    logits = torch.zeros(1, 5)
    given = adjuster.adjust(logits, SamplingInfo.of([new], CPU), torch.tensor([0]), [new], [0])
    assert torch.equal(given, logits)


def test_a_bias_and_a_ban() -> None:
    params = SamplingParams(logit_bias={1: 2.5}, min_new_tokens=2, stop_token_ids=[3])
    req = Req("r", [1], sampling_params=params, eos_token_ids=frozenset({4}))
    adjuster, info = LogitsAdjuster(1, 5, CPU), SamplingInfo.of([req], CPU)
    for generated, banned in ((1, -torch.inf), (2, 0.0)):
        given = adjuster.adjust(torch.zeros(1, 5), info, torch.tensor([0]), [req], [generated])
        assert given.tolist() == [[0.0, 2.5, 0.0, banned, banned]]
