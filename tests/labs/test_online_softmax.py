"""The questions of notebook 03 know their answers."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.labs import online_softmax as lab
from sglab.labs.question import Question

BATCH = sglab.decode_batch([100, 77], num_heads=8, page_size=16, seed=1, kv_lora_rank=64, qk_rope_head_dim=16)
EQUAL = torch.zeros(5), torch.eye(5)


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.largest_exponents(), [88, 11], [89, 11]),
        (lab.times_the_maximum_grew(torch.tensor([1.0, 2.0, 0.0, 3.0, 3.0, 9.0]), tile=2), 2, 3),
        (lab.rescale_factor(2.0, 5.0), 0.0498, 20.1),
        (lab.d_starts_at_1(BATCH, 0, 3), "myth", "fact"),
        (lab.to_base_2(math.log(8.0)), 3.0, math.log(8.0)),
        (lab.weights_in_the_wrong_base(torch.tensor([6.0, 7.319])), [0.130, 0.870], [0.211, 0.789]),
        (lab.worst_merge(*EQUAL), "divide_by_max", "base2_in_natural"),
        (lab.nan_for_two_empty(), "merge_state_v2", "guarded"),
        (lab.safe_with_garbage(), "guarded", "merge_state"),
        (lab.masked_split(BATCH, 0, 3), [math.nan, -math.inf], [-math.inf, -math.inf]),
    ],
)
def test_answers(question: Question, right: Any, wrong: Any) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_heads_that_do_not_notice_are_those_whose_first_tile_holds_the_maximum() -> None:
    first = [int(lab.scores_of(BATCH, 1, head).argmax()) < 64 for head in range(8)]
    assert 0 < sum(first) < 8, "this seed must have heads of both kinds"
    assert lab.heads_that_do_not_notice(BATCH, request=1).answer() == sum(first)


def test_scores_and_values_give_the_float64_answer() -> None:
    from sglab.workbench import reference

    o = torch.softmax(lab.scores_of(BATCH, 0, 5), 0) @ lab.values_of(BATCH, 0, 5).double()
    assert torch.allclose(o, reference(BATCH).o[0, 5], rtol=1e-12, atol=1e-12)


def test_exactly_one_merge_stumbles_over_two_empty_partials_and_one_survives_garbage() -> None:
    both_empty, _, garbage, _ = (line.split("  ") for line in lab.merge_table().splitlines()[1:])
    assert sum("nan" in cell for cell in both_empty) == 1
    assert sum("nan" in cell for cell in garbage) == 2


def test_equal_partials_are_inflated_by_their_number() -> None:
    lse, o = EQUAL
    wrong = lab.wrong_merges(lse, o)
    assert torch.allclose(wrong["divide_by_max"], torch.ones(5).double())
    assert torch.allclose(wrong["base2_in_natural"], torch.full((5,), 0.2).double())
    assert torch.allclose(wrong["newcomer_unweighted"], torch.full((5,), 0.2).double())
