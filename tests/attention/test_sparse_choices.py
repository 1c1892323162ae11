"""The rules of sparse attention on random and on real rows: causal masks, budgets, and what the outcome says."""

from __future__ import annotations

from functools import cache

import pytest

torch = pytest.importorskip("torch")

from sglab.attention.sparse.choices import BLOCK, RULES, SINKS, Rows, best, causal
from sglab.attention.sparse.comparison import Outcome, budgets, compare, outcome
from sglab.engine import BadArgumentError
from sglab.workbench import AttentionRun, prompt_batch, record_attention

PROMPT = "Once upon a time there was a little dog."
TOKENS, HEADS = 40, 4


def rows(seed: int = 0, kv_heads: int = 1, dim: int = 160, tokens: int = TOKENS) -> Rows:
    generator = torch.Generator().manual_seed(seed)

    def drawn(heads: int, width: int) -> torch.Tensor:
        return torch.randn(tokens, heads, width, generator=generator, dtype=torch.float64)

    group = HEADS // kv_heads
    k, v = (drawn(kv_heads, width).repeat_interleave(group, 1) for width in (dim, 24))
    return Rows(drawn(HEADS, dim), k, v, dim**-0.5 * 3, kv_heads, 2 * dim * kv_heads)


@cache
def recorded() -> AttentionRun:
    return record_attention(PROMPT, layers=[1])


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("rule", RULES)
def test_masks_are_causal_and_keep_at_most_what_they_may(rule: str, kv_heads: int) -> None:
    given = rows(3, kv_heads)
    scores = RULES[rule].score(given)
    for budget in (1, 5, 17, TOKENS):
        mask = RULES[rule].choose(given, scores, budget)
        assert mask.shape == (HEADS, TOKENS, TOKENS) and mask.dtype is torch.bool
        assert not (mask & ~causal(TOKENS)).any(), "no query sees a later key"
        assert mask.any(-1).all(), "every query keeps a key"
        if rule in ("top_k", "dsa", "double_sparsity", "recent"):
            seen = torch.arange(1, TOKENS + 1).clamp(max=budget)
            assert (mask.sum(-1) == seen).all()
        if rule == "nsa":
            assert (mask.sum(-1) <= max(budget, 2 * BLOCK)).all()


def test_the_true_top_k_keeps_most_probability_and_all_keys_have_no_error() -> None:
    given = rows(1)
    found = {name: compare(given, name, [6, TOKENS]) for name in RULES}
    for name, (few, every) in found.items():
        same = few.keys <= 6
        assert (few.mass[same] <= found["top_k"][0].mass[same] + 1e-12).all(), name
        assert every.total_error < 1e-12 and (every.mass - 1).abs().max() < 1e-12, name


def test_an_outcome_is_attention_over_the_chosen_keys_alone() -> None:
    given = rows(2, kv_heads=2)
    mask = RULES["recent"].choose(given, torch.zeros(0), 7)
    made = outcome(given, mask)
    for head, query in ((0, 5), (3, TOKENS - 1), (1, 0)):
        keys = mask[head, query].nonzero()[:, 0]
        weights = (given.k[keys, head] @ given.q[query, head] * given.scale).softmax(0)
        sparse = weights @ given.v[keys, head]
        every = torch.arange(query + 1)
        dense = (given.k[every, head] @ given.q[query, head] * given.scale).softmax(0) @ given.v[every, head]
        assert made.error[head, query] == pytest.approx(float((sparse - dense).norm() / dense.norm()), abs=1e-12)
        assert made.keys[head, query] == len(keys)
    shared = torch.stack([mask[:2].any(0), mask[2:].any(0)]).sum(-1).double().mean(0)
    assert torch.equal(made.rows.double(), shared), "heads of a group read their rows once"


def test_rules_look_at_what_they_say() -> None:
    given = rows(4)
    recent = RULES["recent"].choose(given, torch.zeros(0), 10)[0, -1].nonzero()[:, 0].tolist()
    assert recent == [*range(SINKS), *range(TOKENS - 6, TOKENS)]
    blocks = RULES["nsa"].choose(given, RULES["nsa"].score(given), 3 * BLOCK)[0]
    first = blocks[-1].view(-1, BLOCK)
    assert set(first.sum(1).tolist()) <= {0, BLOCK} and first[0].all() and first[-1].all()
    lines = RULES["vertical_slash"].choose(given, RULES["vertical_slash"].score(given), BLOCK)
    assert lines.diagonal(dim1=1, dim2=2).all(), "distance 0 is always a line"
    scores = torch.tensor([[1.0, float("-inf"), 3.0, 2.0]])
    assert best(scores, 2).tolist() == [[False, False, True, True]]
    assert best(scores, 9).tolist() == [[True, False, True, True]], "what is masked is never chosen"


