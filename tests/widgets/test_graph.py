"""Graph: captures and replays are sent as they were, with launches and addresses; it follows an engine."""

from __future__ import annotations

import pytest

from sglab.engine import BadArgumentError
from sglab.serving import Engine
from sglab.serving.graph_log import GraphLog
from sglab.widgets import Graph, Scheduler
from tests.support.serving.tiny import prompts, tiny_llama
from tests.support.serving.widget_lines import GREEDY, lines
from tests.support.serving.widget_lines import graph_engine as engine


def test_captures_come_first_then_replays_as_they_were() -> None:
    made = engine()
    shown = Graph(made)
    made.generate(prompts(3), GREEDY)
    shown.refresh()
    captures, replays = lines(shown)[:3], lines(shown)[3:]
    assert [(each["kind"], each["bs"]) for each in captures] == [("capture", 4), ("capture", 2), ("capture", 1)]
    graphs = [each.graph for each in shown.graphs.runner.captured.values()]
    assert [each["launches"] for each in captures] == [len(graph.launches) for graph in graphs]
    assert [(each["raw"], each["bs"]) for each in replays] == [(3, 4)] * 4
    assert [len(each["inputs"]["seq_lens"]) for each in replays] == [4] * 4
    assert shown.without == {"not a decode pass": 1}
    assert "3 padded" not in shown.header["subject"] and "4 padded slots" in shown.header["subject"]


def test_requests_have_the_numbers_that_the_recording_gives_them() -> None:
    """A request of one token never decodes; the others keep the colours that other widgets give them."""
    made = engine()
    shown = Graph(made)
    ended = [{"temperature": 0, "max_new_tokens": n} for n in (1, 4, 4)]
    made.generate(prompts(3), ended)
    shown.refresh()
    (replay, *_) = lines(shown)[3:]
    assert [number for number, _ in replay["requests"]] == [1, 2]


def test_a_verification_is_not_taken_for_an_extend() -> None:
    made = engine(speculative_algorithm="NGRAM")
    shown = Graph(made)
    made.generate([[3, 4, 3, 4, 3]], GREEDY)
    shown.refresh()
    assert shown.without["not a decode pass"] == 1 and shown.without["verifies drafts"] >= 1


@pytest.mark.parametrize("widget", [Graph, Scheduler])
def test_a_saved_file_has_what_ran_last(widget: type[Graph | Scheduler], monkeypatch: pytest.MonkeyPatch) -> None:
    """A running engine tells a page now and then: what it has not told yet belongs into the file all the same."""
    monkeypatch.setattr("sglab.widgets.engine_lines.PUSH_S", 1000.0)
    made = engine()
    shown = widget(made)
    made.submit(prompts(1)[0], GREEDY)
    for _ in range(3):
        made.step()
    told = shown.count
    state = shown.saved()["state"]
    assert state["count"] > told and state["count"] == len(lines(shown))
    shown.close()
    shown.saved()


def test_launches_read_and_write_named_addresses() -> None:
    shown = Graph(engine())
    largest = shown.launches[0]
    real = shown.graphs.runner.captured[4].graph.launches
    hexes = [each[0] for each in shown.addresses]
    for (name, reads, writes), launch in zip(largest, real, strict=True):
        assert name == launch.name
        assert [hexes[each] for each in reads] == [f"0x{each:x}" for each in launch.reads]
        assert [hexes[each] for each in writes] == [f"0x{each:x}" for each in launch.writes]
    assert any(name == "input input_ids" for _, name in shown.addresses)
    assert any(name.startswith("attention of layer") for name, *_ in largest)


def test_the_stale_pointer_is_tried_only_when_nothing_is_on_its_way() -> None:
    made = engine()
    assert Graph(made).probe["unseen"] == 0
    made.submit([1, 2, 3], GREEDY)
    made.step()
    assert Graph(made).probe == {}


def test_what_has_no_graphs_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="expected one with captured graphs"):
        Graph(Engine(tiny_llama(), max_total_tokens=128))
    with pytest.raises(TypeError, match=r"Graph shows an sglab\.Engine"):
        Graph("tiny")  # type: ignore[arg-type]


def test_the_trail_from_a_replay_to_its_attention() -> None:
    made = engine(page_size=16)
    shown = Graph(made)
    made.generate(prompts(3), GREEDY)
    shown.refresh()
    assert shown.layers == 2
    replay = shown.graphs.replays[-1]
    opened = shown.open_attention("PageTable", replay.step, 1)
    assert opened["title"] == f"Page table of step {replay.step}, layer 1" and "<!doctype html>" in opened["page"]
    assert shown.batch is not None
    assert shown.batch.seq_lens.tolist() == replay.inputs["seq_lens"][: replay.raw_bs]


def test_a_log_of_an_engine_that_is_not_recorded_opens_nothing() -> None:
    made = engine()
    shown = Graph(GraphLog(made))
    assert shown.layers == 0
    with pytest.raises(BadArgumentError, match=r"step: expected a step of a recorded engine.*engine\.record\(\)"):
        shown.attention("PageTable", 0)
    made.record()
    assert Graph(GraphLog(made)).layers == 2
