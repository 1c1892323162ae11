"""The questions of notebook 08 know their answers."""

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import debugging as lab
from sglab.labs.question import Question


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.lane_of(x=3, y=2, z=1), [3, 3], [1, 3]),
        (lab.bytes_of_a_copy(), 512, 16),
        (lab.groups_in_flight(), 3, 4),
        (lab.different_sums(), 2, 32),
        (lab.bytes_read_from_k(), 256, 512),
        (lab.scores_of_no_key(request=1), 7, 3),
    ],
)
def test_answers(question: Question, right: object, wrong: object) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_the_sums_are_the_scores_of_two_heads() -> None:
    session, register = lab.scores_after_shuffles()
    lesson = lab.Decode()
    values = torch.from_numpy(session.registers(0)[register].values.copy())
    expected = torch.stack([lesson.scores(0, head)[0] for head in (0, 1)]).repeat_interleave(16)
    torch.testing.assert_close(values.double(), expected, rtol=1e-4, atol=1e-4)


def test_the_output_is_written_late() -> None:
    position = lab.first_write_of(request=1).answer()
    assert position > 0.9 * len(lab.Decode().record())


def test_without_a_barrier_the_result_may_be_wrong() -> None:
    whole = lab.Decode()
    whole.run()
    assert whole.error() < 1e-3
    assert lab.wrong_without().answer()
