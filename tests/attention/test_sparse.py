"""Sparse attention: what an indexer chose, what heavy channels chose, and queries that differ by distance."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.page_table.dual_chunk import DualChunkFlashAttentionBackend
from sglab.attention.sparse.double_sparsity import DoubleSparseAttnBackend, DoubleSparsityConfig
from sglab.attention.sparse.dsa import DeepseekSparseAttnBackend
from sglab.engine import BadArgumentError, ForwardMode
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference
from tests.support.attention import verify_batch

MHA: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 32}


def over_positions(batch: Batch, chosen: list[list[int]]) -> torch.Tensor:
    """Float64 attention of each new token over these positions of its request."""
    pool, out = batch.runner.token_to_kv_pool, []
    keys, values = (buffer.double() for buffer in pool.get_kv_buffer(0))
    owners = [i for i, count in enumerate(batch.new_tokens) for _ in range(count)]
    for q, owner, positions in zip(batch.q.double(), owners, chosen, strict=True):
        slots = batch.slots(owner)[torch.tensor(positions)]
        k, v = keys[slots], values[slots]
        group = len(q) // k.shape[1]
        weights = (torch.einsum("hd,shd->hs", q, k.repeat_interleave(group, 1)) * batch.sm_scale).softmax(-1)
        out.append(torch.einsum("hs,shd->hd", weights, v.repeat_interleave(group, 1)))
    return torch.stack(out)


@pytest.mark.parametrize("name", ["dsa", "nsa", "ascend"])
@pytest.mark.parametrize("mode", ["decode", "extend"])
def test_chosen_positions_alone_are_attended_to(name: str, mode: str) -> None:
    shape: dict[str, Any] = {"num_heads": 4, "page_size": 64, "layout": "fragmented"}
    batch = decode_batch([90, 20], **shape) if mode == "decode" else extend_batch([70, 9], [66, 5], **shape)
    lens = [
        length - count + 1 + i
        for length, count in zip(batch.seq_lens, batch.new_tokens, strict=True)
        for i in range(count)
    ]
    generator = torch.Generator().manual_seed(1)
    chosen = [torch.randperm(length, generator=generator)[:12].tolist() for length in lens]
    padded = torch.tensor([[*each, *[-1] * (16 - len(each))] for each in chosen])
    backend = create_attention_backend(name, batch.runner)
    backend.prepare(batch.forward_batch)
    rank = 512
    out = backend.forward(
        batch.q[..., :rank],
        batch.k[..., :rank],
        batch.v,
        batch.layer,
        batch.forward_batch,
        q_rope=batch.q[..., rank:],
        k_rope=batch.k[..., rank:],
        topk_indices=padded[:, torch.randperm(16, generator=generator)],
    )
    assert max_error(out.view(len(lens), 4, 512), over_positions(batch, chosen)) <= 3e-3


@pytest.mark.parametrize("name", ["dsa", "ascend"])
def test_drafts_attend_to_what_an_indexer_chose_for_each(name: str) -> None:
    """A chain's: each draft sees those before it, and its choice is made over as many keys."""
    prefixes = [50, 7]
    batch = extend_batch([p + 3 for p in prefixes], prefixes, num_heads=4, page_size=64, layout="fragmented")
    verify = verify_batch(batch, prefixes, [-1, 0, 1])
    backend = create_attention_backend(name, batch.runner)
    backend.prepare(verify)
    lens = [prefix + 1 + i for prefix in prefixes for i in range(3)]
    rows = backend.index_rows(verify)
    assert rows.lengths.tolist() == lens and rows.longest >= max(lens)
    for token, length in enumerate(lens):
        row = token if rows.request_of is None else int(rows.request_of[token])
        assert rows.page_table_1[row, :length].tolist() == batch.slots(token // 3)[:length].tolist()
    generator = torch.Generator().manual_seed(2)
    chosen = [torch.randperm(length, generator=generator)[:5].tolist() for length in lens]
    out = backend.forward(
        *(batch.q, batch.k, batch.v, batch.layer, verify), topk_indices=torch.tensor(chosen, dtype=torch.int32)
    )
    assert max_error(out.view(len(lens), 4, 512), over_positions(batch, chosen)) <= 3e-3


def test_the_indexers_choice_becomes_slots() -> None:
    batch = decode_batch([90, 3], num_heads=4, page_size=64, layout="fragmented")
    backend = DeepseekSparseAttnBackend(batch.runner, index_topk=4)
    backend.prepare(batch.forward_batch)
    metadata = backend.indexer_metadata()
    logits = torch.randn(2, 90, generator=torch.Generator().manual_seed(0))
    slots = metadata.topk_transform(logits, 4)
    best = logits[0].topk(4).indices
    assert set(slots[0].tolist()) == set(batch.slots(0)[best].tolist())
    assert set(slots[1].tolist()) == {*batch.slots(1).tolist(), -1}
    assert metadata.get_seqlens_int32().tolist() == [90, 3] and metadata.get_seqlens_expanded().tolist() == [90, 3]
    pages = metadata.get_page_table_64()
    assert pages.shape == (2, 2) and pages[0].tolist() == batch.pages(0)
    with pytest.raises(BadArgumentError, match=r"topk_indices: expected shape \(2, at most 4\), got \(2, 5\)"):
        options = {"topk_indices": torch.zeros((2, 5), dtype=torch.int64)}
        backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, **options)