def test_lines_with_a_budget_of_all_keys_keep_all() -> None:
    given = rows(6, tokens=TOKENS + 3)
    seen = RULES["vertical_slash"].score(given)
    assert torch.equal(RULES["vertical_slash"].choose(given, seen, TOKENS + 3)[2], causal(TOKENS + 3))
    kept = [RULES["vertical_slash"].choose(given, seen, budget).sum(-1) for budget in (9, 20, 30, TOKENS + 2)]
    for budget, keys in zip((9, 20, 30, TOKENS + 2), kept, strict=True):
        assert keys.max() <= budget
    assert kept[-1].max() > (TOKENS + 2) / 2, "lines are doubled while they fit"


def test_choosing_costs_what_is_read_and_multiplied_for_it() -> None:
    """Keys alone are scored, not the values of a row; a narrow head has fewer channels than the most that count."""
    narrow, keys = rows(7, kv_heads=2, dim=16), (TOKENS + 1) / 2
    grouped = Rows(narrow.q, narrow.k, narrow.v, narrow.scale, 2, 2 * 2 * (16 + 24))
    cost = {name: rule.cost(grouped) for name, rule in RULES.items()}
    assert cost["top_k"][0] == 2 * 2 * 16 * keys and cost["nsa"][0] == 2 * 2 * 16 * keys / BLOCK
    assert cost["vertical_slash"][0] == 2 * 2 * 16
    assert cost["double_sparsity"] == (2 * 16 * HEADS * keys, 2 * 16 * HEADS * keys)
    assert RULES["top_k"].cost(recorded().layers[0])[0] == 1152 * (len(recorded().tokens) + 1) / 2, (
        "MLA's row is its key"
    )


def test_blocks_with_a_budget_of_all_keys_keep_all_where_the_last_is_short() -> None:
    given = rows(4, tokens=TOKENS + 3)
    assert torch.equal(RULES["nsa"].choose(given, RULES["nsa"].score(given), TOKENS + 3)[0], causal(TOKENS + 3))


def test_heavy_channels_are_found_where_products_are_large() -> None:
    given = rows(5)
    boost = torch.ones(given.q.shape[2], dtype=torch.float64)
    boost[40:60] = 30.0
    loud = Rows(given.q * boost, given.k, given.v, given.scale / 900, 1, given.row_bytes)
    true, heavy = (RULES[name].choose(loud, RULES[name].score(loud), 8) for name in ("top_k", "double_sparsity"))
    assert (true & heavy).sum() / true.sum() > 0.95


@pytest.mark.parametrize(("tokens", "expected"), [(2, [2]), (5, [4, 5]), (12, [4, 8, 12])])
def test_budgets_grow_to_all_keys(tokens: int, expected: list[int]) -> None:
    assert budgets(tokens) == expected
    long = budgets(256)
    assert long == sorted(set(long)) and long[-1] == 256 and len(long) <= 24


def test_recorded_rows_are_those_that_the_model_attends_with() -> None:
    """The last query and all keys of a layer are those of `prompt_batch`, which runs the same model."""
    run, batch = recorded(), prompt_batch(PROMPT, layer=1, dtype="float32", page_size=1)
    (given,) = run.layers
    assert len(run.tokens) == given.tokens == int(batch.seq_lens[0]) == len(run.texts)
    assert torch.equal(given.q[-1].float(), batch.q[0].float())
    keys = batch.runner.token_to_kv_pool.get_key_buffer(1)[batch.slots(0)]
    assert torch.equal(given.k[:, 0].float(), keys[:, 0].float())
    assert given.kv_heads == 1 and given.row_bytes == 576 * 2
    assert given.scale == batch.layer.scaling


def test_on_the_trained_model_the_bound_is_far_below_blind_choices() -> None:
    """A trained layer's attention is sparse: few true keys are enough, few recent ones are not."""
    found: dict[str, Outcome] = {name: compare(recorded().layers[0], name, [8])[0] for name in RULES}
    assert found["top_k"].mass.mean() > 0.85
    assert found["top_k"].total_error < 0.5 * found["recent"].total_error
    assert found["top_k"].total_error < found["dsa"].total_error


def test_prompts_and_layers_that_cannot_be_are_refused() -> None:
    for wrong in ("", "a" * 300, [7]):
        with pytest.raises(BadArgumentError, match="prompt"):
            record_attention(wrong)
    for ids in ([1, 2, 999_999], [1, -2], [1, 2, "x"], [1.5, 2]):
        with pytest.raises(BadArgumentError, match="prompts"):
            record_attention(ids)  # type: ignore[arg-type]
    ids = torch.tensor([3, 1, 2])
    assert record_attention(ids, layers=[0]).tokens == [3, 1, 2]  # type: ignore[arg-type]
    for layers in ([9], [-1], []):
        with pytest.raises(BadArgumentError, match="layer"):
            record_attention(PROMPT, layers=layers)
