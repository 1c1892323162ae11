"""The log of a radix tree, replayed, is the tree; and says what happened in the order in which it happened."""

from __future__ import annotations

import random

import pytest
import torch

from sglab.engine import PagedTokenToKVPoolAllocator, RadixCache, ReqToTokenPool, TokenToKVPoolAllocator
from sglab.engine.cache import HiRadixCache, HostKVPool, MHATokenToKVPool, RadixKey
from sglab.engine.recording import TreeLog
from sglab.engine.scheduler import Scheduler, SchedulerConfig
from tests.support.serving.page_reader import PageReader, request, scheduler


def tree(page: int = 4, pages: int = 16) -> RadixCache:
    size = page * pages
    allocator = PagedTokenToKVPoolAllocator(size, page) if page > 1 else TokenToKVPoolAllocator(size)
    return RadixCache(ReqToTokenPool(8, 200), allocator, page)


def insert(cache: RadixCache, tokens: list[int]) -> int:
    """Insert tokens with slots of their own; those that the tree had are given back. Returns how many it had."""
    slots = cache.token_to_kv_pool_allocator.alloc(len(tokens))
    assert slots is not None
    known = cache.insert(RadixKey(tokens), slots)
    cache.token_to_kv_pool_allocator.free(slots[:known])
    return known


