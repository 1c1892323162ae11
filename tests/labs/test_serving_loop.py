"""The questions of notebook 06 know their answers, on engines driven as there."""

import pytest

pytest.importorskip("torch")

import sglab
from sglab.labs import serving_loop as lab

ROBOT = "A story about a small robot. "


@pytest.fixture(scope="module")
def engine() -> sglab.Engine:
    made = sglab.Engine(
        "tiny", page_size=4, max_total_tokens=512, chunked_prefill_size=64, disable_overlap_schedule=True
    )
    for end in ("Once upon a time", "The robot said", "In the garden there was a tree and"):
        made.submit(ROBOT + end, {"temperature": 0, "max_new_tokens": 4})
    made.run()
    return made


@pytest.fixture(scope="module")
def small() -> sglab.Engine:
    made = sglab.Engine(
        "tiny", page_size=4, max_total_tokens=160, schedule_conservativeness=0.1, disable_overlap_schedule=True
    )
    for end in ("Once upon a time", "The robot said"):
        made.submit(ROBOT + end, {"temperature": 0, "max_new_tokens": 60})
        made.step()
        made.step()
    made.run()
    return made


def test_a_line_shows_prefills_chunks_decodes_and_waits(engine: sglab.Engine) -> None:
    assert lab.timeline(engine.history) == "request 1  P ddd\nrequest 2  cPddd\nrequest 3  .Pddd"


def test_budget_prefix_and_books(engine: sglab.Engine) -> None:
    assert lab.tokens_of_step(engine, 1).check(64).right
    assert lab.tokens_of_step(engine, 1).check(2).right is False
    assert lab.balance(engine, 2).check(12).right


@pytest.mark.parametrize(("page_size", "answer"), [(1, 30), (4, 28), (16, 16), (32, 0)])
def test_a_tree_shares_whole_pages_of_any_size(page_size: int, answer: int) -> None:
    made = sglab.Engine("tiny", page_size=page_size, max_total_tokens=512, disable_overlap_schedule=True)
    handles = [made.submit(ROBOT + end, {"temperature": 0, "max_new_tokens": 2}) for end in ("Once", "The", "In a")]
    made.run()
    question = lab.shared_prefix(handles, page_size)
    assert question.check(answer).right
    assert lab.shared_prefix(handles, 64).check(30).right is False
    assert all(question.check(idea).text == told for idea, told in question.ideas if idea != answer)


def test_retraction(small: sglab.Engine) -> None:
    steps = small.history.of("request 2")
    assert any("request 2" in step.retracted for step in steps)
    assert "R" in lab.timeline(small.history).splitlines()[1]
    assert lab.retracted(small).check("request 2").right
    back = next(
        entry
        for step in steps
        if step.mode == "EXTEND" and entry_of(step).start + entry_of(step).new_tokens > 44
        for entry in step.batch
    )
    assert lab.computed_twice(small).check(back.new_tokens - 1).right


def entry_of(step: object) -> object:
    return next(entry for entry in step.batch if entry.rid == "request 2")  # type: ignore[attr-defined]


def test_the_exercise_is_judged_by_the_engines_tree() -> None:
    def cached(served: list[list[int]], prompt: list[int], page: int) -> int:
        best = 0
        for tokens in served:
            most = min(len(tokens) // page, len(prompt) // page) * page
            same = next((i for i in range(most) if tokens[i] != prompt[i]), most)
            best = max(best, same // page * page)
        return best

    cases = lab.prefix_cases(seed=3, count=20)
    right = [cached(*case) for case in cases]
    assert lab.cached_prefixes(cases).check(right).right
    assert lab.cached_prefixes(cases).check([0] * 20).right is False
    assert len(set(right)) > 5


def test_new_tokens_begin_after_the_cached_ones() -> None:
    prefill = sglab.extend_batch([100, 40], [64, 0], num_heads=4, page_size=64)
    positions, starts = prefill.forward_batch.positions, prefill.forward_batch.extend_start_loc
    for request in range(2):
        assert lab.first_position(prefill, request).check(int(positions[starts[request]])).right


def test_evictable_tokens_are_what_eviction_gives_back() -> None:
    cached = sglab.decode_batch([200, 130], num_heads=4, page_size=64)
    cached.share_prefix(0, tokens=128)
    cached.free(1, keep_cached=True)
    question = lab.evictable_tokens(cached)
    assert question.check(320).right is False
    assert question.check(cached.evict(10_000)).right  # what it was before, also afterwards
