"""Metadata that disagree with requests or pools are refused before a kernel turns them into plausible wrong numbers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention import create_attention_backend
from sglab.engine import BadArgumentError, ForwardMode, GraphBatch, PageTableError
from sglab.workbench import Batch, attend, decode_batch, extend_batch, max_error, reference

SHAPE = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "dtype": "float32"}
BACKENDS: dict[str, dict[str, Any]] = {
    "torch_native": {"page_size": 4, **SHAPE},
    "flex_attention": {"page_size": 4, **SHAPE},
    "triton": {"page_size": 4, **SHAPE},
    "cutlass_mla": {"num_heads": 4, "page_size": 128},
    "flashmla": {"num_heads": 4, "page_size": 64},
}


def shorten(batch: Batch) -> None:
    batch.seq_lens[0] -= 1


def alias(batch: Batch) -> None:
    """Request 0 reads the whole of request 1's rows."""
    length = int(batch.seq_lens[0])
    batch.req_to_token[batch.req_pool_indices[0], :length] = batch.req_to_token[batch.req_pool_indices[1], :length]


def read_free_page(batch: Batch) -> None:
    page, size = batch.free_pages()[0], batch.page_size
    slots = torch.arange(page * size, (page + 1) * size, dtype=torch.int32)
    batch.req_to_token[batch.req_pool_indices[0], :size] = slots


def repeat_own_page(batch: Batch) -> None:
    size = batch.page_size
    row = batch.req_to_token[batch.req_pool_indices[1]]
    row[size : 2 * size] = row[:size]


def free_row(batch: Batch) -> None:
    batch.req_pool_indices[1] = batch.runner.req_to_token_pool.free_slots[0]


def same_row_twice(batch: Batch) -> None:
    batch.req_pool_indices[1] = batch.req_pool_indices[0]
    batch.seq_lens[1] = batch.seq_lens[0]


def stale_copy(batch: Batch) -> None:
    batch.forward_batch.seq_lens_cpu = batch.seq_lens - 1


def outside(batch: Batch) -> None:
    batch.req_to_token[batch.req_pool_indices[0], 3] = 10**6


FAULTS: list[tuple[Callable[[Batch], None], str]] = [
    (shorten, r"seq_lens\[0\]: expected \d+, the tokens that request r0 holds in the pool, got \d+"),
    (alias, r"request 0, token 0: expected a page of request r0 alone, got page \d+, which token 0 of request r1 has"),
    (read_free_page, r"request 0, token 0: expected an allocated page, got page \d+, which is free"),
    (repeat_own_page, r"request 1, token 0: .* which token \d+ of request r1 has"),
    (free_row, r"req_pool_indices\[1\]: expected the row of a running request, got row \d+, which is free"),
    (same_row_twice, r"req_pool_indices\[1\]: expected a row of its own, got row \d+, which is request 0's"),
    (stale_copy, r"seq_lens_cpu\[0\]: expected \d+, as seq_lens has, got \d+"),
    (outside, r"request 0, token 3: expected a slot .* of the pool, got 1000000"),
]


def lengths(page_size: int) -> list[int]:
    return [2 * page_size, 3 * page_size - 1]


