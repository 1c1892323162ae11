"""The questions of notebook 15 know their answers, and the model of schedules does what it says."""

import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import prefill as lab
from sglab.labs.question import Question
from sglab.labs.schedule import UNITS, Plan, picture


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.tokens_to_compute(context=4096), 80, 295),
        (lab.corrections(threshold=8, rising=3), 3, 9),
        (lab.corrections(threshold=0, rising=3), 9, 10),
        (lab.largest_threshold(), 15, 16),
        (lab.enough_polynomial(), 6, 16),
        (lab.cache_read_by_chunks(8192, 2048), 2.5, 1.0),
        (lab.pages_for_tma((1, 16, 64, 128, 256)), {128, 256}, {64, 128, 256}),
    ],
)
def test_answers(question: Question, right: object, wrong: object) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_tiles_of_a_chunk_are_counted_in_the_launch() -> None:
    chunk = lab.AttentionTile(queries=300, keys=700, causal=True)
    assert lab.tiles_computed(chunk.record()).check(9 + 11 + 11).right is True
    assert lab.tiles_with_a_mask(chunk).check(3 + 3 + 1).right is True
    assert lab.tiles_with_a_mask(chunk).check(6).right is False


def bounds(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
    before = keys - queries
    last = min((block + 1) * rows, queries) + before
    return [(block * rows + before + 1) // width, -(-last // width)]


def test_loop_bounds_are_judged() -> None:
    question = lab.key_tiles()
    assert question.check(bounds).right is True
    for wrong, told in (
        (lambda block, queries, keys, rows, width: bounds(block, keys, keys, rows, width), "Yours stand at i"),
        (lambda *case: [bounds(*case)[0], -(-case[2] // case[4])], "No tile is skipped"),
        (lambda *case: [bounds(*case)[1] - 1, bounds(*case)[1]], "*first* query"),
    ):
        verdict = question.check(wrong)
        assert verdict.right is False and told in verdict.text


def test_a_polynomial_is_judged_by_its_worst_error() -> None:
    question = lab.PolynomialQuestion()
    assert question.check([0.6951461434, 0.2275643945, 0.0771190897]).right is True
    taylor = question.check([math.log(2) ** n / math.factorial(n) for n in (1, 2, 3)])
    assert taylor.right is False and "Taylor" in taylor.text
    assert "2 is wanted" in question.check([1.0, 0.2, 0.0]).text
    assert question.check([1.0, 0.0]).right is False and question.check(3).right is False
    assert question.check(...).right is None


def test_polynomials_take_the_place_of_ex2() -> None:
    counts = [lab.exponentials(lab.AttentionTile(polynomial=n).record()) for n in lab.POLYNOMIAL]
    assert counts[0] == 4 * 64 and counts[1] == 3 * 64 and counts[2] == 0


def test_chunks_give_the_bits_of_one_pass() -> None:
    prompt = lab.AttentionTile(queries=200, keys=200, causal=True)
    prompt.run()
    o, passes = lab.chunked(prompt, chunk=64)
    assert [(each.queries, each.keys) for each in passes] == [(64, 64), (64, 128), (64, 192), (8, 200)]
    assert float((o - prompt.exact()).abs().max()) < 1e-3


@pytest.mark.parametrize(
    "plan",
    [
        Plan(lab.H100, streams=1),
        Plan(lab.H100, streams=1, overlap=True),
        Plan(lab.H100, streams=2, overlap=True),
        Plan(lab.B200, polynomial=0.25),
        Plan(lab.B200, polynomial=0.5, corrects=False),
    ],
)
def test_a_schedule_keeps_its_promises(plan: Plan) -> None:
    schedule = plan.schedule()
    start = {task.name: at for task, at in schedule.placed}
    end = {task.name: at + task.cycles for task, at in schedule.placed}
    assert all(end[need] <= start[task.name] for task, _ in schedule.placed for need in task.needs)
    for unit in UNITS:
        spans = sorted((at, at + task.cycles) for task, at in schedule.placed if task.unit == unit and task.cycles)
        assert all(one[1] <= other[0] for one, other in pairwise(spans)), unit
    costs = plan.costs()
    assert schedule.busy("tensor") == plan.tiles * plan.streams * (costs["S"] + costs["O"])
    assert 0 < plan.tensor_share() <= 1
    assert "modelled, not measured" in picture(schedule)


def test_the_model_shows_what_the_papers_are_about() -> None:
    assert Plan(lab.H100, streams=1).tensor_share() < 0.6
    assert Plan(lab.H100, streams=2).tensor_share() == Plan(lab.H100, streams=1, overlap=True).tensor_share() == 1
    assert Plan(lab.B200).tensor_share() < 0.9
    with pytest.raises(ValueError, match="overlap: on the B200"):
        Plan(lab.B200, overlap=True)
    with pytest.raises(ValueError, match="streams: expected 1 or 2"):
        Plan(lab.H100, streams=3)
    with pytest.raises(ValueError, match="polynomial: expected a share"):
        Plan(lab.B200, polynomial=2)
