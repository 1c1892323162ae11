"""Graphs that count lengths and write slots to the requests' rows themselves: the same tokens, and no slot is lost."""

from typing import Any

import pytest
import torch

from sglab.engine.batch import AdvancingBatch
from sglab.engine.graphs import GraphInputBuffers
from sglab.serving import Engine
from tests.support.serving.graphs import advancing
from tests.support.serving.tiny import prompts, tiny_llama

GREEDY: dict[str, Any] = {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}
SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": GREEDY,
    "short": {**GREEDY, "max_new_tokens": 4},
    "drawn": {"temperature": 1.0, "sampling_seed": 3, "max_new_tokens": 9},
    "penalized": {**GREEDY, "repetition_penalty": 1.5},
    "banned": {**GREEDY, "ignore_eos": False, "stop_token_ids": tuple(range(32)), "min_new_tokens": 5},
}
OPTIONS: list[dict[str, Any]] = [
    {},
    {"page_size": 16},
    {"chunked_prefill_size": 16, "enable_mixed_chunk": True},
    {"max_total_tokens": 192, "schedule_conservativeness": 0.05},
    {"disable_radix_cache": True, "cuda_graph_bs": (1, 12)},
]


def engine(**options: Any) -> Engine:
    room = {"max_total_tokens": 1024, "cuda_graph_bs": (1, 2, 4, 16), "disable_overlap_schedule": True, **options}
    return advancing(Engine(tiny_llama(), cuda_graph=True, check_invariants=True, **room))


def decoding(made: Engine, count: int) -> None:
    for prompt in prompts(count):
        made.submit(prompt, GREEDY)
    while made.scheduler.waiting_queue or made.history.steps[-1].mode != "DECODE":
        made.step()


@pytest.mark.parametrize("names", [[name] for name in SAMPLINGS] + [[*SAMPLINGS]], ids="+".join)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("overlap", [False, True])
def test_tokens_are_those_of_passes_run_as_they_are(overlap: bool, options: dict[str, Any], names: list[str]) -> None:
    samplings = [SAMPLINGS[names[i % len(names)]] for i in range(9)]
    plain = Engine(tiny_llama(), max_total_tokens=1024, cuda_graph=False)
    with engine(disable_overlap_schedule=not overlap, **options) as made, plain:
        for _ in range(2):
            outputs = made.generate(prompts(9), samplings)
            wanted = plain.generate(prompts(9), samplings)
            assert [each.token_ids for each in outputs] == [each.token_ids for each in wanted]
        assert made.worker.graph_runner.replays
        made.flush_cache()
        assert made.scheduler.allocator.available_size() == made.scheduler.allocator.size


def test_a_steady_step_copies_its_slots_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine() as made:
        decoding(made, 3)
        made.step()
        scheduled = made.scheduler.get_next_batch_to_run()
        batch = scheduled.worker_batch
        assert isinstance(batch, AdvancingBatch) and not batch.rows_written
        buffers = made.worker.graph_runner.buffers
        monkeypatch.setattr(GraphInputBuffers, "begin", lambda *given: pytest.fail("inputs were all written"))
        made.worker.forward(made.worker.inputs(scheduled))
        assert batch.rows_written
        assert buffers.seq_lens.tolist()[:4] == [*batch.seq_lens_cpu.tolist(), buffers.fill]
        assert torch.equal(batch.seq_lens, batch.seq_lens_cpu)
        rows = made.runner.req_to_token_pool.req_to_token
        assert torch.equal(rows[batch.req_pool_indices, batch.seq_lens - 1].long(), batch.out_cache_loc)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_pass_that_fails_before_its_launch_loses_no_slot(overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine(disable_overlap_schedule=not overlap) as made:
        decoding(made, 3)
        runner = made.worker.graph_runner
        monkeypatch.setattr(type(runner.captured[4].graph), "replay", lambda self: 1 / 0)
        made.step()
        monkeypatch.undo()
        made.run()
        made.flush_cache()
        assert made.scheduler.allocator.available_size() == made.scheduler.allocator.size
        wanted = Engine(tiny_llama(), max_total_tokens=1024, cuda_graph=False).generate(prompts(3), GREEDY)
        assert [each.token_ids for each in made.generate(prompts(3), GREEDY)] == [each.token_ids for each in wanted]


@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("overlap", [False, True])
def test_requests_that_are_aborted_between_steady_steps_give_every_slot_back(overlap: bool, steps: int) -> None:
    with engine(disable_overlap_schedule=not overlap) as made:
        decoding(made, 3)
        for _ in range(steps):
            made.step()
        made.abort(made.scheduler.running_batch.reqs[1].rid)
        made.step()
        for req in list(made.scheduler.running_batch.reqs):
            made.abort(req.rid)
        made.run()
        made.flush_cache()
        assert made.scheduler.allocator.available_size() == made.scheduler.allocator.size


def test_a_pass_that_is_planned_before_the_one_before_it_is_launched_finds_its_rows() -> None:
    with engine() as made:
        decoding(made, 2)
        first = made.scheduler.get_next_batch_to_run()
        second = made.scheduler.get_next_batch_to_run()
        assert first.worker_batch.rows_written and not second.worker_batch.rows_written
        for each in (first, second):
            made.scheduler.process_batch_result(each, made.worker.forward(made.worker.inputs(each))())
        made.run()


def test_a_recording_finds_rows_as_they_are_planned() -> None:
    with engine() as made:
        with made.record() as recording:
            made.generate(prompts(3), GREEDY)
        assert made.scheduler.advances is not None
        last = recording.pools[max(recording.pools)]
        for held in last.held:
            slots = held.slots.tolist()
            assert len(set(slots)) == len(slots) and 0 not in slots


def test_switched_on_checks_are_made_and_give_the_same_tokens() -> None:
    with engine() as made:
        wanted = [each.token_ids for each in made.generate(prompts(4), GREEDY)]
        made.flush_cache()
        made.runner.check_metadata = True
        assert not made.worker.graph_runner.advances(4)
        assert [each.token_ids for each in made.generate(prompts(4), GREEDY)] == wanted
