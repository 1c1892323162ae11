"""RadixCache: finished and shared prefixes, kept page by page in a tree whose edges are token runs.

A node owns the KV slots of its run. Requests that use a node lock it and its ancestors; unlocked leaves can be evicted,
least recently used first. Keys and values are cut to whole pages: a node never owns part of a page.
Source: SGLang 0.5.9 `mem_cache/radix_cache.py`; time is counted in accesses, which makes eviction reproducible.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import torch

from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator
from sglab.engine.cache.holder import PrefixHolder
from sglab.engine.cache.radix_node import MatchResult, RadixKey, TreeNode, TreeState
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.errors import BadArgumentError


class RadixCache:
    """The tree over one allocator and one request pool. `disable=True`: every match is empty, every insert nothing.

    Attributes:
        evicted_tokens, loaded_tokens: how many left for good, and how many came back from a host, so far.
    """

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        token_to_kv_pool_allocator: BaseTokenToKVPoolAllocator,
        page_size: int,
        disable: bool = False,
    ) -> None:
        if page_size != token_to_kv_pool_allocator.page_size:
            raise BadArgumentError(
                "page_size", f"the allocator's {token_to_kv_pool_allocator.page_size}", page_size, "Use one page size."
            )
        self.req_to_token_pool = req_to_token_pool
        self.token_to_kv_pool_allocator = token_to_kv_pool_allocator
        self.page_size = page_size
        self.disable = disable
        self.reset()

    def reset(self) -> None:
        """Forget the tree (not its slots: clear the allocator too)."""
        self._clock = 0
        self._next_id = 0
        empty = torch.empty(0, dtype=torch.int64, device=self.token_to_kv_pool_allocator.device)
        self.root_node = self._node(RadixKey([]), empty, None)
        self.root_node.lock_ref = 1
        self.evictable_size_ = 0
        self.protected_size_ = 0
        self.evicted_tokens = 0
        self.loaded_tokens = 0

    def match_prefix(self, key: RadixKey) -> MatchResult:
        """The longest cached prefix of `key` in whole pages; a run that ends inside a node splits it."""
        node, slots = self.root_node, [self.root_node.value]
        if not self.disable:
            key = self._page_aligned(key)
            now = self._tick()
            while len(key) and (child := node.children.get(key.child_key(self.page_size))):
                node = self._descend(child, key, now)
                slots.append(node.value)
                key = key.cut(len(node.key))
        return MatchResult(torch.cat(slots), node)

    def insert(self, key: RadixKey, value: torch.Tensor) -> int:
        """Hang `key`'s whole pages and their slots into the tree.

        Args:
            value: int64 [len(key)], the slots; the tree now owns those that were new to it.

        Returns:
            How many leading tokens the tree already had; the caller's slots for them are duplicates.
        """
        if len(value) != len(key):
            raise BadArgumentError("value", f"one slot per token, {len(key)}", len(value), "Pass the tokens' slots.")
        if self.disable:
            return 0
        key = self._page_aligned(key)
        node, known, now = self.root_node, 0, self._tick()
        while len(key) and (child := node.children.get(key.child_key(self.page_size))):
            node = self._descend(child, key, now)
            known += len(node.key)
            key = key.cut(len(node.key))
        if len(key):
            leaf = self._node(key, value[known : known + len(key)].to(torch.int64).clone(), node)
            node.children[key.child_key(self.page_size)] = leaf
            self.evictable_size_ += len(key)
        return known

    def inc_lock_ref(self, node: TreeNode) -> int:
        """Lock a node and its ancestors. Returns minus the tokens that became protected."""
        delta = 0
        for ancestor in self._up(node):
            if ancestor.lock_ref == 0:
                delta -= len(ancestor.key)
            ancestor.lock_ref += 1
        self.evictable_size_ += delta
        self.protected_size_ -= delta
        return delta

    def dec_lock_ref(self, node: TreeNode) -> int:
        """Undo one `inc_lock_ref`. Returns the tokens that became evictable.

        Raises:
            ValueError: the node is not locked.
        """
        if any(ancestor.lock_ref == 0 for ancestor in self._up(node)):
            raise ValueError(f"node {node.id} of the radix tree is not locked")
        delta = 0
        for ancestor in self._up(node):
            ancestor.lock_ref -= 1
            if ancestor.lock_ref == 0:
                delta += len(ancestor.key)
        self.evictable_size_ += delta
        self.protected_size_ -= delta
        return delta

    def evict(self, num_tokens: int) -> int:
        """Free unlocked leaves, least recently used first, until enough tokens are. Returns how many."""
        leaves = [node for node in self.nodes() if not node.children and node.lock_ref == 0]
        heapq.heapify(leaves)
        evicted = 0
        while leaves and evicted < num_tokens:
            leaf = heapq.heappop(leaves)
            self.token_to_kv_pool_allocator.free(leaf.value)
            evicted += len(leaf.value)
            self.evicted_tokens += len(leaf.value)
            self.evictable_size_ -= len(leaf.key)
            parent = leaf.parent
            assert parent is not None  # only the root has none, and it is always locked
            del parent.children[leaf.key.child_key(self.page_size)]
            if not parent.children and parent.lock_ref == 0:
                heapq.heappush(leaves, parent)
        return evicted

    def nodes_of(self, slots: torch.Tensor) -> list[TreeNode]:
        """The nodes that own one of these slots, parents first. Reads every node: for what goes wrong."""
        wanted = set(slots.tolist())
        return [node for node in self.nodes() if wanted.intersection(node.value.tolist())]

    def remove(self, node: TreeNode) -> None:
        """Take a node and all below it out of the tree, and free their slots; no request may lock them."""
        for child in list(node.children.values()):
            self.remove(child)
        assert node.lock_ref == 0 and node.parent is not None
        if node.on_device:
            self.token_to_kv_pool_allocator.free(node.value)
            self.evictable_size_ -= len(node.key)
        del node.parent.children[node.key.child_key(self.page_size)]

    def cache_unfinished_req(self, req: PrefixHolder) -> None:
        """Share a running request's whole pages: the tree owns them, the request locks them.

        Pages that the tree already had under these tokens replace the request's own, which are freed.
        A disabled tree takes nothing; the request's prefix is then what it has computed itself.
        """
        key, row, slots = self._owned(req)
        if self.disable:
            req.prefix_indices = slots
            return
        known = self.insert(key, slots)
        shared, last_node, *_ = self.match_prefix(key)
        if known > req.cache_protected_len:
            self.token_to_kv_pool_allocator.free(slots[req.cache_protected_len : known])
            self.req_to_token_pool.replace(row, shared)
        self.inc_lock_ref(last_node)
        if req.holds_lock:
            self.dec_lock_ref(req.last_node or self.root_node)
        req.holds_lock = True
        req.cache_protected_len = len(shared)
        req.prefix_indices = torch.cat((shared, slots[len(shared) :]))
        req.last_node = last_node

    def cache_finished_req(self, req: PrefixHolder, is_insert: bool = True) -> None:
        """Take over a finished request's whole pages (or free them), free its tail and unlock what it used."""
        key, row, slots = self._owned(req)
        # A pass that failed gave no token, yet the one after it, planned meanwhile, has a slot.
        held = self.req_to_token_pool.req_to_token[row, : req.kv_committed_len].to(torch.int64)
        aligned = len(key) // self.page_size * self.page_size
        kept = 0
        if is_insert and not self.disable:
            known = self.insert(key, slots)
            self.token_to_kv_pool_allocator.free(slots[req.cache_protected_len : known])
            kept = aligned
        self.token_to_kv_pool_allocator.free(held[max(kept, req.cache_protected_len) :])
        if req.holds_lock:
            self.dec_lock_ref(req.last_node or self.root_node)
        req.last_node, req.holds_lock = None, False
        req.cache_protected_len = 0

    def backup_state(self) -> TreeState:
        """What `restore_state` needs. Cheap: slots are shared, since no node changes them in place."""
        nodes = [self.root_node, *self.nodes()]
        return {**vars(self)}, [(node, {**vars(node), "children": dict(node.children)}) for node in nodes]

    def restore_state(self, state: TreeState) -> None:
        """Go back to a `backup_state`; the nodes are the same objects, so requests keep their locks."""
        tree, nodes = state
        vars(self).update(tree)
        for node, saved in nodes:
            vars(node).update({**saved, "children": dict(saved["children"])})

    def load_back(self, req: PrefixHolder) -> int:
        """Bring what the host has of a request's prefix back to the device: nothing, without a host."""
        return 0

    def host_tokens(self) -> int:
        """Tokens whose KV the host has: none, without a host."""
        return 0

    def evictable_size(self) -> int:
        """Tokens in unlocked nodes."""
        return self.evictable_size_

    def protected_size(self) -> int:
        """Tokens in locked nodes."""
        return self.protected_size_

    def total_size(self) -> int:
        return sum(len(node.key) for node in self.nodes())

    def nodes(self) -> Iterator[TreeNode]:
        """Every node but the root, parents first."""
        stack = list(self.root_node.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def _owned(self, req: PrefixHolder) -> tuple[RadixKey, int, torch.Tensor]:
        """A request's tokens whose KV is in the pool, its row and their slots."""
        assert req.req_pool_idx is not None
        tokens = req.token_ids()[: req.kv_committed_len]
        slots = self.req_to_token_pool.req_to_token[req.req_pool_idx, : len(tokens)].to(torch.int64)
        return RadixKey(tokens, req.extra_key), req.req_pool_idx, slots

    def _page_aligned(self, key: RadixKey) -> RadixKey:
        return key.cut(0, len(key) // self.page_size * self.page_size)

    def _descend(self, child: TreeNode, key: RadixKey, now: int) -> TreeNode:
        """Step into a child as far as `key` goes, splitting it where they part."""
        child.last_access_time = now
        common = child.key.match(key, self.page_size)
        return child if common == len(child.key) else self._split(child, common)

    def _split(self, child: TreeNode, length: int) -> TreeNode:
        upper = self._node(child.key.cut(0, length), child.value[:length].clone(), child.parent)
        upper.lock_ref = child.lock_ref
        assert child.parent is not None
        child.parent.children[upper.key.child_key(self.page_size)] = upper
        child.key, child.value, child.parent = child.key.cut(length), child.value[length:].clone(), upper
        upper.children[child.key.child_key(self.page_size)] = child
        return upper

    def _node(self, key: RadixKey, value: torch.Tensor, parent: TreeNode | None) -> TreeNode:
        """A node used now: later than the access that makes it, as in SGLang, so that no two leaves are equally old."""
        self._next_id += 1
        node = TreeNode(self._next_id - 1, key, value, parent)
        node.last_access_time = self._tick()
        return node

    def _up(self, node: TreeNode) -> Iterator[TreeNode]:
        """A node and its ancestors, without the root."""
        while node is not self.root_node:
            yield node
            if node.parent is None:
                raise ValueError(f"node {node.id} belongs to another radix tree")
            node = node.parent

    def _tick(self) -> int:
        self._clock += 1
        return self._clock
