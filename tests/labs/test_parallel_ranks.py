"""The questions of notebook 20 know right answers and usual mistakes; shards are judged by what ranks compute."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from sglab.labs import parallel_ranks as lab
from sglab.layers.collectives import Collective
from sglab.workbench.recorders.ranks import Joint, RanksRun


@pytest.mark.parametrize(
    ("question", "right", "wrong", "says"),
    [
        (lab.holders_of_kv_head(8, 16), 2, 1, "no keys to attend to"),
        (lab.holders_of_kv_head(8, 16), 2, 16, "one head, not all"),
        (lab.bytes_of_all_reduce(32, 7168, 8), 802_816, 458_752, "a piece per rank"),
        (lab.bytes_of_all_reduce(32, 7168, 8), 802_816, 401_408, "once more round"),
        (lab.padding_mode([9, 1, 1, 1]), "SUM_LEN", "MAX_LEN", "Count rows"),
        (lab.padding_mode([4, 4]), "MAX_LEN", "SUM_LEN", "moves each twice"),
        (lab.travels([1, 5, 6, 7, 13, 14], 4, 0), 2, 5, "share one copy"),
        (lab.travels([1, 5, 6, 7, 13, 14], 4, 0), 2, 3, "does not travel"),
        (lab.first_half([30, 10, 60]), 50, 40, "cut through one"),
        (lab.first_half([30, 20, 50]), 50, 30, "Try the cuts"),
    ],
)
def test_questions_know_their_answers_and_the_usual_mistakes(
    question: lab.Question, right: object, wrong: object, says: str
) -> None:
    assert question.check().right is None
    assert question.check(right).right, question.check(right)
    verdict = question.check(wrong)
    assert verdict.right is False and says in verdict.text


def gate_up_shard(w: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    gate, up = w.chunk(2)
    return torch.cat((gate.chunk(ranks)[rank], up.chunk(ranks)[rank]))


def test_a_shard_is_judged_by_what_a_function_returns() -> None:
    question = lab.gate_up_shard()
    assert question.check(gate_up_shard).right
    assert "gates without their values" in question.check(lambda w, rank, ranks: w.chunk(ranks)[rank]).text
    assert "contiguous" in question.check(lambda w, rank, ranks: w[rank::ranks]).text
    assert "part's are missing" in question.check(lambda w, rank, ranks: w.chunk(2)[0].chunk(ranks)[rank]).text


def test_only_parts_cut_by_themselves_add_up_to_the_whole() -> None:
    x, gate_up, down = torch.randn(3, 16), torch.randn(16, 16), torch.randn(16, 8)
    gate, up = (x @ gate_up.T).chunk(2, -1)
    whole = torch.nn.functional.silu(gate) * up @ down.T
    for ranks in (1, 2, 4):
        shards = [gate_up_shard(gate_up, rank, ranks) for rank in range(ranks)]
        assert torch.allclose(lab.mlp_on_ranks(x, gate_up, down, shards), whole, atol=1e-3)
    wrong = lab.mlp_on_ranks(x, gate_up, down, list(gate_up.chunk(2)))
    assert not torch.allclose(wrong, whole, atol=0.1)


def test_collectives_of_a_pass_are_counted_by_kind() -> None:
    def one(step: int, kind: str, start: int) -> Joint:
        each = Collective(step, kind, "", "layers.0.mlp", "MLP", (0, 1), (4,), "float32", 16, (), start, start + 9)
        late = Collective(
            step, kind, "", "layers.0.mlp", "MLP", (0, 1), (4,), "float32", 16, (), start + 5000, start + 5009
        )
        return Joint(step, {0: each, 1: late})

    run = RanksRun(
        "made", 2, 1, 1, "gloo", joints=[one(0, "all_reduce", 0), one(0, "all_reduce", 9), one(1, "all_gather", 3)]
    )
    assert lab.kinds_of(run, 0) == {"all_reduce": 2}
    (line,) = lab.collectives_of(run, 0).splitlines()
    assert "2 × all_reduce" in line and "of MLP" in line and "32 bytes" in line and "5 µs" in line
