"""Sparse attention: the model's own queries over fewer keys; questions judge, known wrong functions are told apart."""

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.labs import sparse_attention as lab


@pytest.fixture(scope="module")
def given() -> lab.Attention:
    engine = sglab.Engine("tiny", page_size=4, max_total_tokens=512, disable_overlap_schedule=True)
    return lab.attention(engine, "The robot had a ball. The cat saw the ball and the robot. The robot", layer=1)


def test_all_keys_are_the_whole_attention_and_fewer_err_more(given: lab.Attention) -> None:
    everything = torch.arange(len(given.keys))
    assert given.error(everything) < 1e-12
    assert torch.allclose(given.weights().sum(-1), torch.ones(given.q.shape[1], dtype=torch.float64))
    errors = [lab.average_error(given, count) for count in (4, 16, 64)]
    assert errors[0] > errors[1] > errors[2] >= 0
    assert given.output(token=5).shape == (given.q.shape[1], 512) and given.weights(5).shape[1] == 6


def test_the_indexer_is_the_products_of_what_it_quantised(given: lab.Attention) -> None:
    made = lab.Indexer.of(given)
    scores = (made.q.double() @ made.k.double().T).clamp(min=0) * made.k_scale.double()
    torch.testing.assert_close(made.logits().double(), (made.weights.double() @ scores)[0], rtol=1e-4, atol=1e-4)
    assert made.k.shape == (len(given.keys), 128) and made.k.dtype == torch.float8_e4m3fn


def test_questions(given: lab.Attention) -> None:
    count = lab.tokens_for(given, 0.9)
    held = given.weights().mean(0).topk(count.answer()).values
    assert held.sum() >= 0.9 > held[:-1].sum() and count.check(len(given.keys)).right is False
    best = given.best(16)
    assert lab.recall(given, best).check(1.0).right
    others = torch.tensor(sorted(set(range(len(given.keys))) - set(best.tolist()))[:16])
    assert lab.recall(given, others).check(0.0).right
    assert lab.bytes_ratio(131_072, 2048).check(8.1).right and lab.bytes_ratio(131_072, 2048).check(64).right is False
    assert lab.without_a_key().check([0, float("inf")]).right
    assert lab.without_a_key().check([0, float("-inf")]).right is False
    question = lab.blocks_of([100, 0], 3, 512)
    assert question.answer() > 2 and question.check(2).right is False


@pytest.mark.parametrize("question", [lab.label_topk(), lab.page_transform()], ids=["label_topk", "page_transform"])
def test_exercises(question: lab.CodeQuestion) -> None:
    assert question.check(question.truth).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)
