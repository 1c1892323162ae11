"""Greedy tokens of a real model do not depend on scheduling: fp32, so exactly."""

from functools import lru_cache
from typing import Any

from hypothesis import HealthCheck, given, settings

from sglab.serving import Engine
from tests.support.serving.graphs import finding_inputs
from tests.support.serving.histories import MOST, PROMPTS, assert_no_slot_is_lost, histories, run
from tests.support.serving.tiny import tiny_llama


@lru_cache(maxsize=1)
def alone() -> list[list[int]]:
    """What each request generates by itself, without a cache."""
    outputs = []
    for prompt in PROMPTS:
        engine = Engine(tiny_llama(), disable_radix_cache=True, max_total_tokens=256)
        outputs.append(engine.generate(prompt, {"temperature": 0, "max_new_tokens": MOST}).token_ids)
    return outputs


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_tokens_are_those_of_a_request_alone(history: dict[str, Any]) -> None:
    with Engine(tiny_llama(), check_invariants=True, **history["options"]) as engine:
        outputs = run(engine, history["requests"])
        for output, (which, count, _) in zip(outputs, history["requests"], strict=True):
            assert output.token_ids == alone()[which][:count], output
            assert output.finish_reason == "length"
        assert_no_slot_is_lost(engine)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories())
def test_tokens_of_graphs_that_find_their_inputs_are_those_of_a_request_alone(history: dict[str, Any]) -> None:
    with finding_inputs(
        Engine(tiny_llama(), check_invariants=True, **{**history["options"], "cuda_graph": True})
    ) as engine:
        outputs = run(engine, history["requests"])
        for output, (which, count, _) in zip(outputs, history["requests"], strict=True):
            assert output.token_ids == alone()[which][:count], output
        assert_no_slot_is_lost(engine)
