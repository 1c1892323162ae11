"""RadixCache: whole-page prefix matches, locks and LRU eviction, against a naive list of known prefixes."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sglab.engine import PagedTokenToKVPoolAllocator, RadixCache, RadixKey, Req, ReqToTokenPool, TokenToKVPoolAllocator
from sglab.engine.cache.radix_node import TreeNode


def make(page: int = 4, pages: int = 16) -> RadixCache:
    size = page * pages
    allocator = PagedTokenToKVPoolAllocator(size, page) if page > 1 else TokenToKVPoolAllocator(size)
    return RadixCache(ReqToTokenPool(4, size), allocator, page)


def put(tree: RadixCache, tokens: list[int], extra_key: str | None = None) -> list[int]:
    slots = tree.token_to_kv_pool_allocator.alloc(len(tokens))
    tree.insert(RadixKey(tokens, extra_key), slots)
    return slots.tolist()


def find(tree: RadixCache, tokens: list[int], extra_key: str | None = None) -> tuple[list[int], TreeNode]:
    slots, node, *_ = tree.match_prefix(RadixKey(tokens, extra_key))
    return slots.tolist(), node


def test_a_match_is_cut_to_whole_pages() -> None:
    tree = make(page=4)
    slots = put(tree, [1, 2, 3, 4, 5, 6, 7, 8])
    assert find(tree, [1, 2, 3, 4, 5, 6, 7])[0] == slots[:4]
    assert find(tree, [1, 2, 3, 9])[0] == []
    assert find(tree, [1, 2, 3, 4, 5, 6, 7, 8, 9])[0] == slots


def test_a_match_inside_a_node_splits_it_and_keeps_its_lock() -> None:
    tree = make(page=2)
    slots = put(tree, [1, 2, 3, 4, 5, 6])
    _, leaf = find(tree, [1, 2, 3, 4, 5, 6])
    tree.inc_lock_ref(leaf)
    half, upper = find(tree, [1, 2, 3, 4, 9, 9])
    assert half == slots[:4]
    assert (upper.lock_ref, leaf.lock_ref) == (1, 1) and leaf.parent is upper
    assert tree.protected_size() == 6 and tree.evictable_size() == 0
    assert tree.dec_lock_ref(leaf) == 6
    assert tree.evictable_size() == 6


def test_insert_says_how_much_was_known_and_keeps_the_first_slots() -> None:
    tree = make(page=2)
    slots = put(tree, [1, 2, 3, 4])
    again = tree.token_to_kv_pool_allocator.alloc(6)
    assert tree.insert(RadixKey([1, 2, 3, 4, 5, 6]), again) == 4
    assert find(tree, [1, 2, 3, 4, 5, 6])[0] == slots + again[4:].tolist()


def test_namespaces_never_share() -> None:
    tree = make(page=2)
    put(tree, [1, 2], extra_key="adapter")
    assert find(tree, [1, 2])[0] == []
    assert len(find(tree, [1, 2], "adapter")[0]) == 2


def test_eviction_takes_the_least_recently_used_unlocked_leaf() -> None:
    tree = make(page=2)
    old, new, locked = put(tree, [1, 2]), put(tree, [3, 4]), put(tree, [5, 6])
    tree.inc_lock_ref(find(tree, [5, 6])[1])
    find(tree, [1, 2])
    assert tree.evict(1) == 2
    assert find(tree, [3, 4])[0] == [] and find(tree, [1, 2])[0] == old and find(tree, [5, 6])[0] == locked
    assert tree.token_to_kv_pool_allocator.free_pages[0] == new[0] // 2
    assert tree.evict(100) == 2
    assert tree.total_size() == tree.protected_size() == 2


def test_leaves_are_evicted_in_sglangs_order() -> None:
    """A split's upper half and a new leaf are nodes of their own, younger than the access that made them.

    By hand from SGLang 0.5.9's `_insert_helper` and `_split_node`: 2 was used last when [1, 3] came, 1 when [1, 4] did.
    """
    tree = make(page=1)
    slots = [put(tree, tokens) for tokens in ([1, 2], [1, 3], [1, 4], [2, 5])]
    order = []
    for _ in range(5):
        before = set(tree.token_to_kv_pool_allocator.free_pages.tolist())
        tree.evict(1)
        order.append(sorted(set(tree.token_to_kv_pool_allocator.free_pages.tolist()) - before))
    assert order == [[slots[0][1]], [slots[1][1]], [slots[2][1]], [slots[0][0]], slots[3]]


def test_a_parent_becomes_evictable_when_its_last_child_goes() -> None:
    tree = make(page=2)
    put(tree, [1, 2, 3, 4])
    find(tree, [1, 2])
    assert len(list(tree.nodes())) == 2
    assert tree.evict(4) == 4 and not list(tree.nodes())


def test_unlocking_what_is_not_locked_is_refused() -> None:
    tree = make()
    put(tree, [1, 2, 3, 4])
    with pytest.raises(ValueError, match="not locked"):
        tree.dec_lock_ref(find(tree, [1, 2, 3, 4])[1])


def test_disabled_matches_nothing_and_keeps_nothing() -> None:
    tree = make()
    tree.disable = True
    slots = tree.token_to_kv_pool_allocator.alloc(4)
    assert tree.insert(RadixKey([1, 2, 3, 4]), slots) == 0
    assert find(tree, [1, 2, 3, 4])[0] == []


def running(tree: RadixCache, tokens: list[int]) -> Req:
    """A request whose KV is all in pages of its own."""
    req = Req("r", tokens)
    req.last_node = tree.root_node
    tree.req_to_token_pool.alloc([req])
    pages = -(-len(tokens) // tree.page_size)
    slots = tree.token_to_kv_pool_allocator.alloc(pages * tree.page_size)[: len(tokens)]
    tree.req_to_token_pool.write((req.req_pool_idx, slice(0, len(tokens))), slots)
    req.kv_committed_len = len(tokens)
    return req


def test_a_finished_request_leaves_whole_pages_in_the_tree_and_frees_its_tail() -> None:
    tree = make(page=4, pages=4)
    req = running(tree, list(range(10)))
    tree.cache_finished_req(req)
    assert tree.total_size() == tree.evictable_size() == 8
    assert tree.token_to_kv_pool_allocator.available_size() == 8


def test_duplicate_pages_of_an_unfinished_request_are_freed_and_replaced() -> None:
    tree = make(page=4, pages=8)
    first, second = running(tree, list(range(10))), running(tree, list(range(10)))
    tree.cache_unfinished_req(first)
    tree.cache_unfinished_req(second)
    table = tree.req_to_token_pool.req_to_token
    assert torch.equal(table[0, :8], table[1, :8]) and not torch.equal(table[0, 8:10], table[1, 8:10])
    assert second.cache_protected_len == 8 and tree.protected_size() == 8
    assert tree.token_to_kv_pool_allocator.available_size() == 4 * (8 - 2 - 2)
    tree.cache_finished_req(first, is_insert=False)
    tree.cache_finished_req(second, is_insert=False)
    assert tree.evict(8) == 8
    assert tree.token_to_kv_pool_allocator.available_size() == 32


TOKENS = st.lists(st.integers(0, 1), min_size=0, max_size=14)


class RadixMachine(RuleBasedStateMachine):
    """Random inserts, matches, locks and evictions; a dictionary of whole-page prefixes is the model."""

    @initialize(page=st.sampled_from([1, 2, 3]))
    def build(self, page: int) -> None:
        self.page, self.pages = page, 64
        self.tree = make(page, self.pages)
        self.known: dict[tuple[int, ...], list[int]] = {}
        self.locked: list[tuple[tuple[int, ...], TreeNode]] = []

    def longest(self, tokens: list[int]) -> list[int]:
        hits = [p for p in self.known if tuple(tokens[: len(p)]) == p]
        return self.known[max(hits, key=len)] if hits else []

    @rule(tokens=TOKENS)
    def insert(self, tokens: list[int]) -> None:
        allocator, page = self.tree.token_to_kv_pool_allocator, self.page
        slots = allocator.alloc(-(-len(tokens) // page) * page)
        if slots is None:
            return
        before = self.longest(tokens)
        known = self.tree.insert(RadixKey(tokens), slots[: len(tokens)])
        assert known == len(before)
        aligned = len(tokens) // page * page
        merged = before + slots[known:aligned].tolist()
        for end in range(page, aligned + 1, page):
            self.known[tuple(tokens[:end])] = merged[:end]
        allocator.free(slots[:known])
        allocator.free(slots[aligned:])

    @rule(tokens=TOKENS)
    def match(self, tokens: list[int]) -> None:
        assert self.tree.match_prefix(RadixKey(tokens)).device_indices.tolist() == self.longest(tokens)

    @rule(tokens=TOKENS)
    def lock(self, tokens: list[int]) -> None:
        slots, node, *_ = self.tree.match_prefix(RadixKey(tokens))
        self.tree.inc_lock_ref(node)
        self.locked.append((tuple(tokens[: len(slots)]), node))

    @rule(data=st.data())
    def unlock(self, data: st.DataObject) -> None:
        if self.locked:
            _, node = self.locked.pop(data.draw(st.integers(0, len(self.locked) - 1)))
            self.tree.dec_lock_ref(node)

    @rule(tokens=st.integers(0, 20))
    def evict(self, tokens: int) -> None:
        evictable = self.tree.evictable_size()
        evicted = self.tree.evict(tokens)
        assert min(tokens, evictable) <= evicted <= evictable
        left = {slot for node in self.tree.nodes() for slot in node.value.tolist()}
        self.known = {prefix: slots for prefix, slots in self.known.items() if slots[-1] in left}

    @rule()
    def refuse_and_roll_back(self) -> None:
        saved = self.tree.backup_state()
        pages = self.tree.token_to_kv_pool_allocator.backup_state()
        self.tree.match_prefix(RadixKey([0] * self.page + [1] * self.page))
        self.tree.evict(10**6)
        self.tree.token_to_kv_pool_allocator.restore_state(pages)
        self.tree.restore_state(saved)

    @invariant()
    def locked_prefixes_are_never_evicted(self) -> None:
        for prefix, _ in self.locked:
            assert len(self.longest(list(prefix))) == len(prefix)

    @invariant()
    def tree_and_free_list_own_every_page_once(self) -> None:
        allocator = self.tree.token_to_kv_pool_allocator
        cached = [slot // self.page for node in self.tree.nodes() for slot in node.value[:: self.page].tolist()]
        assert sorted(cached + allocator.free_pages.tolist()) == list(range(1, self.pages + 1))
        assert self.tree.total_size() == self.tree.evictable_size() + self.tree.protected_size()
        assert self.tree.protected_size() == sum(len(n.key) for n in self.tree.nodes() if n.lock_ref)


TestRadixCacheAgainstAModel = RadixMachine.TestCase
TestRadixCacheAgainstAModel.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