@pytest.mark.parametrize("mode", ["decode", "extend"])
@pytest.mark.parametrize("name", ["dsa", "ascend", "triton"])
def test_an_indexer_chooses_among_a_requests_own_keys(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of each row's keys, the earlier where scores are equal; a row at a time gives the same."""
    shape: dict[str, Any] = {"num_heads": 4, "page_size": 64, "layout": "fragmented"}
    batch = decode_batch([90, 20, 5], **shape) if mode == "decode" else extend_batch([70, 9, 4], [60, 0, 3], **shape)
    backend = create_attention_backend(name, batch.runner)
    backend.prepare(batch.forward_batch)
    generator = torch.Generator().manual_seed(3)
    tokens, slots = len(batch.q), len(batch.runner.token_to_kv_pool.get_key_buffer(0))
    q, keys = (torch.randn(*size, generator=generator).bfloat16() for size in ((tokens, 3, 32), (slots, 32)))
    keys[::3] = 0  # whose scores are equal
    weights = torch.randn(tokens, 3, generator=generator)
    chosen = backend.choose_tokens(q, keys, weights, 12, batch.forward_batch)
    assert chosen is not None and chosen.shape == (tokens, 12) and chosen.dtype == torch.int32
    row = 0
    for i, (length, count) in enumerate(zip(batch.seq_lens, batch.new_tokens, strict=True)):
        for seen in range(length - count + 1, length + 1):
            own = keys[batch.slots(i)[:seen]].double()
            scores = (weights[row].double() @ (q[row].double() @ own.T).relu()).tolist()
            best = sorted(range(seen), key=lambda p: (-round(scores[p], 5), p))[:12]
            assert chosen[row][chosen[row] >= 0].tolist() == sorted(best)
            row += 1
    monkeypatch.setattr("sglab.attention.arithmetic.chosen.MOST_LOGITS", 1)
    assert torch.equal(backend.choose_tokens(q, keys, weights, 12, batch.forward_batch), chosen)
    assert backend.choose_tokens(q, keys, weights, max(batch.seq_lens), batch.forward_batch) is None
    batch.forward_batch.forward_mode = ForwardMode.IDLE
    assert backend.choose_tokens(q[:0], keys, weights[:0], 12, batch.forward_batch) is None
    assert backend.takes_chosen == (name != "triton")


def test_double_sparsity_attends_to_the_heavy_channels_choice() -> None:
    batch = decode_batch([60, 90], page_size=1, dtype="float32", **MHA)
    channels = torch.tensor([[[3, 7, 11, 30], [0, 1, 2, 31]]])
    config = DoubleSparsityConfig(4, heavy_token_num=10, sparse_decode_threshold=80, sorted_channels=channels)
    backend = DoubleSparseAttnBackend(batch.runner, config)
    out = sglab.attend(batch, backend)
    assert backend.is_sparse
    keys, values = (buffer.double() for buffer in batch.runner.token_to_kv_pool.get_kv_buffer(0))
    for i in range(2):
        slots = batch.slots(i)
        for head in range(4):
            kv, q = head // 2, batch.q[i, head].double()
            label = keys[slots, kv][:, channels[0, kv]] @ q[channels[0, kv]]
            best = slots[label.topk(10).indices]
            weights = (keys[best, kv] @ q * batch.sm_scale).softmax(-1)
            assert max_error(out[i, head], weights @ values[best, kv]) <= 1e-5
    short = DoubleSparseAttnBackend(batch.runner, replace(config, heavy_token_num=61))
    assert max_error(sglab.attend(batch, short), reference(batch).o) <= 1e-5 and not short.is_sparse


@pytest.mark.parametrize("mode", ["decode", "extend"])
def test_dual_chunk_asks_near_and_far_chunks_with_different_queries(mode: str) -> None:
    shape = {"page_size": 4, "dtype": "float16", **MHA}
    batch = decode_batch([45, 9, 17], **shape) if mode == "decode" else extend_batch([45, 9], [14, 0], **shape)
    backend = DualChunkFlashAttentionBackend(batch.runner, chunk_size=20, local_size=4)
    near, far = (torch.randn(batch.q.shape, generator=torch.Generator().manual_seed(s)).half() for s in (1, 2))
    rows = torch.cat([each.flatten(1) for each in (batch.q, near, far, near, far)], 1)
    backend.prepare(batch.forward_batch)
    out = backend.forward(rows, batch.k, batch.v, batch.layer, batch.forward_batch).view(batch.q.shape)
    keys, values = (buffer.double() for buffer in batch.runner.token_to_kv_pool.get_kv_buffer(0))
    at = 0
    for i, count in enumerate(batch.new_tokens):
        slots = batch.slots(i)
        for position in range(len(slots) - count, len(slots)):
            chunk = position // 16
            logits = []
            for key in range(position + 1):
                query = (batch.q, near, far)[min(chunk - key // 16, 2)][at].double()
                logits.append((query.view(2, 2, -1) * keys[slots[key], :, None]).sum(-1).flatten() * batch.sm_scale)
            weights = torch.stack(logits, 1).softmax(-1)
            expected = torch.einsum("hs,shd->hd", weights, values[slots[: position + 1]].repeat_interleave(2, 1))
            assert max_error(out[at], expected) <= 4e-3
            at += 1
    with pytest.raises(UnsupportedError, match=r"chunk_size: expected .* whole pages of 4 for dual_chunk_flash_attn"):
        DualChunkFlashAttentionBackend(batch.runner, chunk_size=19, local_size=4)
