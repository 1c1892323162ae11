"""The hierarchical cache: prefixes leave the device for the host and come back, and no slot of either is lost."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglab.engine import (
    HiRadixCache,
    HostKVPool,
    MHATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    RadixKey,
    Req,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
)

POLICIES = ("write_through", "write_through_selective", "write_back")


def make(page: int = 2, pages: int = 16, host_pages: int = 32, policy: str = "write_through") -> HiRadixCache:
    size = page * pages
    kv = MHATokenToKVPool(size, page, torch.float32, 1, 2, layer_num=2)
    allocator = (
        PagedTokenToKVPoolAllocator(size, page, kvcache=kv) if page > 1 else TokenToKVPoolAllocator(size, kvcache=kv)
    )
    return HiRadixCache(ReqToTokenPool(4, size), allocator, page, HostKVPool(kv, page * host_pages), policy)


def put(tree: HiRadixCache, tokens: list[int]) -> None:
    """Insert tokens whose KV says which they are, freeing what was there already."""
    slots = tree.token_to_kv_pool_allocator.alloc(len(tokens))
    assert slots is not None
    for layer in range(2):
        for buffer in tree.token_to_kv_pool_allocator.get_kvcache().named_buffers(layer).values():
            buffer[slots] = torch.tensor(tokens, dtype=torch.float32)[:, None, None] + 100 * layer
    known = tree.insert(RadixKey(tokens), slots)
    tree.token_to_kv_pool_allocator.free(slots[:known])


def back(tree: HiRadixCache, tokens: list[int]) -> tuple[int, list[int]]:
    """Look tokens up and load what the host has: tokens that came back, and what the device then says they are."""
    req = Req("r", [*tokens, 0])
    req.init_next_round_input(tree)
    loaded = tree.load_back(req) if req.host_hit_length else 0
    kv = tree.token_to_kv_pool_allocator.get_kvcache()
    rows = [
        buffer[req.prefix_indices, 0, 0] - 100 * layer
        for layer in range(2)
        for buffer in kv.named_buffers(layer).values()
    ]
    assert all(torch.equal(row, rows[0]) for row in rows)
    return loaded, rows[0].long().tolist()


def balanced(tree: HiRadixCache) -> None:
    allocator = tree.token_to_kv_pool_allocator
    assert allocator.available_size() + tree.evictable_size() + tree.protected_size() == allocator.size
    assert tree.total_size() == tree.evictable_size() + tree.protected_size()
    host = sum(len(node.host_value) for node in tree.nodes() if node.host_value is not None)
    assert host == tree.host_tokens()
    for node in tree.nodes():
        assert node.on_device or node.host_value is not None
        assert not node.on_device or node.parent is tree.root_node or node.parent.on_device


@pytest.mark.parametrize("policy", POLICIES)
def test_an_evicted_prefix_comes_back_with_its_rows(policy: str) -> None:
    tree, tokens = make(policy=policy), list(range(1, 13))
    put(tree, tokens)
    put(tree, tokens)
    assert tree.evict(100) == 12 and tree.evictable_size() == 0
    balanced(tree)
    assert back(tree, tokens) == (12, tokens)
    balanced(tree)


def test_a_selective_write_through_forgets_what_came_once() -> None:
    tree = make(policy="write_through_selective")
    put(tree, list(range(12)))
    tree.evict(100)
    assert not list(tree.nodes()) and tree.host_tokens() == 0


def test_few_tokens_are_computed_again_rather_than_copied() -> None:
    tree = make()
    put(tree, list(range(1, 9)))
    tree.evict(100)
    assert back(tree, list(range(1, 9))) == (0, [])


def test_a_full_host_forgets_the_least_recently_used() -> None:
    tree = make(host_pages=8)
    old, new = list(range(1, 13)), list(range(21, 33))
    put(tree, old)
    tree.evict(100)
    put(tree, new)
    tree.evict(100)
    assert back(tree, old) == (0, [])
    assert back(tree, new) == (12, new)
    balanced(tree)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.sampled_from([1, 2, 4]),
    st.integers(2, 12),
    st.lists(
        st.tuples(
            st.sampled_from(["put", "evict", "back", "lock"]), st.lists(st.integers(1, 2), min_size=1, max_size=10)
        ),
        max_size=25,
    ),
)
def test_any_history_keeps_every_row_and_every_slot(policy: str, page: int, host: int, moves: list) -> None:
    tree = make(page, 24, host, policy)
    locked = None
    for move, coarse in moves:
        tokens = [token for token in coarse for _ in range(page)]
        if move == "put" and tree.token_to_kv_pool_allocator.available_size() >= len(tokens):
            put(tree, tokens)
        elif move == "evict":
            tree.evict(len(tokens))
        elif move == "back":
            _, read = back(tree, tokens)
            assert read == tokens[: len(read)]
        elif move == "lock":
            if locked is None:
                locked = tree.match_prefix(RadixKey(tokens)).last_device_node
                tree.inc_lock_ref(locked)
            else:
                tree.dec_lock_ref(locked)
                locked = None
        balanced(tree)
