"""The questions of notebook 04 know their answers."""

import math

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import split_kv as lab
from sglab.labs.question import Question
from sglab.planning import decode_plan


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        (lab.busy_sms("sglang_cutlass_mla", [65536], 148), 2, 148),
        (lab.upstream_splits(8192, 4, 148), 32, 37),
        (lab.cluster_aware_splits(8192, 4, 148), 16, 32),
        (lab.workspace_bytes(4, 32), 33_619_968, 16_777_216),
        (lab.last_split_tokens(1000, 3), 232, 333),
        (lab.wrong_merge_inflation(torch.log(torch.tensor([1.0, 1.0, 0.5]))), 2.5, 1.0),
    ],
)
def test_answers(question: Question, right: float, wrong: float) -> None:
    assert question.check(right).right is True
    assert question.check(wrong).right is False


def test_least_idle_is_one_of_the_named_planners() -> None:
    names = ["sglang_cutlass_mla", "flashinfer_cutlass_mla", "flash_mla"]
    assert lab.least_idle(names, [60000, 500, 800, 1200], 148).answer() in names


def test_inflation_of_equal_splits_is_their_number() -> None:
    question = lab.wrong_merge_inflation(torch.full((8,), math.pi))
    assert question.check(8).right


def test_partials_are_the_chunks_of_the_plan() -> None:
    plan = decode_plan([0, 64, 96, 224, 240], num_qo_heads=32, num_kv_heads=4, page_size=16, sm_count=132)
    assert plan.kv_chunk_size_in_pages == 8
    for request, pages in enumerate((64, 32, 128, 16)):
        assert lab.partials_of(plan, request).check(-(-pages // 8)).right
        assert lab.partials_of(plan, request).check(pages).right is False


def test_the_last_splits_answer_adds_up() -> None:
    for seq_len, splits in ((1000, 3), (129, 2), (5000, 7)):
        text = str(lab.last_split_tokens(seq_len, splits).check(lab.last_split_tokens(seq_len, splits).answer()))
        shares = text.split("The splits get ")[1].split(" tokens")[0]
        assert sum(map(int, shares.split(", "))) == seq_len
