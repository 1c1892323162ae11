"""HiRadixCache: a radix cache whose evicted prefixes stay in the host's memory and come back when they are needed.

Every node has its KV on the device, on the host, or on both; the ancestors of a node on the device are there, too. When
a node is copied to the host is the write policy: "write_through" when it comes into the tree,
"write_through_selective" when it is met a second time, "write_back" when it leaves the device.
Source: SGLang `mem_cache/hiradix_cache.py`; host leaves are evicted least recently used first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator
from sglab.engine.cache.holder import PrefixHolder
from sglab.engine.cache.host_pool import HostKVPool
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.radix_node import MatchResult, RadixKey, TreeNode
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool

Submit = Callable[[Callable[[], None]], Any]
LOAD_BACK_THRESHOLD = 10
"""Fewer tokens are computed again rather than copied."""
HITS = {"write_through": 1, "write_through_selective": 2}


def at_once(run: Callable[[], None]) -> None:
    run()


class HiRadixCache(RadixCache):
    """The tree over a device's and a host's pool.

    Args:
        host_pool: where evicted rows go.
        write_policy: when they do; see above.
        submit: runs a copy after the passes planned before it and before those planned after it.
    """

    def __init__(
        self,
        req_to_token_pool: ReqToTokenPool,
        token_to_kv_pool_allocator: BaseTokenToKVPoolAllocator,
        page_size: int,
        host_pool: HostKVPool,
        write_policy: str = "write_through",
        submit: Submit = at_once,
    ) -> None:
        self.host_pool = host_pool
        self.write_policy = write_policy
        self.submit = submit
        super().__init__(req_to_token_pool, token_to_kv_pool_allocator, page_size)

    def match_prefix(self, key: RadixKey) -> MatchResult:
        """As in the base class; also how much more the host has after it."""
        key, now = self._page_aligned(key), self._tick()
        node = last_device = self.root_node
        slots, on_host = [self.root_node.value], 0
        while len(key) and (child := node.children.get(key.child_key(self.page_size))):
            node = self._descend(child, key, now)
            if node.on_device:
                slots.append(node.value)
                last_device = node
            else:
                on_host += len(node.key)
            key = key.cut(len(node.key))
        return MatchResult(torch.cat(slots), last_device, node, on_host)

    def insert(self, key: RadixKey, value: torch.Tensor) -> int:
        """As in the base class; nodes that only the host had take the new slots."""
        key = self._page_aligned(key)
        node, known, at, now = self.root_node, 0, 0, self._tick()
        met = []
        while len(key) and (child := node.children.get(key.child_key(self.page_size))):
            node = self._descend(child, key, now)
            length = len(node.key)
            if node.on_device:
                known += length
            else:
                self._place(node, value[at : at + length].to(torch.int64).clone())
            met.append(node)
            at += length
            key = key.cut(length)
        if len(key):
            leaf = self._node(key, value[at : at + len(key)].to(torch.int64).clone(), node)
            node.children[key.child_key(self.page_size)] = leaf
            self.evictable_size_ += len(key)
            met.append(leaf)
        for each in met:
            each.hit_count += 1
            if each.hit_count >= HITS.get(self.write_policy, each.hit_count + 1):
                self._backup(each)
        return known

    def evict(self, num_tokens: int) -> int:
        """Free unlocked device leaves, least recently used first; what the host has or can take stays in the tree."""
        leaves = [node for node in self.nodes() if self._is_device_leaf(node)]
        heapq.heapify(leaves)
        evicted = 0
        while leaves and evicted < num_tokens:
            leaf = heapq.heappop(leaves)
            if leaf.host_value is None and self.write_policy == "write_back":
                self._backup(leaf)
            self.token_to_kv_pool_allocator.free(leaf.value)
            evicted += len(leaf.key)
            self.evictable_size_ -= len(leaf.key)
            self.evicted_tokens += len(leaf.key)
            leaf.value, leaf.on_device = leaf.value[:0], False
            parent = leaf.parent
            assert parent is not None  # only the root has none, and it is always locked
            if leaf.host_value is None:
                self._forget(leaf)
            if parent is not self.root_node and self._is_device_leaf(parent):
                heapq.heappush(leaves, parent)
        return evicted

    def remove(self, node: TreeNode) -> None:
        """As in the base class; what the host has of them, too."""
        super().remove(node)
        if node.host_value is not None:
            self.host_pool.allocator.free(node.host_value)
            node.host_value = None

    def load_back(self, req: PrefixHolder) -> int:
        """Copy what the host has of a request's prefix to new slots, and lengthen the prefix by it.

        Returns:
            Tokens: all that the match promised or none, where there are too few of them or of free slots.
        """
        chain = list(self._chain(req.last_host_node))
        total = sum(len(node.key) for node in chain)
        req.host_hit_length = 0
        if total < LOAD_BACK_THRESHOLD:
            return 0
        for node in chain:
            node.host_lock += 1
        allocator = self.token_to_kv_pool_allocator
        if allocator.available_size() < total:
            self.evict(total)
        slots = allocator.alloc(total)
        for node in chain:
            node.host_lock -= 1
        if slots is None:
            return 0
        at = 0
        for node in chain:
            self._place(node, slots[at : at + len(node.key)].clone())
            self._copy(self.host_pool.load, node)
            at += len(node.key)
        self.loaded_tokens += total
        req.prefix_indices = torch.cat((req.prefix_indices, slots))
        req.last_node, req.cache_protected_len = chain[-1], len(req.prefix_indices)
        req.extend_input_len -= total
        return total

    def host_tokens(self) -> int:
        """Slots of the host that hold rows."""
        return self.host_pool.used()

    def total_size(self) -> int:
        """Tokens on the device."""
        return sum(len(node.key) for node in self.nodes() if node.on_device)

    def _chain(self, node: TreeNode | None) -> Iterator[TreeNode]:
        """The nodes down to `node` that only the host has."""
        if node is not None and not node.on_device:
            yield from self._chain(node.parent)
            yield node

    def _is_device_leaf(self, node: TreeNode) -> bool:
        """Whether a node may leave the device."""
        return node.on_device and node.lock_ref == 0 and not any(each.on_device for each in node.children.values())

    def _place(self, node: TreeNode, slots: torch.Tensor) -> None:
        """A node is on the device again."""
        node.value, node.on_device = slots, True
        self.evictable_size_ += len(node.key)

    def _backup(self, node: TreeNode) -> None:
        """Copy a node's rows to the host, if it has none of them and room can be made."""
        if node.host_value is not None:
            return
        allocator = self.host_pool.allocator
        if allocator.available_size() < len(node.key):
            self._evict_host(len(node.key) - allocator.available_size())
        node.host_value = allocator.alloc(len(node.key))
        if node.host_value is not None:
            self._copy(self.host_pool.backup, node)

    def _copy(self, copy: Callable[[torch.Tensor, torch.Tensor], None], node: TreeNode) -> None:
        host, device = node.host_value, node.value
        assert host is not None
        self.submit(lambda: copy(host, device))

    def _evict_host(self, missing: int) -> None:
        """Forget leaves that only the host has, least recently used first."""
        leaves = [node for node in self.nodes() if self._is_host_leaf(node)]
        heapq.heapify(leaves)
        while leaves and missing > 0:
            leaf = heapq.heappop(leaves)
            missing -= len(leaf.key)
            parent = leaf.parent
            self._forget(leaf)
            if parent is not None and self._is_host_leaf(parent):
                heapq.heappush(leaves, parent)

    def _is_host_leaf(self, node: TreeNode) -> bool:
        return not node.on_device and not node.children and node.host_lock == 0

    def _forget(self, node: TreeNode) -> None:
        """Take a node that is not on the device out of the tree, with what hangs below it on the host."""
        for child in list(node.children.values()):
            self._forget(child)
        if node.host_value is not None:
            self.host_pool.allocator.free(node.host_value)
            node.host_value = None
        assert node.parent is not None
        del node.parent.children[node.key.child_key(self.page_size)]

    def _split(self, child: TreeNode, length: int) -> TreeNode:
        host = child.host_value
        upper = super()._split(child, length)
        upper.on_device, upper.hit_count, upper.host_lock = child.on_device, child.hit_count, child.host_lock
        if host is not None:
            upper.host_value, child.host_value = host[:length].clone(), host[length:].clone()
        return upper
