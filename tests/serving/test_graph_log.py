"""A GraphLog has each replay with what the graph read; a stale pointer is not seen, and says so."""

from __future__ import annotations

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.serving import Engine, GraphLog, probe_stale_pointer
from sglab.serving.graph_log import INPUTS, address_names
from tests.support.serving.tiny import prompts, tiny_llama
from tests.support.serving.widget_lines import GREEDY
from tests.support.serving.widget_lines import graph_engine as engine


def test_each_replay_has_its_requests_and_the_inputs_that_the_graph_read() -> None:
    made = engine()
    log = GraphLog(made)
    for i, prompt in enumerate(prompts(3)):
        made.submit(prompt, GREEDY, rid=f"r{i}")
    made.run()
    ran = [step for step in made.history.steps if step.graph_bs is not None]
    assert [(each.raw_bs, each.bs, each.step) for each in log.replays] == [(3, 4, step.step) for step in ran]
    for each, step in zip(log.replays, ran, strict=True):
        assert each.rids == [entry.rid for entry in step.batch]
        assert set(each.inputs) == set(INPUTS) and all(len(values) == 4 for values in each.inputs.values())
        assert each.inputs["seq_lens"][:3] == [entry.start + 1 for entry in step.batch]
        assert each.inputs["positions"][:3] == [entry.start for entry in step.batch]
        assert (each.inputs["seq_lens"][3], each.inputs["out_cache_loc"][3]) == (
            made.worker.graph_runner.buffers.fill,
            0,
        )
    before = made.history.steps[ran[1].step - 1]
    assert log.replays[1].inputs["input_ids"][:3] == [before.tokens[rid][0] for rid in log.replays[1].rids]


def test_passes_without_a_graph_are_counted_by_why() -> None:
    made = engine()
    log = GraphLog(made)
    made.generate(prompts(5), GREEDY)
    assert not log.replays and log.without_graph() == {"not a decode pass": 1, "more than 4 requests": 4}


def test_what_was_replayed_before_is_known_without_its_inputs_and_a_stopped_log_hears_nothing() -> None:
    made = engine()
    made.generate(prompts(2), GREEDY)
    log = GraphLog(made)
    assert [(each.raw_bs, each.bs, each.inputs) for each in log.replays] == [(2, 2, {})] * 4
    log.stop()
    made.generate(prompts(2), GREEDY)
    assert len(log.replays) == 4 and "replay_prepare" not in vars(log.runner)


def test_a_new_tensor_under_an_old_name_changes_nothing_and_a_copy_does() -> None:
    made = engine()
    expected = [each.token_ids for each in made.generate(prompts(3), GREEDY)]
    runner = made.worker.graph_runner
    assert runner is not None
    pool, page = made.runner.token_to_kv_pool, made.runner.page_size
    rows = [buffer[page:].clone() for layer in range(2) for buffer in pool.named_buffers(layer).values()]
    inputs = {name: getattr(runner.buffers, name).clone() for name in INPUTS}
    tried = probe_stale_pointer(runner)
    assert tried.unseen == 0 and tried.seen > 0.01
    assert tried.new_address != tried.recorded_address == runner.buffers.input_ids.data_ptr()
    assert tried.message.startswith("input_ids: expected a tensor at an address that the graph reads")
    after = [buffer[page:] for layer in range(2) for buffer in pool.named_buffers(layer).values()]
    assert all(torch.equal(now, then) for now, then in zip(after, rows, strict=True))
    assert all(torch.equal(getattr(runner.buffers, name), then) for name, then in inputs.items())
    assert [each.token_ids for each in made.generate(prompts(3), GREEDY)] == expected


def test_addresses_have_names() -> None:
    runner = engine().worker.graph_runner
    assert runner is not None
    names = address_names(runner)
    assert names[runner.buffers.input_ids.data_ptr()] == "input input_ids"
    assert names[runner.model.get_parameter("model.embed_tokens.weight").data_ptr()] == "model.embed_tokens.weight"
    reads = {address for launch in runner.captured[4].graph.launches for address in launch.reads}
    named = {names[address] for address in reads if address in names}
    assert {"input input_ids", "input seq_lens", "model.embed_tokens.weight"} <= named


def test_an_engine_without_graphs_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="engine: expected one with captured graphs"):
        GraphLog(Engine(tiny_llama(), max_total_tokens=128))
    with pytest.raises(BadArgumentError, match=r"bs: expected a captured size, of \[1, 2, 4\], got 3"):
        probe_stale_pointer(engine().worker.graph_runner, 3)  # type: ignore[arg-type]
