"""Passes that fail, at any step of any schedule: no page is lost, and nobody reads what was never written."""

from functools import lru_cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglab.models import from_config
from sglab.serving import Engine, parts
from tests.support.serving.histories import MOST, PROMPTS, assert_no_slot_is_lost, histories, run
from tests.support.serving.late import LateExecution
from tests.support.serving.tiny import CONFIG, tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": MOST}


@lru_cache(maxsize=1)
def alone() -> list[list[int]]:
    one: dict[str, Any] = {"disable_radix_cache": True, "max_total_tokens": 256}
    return [Engine(tiny_llama(), **one).generate(prompt, GREEDY).token_ids for prompt in PROMPTS]


def failing_at(engine: Engine, numbers: set[int]) -> set[int]:
    """Passes of these numbers raise before they compute anything. Returns the numbers, to be cleared."""
    forward, count, passes = engine.runs.forward, iter(range(10**6)), set(numbers)

    def maybe(inputs: Any) -> Any:
        if next(count) in passes:
            raise RuntimeError("out of luck")
        return forward(inputs)

    engine.runs.forward = maybe  # type: ignore[method-assign]
    return passes


@pytest.fixture(params=[False, True], ids=["in a thread", "as late as can be"], scope="module")
def execution(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setattr(parts, "ThreadExecution", LateExecution)
        yield


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories(), st.sets(st.integers(0, 25), max_size=4))
def test_requests_fail_alone_and_nothing_of_them_stays(
    execution: Any, history: dict[str, Any], failing: set[int]
) -> None:
    with Engine(tiny_llama(), check_invariants=True, **history["options"]) as engine:
        passes = failing_at(engine, failing)
        for output, (which, count, _) in zip(run(engine, history["requests"]), history["requests"], strict=True):
            assert output.token_ids == alone()[which][: len(output.token_ids)], output
            assert output.finish_reason in ("length", "abort")
            assert (output.finish_reason == "length") == (len(output.token_ids) == count) or failing
        assert_no_slot_is_lost(engine)
        passes.clear()
        again = run(engine, [(which, MOST, 0) for which in range(len(PROMPTS))])
        assert [output.token_ids for output in again] == alone()
        assert_no_slot_is_lost(engine)


def test_a_chunk_that_failed_is_not_a_prefix_of_the_next_request() -> None:
    """With overlap the next chunk is planned, and the tree has this one, before it is known to have failed."""
    options = {"page_size": 1, "chunked_prefill_size": 4, "max_total_tokens": 256, "check_invariants": True}
    prompt = max(PROMPTS, key=len)
    with Engine(tiny_llama(), disable_overlap_schedule=False, **options) as engine:
        passes = failing_at(engine, {1})
        handle = engine.submit(prompt, GREEDY)
        engine.run()
        assert handle.output().finish_reason == "abort"
        passes.clear()
        assert engine.generate(prompt, GREEDY).token_ids == alone()[PROMPTS.index(prompt)]


def test_a_decode_that_failed_is_not_in_the_tree() -> None:
    """A prefill's result puts its tokens into the tree, with the one whose decode is on its way."""
    prompt = PROMPTS[0]
    with Engine(tiny_llama(), disable_overlap_schedule=False, max_total_tokens=128, check_invariants=True) as engine:
        passes = failing_at(engine, {1})
        handle = engine.submit(prompt, GREEDY)
        engine.run()
        assert handle.output().finish_reason == "abort"
        passes.clear()
        assert engine.generate(prompt, GREEDY).token_ids == alone()[0]


@pytest.mark.parametrize("failing", range(4))
@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_the_pass_of_a_requests_last_token_fails(tokens: int, failing: int) -> None:
    """With overlap the request has left the running batch by then, and must be found all the same."""
    with Engine(tiny_llama(), disable_overlap_schedule=False, max_total_tokens=128, check_invariants=True) as engine:
        failing_at(engine, {failing})
        handles = [engine.submit(prompt, {"temperature": 0, "max_new_tokens": tokens}) for prompt in PROMPTS[:2]]
        for _ in range(12):
            engine.step()
        assert all(handle.finished for handle in handles)
        assert handles[0].output().finish_reason == ("abort" if failing < tokens else "length")
        assert_no_slot_is_lost(engine)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("backend", ["torch_native", "triton"])
@pytest.mark.parametrize("failing", range(4))
def test_failing_passes_on_a_gpu(failing: int, backend: str) -> None:
    made = from_config({**CONFIG, "hidden_size": 256, "head_dim": 64}, "float32", "cuda", 0)
    options = {"attention_backend": backend, "cuda_graph": False, "max_total_tokens": 256, "chunked_prefill_size": 8}
    plain = Engine(made, disable_overlap_schedule=True, **options).generate(PROMPTS, GREEDY)
    with Engine(made, check_invariants=True, **options) as engine:
        passes = failing_at(engine, {failing, failing + 2})
        handles = [engine.submit(prompt, GREEDY) for prompt in PROMPTS]
        engine.run()
        assert any(handle.output().finish_reason == "abort" for handle in handles)
        assert_no_slot_is_lost(engine)
        passes.clear()
        assert [one.token_ids for one in engine.generate(PROMPTS, GREEDY)] == [one.token_ids for one in plain]
