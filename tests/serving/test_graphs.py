"""Captured decode passes: sizes and their order, padding, fixed addresses, and what is not seen by a replay."""

import pytest
import torch

from sglab.engine.graphs import GraphCaptureError, RecordedGraph, StalePointerError
from sglab.serving import Engine
from tests.support.serving.graphs import finding_inputs
from tests.support.serving.tiny import prompts, tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}


def engine(**options: object) -> Engine:
    return Engine(tiny_llama(), max_total_tokens=1024, cuda_graph=True, check_invariants=True, **options)


def test_sizes_are_captured_from_the_largest_down() -> None:
    made = engine(cuda_graph_bs=(1, 2, 4, 8, 16), max_running_requests=16)
    described = made.worker.graph_runner.describe()
    assert described["capture_bs"] == [1, 2, 4, 8, 16]
    assert [graph["bs"] for graph in described["captured"]] == [16, 8, 4, 2, 1]


def test_no_size_is_larger_than_the_request_pool() -> None:
    assert engine(cuda_graph_bs=(1, 2, 64), max_running_requests=6).worker.graph_runner.capture_bs == [1, 2, 6]


def test_a_batch_is_padded_to_the_next_size_and_too_large_a_one_runs_without() -> None:
    made = engine(cuda_graph_bs=(1, 2, 4), max_running_requests=8)
    made.generate(prompts(5), GREEDY)
    assert not made.worker.graph_runner.replays
    made.generate(prompts(3), GREEDY)
    replays = made.worker.graph_runner.replays
    assert {(replay.raw_bs, replay.bs) for replay in replays} == {(3, 4)}
    assert [step.graph_bs for step in made.history.steps[-2:]] == [4, 4]


def test_a_replay_gives_the_same_logits_as_the_operations() -> None:
    given, plain = engine(cuda_graph_bs=(4,)), Engine(tiny_llama(), max_total_tokens=1024, cuda_graph=False)
    for one, other in zip(given.generate(prompts(3), GREEDY), plain.generate(prompts(3), GREEDY), strict=True):
        assert one.token_ids == other.token_ids


def test_padded_rows_keep_stale_requests_and_tokens_and_write_to_slot_0() -> None:
    made = engine(cuda_graph_bs=(4,), disable_radix_cache=True)
    buffers = made.worker.graph_runner.buffers
    made.generate(prompts(4), GREEDY)
    stale_rows, stale_tokens = buffers.req_pool_indices.clone(), buffers.input_ids.clone()
    made.generate(prompts(2), GREEDY)
    assert buffers.seq_lens[2:].tolist() == [1, 1] and buffers.out_cache_loc[2:].tolist() == [0, 0]
    assert torch.equal(buffers.req_pool_indices[2:], stale_rows[2:])
    assert torch.equal(buffers.input_ids[2:], stale_tokens[2:])


def test_a_replay_reads_and_writes_the_recorded_addresses() -> None:
    made = engine(cuda_graph_bs=(2,))
    runner = made.worker.graph_runner
    captured = runner.captured[2]
    before = [
        tensor.data_ptr() for tensor in (captured.output.logits, runner.buffers.input_ids, runner.buffers.seq_lens)
    ]
    made.generate(prompts(2), GREEDY)
    after = [
        tensor.data_ptr() for tensor in (captured.output.logits, runner.buffers.input_ids, runner.buffers.seq_lens)
    ]
    assert before == after
    captured.graph.check(input_ids=runner.buffers.input_ids, out_cache_loc=runner.buffers.out_cache_loc)
    with pytest.raises(StalePointerError, match="out_cache_loc: expected a tensor at an address that the graph reads"):
        captured.graph.check(out_cache_loc=runner.buffers.out_cache_loc.clone())


def test_a_new_tensor_under_the_old_name_is_not_seen() -> None:
    x, scale = torch.tensor([1.0, 2.0]), torch.tensor(3.0)
    graph = RecordedGraph()
    with graph.capture():
        y = (x * scale).relu() + 1
    assert [launch.name for launch in graph.launches] == ["mul", "relu", "add"]
    scale = torch.tensor(100.0)  # the name is bound to another tensor: the graph has the old one's address
    x.copy_(torch.tensor([5.0, -1.0]))
    graph.replay()
    assert y.tolist() == [16.0, 1.0]
    with pytest.raises(StalePointerError):
        graph.check(scale=scale)


