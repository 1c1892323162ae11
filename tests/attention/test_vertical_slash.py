"""Sparse prompts of dual chunk attention: what each head chooses, and that it attends to that alone."""

from typing import Any

import pytest
import torch

from sglab.attention.page_table import vertical_slash
from sglab.attention.page_table.dual_chunk import DualChunkFlashAttentionBackend
from sglab.attention.page_table.vertical_slash import Choice, Lines, Part, Span, chosen_lines, lines_in, parts_of
from sglab.engine import BadArgumentError
from sglab.kernels.vertical_slash.reference import one_row
from sglab.workbench import Batch, extend_batch, max_error

MHA: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 32}
CHUNK, LOCAL, LEN = 160, 32, 128
EVERYTHING = 10_000
ON = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")],
    ),
]


def config(keys: int, distances: int) -> list[dict[str, list[Any]]]:
    return [{str(head): ["vertical_and_slash", keys, distances, 1] for head in range(4)}]


def batch_of(*prompts: tuple[int, int], device: str = "cpu") -> Batch:
    """(tokens, of which cached)"""
    tokens, cached = ([prompt[i] for prompt in prompts] for i in range(2))
    return extend_batch(tokens, cached, page_size=16, dtype="float16", device=device, **MHA)


def five_queries(batch: Batch) -> list[torch.Tensor]:
    """For the own chunk, the one before and all earlier ones, and what chooses in the last two."""
    seeds = [torch.Generator().manual_seed(seed) for seed in range(4)]
    return [batch.q, *(torch.randn(batch.q.shape, generator=seed).to(batch.q) for seed in seeds)]


def forward(backend: DualChunkFlashAttentionBackend, batch: Batch, queries: list[torch.Tensor]) -> torch.Tensor:
    backend.prepare(batch.forward_batch)
    rows = torch.cat([each.flatten(1) for each in queries], 1)
    return backend.forward(rows, batch.k, batch.v, batch.layer, batch.forward_batch).view(batch.q.shape)


@pytest.mark.parametrize("device", ON)
def test_a_prompt_that_sees_everything_is_the_dense_one(device: str) -> None:
    batch = batch_of((450, 0), (300, 140), (90, 0), device=device)
    queries = five_queries(batch)
    dense = forward(DualChunkFlashAttentionBackend(batch.runner, CHUNK, LOCAL, 100), batch, queries)
    sparse = DualChunkFlashAttentionBackend(
        *(batch.runner, CHUNK, LOCAL, 100),
        sparse_attention_config=config(EVERYTHING, EVERYTHING),
        sparse_attention_threshold=100,
    )
    assert max_error(forward(sparse, batch, queries), dense.double()) <= 2e-3
    assert {span.end - span.begin for span in sparse._sparse_spans} == {128, 66, 116, 44}


def test_short_prompts_stay_dense() -> None:
    batch = batch_of((200, 0), (90, 30))
    queries = five_queries(batch)
    options: dict[str, Any] = {"sparse_attention_config": config(1, 1), "sparse_attention_threshold": 100}
    both = forward(DualChunkFlashAttentionBackend(batch.runner, CHUNK, LOCAL, **options), batch, queries)
    dense = forward(DualChunkFlashAttentionBackend(batch.runner, CHUNK, LOCAL), batch, queries)
    assert torch.equal(both[-60:], dense[-60:])
    assert max_error(both[:200], dense[:200].double()) > 1e-2
    batch.forward_batch.orig_seq_lens = torch.tensor([100, 101], dtype=torch.int32)  # more is to come of the second
    both = forward(DualChunkFlashAttentionBackend(batch.runner, CHUNK, LOCAL, **options), batch, queries)
    assert torch.equal(both[:200], dense[:200])
    assert not torch.equal(both[-60:], dense[-60:])


