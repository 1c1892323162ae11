"""A recording has every step with the slots that it found, follows who listens, and is gone when it is stopped."""

from __future__ import annotations

import random

import pytest

from sglab.engine import BadArgumentError
from sglab.engine.recording import Recording
from tests.support.serving.page_reader import PageReader, alone, request, scheduler


def test_every_pass_is_recorded_with_the_slots_that_its_tokens_lie_in() -> None:
    owner = scheduler(page=4, pages=24, chunked_prefill_size=8)
    recording, reader = Recording(owner), PageReader(owner)
    draw = random.Random(1)
    for i in range(6):
        owner.add_request(request(f"r{i}", [draw.randrange(50) for _ in range(draw.randrange(1, 20))], 6))
    steps = 0
    while reader.step():
        step = recording.pools[steps]
        for held in (each for each in step.held if each.in_batch):
            tokens = recording.tokens(held.rid)[: len(held.slots)]
            assert reader.pool[held.slots].tolist() == tokens
        assert [each.rid for each in step.held if each.in_batch] == [each.rid for each in recording.steps[steps].batch]
        steps += 1
    assert [record.step for record in recording.steps] == list(range(len(recording.pools)))
    assert list(recording.reqs) == [f"r{i}" for i in range(6)]


def test_with_overlap_a_step_is_there_once_its_result_is() -> None:
    owner = scheduler(enable_overlap=True)
    recording, reader = Recording(owner), PageReader(owner)
    owner.add_request(request("a", [1, 2, 3], 4))
    reader.step()
    assert not recording.steps and len(owner.history) == 1
    reader.run()
    assert [record.tokens.get("a") for record in recording.steps if record.tokens] == [[t] for t in alone([1, 2, 3], 4)]


def test_what_ran_before_is_known_as_the_history_has_it() -> None:
    owner = scheduler()
    reader = PageReader(owner)
    owner.add_request(request("before", [1, 2, 3], 2))
    reader.run()
    recording = Recording(owner)
    owner.add_request(request("after", [4, 5], 2))
    reader.run()
    assert len(recording.steps) == 4 and set(recording.pools) == {2, 3}
    assert recording.reqs["before"].prompt == [-1] * 3 and recording.text(recording.tokens("before")) == ""
    assert recording.tokens("after") == [4, 5, *alone([4, 5], 2)]
    with pytest.raises(BadArgumentError, match="rid: expected a recorded request, got 'nobody'"):
        recording.tokens("nobody")


def test_followers_hear_of_every_step_as_long_as_they_live() -> None:
    class Follower:
        heard = 0

    owner = scheduler()
    recording, reader, follower = Recording(owner), PageReader(owner), Follower()
    recording.follow(follower, lambda each: setattr(each, "heard", each.heard + 1))
    owner.add_request(request("a", [1, 2], 3))
    reader.run()
    assert follower.heard == 3
    del follower
    owner.add_request(request("b", [1, 2], 3))
    reader.run()


def test_a_stopped_recording_leaves_no_trace_and_tokens_are_the_same() -> None:
    def tokens(record: bool) -> list[list[int]]:
        owner = scheduler(pages=12, chunked_prefill_size=8)
        before = set(vars(owner)), set(vars(owner.tree_cache))
        recording = Recording(owner) if record else None
        reqs = [request(f"r{i}", [i, 1, 2, 3, 4, 5], 9) for i in range(8)]
        for req in reqs:
            owner.add_request(req)
        PageReader(owner).run()
        if recording:
            with recording:
                pass
            assert (set(vars(owner)), set(vars(owner.tree_cache))) == before
            assert "stopped" in repr(recording)
        return [req.output_ids for req in reqs]

    assert tokens(True) == tokens(False)


def test_only_one_scheduler_can_be_recorded() -> None:
    with pytest.raises(BadArgumentError, match="engine: expected one scheduler, got str"):
        Recording("engine")  # type: ignore[arg-type]