def shape(cache: RadixCache) -> dict[int, tuple[object, ...]]:
    """The tree as it is, read from its nodes alone."""
    size, root = cache.page_size, cache.root_node
    return {
        node.id: (
            -1 if node.parent is None else node.parent.id,
            tuple(node.key.token_ids),
            tuple((node.value[::size] // size).tolist()),
            node.lock_ref,
            node.last_access_time,
            node.on_device,
            node.host_value is not None,
        )
        for node in (root, *cache.nodes())
    }


def replayed(log: TreeLog, ops: int | None = None) -> dict[int, tuple[object, ...]]:
    nodes = log.nodes_at(len(log.ops) if ops is None else ops)
    return {
        node.id: (
            node.parent,
            node.tokens,
            node.pages,
            node.lock_ref,
            node.last_access,
            node.on_device,
            node.on_host,
        )
        for node in nodes.values()
    }


def test_a_split_falls_on_a_page_and_is_told_before_the_insert_that_made_it() -> None:
    cache = tree(page=4)
    log = TreeLog(cache)
    insert(cache, [1, 2, 3, 4, 5, 6, 7, 8])
    before = len(log.ops)
    insert(cache, [1, 2, 3, 4, 5, 6, 9, 9])  # six tokens agree, one page of four is shared
    split, added = log.ops[before:]
    assert (split.kind, split.tokens, split.found) == ("split", 8, 4)
    assert (added.kind, added.tokens, added.found) == ("insert", 8, 4)
    upper, lower = split.path
    nodes = log.nodes_at(len(log.ops))
    assert nodes[upper].tokens == (1, 2, 3, 4) and nodes[lower].tokens == (5, 6, 7, 8)
    assert nodes[lower].parent == upper and nodes[added.path[-1]].tokens == (5, 6, 9, 9)
    assert added.path == (upper, added.path[-1])


def test_a_match_says_how_much_was_found_and_what_no_page_holds() -> None:
    cache = tree(page=4)
    insert(cache, list(range(8)))
    log = TreeLog(cache)
    cache.match_prefix(RadixKey([*range(8), 50, 51], rid="a"))
    op = log.ops[-1]
    assert (op.kind, op.rid, op.tokens, op.aligned, op.found) == ("match", "a", 10, 8, 8)
    assert [state.last_access for state in op.changed] == [cache.nodes().__next__().last_access_time]


def test_locks_count_and_protect() -> None:
    cache = tree(page=1)
    insert(cache, [1, 2, 3])
    log = TreeLog(cache)
    node = cache.match_prefix(RadixKey([1, 2])).last_device_node  # splits
    cache.inc_lock_ref(node)
    assert (log.ops[-1].kind, log.ops[-1].found, log.ops[-1].protected) == ("lock", 2, 2)
    assert log.nodes_at(len(log.ops))[node.id].lock_ref == 1
    cache.dec_lock_ref(node)
    assert (log.ops[-1].kind, log.ops[-1].found, log.ops[-1].protected) == ("unlock", 2, 0)


@pytest.mark.parametrize("seed", range(4))
def test_leaves_are_listed_in_the_order_in_which_their_slots_were_freed(seed: int) -> None:
    draw = random.Random(seed)
    cache = tree(page=1, pages=64)
    for _ in range(12):
        tokens = [draw.randrange(2) for _ in range(draw.randrange(1, 6))]
        if cache.token_to_kv_pool_allocator.available_size() >= len(tokens):
            insert(cache, tokens)
    locked = draw.choice(list(cache.nodes()))
    cache.inc_lock_ref(locked)
    log, freed = TreeLog(cache), []
    allocator = cache.token_to_kv_pool_allocator
    free = allocator.free
    slots = {int(node.value[0]): node.id for node in cache.nodes()}
    allocator.free = lambda index: (freed.append(slots[int(index[0])]), free(index))  # type: ignore[method-assign]
    cache.evict(draw.randrange(3, 9))
    op = log.ops[-1]
    assert op.kind == "evict" and [each.node for each in op.evicted] == freed
    assert op.removed and set(op.removed) == set(freed) and op.found == sum(each.tokens for each in op.evicted)
    assert locked.id in log.nodes_at(len(log.ops))


@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_the_log_of_a_scheduler_replayed_is_its_tree_at_every_step(page: int, seed: int) -> None:
    draw = random.Random(seed)
    owner = scheduler(page=page, pages=96 // page, chunked_prefill_size=16, schedule_policy="lpm")
    log = TreeLog(owner.tree_cache, lambda: len(owner.history))
    reader = PageReader(owner)
    moments: list[tuple[int, dict[int, tuple[object, ...]]]] = []
    for i in range(14):
        shared = [draw.randrange(2)] * draw.choice((0, 4, 8, 12))
        owner.add_request(request(f"r{i}", [*shared, i, *(draw.randrange(3) for _ in range(9))], draw.randrange(1, 12)))
        for _ in range(draw.randrange(3)):
            reader.step()
            moments.append((len(log.ops), shape(owner.tree_cache)))
    reader.run()
    moments.append((len(log.ops), shape(owner.tree_cache)))
    assert {op.kind for op in log.ops} >= {"match", "insert", "lock", "unlock", "split", "evict"}
    for ops, then in moments:
        assert replayed(log, ops) == then
    assert [op.step for op in log.ops] == sorted(op.step for op in log.ops)
    named = [op for op in log.ops if op.kind in ("match", "insert", "lock")]
    assert all(op.rid.startswith("r") for op in named)


def test_a_hierarchical_cache_is_followed_to_the_host_and_back() -> None:
    size, page = 32, 4
    pool = MHATokenToKVPool(size, page, torch.float32, 1, 4, 1)
    allocator = PagedTokenToKVPoolAllocator(size, page, "cpu", pool)
    cache = HiRadixCache(ReqToTokenPool(4, 64), allocator, page, HostKVPool(pool, 64))
    owner = Scheduler(SchedulerConfig(max_running_requests=4, chunked_prefill_size=-1), cache)
    log = TreeLog(cache)
    reader = PageReader(owner)
    for i in (1, 2, 1):
        owner.add_request(request(f"r{len(log.ops)}", [i] * 16, 2))
        reader.run()
        assert replayed(log) == shape(cache)
    assert {"evict", "load"} <= {op.kind for op in log.ops}
    assert any(not state.on_device and state.on_host for op in log.ops for state in op.changed)


def test_a_stopped_log_leaves_the_tree_as_its_class_has_it() -> None:
    cache = tree()
    before = set(vars(cache))
    log = TreeLog(cache)
    log.stop()
    insert(cache, [1, 2, 3, 4])
    assert set(vars(cache)) == before and len(log.ops) == 1


def test_a_tree_that_was_reset_is_empty_in_the_log() -> None:
    cache = tree()
    insert(cache, [1, 2, 3, 4])
    log = TreeLog(cache)
    cache.reset()
    assert replayed(log) == shape(cache)
