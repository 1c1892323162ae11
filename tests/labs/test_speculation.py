"""The questions of notebook 18 know right answers and usual mistakes, and a trained head drafts better."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.engine import BadArgumentError
from sglab.labs import draft_head
from sglab.labs import speculation as lab
from sglab.workbench.recorders.speculation import SpeculationRun

TREE = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 8}
GREEDY = {"temperature": 0, "max_new_tokens": 24}


@pytest.fixture(scope="module")
def run() -> SpeculationRun:
    engine = sglab.Engine(
        "tiny", speculative_algorithm="STANDALONE", draft_model="tiny", max_total_tokens=512, page_size=16, **TREE
    )
    with sglab.workbench.record_speculation(engine) as seen:
        engine.generate("Once upon a time", {"temperature": 0.9, "sampling_seed": 5, "max_new_tokens": 12})
    return seen


@pytest.mark.parametrize(
    ("question", "right", "wrong", "says"),
    [
        (lab.fewest_passes(59, 8), 8, 9, "one token more"),
        (lab.first_drafts("The cat sat. The cat ran. The cat", 5), " ran.", " sat.", "begins with the latest"),
        (lab.candidates(4, 3), 30, 120, "if every node went on"),
        (lab.candidates(4, 3), 30, 12, "offers topk candidates"),
        (lab.gained(), [12, 14, 99], [12, 14], "spoken once more"),
        (lab.gained(), [12, 14, 99], [0, 2, 4], "These are the nodes"),
        (lab.moved_backwards([40, 41, 42, 43, 44], [0, 2, 4]), [0, 4, 4], [0, 2, 4], "So it should be"),
        (lab.share_of_draft([0.5, 0.3, 0.2], 1, 0.6), 0.5, 0.3, "no longer the distribution"),
        (lab.gain(0.8, 4, 0.1), 2.40, 3.0, "the chances multiply"),
        (lab.gain(0.8, 4, 0.1), 2.40, 3.3616, "Drafting them took time"),
        (lab.best_length(0.6, 0.1), 3, 16, "compute the speed-up"),
    ],
)
def test_questions_know_their_answers_and_the_usual_mistakes(
    question: lab.Question, right: object, wrong: object, says: str
) -> None:
    assert question.check().right is None
    assert question.check(right).right, question.check(right)
    verdict = question.check(wrong)
    assert verdict.right is False and says in verdict.text


def test_keys_of_a_recorded_tree(run: SpeculationRun) -> None:
    _, tree = run.of("request 1")[1]
    question = lab.keys_seen(tree)
    assert question.check(tree.prefix + max(tree.tree.depths) + 1).right
    assert "mask hides them" in question.check(tree.prefix + 8).text
    assert "attends to itself" in question.check(tree.prefix + max(tree.tree.depths)).text


def ancestors(parents: list[int]) -> torch.Tensor:
    mask = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    for node, parent in enumerate(parents):
        if parent >= 0:
            mask[node] = mask[parent]
        mask[node, node] = True
    return mask


def test_the_mask_is_judged_by_what_it_returns() -> None:
    question = lab.ancestor_mask()
    assert question.check(ancestors).right

    def says(wrong: object) -> str:
        verdict = question.check(wrong)
        assert verdict.right is False
        return verdict.text

    assert "chain's mask" in says(lambda parents: torch.ones(len(parents), len(parents), dtype=torch.bool).tril())
    assert "transpose" in says(lambda parents: ancestors(parents).T)
    assert "sees itself" in says(lambda parents: ancestors(parents) ^ torch.eye(len(parents), dtype=torch.bool))
    assert "parent's parent" in says(lab._no_grandparents)


def test_what_is_drawn_after_a_rejection_is_judged() -> None:
    question = lab.residual()
    assert question.check(lambda p, q: torch.relu(p - q) / torch.relu(p - q).sum()).right
    assert "come too often" in question.check(lambda p, q: p).text
    assert "adds up to 1" in question.check(lambda p, q: torch.relu(p - q)).text
    assert "The other way round" in question.check(lambda p, q: torch.relu(q - p) / torch.relu(q - p).sum()).text


def test_only_the_residual_gives_the_targets_distribution() -> None:
    p, q = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.5, 0.3])
    right, degrees = lab.chi_square(lab.sampled(p, q, (p - q).clamp_min(0)), p)
    assert degrees == 2 and right < 14  # one in a thousand true draws is larger
    assert lab.chi_square(lab.sampled(p, q, p), p)[0] > 1000


def test_rare_outcomes_are_counted_as_one() -> None:
    statistic, degrees = lab.chi_square(torch.tensor([90, 6, 4]), torch.tensor([0.9, 0.06, 0.04]))
    assert (statistic, degrees) == (pytest.approx(0, abs=1e-6), 2)
    assert lab.chi_square(torch.tensor([95, 3, 2, 0]), torch.tensor([0.95, 0.03, 0.015, 0.005]))[1] == 1


def test_a_threshold_changes_how_often_the_draft_comes_out() -> None:
    assert lab.share([0.5, 0.3, 0.2], 1, 0.6)[1] == pytest.approx(0.5, abs=0.03)
    assert lab.share([0.5, 0.3, 0.2], 1, 1.0)[1] == pytest.approx(0.3, abs=0.03)


def test_a_trained_head_changes_the_number_of_passes_and_nothing_else() -> None:
    teacher = sglab.Engine("tiny", disable_radix_cache=True, max_total_tokens=2048)
    told = teacher.generate(["Once upon a time", "Mia had a red ball."] * 3, {"temperature": 0.8, "max_new_tokens": 60})
    rows = draft_head.rows_of(teacher, [output.prompt_token_ids + output.token_ids for output in told])
    assert len(rows[0]) == len(rows[1]) == len(rows[2]) > 300
    head = draft_head.DraftHead(teacher.model)
    prompts = ["Ben had a dog.", "Once upon a time"]
    plain = [output.text for output in teacher.generate(prompts, GREEDY)]
    kept = []
    for steps in (0, 60):
        draft_head.train(head, rows, steps=steps)
        engine = sglab.Engine("tiny", speculative_algorithm="EAGLE", draft_model=head, max_total_tokens=512, **TREE)
        assert [output.text for output in engine.generate(prompts, GREEDY)] == plain
        kept.append(sum(step.accepted for step in engine.history.steps))
        assert "drafts kept" in lab.passes(engine)
    assert kept[1] > kept[0] + 5


def test_states_are_of_every_token() -> None:
    with pytest.raises(BadArgumentError, match="without a radix cache"):
        draft_head.rows_of(sglab.Engine("tiny", max_total_tokens=64), [[1, 2, 3]])
