"""The questions of notebook 08 know their answers."""

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import debugging as lab
from sglab.labs import score_shuffles
from sglab.labs.question import Question


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.lane_of(x=3, y=2, z=1), [3, 3], [1, 3]),
        (lab.bytes_of_a_copy(), 512, 16),
        (lab.groups_in_flight(), 3, 4),
        (score_shuffles.sums_without(distance=2), 4, 32),
        (lab.bytes_read_from_k(), 256, 512),
        (lab.scores_of_no_key(request=1), 7, 3),
    ],
)
def test_answers(question: Question, right: object, wrong: object) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_the_output_is_written_late() -> None:
    position = lab.first_write_of(request=1).answer()
    assert position > 0.9 * len(lab.Decode().record())


def test_without_a_barrier_the_result_may_be_wrong() -> None:
    whole = lab.Decode()
    whole.run()
    assert whole.error() < 1e-3
    assert lab.wrong_without().answer()