@pytest.mark.parametrize(("fault", "message"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_batch_with_wrong_metadata_is_refused(fault: Callable[[Batch], None], message: str) -> None:
    batch = decode_batch(lengths(4), page_size=4, pool_tokens=64, max_context_len=32, **SHAPE)
    attend(batch)
    fault(batch)
    with pytest.raises(PageTableError, match=message):
        batch.check()
    with pytest.raises(PageTableError, match=message):
        attend(batch)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize(("fault", "message"), FAULTS[:3], ids=lambda each: getattr(each, "__name__", ""))
def test_every_backend_refuses_a_forward_batch_with_wrong_metadata(
    name: str, fault: Callable[[Batch], None], message: str
) -> None:
    options = BACKENDS[name]
    page_size = options["page_size"]
    batch = decode_batch(lengths(page_size), pool_tokens=8 * page_size, **options)
    backend = create_attention_backend(name, batch.runner)
    backend.prepare(batch.forward_batch)
    fault(batch)
    with pytest.raises(PageTableError, match=message):
        backend.prepare(batch.forward_batch)


@pytest.mark.parametrize("name", ["triton", "cutlass_mla", "flashmla"])
def test_graphs_check_before_a_capture_and_a_replay(name: str) -> None:
    options = BACKENDS[name]
    page_size = options["page_size"]
    batch = decode_batch(lengths(page_size), pool_tokens=8 * page_size, **options)
    backend = create_attention_backend(name, batch.runner)
    backend.init_graph(4, 4)
    graph_batch = GraphBatch.of(batch.forward_batch)
    backend.prepare_capture(graph_batch)
    alias(batch)
    for prepare in (backend.prepare_capture, backend.prepare_replay):
        with pytest.raises(PageTableError, match="alone, got page"):
            prepare(graph_batch)


def test_padded_rows_of_a_graph_may_point_at_anybody() -> None:
    batch = decode_batch([8, 11], page_size=4, **SHAPE)
    backend = create_attention_backend("triton", batch.runner)
    backend.init_graph(8, 8)
    one = torch.ones(4, dtype=torch.int64)
    backend.prepare_capture(GraphBatch(4, 4, ForwardMode.DECODE, one * 0, one))
    real = batch.forward_batch
    rows, lens = torch.zeros(4, dtype=torch.int64), one.clone()
    rows[:2], lens[:2] = real.req_pool_indices, real.seq_lens
    backend.prepare_replay(GraphBatch(4, 4, ForwardMode.DECODE, rows, lens))


@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_prefixes_shared_through_the_radix_tree_are_no_aliases(page_size: int) -> None:
    batch = decode_batch([40, 50, 33], page_size=page_size, shared_prefix=32, **SHAPE)
    batch.share_prefix(1, 47)
    batch.free(0, keep_cached=True)
    batch.extend_by_token(1)
    batch.check()
    assert max_error(attend(batch, "triton"), reference(batch).o) < 1e-5


def test_a_shared_page_replaced_by_another_is_refused() -> None:
    batch = decode_batch([20, 20], page_size=4, shared_prefix=16, pool_tokens=64, **SHAPE)
    row, free = batch.req_to_token[batch.req_pool_indices[1]], batch.free_pages()[0]
    row[4:8] = torch.arange(4 * free, 4 * free + 4, dtype=torch.int32)
    with pytest.raises(PageTableError, match=r"request 1, token 4: expected slot \d+, where the radix tree keeps"):
        batch.check()


def test_extends_count_their_new_tokens_alike_everywhere() -> None:
    batch = extend_batch([20, 9], [8, 0], page_size=4, **SHAPE)
    backend = create_attention_backend("triton", batch.runner)
    good = batch.forward_batch
    with pytest.raises(PageTableError, match=r"extend_seq_lens\[0\]: expected 12, .*got 11"):
        backend.prepare(replace(good, extend_seq_lens_cpu=[11, 9]))
    with pytest.raises(PageTableError, match=r"out_cache_loc: expected 21 slots, .*got 20"):
        backend.prepare(replace(good, out_cache_loc=good.out_cache_loc[:-1]))
    with pytest.raises(BadArgumentError, match=r"seq_lens: expected shape \(2,\), got \(1,\)"):
        backend.prepare(replace(good, seq_lens=good.seq_lens[:1]))
    with pytest.raises(PageTableError, match=r"out_cache_loc\[0\]: expected slot"):
        backend.prepare(replace(good, out_cache_loc=good.out_cache_loc + 1))


def test_one_switch_turns_it_off() -> None:
    """The pass then runs, and its numbers are wrong: what the check is there for."""
    batch = decode_batch(lengths(4), page_size=4, pool_tokens=64, max_context_len=32, **SHAPE)
    expected = reference(batch).o
    row, other = batch.req_pool_indices.tolist()
    batch.req_to_token[row, :4] = batch.req_to_token[other, :4]
    batch.runner.check_metadata = False
    assert max_error(attend(batch, "torch_native"), expected) > 0.1
    batch.runner.check_metadata = True
    with pytest.raises(PageTableError):
        create_attention_backend("torch_native", batch.runner).prepare(batch.forward_batch)
    assert attend(batch, "torch_native", check=False) is not None
