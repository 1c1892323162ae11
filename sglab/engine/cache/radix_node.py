"""Keys and nodes of the radix tree, and what a request needs of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch

ChildKey = tuple[str | None, tuple[int, ...]]


class RadixKey:
    """A token run and the namespace it lives in (a LoRA adapter, a cache salt): equal tokens match within one only.

    `rid` says whose tokens they are, for recordings; nothing is compared by it.
    """

    def __init__(self, token_ids: Sequence[int], extra_key: str | None = None, rid: str = "") -> None:
        self.token_ids = list(token_ids)
        self.extra_key = extra_key
        self.rid = rid

    def __len__(self) -> int:
        return len(self.token_ids)

    def cut(self, start: int, stop: int | None = None) -> RadixKey:
        return RadixKey(self.token_ids[start:stop], self.extra_key)

    def child_key(self, page_size: int) -> ChildKey:
        """The first page: what a parent finds a child by."""
        return self.extra_key, tuple(self.token_ids[:page_size])

    def match(self, other: RadixKey, page_size: int) -> int:
        """Tokens of the longest common prefix, in whole pages."""
        mine, theirs = self.token_ids, other.token_ids
        same, differs = 0, min(len(mine), len(theirs)) + 1  # the first `same` agree, the first `differs` do not
        while differs - same > 1:
            middle = (same + differs + 1) // 2 if same else differs - 1
            if mine[same:middle] == theirs[same:middle]:
                same = middle
            else:
                differs = middle
        return same // page_size * page_size


class TreeNode:
    """One edge of the tree: a token run, its slots, how many requests lock it and when it was last used.

    Attributes:
        on_device, host_value, hit_count, host_lock: of the hierarchical cache: whether `value` is slots of the device
            (it is empty if not), the host's slots, how often the node was inserted, and whether it must stay there.
    """

    def __init__(self, node_id: int, key: RadixKey, value: torch.Tensor, parent: TreeNode | None) -> None:
        self.id = node_id
        self.key = key
        self.value = value
        self.parent = parent
        self.children: dict[ChildKey, TreeNode] = {}
        self.lock_ref = 0
        self.last_access_time = 0
        self.on_device = True
        self.host_value: torch.Tensor | None = None
        self.hit_count = 0
        self.host_lock = 0

    def __lt__(self, other: TreeNode) -> bool:
        return self.last_access_time < other.last_access_time


def path_up(node: TreeNode | None) -> Iterator[TreeNode]:
    """A node and those above it, the root last; none of None."""
    while node is not None:
        yield node
        node = node.parent


def tree_path(node: TreeNode) -> torch.Tensor:
    """int64, the slots of the prefix that ends at a node: those of all nodes from the root down to it."""
    runs = [node.value]
    while node.parent is not None:
        node = node.parent
        runs.append(node.value)
    return torch.cat(runs[::-1])


class MatchResult(NamedTuple):
    """What a prefix lookup found."""

    device_indices: torch.Tensor
    """int64, the matched tokens' slots."""
    last_device_node: TreeNode
    """Where the match ends; lock it."""
    last_host_node: TreeNode | None = None
    """Hierarchical cache: where the match ends that the host continues."""
    host_hit_length: int = 0
    """Hierarchical cache: tokens after the matched ones whose KV the host has."""


class PrefixCache(Protocol):
    """What a request asks for its prefix: RadixCache."""

    def match_prefix(self, key: RadixKey) -> MatchResult:
        """The longest cached prefix of `key`."""


TreeState = tuple[dict[str, Any], list[tuple[TreeNode, dict[str, Any]]]]
