"""The questions of notebook 00: right answers, known wrong ones, and a batch that is as it was after it was broken."""

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.labs import start_here as lab
from sglab.labs.question import Question


@pytest.fixture
def batch() -> sglab.workbench.Batch:
    return sglab.decode_batch(seq_lens=[300, 1000, 77], num_heads=16, page_size=128, dtype="float16", seed=0)


def questions(batch: sglab.workbench.Batch) -> list[tuple[Question, object]]:
    return [
        (lab.slots_left_over(batch, page_size=16), 4 + 8 + 3),
        (lab.output_width(batch), 512),
        (lab.chosen_backend("RTX 5090", use_mla=True), "triton"),
        (lab.is_refused(batch, int(batch.slots(2)[-1]) + 1), True),
    ]


def test_right_answers_and_known_wrong_ones(batch: sglab.workbench.Batch) -> None:
    for question, right in questions(batch):
        assert question.check(right).right
        assert question.ideas
        for idea, feedback in question.ideas:
            verdict = question.check(idea)
            assert verdict.right is False and verdict.text == feedback


def test_the_batch_is_as_before_after_it_was_broken(batch: sglab.workbench.Batch) -> None:
    assert lab.is_refused(batch, int(batch.slots(2)[-1]) + 1).answer() is True
    assert sglab.attend(batch, backend="torch_native").isfinite().all()


def left_over(lengths: list[int], page_size: int) -> int:
    return sum(-(-n // page_size) * page_size - n for n in lengths)


def test_slots_left_over_are_judged_by_what_is_returned() -> None:
    question = lab.left_over()
    for _ in range(3):
        assert question.check(left_over).right
        for wrong, feedback in question.ideas:
            verdict = question.check(wrong)
            assert verdict.right is False and verdict.text.startswith(feedback)
