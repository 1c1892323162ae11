"""A batch's way through the engine: ScheduleBatch -> ModelWorkerBatch -> ForwardBatch."""

import pytest
import torch

from sglab.engine import (
    BadArgumentError,
    ForwardBatch,
    ForwardMode,
    MLATokenToKVPool,
    ModelConfig,
    ModelRunner,
    PagedTokenToKVPoolAllocator,
    PoolExhaustedError,
    RadixCache,
    Req,
    ReqToTokenPool,
    ScheduleBatch,
    TokenToKVPoolAllocator,
)
from sglab.engine.batch.allocation import release_kv_cache


def engine(page: int = 4, pages: int = 16, rows: int = 4, context: int = 40) -> tuple[ModelRunner, RadixCache]:
    kv = MLATokenToKVPool(page * pages, page, torch.float16, 8, 4, layer_num=1)
    allocator = PagedTokenToKVPoolAllocator(page * pages, page) if page > 1 else TokenToKVPoolAllocator(pages)
    pool = ReqToTokenPool(rows, context)
    config = ModelConfig("mla", 4, 1, 12, 8, 0.1, context)
    runner = ModelRunner(config, pool, kv, allocator, torch.float16, torch.device("cpu"), page)
    return runner, RadixCache(pool, allocator, page)


def prefill(tree: RadixCache, *prompts: list[int]) -> ScheduleBatch:
    reqs = [Req(f"r{i}", prompt) for i, prompt in enumerate(prompts)]
    for req in reqs:
        req.init_next_round_input(tree)
    batch = ScheduleBatch.init_new(reqs, tree)
    batch.prepare_for_extend()
    return batch


def decode(batch: ScheduleBatch, *tokens: int) -> None:
    for req, token in zip(batch.reqs, tokens, strict=True):
        req.output_ids.append(token)
    batch.output_ids = torch.tensor(tokens)
    batch.prepare_for_decode()


def forward(batch: ScheduleBatch, runner: ModelRunner) -> ForwardBatch:
    return ForwardBatch.init_new(batch.get_model_worker_batch(), runner)


def test_a_prefill_computes_every_token_from_position_zero() -> None:
    runner, tree = engine()
    batch = prefill(tree, [7, 8, 9, 10, 11], [1, 2])
    fwd = forward(batch, runner)
    assert fwd.forward_mode is ForwardMode.EXTEND and fwd.batch_size == 2
    assert fwd.input_ids.tolist() == [7, 8, 9, 10, 11, 1, 2]
    assert fwd.positions.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert fwd.extend_start_loc.tolist() == [0, 5] and fwd.extend_start_loc.dtype == torch.int32
    assert fwd.out_cache_loc.tolist() == [4, 5, 6, 7, 8, 12, 13]
    assert runner.req_to_token_pool.req_to_token[1, :2].tolist() == [12, 13]
    assert (fwd.seq_lens_sum, fwd.extend_num_tokens) == (7, 7)


def test_a_decode_step_adds_one_token_at_the_next_position() -> None:
    runner, tree = engine()
    batch = prefill(tree, [7, 8, 9, 10], [1, 2])
    decode(batch, 50, 60)
    fwd = forward(batch, runner)
    assert fwd.forward_mode is ForwardMode.DECODE
    assert fwd.input_ids.tolist() == [50, 60]
    assert fwd.seq_lens.tolist() == [5, 3] and fwd.seq_lens_cpu.tolist() == [5, 3]
    assert fwd.positions.tolist() == [4, 2]
    assert fwd.out_cache_loc.tolist() == [12, 10]
    assert fwd.extend_seq_lens is None and fwd.extend_num_tokens is None
    assert [req.kv_committed_len for req in batch.reqs] == [5, 3]


@pytest.mark.parametrize("page", [1, 4])
def test_a_cached_prefix_is_shared_and_only_the_rest_is_computed(page: int) -> None:
    runner, tree = engine(page)
    first = prefill(tree, list(range(10)))
    tree.cache_unfinished_req(first.reqs[0])
    second = prefill(tree, [*range(9), 70, 71])
    fwd = forward(second, runner)
    shared = 9 // page * page
    assert fwd.extend_prefix_lens.tolist() == [shared]
    assert fwd.positions.tolist() == list(range(shared, 11))
    table = runner.req_to_token_pool.req_to_token
    assert torch.equal(table[0, :shared], table[1, :shared])
    assert not set(table[0, shared:10].tolist()) & set(table[1, shared:11].tolist())


def test_a_fully_cached_prompt_still_computes_its_last_token() -> None:
    _, tree = engine(page=1)
    tree.cache_unfinished_req(prefill(tree, [1, 2, 3]).reqs[0])
    assert prefill(tree, [1, 2, 3]).extend_lens == [1]


