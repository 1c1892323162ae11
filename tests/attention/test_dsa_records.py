"""dsa over 656-byte records: appended, attended to in every mode, captured; against float64 from their bytes."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import UnsupportedError
from sglab.attention.sparse.dsa import DeepseekSparseAttnBackend
from sglab.attention.sparse.dsa_metadata import TopkTransformMethod
from sglab.engine import BadArgumentError, ForwardBatch, GraphBatch, MLARecordTokenToKVPool
from sglab.workbench import Batch, decode_batch, extend_batch, max_error
from tests.support.attention import quantize_pool, verify_batch

SHAPE: dict[str, Any] = {"num_heads": 4, "page_size": 64, "layout": "fragmented", "dtype": "bfloat16"}
RANK = 512


def read(pool: MLARecordTokenToKVPool, slots: torch.Tensor) -> torch.Tensor:
    """float64 [slots, 576] of what the bytes say: 512 e4m3, four float32, 64 bfloat16."""
    raw = pool.get_records(0)[slots]
    values = raw[:, :512].contiguous().view(torch.float8_e4m3fn).double()
    scales = raw[:, 512:528].contiguous().view(torch.float32).double().repeat_interleave(128, 1)
    rope = raw[:, 528:].contiguous().view(torch.bfloat16).double()
    return torch.cat((values * scales, rope), 1)


def stored_in_records(batch: Batch) -> MLARecordTokenToKVPool:
    quantize_pool(batch, torch.float8_e4m3fn, records=True)
    pool = batch.runner.token_to_kv_pool
    assert isinstance(pool, MLARecordTokenToKVPool)
    return pool


def expected(batch: Batch, chosen: list[list[int]], fresh: torch.Tensor | None = None) -> torch.Tensor:
    """float64 attention of each new token over its chosen positions. fresh: rows read in the place of the records."""
    pool, out = batch.runner.token_to_kv_pool, []
    assert isinstance(pool, MLARecordTokenToKVPool)
    owners = [i for i, count in enumerate(batch.new_tokens) for _ in range(count)]
    starts = [sum(batch.new_tokens[:i]) for i in range(len(batch.new_tokens))]
    for q, owner, positions in zip(batch.q.double(), owners, chosen, strict=True):
        keys = read(pool, batch.slots(owner)) if fresh is None else fresh[starts[owner] :].double()
        k = keys[torch.tensor(positions)]
        out.append((q @ k.T * batch.sm_scale).softmax(-1) @ k[:, :RANK])
    return torch.stack(out)


def visible(batch: Batch) -> list[int]:
    pairs = zip(batch.seq_lens, batch.new_tokens, strict=True)
    return [length - count + 1 + i for length, count in pairs for i in range(count)]


def drawn(lens: list[int], topk: int = 16) -> tuple[list[list[int]], torch.Tensor]:
    """Positions that each token attends to, and the same as rows with −1 between them."""
    generator = torch.Generator().manual_seed(1)
    chosen = [torch.randperm(length, generator=generator)[:12].tolist() for length in lens]
    padded = torch.tensor([[*each, *[-1] * (topk - len(each))] for each in chosen])
    return chosen, padded[:, torch.randperm(topk, generator=generator)]


def forward(
    backend: DeepseekSparseAttnBackend,
    batch: Batch,
    asked: ForwardBatch,
    topk_indices: torch.Tensor | None,
    k: torch.Tensor,
) -> torch.Tensor:
    out = backend.forward(
        batch.q[..., :RANK],
        k[..., :RANK],
        k[..., :RANK],
        batch.layer,
        asked,
        q_rope=batch.q[..., RANK:],
        k_rope=k[..., RANK:],
        topk_indices=topk_indices,
    )
    return out.view(len(batch.q), 4, RANK)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("prefill", ["flashmla_kv", "flashmla_sparse"])
@pytest.mark.parametrize("mode", ["decode", "extend", "verify"])
def test_new_rows_are_quantised_and_the_chosen_ones_attended_to(mode: str, prefill: str, sparse: bool) -> None:
    batch = decode_batch([90, 20], **SHAPE) if mode == "decode" else extend_batch([70, 9], [66, 5], **SHAPE)
    pool = stored_in_records(batch)
    asked = verify_batch(batch, [66, 5], [-1, 0, 1, 2]) if mode == "verify" else batch.forward_batch
    asked = replace(asked, token_to_kv_pool=pool)
    new = torch.randn(batch.k.shape, generator=torch.Generator().manual_seed(5)).bfloat16() * 3
    before = pool.get_records(0).clone()
    lens = visible(batch)
    chosen, padded = drawn(lens)
    backend = DeepseekSparseAttnBackend(batch.runner, dsa_prefill_backend=prefill)
    backend.prepare(asked)
    out = forward(backend, batch, asked, padded if sparse else None, new)
    loc = asked.out_cache_loc
    untouched = torch.ones(len(before), dtype=torch.bool)
    untouched[loc] = False
    assert torch.equal(pool.get_records(0)[untouched], before[untouched])
    back, rows = read(pool, loc), new[:, 0].double()
    top = rows[:, :RANK].unflatten(1, (4, 128)).abs().amax(-1).repeat_interleave(128, 1)
    assert ((back[:, :RANK] - rows[:, :RANK]).abs() <= top * 2**-4).all() and torch.equal(
        back[:, RANK:], rows[:, RANK:]
    )
    positions = chosen if sparse else [list(range(length)) for length in lens]
    wanted = expected(batch, positions)
    assert max_error(out, wanted) <= 8e-3 * float(wanted.abs().max())


def test_a_prompt_without_a_prefix_reads_its_rows_before_they_are_rounded() -> None:
    batch = extend_batch([40, 7], **SHAPE)
    pool = stored_in_records(batch)
    new = torch.randn(batch.k.shape, generator=torch.Generator().manual_seed(5)).bfloat16()
    chosen, padded = drawn(visible(batch))
    backend = DeepseekSparseAttnBackend(batch.runner)
    backend.prepare(batch.forward_batch)
    assert backend.indexer_metadata().method is TopkTransformMethod.RAGGED  # the CPU stands for a B200
    out = forward(backend, batch, batch.forward_batch, padded, new)
    fresh, rounded = expected(batch, chosen, new[:, 0]), expected(batch, chosen)
    assert max_error(out, fresh) <= 8e-3 * float(fresh.abs().max()) < max_error(rounded, fresh)
    assert read(pool, batch.forward_batch.out_cache_loc).count_nonzero()
    kept = backend.forward(
        batch.q, None, None, batch.layer, batch.forward_batch, save_kv_cache=False, topk_indices=padded
    )
    assert max_error(kept.view(out.shape), rounded) <= 8e-3 * float(rounded.abs().max())


def test_prompts_of_few_new_tokens_read_records_where_they_lie() -> None:
    few, many = extend_batch([520], [519], **SHAPE), extend_batch([520], [500], **SHAPE)
    methods = []
    for batch in (few, many):
        stored_in_records(batch)
        backend = DeepseekSparseAttnBackend(batch.runner)
        backend.prepare(batch.forward_batch)
        methods.append(backend.indexer_metadata().method)
    assert methods == [TopkTransformMethod.PAGED, TopkTransformMethod.RAGGED]


@pytest.mark.parametrize("mode", ["decode", "verify"])
def test_a_graph_over_records_serves_the_batch_it_is_replayed_for(mode: str) -> None:
    shape = {**SHAPE, "max_context_len": 256, "pool_tokens": 1024}
    lens = [90, 20]
    if mode == "decode":
        batch = decode_batch(lens, **shape)
    else:
        batch = extend_batch([length + 3 for length in lens], lens, **shape)
    pool = stored_in_records(batch)
    asked = batch.forward_batch if mode == "decode" else verify_batch(batch, lens, [-1, 0, 1])
    asked = replace(asked, token_to_kv_pool=pool)
    backend = DeepseekSparseAttnBackend(replace(batch.runner, check_metadata=False))  # a capture's lengths are not real
    backend.init_graph(2, 6)
    backend.prepare_capture(GraphBatch.of(replace(asked, seq_lens=torch.ones_like(asked.seq_lens), seq_lens_cpu=None)))
    captured = backend.forward_metadata
    assert captured is not None
    addresses = [captured.page_table_1.data_ptr(), captured.seqlens_expanded.data_ptr()]
    backend.prepare_replay(GraphBatch.of(asked))
    made = backend.forward_metadata
    assert made is not None and [made.page_table_1.data_ptr(), made.seqlens_expanded.data_ptr()] == addresses
    chosen, padded = drawn(visible(batch))
    out = forward(backend, batch, asked, padded, batch.k)
    wanted = expected(batch, chosen)
    assert max_error(out, wanted) <= 8e-3 * float(wanted.abs().max())


def test_the_triton_kernels_read_the_pool() -> None:
    batch = decode_batch([40, 9], **SHAPE)
    stored_in_records(batch)
    chosen, padded = drawn(visible(batch))
    backend = DeepseekSparseAttnBackend(replace(batch.runner, kernel_implementation="triton"))
    backend.prepare(batch.forward_batch)
    out = forward(backend, batch, batch.forward_batch, padded, batch.k)
    wanted = expected(batch, chosen)
    assert max_error(out, wanted) <= 1e-2 * float(wanted.abs().max())


def test_records_are_refused_by_what_reads_rows() -> None:
    batch = decode_batch([9], **SHAPE)
    stored_in_records(batch)
    with pytest.raises(
        UnsupportedError, match=r"token_to_kv_pool: expected a pool of rows for flashinfer, got records"
    ):
        sglab.attend(batch, "flashinfer")
    with pytest.raises(UnsupportedError, match=r"Use dsa or nsa\.$"):
        sglab.attend(batch, "triton")
    with pytest.raises(BadArgumentError, match=r"dsa_prefill_backend: expected one of flashmla_auto, .*, got 'fa3'"):
        DeepseekSparseAttnBackend(batch.runner, dsa_prefill_backend="fa3")
    before = batch.runner.token_to_kv_pool.get_key_buffer(0)
    backend = DeepseekSparseAttnBackend(batch.runner, index_topk=4)
    backend.prepare(batch.forward_batch)
    with pytest.raises(BadArgumentError, match=r"topk_indices: expected shape \(1, at most 4\), got \(1, 16\)"):
        forward(backend, batch, batch.forward_batch, drawn([9])[1], batch.k + 1)
    assert torch.equal(batch.runner.token_to_kv_pool.get_key_buffer(0), before)


def test_a_soft_cap_over_records_is_refused_before_anything_is_written() -> None:
    batch = decode_batch([70, 9], **SHAPE)
    pool = stored_in_records(batch)
    batch.layer.logit_cap = 30.0
    backend = DeepseekSparseAttnBackend(batch.runner)
    backend.prepare(batch.forward_batch)
    before = pool.get_records(0).clone()
    with pytest.raises(UnsupportedError, match=r"layer\.logit_cap: expected 0 for dsa over records, got 30\.0"):
        backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
    assert torch.equal(pool.get_records(0), before)
