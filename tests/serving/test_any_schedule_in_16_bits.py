"""bfloat16 and float16: whatever is drawn, a request's greedy tokens are those of the request alone wherever the best
two logits are further apart than rounding moves them, as `tests/support/serving/rounding.py` derives it."""

from copy import deepcopy
from functools import lru_cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.engine import ForwardBatch
from sglab.models import CausalLM
from sglab.serving import Engine
from tests.support.serving.histories import MOST, PROMPTS, assert_no_slot_is_lost, histories, run
from tests.support.serving.rounding import Position, WrittenOut
from tests.support.serving.tiny import tiny_llama

DTYPES = ("bfloat16", "float16")
GREEDY = {"temperature": 0, "max_new_tokens": MOST}


@lru_cache(maxsize=2)
def model(dtype: str) -> CausalLM:
    return deepcopy(tiny_llama()).to(getattr(torch, dtype))


@lru_cache(maxsize=1000)
def positions(dtype: str, which: int, output: tuple[int, ...]) -> list[Position]:
    return WrittenOut(model(dtype)).positions(PROMPTS[which], output)


@lru_cache(maxsize=2)
def alone(dtype: str) -> list[list[int]]:
    """What each request generates by itself, without a cache."""
    one: dict[str, Any] = {"disable_radix_cache": True, "max_total_tokens": 256}
    return [Engine(model(dtype), **one).generate(prompt, GREEDY).token_ids for prompt in PROMPTS]


def departures(dtype: str, which: int, tokens: list[int]) -> list[int]:
    """Where `tokens` are not what they must be: those of the request alone, up to the first token in doubt that came
    out otherwise; after it the text is another one, and a certain token must be float64's after that text."""
    wanted, said = alone(dtype)[which], positions(dtype, which, tuple(tokens))
    wrong, same = [], True
    for i, (token, position) in enumerate(zip(tokens, said, strict=True)):
        expected = wanted[i] if same else position.token
        if position.certain and token != expected:
            wrong.append(i)
        same = same and token == wanted[i]
    return wrong


@pytest.mark.parametrize("dtype", DTYPES)
def test_most_tokens_are_certain_and_then_float64s(dtype: str) -> None:
    """What the property says nothing about is little: a rounding that were stated too large would show here, one that
    were too small by tokens of the engine's that are not float64's."""
    said = [positions(dtype, which, tuple(tokens)) for which, tokens in enumerate(alone(dtype))]
    certain = [position.certain for each in said for position in each]
    assert sum(certain) > {"bfloat16": 0.7, "float16": 0.9}[dtype] * len(certain)
    for which, tokens in enumerate(alone(dtype)):
        assert not departures(dtype, which, tokens)
        assert all(not each.certain or each.token == token for each, token in zip(said[which], tokens, strict=True))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.sampled_from(DTYPES), st.sampled_from(["auto", "flashinfer"]))
def test_certain_tokens_are_those_of_a_request_alone(history: dict[str, Any], dtype: str, backend: str) -> None:
    options = {"attention_backend": backend, "check_invariants": True, **history["options"]}
    with Engine(model(dtype), **options) as engine:
        outputs = run(engine, history["requests"])
        for output, (which, count, _) in zip(outputs, history["requests"], strict=True):
            assert len(output.token_ids) == count
            assert not departures(dtype, which, output.token_ids), (output, alone(dtype)[which])
        assert_no_slot_is_lost(engine)


def a_position_too_far(batch: ForwardBatch) -> None:
    if batch.forward_mode.is_decode():
        assert batch.positions is not None
        batch.positions = batch.positions + 1


def another_requests_newest_key(batch: ForwardBatch) -> None:
    if batch.forward_mode.is_decode():
        batch.out_cache_loc = batch.out_cache_loc.flip(0)


def one_key_forgotten(batch: ForwardBatch) -> None:
    """The first of each prompt, as a chunk that was written to the wrong page would be."""
    if batch.forward_mode.is_decode():
        assert batch.token_to_kv_pool is not None and batch.req_to_token_pool is not None
        first = batch.req_to_token_pool.req_to_token[batch.req_pool_indices, 0].long()
        for buffer in batch.token_to_kv_pool.named_buffers(0).values():
            buffer[first] = 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", [a_position_too_far, another_requests_newest_key, one_key_forgotten])
def test_a_fault_of_one_row_is_found(fault: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What such a fault does to the logits is more than rounding does."""
    with Engine(model(dtype), max_total_tokens=512, disable_radix_cache=True) as engine:
        prepare = engine.worker.backend.prepare

        def wrong(batch: ForwardBatch) -> None:
            fault(batch)
            prepare(batch)

        monkeypatch.setattr(engine.worker.backend, "prepare", wrong)
        outputs = run(engine, [(which, MOST, 0) for which in range(len(PROMPTS))])
        assert any(departures(dtype, which, output.token_ids) for which, output in enumerate(outputs))
