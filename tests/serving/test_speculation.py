"""Speculation changes the number of passes and nothing else."""

import math

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.engine import BadArgumentError
from sglab.serving import Engine
from tests.support.serving.tiny import VOCAB, prompts, tiny_llama

REPEATING = [[3, 4, 5, 6] * 5, *prompts(3, 20)]


def options(algorithm: str, **more: object) -> dict:
    """STANDALONE drafts with the same model, or with another, which it says less well."""
    given = {"speculative_algorithm": algorithm, "max_total_tokens": 640, "check_invariants": True, **more}
    if algorithm == "STANDALONE":
        given = {"draft_model": tiny_llama(), "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 6, **given}
    return given


def plain(sampling: dict | list, **more: object) -> list[list[int]]:
    outputs = Engine(tiny_llama(), max_total_tokens=640, **more).generate(REPEATING, sampling)
    return [output.token_ids for output in outputs]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(["NGRAM", "STANDALONE"]),
    st.sampled_from([1, 4, 64]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(2, 9),
    st.booleans(),
    st.integers(0, 1),
)
def test_greedy_tokens_are_those_of_plain_decoding(
    algorithm: str, page: int, steps: int, topk: int, drafts: int, small: bool, seed: int
) -> None:
    more = {"speculative_num_draft_tokens": drafts, "page_size": page}
    if algorithm == "STANDALONE":
        more |= {
            "speculative_num_steps": steps,
            "speculative_eagle_topk": topk,
            "speculative_num_draft_tokens": min(drafts, 1 + topk + topk * topk * (steps - 1)),
            "draft_model": tiny_llama(seed),
        }
        more["speculative_num_draft_tokens"] = max(more["speculative_num_draft_tokens"], 2)
    if small:
        more |= {"max_total_tokens": 192, "schedule_conservativeness": 0.1}
    sampling = [{"temperature": 0, "max_new_tokens": n} for n in (20, 9, 1, 17)]
    engine = Engine(tiny_llama(), **options(algorithm, **more))
    assert [output.token_ids for output in engine.generate(REPEATING, sampling)] == plain(sampling)
    tree = engine.tree_cache
    assert engine.scheduler.allocator.available_size() + tree.evictable_size() == engine.scheduler.allocator.size


@pytest.mark.parametrize("algorithm", ["NGRAM", "STANDALONE"])
def test_fewer_passes_are_needed_and_acceptance_is_reported(algorithm: str) -> None:
    engine = Engine(tiny_llama(), **options(algorithm))
    engine.generate(REPEATING[0], {"temperature": 0, "max_new_tokens": 30})
    verified = [step for step in engine.history.steps if step.mode == "TARGET_VERIFY"]
    drafted, accepted = (sum(getattr(step, name) for step in verified) for name in ("drafted", "accepted"))
    assert 0 < accepted <= drafted
    assert sum(len(tokens) for step in verified for tokens in step.tokens.values()) == accepted + len(verified)
    if algorithm == "STANDALONE":
        assert len(verified) <= 10, "a perfect draft model is accepted every time, three drafts a pass"


@pytest.mark.parametrize("algorithm", ["NGRAM", "STANDALONE"])
def test_seeded_tokens_are_those_of_plain_decoding(algorithm: str) -> None:
    sampling = {"temperature": 0.6, "top_p": 0.9, "sampling_seed": 3, "max_new_tokens": 20}
    engine = Engine(tiny_llama(), **options(algorithm))
    assert [output.token_ids for output in engine.generate(REPEATING, sampling)] == plain(sampling)


def test_without_a_seed_the_distribution_is_the_targets() -> None:
    """Chi-square over the third token, which a draft may have brought, against its exact distribution."""
    model, prompt = tiny_llama(), [3, 4, 3, 4, 3]
    count, sampling = 1500, {"temperature": 1.5, "top_k": 3, "max_new_tokens": 2}
    engine = Engine(model, **options("NGRAM", max_running_requests=50, max_total_tokens=2000))
    seen = torch.zeros(VOCAB, VOCAB)
    for _ in range(count // 50):
        for output in engine.generate([prompt] * 50, sampling):
            seen[tuple(output.token_ids)] += 1
    exact = torch.zeros(VOCAB, VOCAB, dtype=torch.float64)
    tell = Engine(model, max_total_tokens=640)

    def three(tokens: list[int]) -> list[tuple[int, float]]:
        top = tell.generate(tokens, {"temperature": 0, "max_new_tokens": 1}, return_logprob=True, top_logprobs_num=3)
        weights = torch.tensor([p / 1.5 for _, p in top.top_logprobs[0]], dtype=torch.float64).softmax(-1)
        return [(token, float(w)) for (token, _), w in zip(top.top_logprobs[0], weights, strict=True)]

    for first, p in three(prompt):
        for second, q in three([*prompt, first]):
            exact[first, second] += p * q
    live = exact > 1e-4
    assert seen[exact == 0].sum() == 0
    statistic = float((((seen - exact * count) ** 2) / (exact * count))[live].sum())
    degrees = int(live.sum()) - 1
    assert (statistic - degrees) / math.sqrt(2 * degrees) < 5


def test_stop_tokens_inside_accepted_drafts_end_the_request() -> None:
    sampling = {"temperature": 0, "max_new_tokens": 20}
    tokens = plain(sampling)[0]
    for stop in {tokens[3], tokens[4], tokens[5]}:
        engine = Engine(tiny_llama(), **options("STANDALONE"))
        given = engine.generate(REPEATING[0], {**sampling, "stop_token_ids": [stop]}, return_logprob=True)
        assert given.token_ids == tokens[: tokens.index(stop) + 1]
        assert len(given.logprobs) == len(given.token_ids)
        engine.scheduler.check_invariants()


@pytest.mark.parametrize(
    "more", [{"frequency_penalty": 1.5}, {"min_new_tokens": 8, "stop_token_ids": [5]}, {"logit_bias": {7: 4.0}}]
)
def test_penalties_bans_and_biases_hold_with_drafts(more: dict) -> None:
    sampling = {"temperature": 0, "max_new_tokens": 14, **more}
    engine = Engine(tiny_llama(), **options("NGRAM"))
    assert [output.token_ids for output in engine.generate(REPEATING, sampling)] == plain(sampling)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"speculative_algorithm": "MEDUSA"}, "speculative_algorithm"),
        ({"speculative_algorithm": "STANDALONE"}, "draft_model: expected a model"),
        ({"draft_model": tiny_llama()}, "draft_model: expected a model"),
        ({"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 1}, "speculative_num_draft_tokens"),
        ({"speculative_algorithm": "NGRAM", "enable_mixed_chunk": True}, "enable_mixed_chunk"),
        ({"speculative_algorithm": "NGRAM", "disable_overlap_schedule": False}, "disable_overlap_schedule"),
        ({"speculative_algorithm": "STANDALONE", "draft_model": tiny_llama(vocab_size=32)}, "the target's vocabulary"),
        (
            {"speculative_algorithm": "STANDALONE", "draft_model": tiny_llama(), "speculative_num_draft_tokens": 9},
            "speculative_num_draft_tokens: expected at most 4",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(given: dict, message: str) -> None:
    with pytest.raises(BadArgumentError, match=message):
        Engine(tiny_llama(), max_total_tokens=256, **given)
