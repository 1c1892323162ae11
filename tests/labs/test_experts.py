"""The questions of notebook 19 know right answers and usual mistakes, on a recorded run and on real weights."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.kernels.formats.int8 import per_token_group_quant_int8
from sglab.labs import experts as lab
from sglab.labs import quantisation as quant
from sglab.workbench.recorders.experts import RoutingRun

SCORES = [0.9, 0.1, 0.5, 0.6, 0.55, 0.5, 0.2, 0.3]
W13 = "model.layers.1.mlp.experts.w13"


@pytest.fixture(scope="module")
def engine() -> sglab.Engine:
    return sglab.Engine("tiny", page_size=16, max_total_tokens=1024, disable_radix_cache=True)


@pytest.fixture(scope="module")
def run(engine: sglab.Engine) -> RoutingRun:
    with sglab.workbench.record_experts(engine) as seen:
        engine.generate(["Once upon a time there was", "2 + 3 = 5"], {"temperature": 0, "max_new_tokens": 12})
    return seen


@pytest.mark.parametrize(
    ("question", "right", "wrong", "says"),
    [
        (lab.biased_weight([0.9, 0.8, 0.7, 0.1], [0, 0, 0.3, 0], 2), 0.4375, 1 / 1.9, "bias only chooses"),
        (lab.biased_weight([0.9, 0.8, 0.7, 0.1], [0, 0, 0.3, 0], 2), 0.4375, 0.7, "add up to 1"),
        (lab.grouped_experts(SCORES, 4, 2), {3, 4}, {0, 3}, "First the groups"),
        (lab.rows_computed(1, 8, 64, 256), 512, 64, "belongs to one expert"),
        (lab.rows_computed(1, 8, 64, 256), 512, 8, "filled up with padding"),
        (quant.bits_per_weight(4, 8, 16, ""), 4.5, 4, "scales must be stored"),
        (quant.bits_per_weight(4, 8, 16, ""), 4.5, 12, "A scale is shared"),
    ],
)
def test_questions_know_their_answers_and_the_usual_mistakes(
    question: lab.Question, right: object, wrong: object, says: str
) -> None:
    assert question.check().right is None
    assert question.check(right).right, question.check(right)
    verdict = question.check(wrong)
    assert verdict.right is False and says in verdict.text


def test_the_load_of_a_recorded_run(run: RoutingRun) -> None:
    load = run.load[1]
    halves = load.unflatten(0, (2, -1)).sum(1).double()
    assert lab.busiest_share(run, 1, 2).check(float(halves.max() / halves.mean())).right
    question = lab.copied_experts(run, 1, 4)
    each, copied = run.load[1].double(), set()
    copies = torch.ones(8)
    for _ in range(4):
        busiest = int((each / copies).argmax())
        copies[busiest] += 1
        copied.add(busiest)
    assert question.check(copied).right and len(copied) < 4  # one of them has two: not simply the four heaviest


def align(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    flat = [expert for row in ids for expert in row]
    rows: list[int] = []
    owners: list[int] = []
    for expert in range(experts):
        mine = [at for at, each in enumerate(flat) if each == expert]
        if mine:
            mine += [len(flat)] * (-len(mine) % block)
            rows += mine
            owners += [expert] * (len(mine) // block)
    return rows, owners


def test_blocks_are_judged_by_what_a_function_returns() -> None:
    question = lab.align()
    assert question.check(align).right, question.check(align)

    def zeros(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
        rows, owners = align(ids, block, experts)
        return [0 if row == sum(map(len, ids)) else row for row in rows], owners

    def per_row(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
        rows, owners = align(ids, block, experts)
        return rows, [owner for owner in owners for _ in range(block)]

    assert "first choice of the first token" in question.check(zeros).text
    assert "per block, not per row" in question.check(per_row).text
    assert "fill whole blocks" in question.check(lab._unpadded).text


def test_groups_of_int8_are_judged_by_what_a_function_returns() -> None:
    question = quant.group_int8()
    assert question.check(per_token_group_quant_int8).right

    def says(wrong: object) -> str:
        verdict = question.check(wrong)
        assert verdict.right is False
        return verdict.text

    assert "a scale per row" in says(quant._one_scale)
    assert "cut off towards zero" in says(quant._cut_off)
    assert "not 127 / amax" in says(quant._inverse)
    assert "0 / 0" in says(quant._without_floor)


def test_formats_are_as_near_as_their_bits_allow(engine: sglab.Engine) -> None:
    weights = quant.matrices(engine)[W13].detach().flatten(0, 1).float()
    errors = {name: quant.error(weights, form.rounded(weights)) for name, form in quant.FORMATS.items()}
    for name, form in quant.FORMATS.items():
        assert errors[name] < (0.04 if form.bits >= 8 else 0.15), name
    assert errors["int8, per group"] < errors["int8, per row"] < errors["int8, per tensor"] < errors["fp8, per row"]


def test_an_outlier_spoils_integers_that_share_its_scale(engine: sglab.Engine) -> None:
    question = quant.largest_damage(engine, W13)
    assert question.check("int8, per tensor").right
    assert "steps shrink" in question.check("fp8, a scale per tensor").text


def test_what_is_said_changes_inside_the_block_alone(engine: sglab.Engine) -> None:
    text = "Once upon a time"
    before = {name: each.clone() for name, each in quant.matrices(engine).items()}
    small = {name: quant.divergence(engine, f.rounded, text) for name, f in quant.FORMATS.items() if f.bits < 5}
    assert all(value > 0 for value in small.values())
    assert quant.divergence(engine, lambda w: w, text) == pytest.approx(0, abs=1e-6)
    assert quant.gentlest(engine, text, 5).check(min(small, key=lambda name: small[name])).right
    assert all(torch.equal(each, before[name]) for name, each in quant.matrices(engine).items())