def test_mixing_lets_running_requests_extend_by_one() -> None:
    runner, tree = engine()
    running = prefill(tree, [1, 2, 3])
    decode(running, 50)
    batch = prefill(tree, [7, 8])
    batch.mix_with_running(running)
    fwd = forward(batch, runner)
    assert fwd.forward_mode is ForwardMode.MIXED
    assert fwd.extend_seq_lens.tolist() == [2, 1] and fwd.extend_prefix_lens.tolist() == [0, 3]
    assert fwd.input_ids.tolist() == [7, 8, 50] and fwd.positions.tolist() == [0, 1, 3]
    assert fwd.seq_lens.tolist() == [2, 4]


def test_filtering_keeps_the_rest_in_order() -> None:
    runner, tree = engine()
    batch = prefill(tree, [1], [2, 3], [4, 5, 6])
    release_kv_cache(batch.reqs[1], tree, is_insert=False)
    batch.filter_batch([0, 2])
    decode(batch, 10, 11)
    assert forward(batch, runner).seq_lens.tolist() == [2, 4]


def test_idle_has_no_request_and_no_position() -> None:
    runner, tree = engine()
    batch = ScheduleBatch.init_new([], tree)
    batch.prepare_for_idle()
    fwd = forward(batch, runner)
    assert fwd.forward_mode is ForwardMode.IDLE and fwd.batch_size == 0 and fwd.positions.numel() == 0
    assert batch.is_empty()


def test_eviction_makes_room_before_a_refusal() -> None:
    runner, tree = engine(pages=4)
    done = prefill(tree, list(range(12))).reqs[0]
    release_kv_cache(done, tree)
    assert (tree.evictable_size(), runner.token_to_kv_pool_allocator.available_size()) == (12, 4)
    prefill(tree, list(range(100, 110)))
    assert tree.evictable_size() == 0


@pytest.mark.parametrize(("page", "freed"), [(1, 3), (4, 8)])
def test_an_eviction_is_sglangs_over_estimate(page: int, freed: int) -> None:
    """By hand from SGLang 0.5.9: an extend of 3 tokens asks for 3, with pages of 4 for 3 + 4, and evicts as many, in
    whole leaves; the prompts before it left one page less than that."""
    runner, tree = engine(page=page, pages=16 // page)
    for start in range(0, 16 - page, page):
        release_kv_cache(prefill(tree, list(range(start, start + page))).reqs[0], tree)
    allocator = runner.token_to_kv_pool_allocator
    assert allocator.available_size() == page and tree.evictable_size() == 16 - page
    prefill(tree, [90, 91, 92])
    assert tree.evictable_size() == 16 - page - freed


def test_a_refused_prefill_leaves_everything_as_it_was() -> None:
    runner, tree = engine(pages=4)
    keep = prefill(tree, [1, 2, 3, 4, 5])
    tree.cache_unfinished_req(keep.reqs[0])
    allocator, pool = runner.token_to_kv_pool_allocator, runner.req_to_token_pool
    before = (allocator.free_pages.tolist(), list(pool.free_slots), pool.req_to_token.clone(), tree.evictable_size())
    with pytest.raises(
        PoolExhaustedError, match=r"KV pool is exhausted: 12 slots \(in pages of 4\) needed, 8 available"
    ):
        prefill(tree, [1, 2, 3, 4, *range(50, 61)])
    assert allocator.free_pages.tolist() == before[0] and pool.free_slots == before[1]
    assert torch.equal(pool.req_to_token, before[2]) and tree.evictable_size() == before[3]


def test_a_refused_decode_leaves_the_batch_where_it_was() -> None:
    _, tree = engine(pages=2)
    batch = prefill(tree, [1, 2, 3, 4], [5, 6, 7, 8])
    batch.output_ids = torch.tensor([9, 9])
    with pytest.raises(PoolExhaustedError):
        batch.prepare_for_decode()
    assert batch.seq_lens.tolist() == [4, 4] and batch.forward_mode is ForwardMode.EXTEND
    assert batch.output_ids.tolist() == [9, 9] and [req.kv_committed_len for req in batch.reqs] == [4, 4]


def test_too_many_requests_and_too_long_ones_are_refused() -> None:
    _, tree = engine(rows=1)
    with pytest.raises(PoolExhaustedError, match="ReqToTokenPool is exhausted: 2 request rows needed, 1 available"):
        prefill(tree, [1], [2])
    with pytest.raises(BadArgumentError, match=r"seq_lens: expected at most max_context_len 40, got 41 \(request r0\)"):
        prefill(tree, list(range(41)))
