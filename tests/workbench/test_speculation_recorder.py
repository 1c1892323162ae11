"""What is recorded of speculation is what the engine did: checked against it, its tokens and plain decoding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sglab
from sglab.engine import BadArgumentError
from sglab.engine.speculation import accepted_moves, verify_tree_greedy
from sglab.models import DeepseekMTP, from_config
from sglab.serving import Engine
from sglab.workbench import SpeculationRun, record_speculation
from tests.support.serving.tiny import prompts, tiny_llama
from tests.support.tiny_configs import DEEPSEEK

PROMPTS = [[3, 4, 5, 6] * 5, *prompts(2, 20)]
GREEDY = {"temperature": 0, "max_new_tokens": 18}


def recorded(algorithm: str, sampling: dict | None = None, **more: object) -> tuple[SpeculationRun, list[list[int]]]:
    given = {"max_total_tokens": 640, "page_size": 4, **more}
    if algorithm == "STANDALONE":
        drafts = {"speculative_eagle_topk": 2, "speculative_num_draft_tokens": 6}
        given = {"draft_model": tiny_llama(0), **drafts, **given}
    engine = Engine(tiny_llama(), speculative_algorithm=algorithm, **given)
    with record_speculation(engine) as run:
        outputs = engine.generate(PROMPTS, sampling or GREEDY)
    return run, [output.token_ids for output in outputs]


@pytest.mark.parametrize("algorithm", ["NGRAM", "STANDALONE"])
def test_what_was_kept_adds_up_to_the_tokens_that_came_out(algorithm: str) -> None:
    run, tokens = recorded(algorithm)
    plain = Engine(tiny_llama(), max_total_tokens=640).generate(PROMPTS, GREEDY)
    for rid, generated, alone in zip(run.rids, tokens, plain, strict=True):
        said = [token for _, tree in run.of(rid) for token in tree.said]
        assert generated == alone.token_ids
        assert generated[1:] == said[: len(generated) - 1], "the first token is the prefill's"
        lengths = [tree.prefix for _, tree in run.of(rid)]
        assert np.diff(lengths).tolist() == [len(tree.said) for _, tree in run.of(rid)][:-1]


@pytest.mark.parametrize("length", [2, 5, 7])
def test_what_is_said_after_the_end_of_a_request_is_not_gained(length: int) -> None:
    run, tokens = recorded("STANDALONE", {**GREEDY, "max_new_tokens": length}, draft_model=tiny_llama())
    for rid, generated in zip(run.rids, tokens, strict=True):
        assert sum(run.gained(rid)) == len(generated) - 1 == length - 1
    assert any(sum(len(tree.said) for _, tree in run.of(rid)) > length - 1 for rid in run.rids)


@pytest.mark.parametrize("algorithm", ["NGRAM", "STANDALONE"])
def test_each_tree_agrees_with_its_arrays_its_logits_and_its_moves(algorithm: str) -> None:
    run, _ = recorded(algorithm)
    for one in run.passes:
        for tree in one.trees:
            count = len(tree.tokens)
            above = [{node} for node in range(count)]
            for node in range(1, count):
                above[node] |= above[tree.tree.parents[node]]
            assert [set(np.flatnonzero(row)) for row in tree.mask] == above
            assert tree.likely[:, 0].tolist() == tree.chosen, "greedy"
            assert (np.diff(tree.likely_probs) <= 0).all()
            kept = verify_tree_greedy(tree.tree, tree.tokens, tree.chosen)
            assert (kept.nodes, kept.tokens) == (tree.kept, tree.said)
            sources, targets = accepted_moves(torch.tensor([tree.slots]), [tree.kept])
            assert [(a, b) for _, a, b in tree.moves] == list(zip(sources.tolist(), targets.tolist(), strict=True))


def test_probabilities_are_the_models_own() -> None:
    """One more pass over a path from the root, alone, gives what was recorded after its last node."""
    run, tokens = recorded("STANDALONE")
    _, tree = run.of(run.rids[0])[1]
    context = (PROMPTS[0] + tokens[0])[: tree.prefix]
    leaf = len(tree.tokens) - 1
    path = [leaf]
    while tree.tree.parents[path[0]] >= 0:
        path.insert(0, tree.tree.parents[path[0]])
    batch = sglab.prompt_batch([context + [tree.tokens[node] for node in path]], tiny_llama(), page_size=4)
    assert batch.seq_lens.tolist() == [tree.prefix + len(path)]
    alone = Engine(tiny_llama(), max_total_tokens=640).generate(
        batch.reqs[0].origin_input_ids, {"temperature": 0, "max_new_tokens": 1}, return_logprob=True, top_logprobs_num=4
    )
    expected = {token: np.exp(logprob) for token, logprob in alone.top_logprobs[0]}
    got = dict(zip(tree.likely[leaf].tolist(), tree.likely_probs[leaf].tolist(), strict=True))
    for token, probability in expected.items():
        assert got[token] == pytest.approx(probability, rel=1e-4, abs=1e-7)


def test_a_model_s_scores_multiply_down_a_path_and_n_grams_have_none() -> None:
    run, _ = recorded("STANDALONE")
    for _, tree in run.of(run.rids[0]):
        assert tree.scores is not None and tree.offered == 2 + 4 * 2
        for node in range(1, len(tree.tokens)):
            assert tree.scores[node] <= tree.scores[tree.tree.parents[node]] + 1e-9
    ngram, _ = recorded("NGRAM")
    assert all(tree.scores is None and tree.offered == 0 for one in ngram.passes for tree in one.trees)


def test_drafts_from_hidden_states_are_recorded_with_their_scores() -> None:
    target = from_config({**DEEPSEEK, "max_position_embeddings": 256}, seed=1)
    draft = DeepseekMTP(target).eval()
    for parameter in draft.parameters():
        parameter.copy_(torch.randn(parameter.shape) * 0.1 if parameter.dim() > 1 else torch.ones(parameter.shape))
    drafts = {"speculative_num_steps": 3, "speculative_eagle_topk": 2, "speculative_num_draft_tokens": 5}
    engine = Engine(target, speculative_algorithm="EAGLE", draft_model=draft, max_total_tokens=320, **drafts)
    with record_speculation(engine) as run:
        outputs = engine.generate(PROMPTS, GREEDY)
    for rid, output in zip(run.rids, outputs, strict=True):
        said = [token for _, tree in run.of(rid) for token in tree.said]
        assert output.token_ids[1:] == said[: len(output.token_ids) - 1]
        for _, tree in run.of(rid):
            assert tree.scores is not None and tree.offered == 2 + 4 * 2
            for node in range(1, 5):
                assert tree.scores[node] <= tree.scores[tree.tree.parents[node]] + 1e-9


@pytest.mark.parametrize("page", [1, 4])
def test_the_page_table_of_a_verification_has_its_slots_and_the_trees_pages(page: int) -> None:
    engine = Engine(tiny_llama(), speculative_algorithm="NGRAM", max_total_tokens=320, page_size=page)
    shared = list(range(12))
    with record_speculation(engine) as run:
        engine.generate([*shared, 1, 2])
        engine.generate([[*shared, 1, 2, 1], [*shared, 5, 5]], GREEDY)
    one = next(each for each in reversed(run.passes) if len(each.trees) == 2)
    batch = one.pool.batch()
    batch.check_page_table()
    for i, tree in enumerate(one.trees):
        assert batch.reqs[i].rid == tree.rid
        assert batch.slots(i)[tree.prefix :].tolist() == tree.slots
    assert batch.slots(0)[:12].tolist() == batch.slots(1)[:12].tolist(), "the prefix that both share"
    assert batch.free_pages() == one.pool.free.tolist()
    held = {p for i in range(2) for p in batch.pages(i)} | set(batch.cached_pages())
    assert held.isdisjoint(batch.free_pages())
    assert len(held) + len(batch.free_pages()) == 320 // page, "every page is somebody's, or free"
    before = engine.runner.req_to_token_pool.req_to_token.clone()
    batch.free(0)
    assert torch.equal(engine.runner.req_to_token_pool.req_to_token, before), "its pools are its own"


def test_nothing_is_kept_outside_the_block() -> None:
    engine = Engine(tiny_llama(), speculative_algorithm="NGRAM", max_total_tokens=320)
    with record_speculation(engine) as run:
        pass
    engine.generate(PROMPTS, GREEDY)
    assert run.passes == [] and engine.runs.observer is None  # type: ignore[union-attr]


def test_a_draft_that_cannot_be_kept_is_marked() -> None:
    run, _ = recorded("NGRAM", {**GREEDY, "frequency_penalty": 0.5})
    assert run.accepted == 0 and all(tree.plain for one in run.passes for tree in one.trees)


def test_bad_calls_name_what_is_wrong() -> None:
    plain = Engine(tiny_llama(), max_total_tokens=320)
    with pytest.raises(BadArgumentError, match="engine: expected an engine that speculates"), record_speculation(plain):
        pass
    engine = Engine(tiny_llama(), speculative_algorithm="NGRAM", max_total_tokens=320)
    with (
        record_speculation(engine) as run,
        pytest.raises(BadArgumentError, match="not being recorded"),
        record_speculation(engine),
    ):
        pass
    with pytest.raises(BadArgumentError, match="rid: expected one of none"):
        run.of("x")
