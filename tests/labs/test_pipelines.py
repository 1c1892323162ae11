"""The questions of notebook 10 know their answers."""

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import pipelines as lab
from sglab.labs.question import Question


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.arrivals(), [1, 4], [4, 1]),
        (lab.announced_bytes(), 8192, 2048),
        (lab.parity_at_the_end(stages=2, tiles=10), 1, 0),
        (lab.parity_at_the_end(stages=4, tiles=16), 0, 1),
        (lab.tiles_ahead(stages=4), 4, 3),
        (lab.missing_arrivals(), 3, 1),
    ],
)
def test_answers(question: Question, right: object, wrong: object) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_early_arrival_is_wrong_under_some_schedulers_only() -> None:
    answer = lab.wrong_under().answer()
    assert answer and "fair" not in answer


def test_a_pipeline_starts_afresh_each_time() -> None:
    lesson = lab.Pipeline("4_stages", tiles=3, ctas=2)
    assert [lesson.run() and lesson.error() < 1e-4 for _ in range(2)] == [True, True]


def test_barriers_go_by_their_names_in_the_source() -> None:
    session = lab.Pipeline("2_stages").session()
    session.run_to(opcode="cp.async.bulk.tensor")
    assert list(lab.barriers(session)) == ["full[0]", "full[1]", "empty[0]", "empty[1]"]