def test_views_and_writes_in_place_are_replayed() -> None:
    x, pool = torch.arange(6.0), torch.zeros(4, 3)
    graph = RecordedGraph()
    with graph.capture():
        rows = x.view(2, 3)
        pool[1:3] = rows * 2
        total = pool.sum(0)
    x.copy_(torch.ones(6))
    graph.replay()
    assert pool[1].tolist() == [2, 2, 2] and total.tolist() == [4, 4, 4]


def test_a_reshape_that_copies_is_a_launch_and_one_that_does_not_is_none() -> None:
    x = torch.arange(6.0).view(2, 3)
    graph = RecordedGraph()
    with torch.inference_mode(), graph.capture():
        copied, view = x.T.reshape(6), x.reshape(6)
    x.fill_(7.0)
    graph.replay()
    assert len(graph.launches) == 1
    assert copied.tolist() == view.tolist() == [7.0] * 6


def test_a_value_that_the_host_reads_cannot_be_captured() -> None:
    for reads in (int, torch.Tensor.item):
        for mode in (torch.inference_mode(), torch.no_grad()):
            graph, x = RecordedGraph(), torch.tensor([3])
            with mode, pytest.raises(GraphCaptureError, match="the host reads a value"), graph.capture():
                reads(x)
            assert graph.launches == []


SAMPLINGS = {
    "greedy": GREEDY,
    "seeded": {"temperature": 1, "sampling_seed": 3, "max_new_tokens": 12, "ignore_eos": True},
    "a ban at first": {
        "temperature": 0,
        "max_new_tokens": 12,
        "min_new_tokens": 4,
        "stop_token_ids": [*range(0, 64, 2)],
    },
    "penalty": {**GREEDY, "frequency_penalty": 0.5},
    "bias": {**GREEDY, "logit_bias": {7: 5.0}},
}


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("names", [[name] for name in SAMPLINGS] + [[*SAMPLINGS]], ids="+".join)
def test_graphs_that_find_their_inputs_give_the_same_tokens(names: list[str], overlap: bool) -> None:
    samplings = [SAMPLINGS[names[i % len(names)]] for i in range(7)]
    options = {"cuda_graph_bs": (1, 2, 4, 8), "disable_overlap_schedule": not overlap}
    with finding_inputs(engine(**options)) as given, Engine(tiny_llama(), max_total_tokens=1024) as plain:
        for _ in range(2):
            outputs = given.generate(prompts(7), samplings)
            assert [each.token_ids for each in outputs] == [
                each.token_ids for each in plain.generate(prompts(7), samplings)
            ]
        assert given.worker.graph_runner.replays


def test_graphs_that_find_their_inputs_give_log_probabilities() -> None:
    with finding_inputs(engine(cuda_graph_bs=(4,))) as given, Engine(tiny_llama(), max_total_tokens=1024) as plain:
        outputs = [each.generate(prompts(3), GREEDY, return_logprob=True) for each in (given, plain)]
        for one, other in zip(*outputs, strict=True):
            assert one.token_ids == other.token_ids
            assert one.logprobs == pytest.approx(other.logprobs)


def test_a_steady_step_gives_a_graph_three_inputs_and_reads_its_choice() -> None:
    with finding_inputs(engine(cuda_graph_bs=(4,), disable_overlap_schedule=True)) as made:
        for prompt in prompts(4):
            made.submit(prompt, GREEDY)
        while made.scheduler.waiting_queue or made.history.steps[-1].mode != "DECODE":
            made.step()
        inputs = made.worker.inputs(made.scheduler.get_next_batch_to_run())
        assert made.worker.forward_batch(inputs.batch).positions is None
        buffers = made.worker.graph_runner.buffers
        made.worker.forward(inputs)
        lengths = inputs.batch.seq_lens
        assert torch.equal(buffers.positions, lengths - 1)
        last = [req.output_ids[-1] for req in inputs.reqs]
        assert buffers.input_ids.tolist() == last