def seen_by(lines: list[Lines], span: Span, part: Part) -> torch.Tensor:
    """bool [heads, queries, keys of the part]: which pairs the chosen lines reach, by rows of 64 queries and blocks of
    64 keys (tests/kernels/test_block_sparse.py holds these against upstream's)."""
    queries = span.end - span.begin
    seen = torch.zeros(len(lines), queries, part.count, dtype=torch.bool)
    for head, each in enumerate(lines_in(part, span, one) for one in lines):
        inside = sorted(each.keys.tolist()), sorted(each.distances.tolist(), reverse=True)
        for row in range(-(-queries // 64)):
            blocks, columns = one_row(row, queries, part.count, *inside, 64, 64, part.causal)
            rows = slice(64 * row, 64 * row + 64)
            seen[head, rows, columns] = True
            for block in blocks:
                seen[head, rows, block : block + 64] = True
    if part.causal:
        at = torch.arange(queries)[:, None] + part.count - queries
        seen &= at >= torch.arange(part.count)
    return seen


@pytest.mark.parametrize("device", ON)
def test_a_head_attends_to_its_lines_alone(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vertical_slash, "FIRST_KEYS", 2)
    monkeypatch.setattr(vertical_slash, "NEAREST", 3)
    batch = batch_of((450, 0), device=device)
    queries = five_queries(batch)
    backend = DualChunkFlashAttentionBackend(
        *(batch.runner, CHUNK, LOCAL), sparse_attention_config=config(9, 5), sparse_attention_threshold=100
    )
    out = forward(backend, batch, queries)
    keys, values = (pool[batch.slots(0)] for pool in batch.runner.token_to_kv_pool.get_kv_buffer(0))
    dropped = 0
    for span in backend._sparse_spans:
        asked, choosing = (
            [each[span.rows] for each in some] for some in (queries[:3], [queries[0], queries[3], queries[4]])
        )
        choice = Choice([(9, 5)] * 4, batch.sm_scale, 64, "auto")
        lines = chosen_lines(choosing, keys[: span.end], span, choice)
        logits = torch.full((4, span.end - span.begin, span.end), float("-inf"), dtype=torch.float64, device=device)
        for query, part in zip(asked, parts_of(span), strict=False):
            there = slice(part.first, part.first + part.count)
            near = keys[there].double().repeat_interleave(2, 1)
            scores = torch.einsum("qhd,khd->hqk", query.double(), near) * batch.sm_scale
            logits[..., there] = scores.masked_fill(~seen_by(lines, span, part).to(device), float("-inf"))
        dropped += int(logits.isinf().sum())
        weights = logits.softmax(-1)
        expected = torch.einsum("hqk,khd->qhd", weights, values[: span.end].double().repeat_interleave(2, 1))
        assert max_error(out[span.rows], expected) <= 4e-3
    assert dropped > 50_000


def test_the_last_queries_choose_keys_and_distances() -> None:
    """Scores that are high at one key and along one distance; of ties and of what all see nothing is asked."""
    end, heads = 400, 2
    span = Span(0, 256, end, 256, 128, torch.arange(end))
    key, distance, dim = 77, 213, 512
    keys = torch.zeros(end, 1, dim)
    keys[torch.arange(end), 0, torch.arange(end)] = 1.0  # each its own direction
    queries = torch.zeros(span.end - span.begin, heads, dim)
    for i in range(len(queries)):
        queries[i, 0, key] = 50.0
        queries[i, 1, span.begin + i - distance] = 50.0
    choice = Choice([(31, 101)] * heads, 1.0, 64, "auto")
    column, slash = chosen_lines([queries] * 3, keys, span, choice)
    assert key in column.keys.tolist() and set(range(30)) <= set(column.keys.tolist())
    assert distance in slash.distances.tolist() and set(range(100)) <= set(slash.distances.tolist())
    inner, before, earlier = (lines_in(part, span, slash).distances.tolist() for part in parts_of(span))
    assert distance not in inner and distance in before and sorted(earlier) == [distance - 128]


def test_a_part_without_a_line_has_some_spread_over_it() -> None:
    span = Span(0, 256, 400, 256, 128, torch.arange(400))
    own, before, earlier = parts_of(span)
    lines = Lines(torch.tensor([300]), torch.tensor([0, 1]))
    assert lines_in(own, span, lines).keys.tolist() == [44]
    assert lines_in(before, span, lines).keys.tolist() == [0, 25, 51, 76, 102]
    assert lines_in(earlier, span, lines).distances.tolist() == [0, 25, 51, 76, 102]


def test_a_model_calibrated_for_thirty_keys_gets_more() -> None:
    sparse = vertical_slash.SparsePrompts.of([{0: ("vertical_and_slash", 30, 800, 1.0)}], 32768, 64)
    assert sparse.layer(0, 1, 0) == [(130, 800)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparse_attention_config": [{"0": ["block_sparse", 1, 1]}]}, r"head 0 of layer 0, got \['block_sparse"),
        ({"sparse_attention_config": [{"1": ["vertical_and_slash", 1, 1]}]}, "head 0 of layer 0, got None"),
        ({"sparse_attention_config": config(0, 1)}, "head 0 of layer 0"),
        ({"sparse_attention_config": config(1, 1), "sparse_attention_last_q": 0}, "sparse_attention_last_q"),
        ({"sparse_attention_config": config(1, 1), "sparse_attention_threshold": -1}, "sparse_attention_threshold"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    batch = batch_of((40, 0))
    with pytest.raises(BadArgumentError, match=message):
        DualChunkFlashAttentionBackend(batch.runner, CHUNK, LOCAL, **options)


def test_a_layer_without_a_configuration_is_named() -> None:
    batch = batch_of((200, 0))
    backend = DualChunkFlashAttentionBackend(
        *(batch.runner, CHUNK, LOCAL), sparse_attention_config=[], sparse_attention_threshold=100
    )
    with pytest.raises(BadArgumentError, match="heads 0 to 3 of layer 0"):
        forward(backend, batch, five_queries(batch))
