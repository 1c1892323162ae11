"""The questions of notebook 17, on engines whose passes are recorded; inputs are judged by what a replay does."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.labs import cuda_graphs as lab
from sglab.planning import capture_batch_sizes


@pytest.fixture(scope="module")
def engine() -> sglab.Engine:
    return sglab.Engine(
        "tiny",
        device="cpu",
        cuda_graph=True,
        cuda_graph_bs=(4, 8),
        page_size=4,
        max_total_tokens=512,
        max_running_requests=8,
        disable_overlap_schedule=True,
    )


@pytest.mark.parametrize(
    ("question", "right", "wrong", "says"),
    [
        (lab.gpu_waits(200, 8, 3), 0.625, 0.375, "when it waits"),
        (lab.gpu_waits(200, 8, 3), 0.625, 8 / 11, "launches the next one meanwhile"),
        (lab.after_replay(), 16, 501, "has another"),
        (lab.after_replay(), 16, 4, "computes again"),
        (lab.worst_padding(capture_batch_sizes(64), 64), 5, 17, "of how many"),
        (lab.units_without_work([1000, 1000]), 17, 16, "have work"),
        (lab.pieces_of(61), 62, 61, "is a piece, too"),
        (lab.padded_tokens(1100), 180, 76, "next size up"),
    ],
)
def test_questions_know_their_answers_and_the_usual_mistakes(
    question: lab.Question, right: object, wrong: object, says: str
) -> None:
    assert question.check().right is None
    assert question.check(right).right, question.check(right)
    verdict = question.check(wrong)
    assert verdict.right is False and says in verdict.text


def test_the_gpu_waits_only_where_launches_are_slower() -> None:
    assert lab.idle_share(200, host=3, device=8) < 0.01


def test_a_graph_refuses_tensors_that_it_does_not_read() -> None:
    x, graph = torch.ones(2), lab.RecordedGraph()
    with graph.capture():
        x * 2
    assert lab.refusal(graph, x=x) == ""
    assert "scale: expected a tensor at an address that the graph reads" in lab.refusal(graph, x=x, scale=torch.ones(1))


def test_padded_rows_share_slot_0(engine: sglab.Engine) -> None:
    question = lab.rows_changed(engine, requests=5)
    assert question.check(6).right
    assert "share a slot" in question.check(8).text and "write, too" in question.check(5).text
    assert 0 in lab.written_slots(engine, 5) and 0 not in lab.written_slots(engine, 8)


def test_only_careless_buffers_overwrite_what_others_left(engine: sglab.Engine) -> None:
    for _ in range(2):
        assert lab.overwritten(engine, careless=False) == []
        assert len(lab.overwritten(engine, careless=True)) == 1
    assert engine.generate("Once", {"temperature": 0, "max_new_tokens": 2}).text


def test_lengths_are_read_by_attention_alone(engine: sglab.Engine) -> None:
    assert lab.launches_reading(engine, "seq_lens", bs=4).check(4).right
    assert "several layers" in lab.launches_reading(engine, "seq_lens", bs=4).check(1).text


def test_a_replay_is_shown_with_its_padding(engine: sglab.Engine) -> None:
    log = sglab.serving.GraphLog(engine)
    engine.generate(["Mia", "Ben", "It"], {"temperature": 0, "max_new_tokens": 3})
    log.stop()
    lines = lab.rows(log.replays[-1]).splitlines()
    assert len(lines) == 5 and lines[-1].endswith("padding") and "request" in lines[1]


def test_a_plan_needs_lengths_on_the_host() -> None:
    assert lab.wrapper([1000, 1000], host=True).plan().padded_batch_size == 33
    with pytest.raises(RuntimeError, match="the host waits"):
        lab.wrapper([1000, 1000], host=False).plan()


def right(buffers: dict[str, torch.Tensor], input_ids: list[int], seq_lens: list[int], slots: list[int]) -> None:
    buffers["seq_lens"].fill_(1)
    buffers["out_cache_loc"].zero_()
    given = {"input_ids": input_ids, "seq_lens": seq_lens, "out_cache_loc": slots}
    for name, values in given.items():
        buffers[name][: len(values)] = torch.tensor(values)


def rebinds(buffers: dict[str, torch.Tensor], *given: list[int]) -> None:
    for name, values in zip(buffers, given, strict=True):
        buffers[name] = torch.tensor(values + [1] * (8 - len(values)))


def keeps_slots(buffers: dict[str, torch.Tensor], *given: list[int]) -> None:
    buffers["seq_lens"].fill_(1)
    for name, values in zip(buffers, given, strict=True):
        buffers[name][: len(values)] = torch.tensor(values)


def keeps_lengths(buffers: dict[str, torch.Tensor], *given: list[int]) -> None:
    buffers["out_cache_loc"].zero_()
    for name, values in zip(buffers, given, strict=True):
        buffers[name][: len(values)] = torch.tensor(values)


def clears_last(buffers: dict[str, torch.Tensor], *given: list[int]) -> None:
    right(buffers, *given)
    buffers["out_cache_loc"].zero_()


def test_inputs_are_judged_by_what_a_replay_reads_and_writes() -> None:
    question = lab.prepare()
    assert question.check().right is None and question.check(3).right is False
    assert question.check(right).right
    for wrong, says in (
        (rebinds, "names a new tensor"),
        (keeps_slots, "a padded row wrote"),
        (keeps_lengths, "padded rows have the lengths"),
        (clears_last, "did not see the batch's own values"),
        (lambda *given: 1 / 0, "ZeroDivisionError"),
    ):
        verdict = question.check(wrong)
        assert verdict.right is False and says in verdict.text, verdict
