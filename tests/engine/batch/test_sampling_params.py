"""Sampling values out of range are refused by name."""

import pytest

from sglab.engine import BadArgumentError, FinishLength, FinishMatchedStr, FinishMatchedToken, Req, SamplingParams


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "hot"),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("top_k", 0),
        ("top_k", -2),
        ("top_k", 1.5),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("frequency_penalty", 2.5),
        ("presence_penalty", -2.5),
        ("repetition_penalty", 0.0),
        ("max_new_tokens", 0),
        ("max_new_tokens", True),
        ("min_new_tokens", -1),
        ("min_new_tokens", 1000),
        ("sampling_seed", 2**63),
        ("sampling_seed", 1.0),
        ("stop", [""]),
        ("stop", ["x"] * 33),
        ("stop_token_ids", "ab"),
        ("stop_token_ids", [-1]),
        ("logit_bias", {3: float("inf")}),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(BadArgumentError, match=rf"^{name}.*: expected .*, got "):
        SamplingParams(**{name: value})


def test_tokens_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(BadArgumentError, match="stop_token_ids"):
        SamplingParams(stop_token_ids=[10]).verify(10)
    with pytest.raises(BadArgumentError, match="logit_bias"):
        SamplingParams(logit_bias={10: 1.0}).verify(10)


def test_params_are_made_from_a_mapping() -> None:
    assert SamplingParams.of({"temperature": 0, "stop": "x"}).stop == ("x",)
    assert SamplingParams.of(None) == SamplingParams()
    with pytest.raises(BadArgumentError, match="'temprature'"):
        SamplingParams.of({"temprature": 0})


def test_greedy_is_a_temperature_of_zero_or_a_choice_of_one() -> None:
    assert SamplingParams(temperature=0).is_greedy and SamplingParams(top_k=1).is_greedy
    assert not SamplingParams().is_greedy


def finished(output: list[int], new: int = 1, **sampling: object) -> Req:
    req = Req("r", [1], list(output), sampling_params=SamplingParams(**sampling), eos_token_ids=frozenset({0}))
    req.update_finish_state(lambda ids: "".join(chr(97 + i) for i in ids), new)
    return req


def test_a_request_ends_with_eos_a_stop_token_a_stop_string_or_its_length() -> None:
    assert finished([5, 0]).finished_reason == FinishMatchedToken(0)
    assert finished([5, 0], ignore_eos=True).finished_reason is None
    assert finished([5, 7], stop_token_ids=[7]).finished_reason == FinishMatchedToken(7)
    assert finished([1, 2], stop=["bc"]).finished_reason == FinishMatchedStr("bc")
    assert finished([5, 6], max_new_tokens=2).finished_reason == FinishLength(2)


def test_a_stop_string_comes_before_a_stop_token_and_that_before_the_length() -> None:
    assert finished([1, 2], stop=["c"], stop_token_ids=[2], max_new_tokens=2).finished_reason == FinishMatchedStr("c")
    assert finished([1, 2], stop_token_ids=[2], max_new_tokens=2).finished_reason == FinishMatchedToken(2)


def test_drafts_accepted_after_the_end_are_dropped() -> None:
    req = finished([5, 6, 0, 9, 9], new=4)
    assert req.output_ids == [5, 6, 0] and req.text_ids() == [5, 6]
