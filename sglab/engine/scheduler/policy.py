"""SchedulePolicy: in which order waiting requests are offered to the next prefill batch.

Source: SGLang 0.5.23 `managers/schedule_policy.py`. The order is all that a policy decides; who fits decides the
PrefillAdder.
"""

from __future__ import annotations

import random
from collections import Counter

import torch

from sglab.engine.batch.req import Req
from sglab.engine.cache.allocator import TokenToKVPoolAllocator
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.radix_node import RadixKey, TreeNode
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool

WAITING_QUEUE_PREFIX_MATCH_MAX = 128
"""lpm matches prefixes of no longer queues: it is fcfs above."""
IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD = 32
"""Requests with at most so many cached tokens are compared with each other, too."""
IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD = 32
"""A request waits if one before it in the queue shares at least so many tokens: the next round finds them cached."""
CACHE_AWARE = ("lpm", "dfs-weight")


class SchedulePolicy:
    """Sorts the waiting queue.

    Args:
        policy: "lpm" longest cached prefix first; "dfs-weight" subtree by subtree of the radix tree, the one with most
            requests first; "fcfs" as they came; "lof" most max_new_tokens first; "random". Without a radix cache the
            first two are fcfs.
        tree_cache: where prefixes are looked up.
        seed: of "random".
    """

    def __init__(self, policy: str, tree_cache: RadixCache, seed: int = 0) -> None:
        self.policy = "fcfs" if policy in CACHE_AWARE and tree_cache.disable else policy
        self.tree_cache = tree_cache
        self._random = random.Random(seed)
        self._waiting_queue_radix_tree = simulated_radix_cache()

    def calc_priority(self, waiting_queue: list[Req]) -> str:
        """Sort the queue in place. Returns the policy that was used: lpm turns into fcfs on a long queue."""
        policy = self.active_policy(len(waiting_queue))
        if policy == "lpm":
            deprioritized = self._compute_prefix_matches(waiting_queue)
            waiting_queue.sort(key=lambda req: 1 if req.rid in deprioritized else -_matched(req))
        elif policy == "dfs-weight":
            self._compute_prefix_matches(waiting_queue)
            self._sort_by_dfs_weight(waiting_queue)
        elif policy == "lof":
            waiting_queue.sort(key=lambda req: -req.sampling_params.max_new_tokens)
        elif policy == "random":
            self._random.shuffle(waiting_queue)
        return policy

    def active_policy(self, waiting: int) -> str:
        """The policy for a queue of this length."""
        return "fcfs" if self.policy == "lpm" and waiting > WAITING_QUEUE_PREFIX_MATCH_MAX else self.policy

    def _compute_prefix_matches(self, waiting_queue: list[Req]) -> set[str]:
        """Look every request's prefix up. Returns those that had better wait for one with the same prefix."""
        deprioritized: set[str] = set()
        simulated = self._waiting_queue_radix_tree
        simulated.reset()
        for req in waiting_queue:
            req.init_next_round_input(self.tree_cache)
            if len(req.prefix_indices) > IN_BATCH_PREFIX_CACHING_CHECK_THRESHOLD:
                continue
            key = RadixKey(req.fill_ids, req.extra_key)
            if len(simulated.match_prefix(key).device_indices) >= IN_BATCH_PREFIX_CACHING_DEPRIORITIZE_THRESHOLD:
                deprioritized.add(req.rid)
            else:
                simulated.insert(key, torch.empty(len(key), dtype=torch.bool))
        return deprioritized

    def _sort_by_dfs_weight(self, waiting_queue: list[Req]) -> None:
        by_node: dict[TreeNode, list[Req]] = {}
        weight: Counter[TreeNode] = Counter()
        for req in waiting_queue:
            node = req.last_node or self.tree_cache.root_node
            by_node.setdefault(node, []).append(req)
            weight[node] += 1
            while node.parent is not None:
                node = node.parent
                weight[node] += 1
        order: list[Req] = []
        stack = [(self.tree_cache.root_node, False)]
        while stack:
            node, children_done = stack.pop()
            if children_done:
                order += by_node.get(node, [])
                continue
            stack.append((node, True))
            stack += [(child, False) for child in sorted(node.children.values(), key=lambda child: weight[child])]
        waiting_queue[:] = order


def simulated_radix_cache() -> RadixCache:
    """A tree without pools, to compare prefixes in."""
    return RadixCache(ReqToTokenPool(1, 1), TokenToKVPoolAllocator(1), 1)


def _matched(req: Req) -> int:
    """Cached tokens, on the device or on the host."""
    return len(req.prefix_indices) + req.host_hit_length
