"""TreeLog: the operations on a radix tree, one by one, each with what it left different in the tree."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sglab.engine.cache.holder import PrefixHolder
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.radix_node import RadixKey, TreeNode
from sglab.engine.recording.wrapping import Wrapped


@dataclass(frozen=True)
class NodeState:
    """A node as an operation left it."""

    id: int
    parent: int
    """-1: the root's."""
    tokens: tuple[int, ...]
    pages: tuple[int, ...]
    """Of the pool, in token order; empty where only the host has the node."""
    lock_ref: int
    last_access: int
    """In accesses of the tree, which is its clock."""
    extra_key: str | None = None
    on_device: bool = True
    on_host: bool = False


@dataclass(frozen=True)
class Evicted:
    """A node that left the device, in the order in which they left."""

    node: int
    tokens: int
    last_access: int
    reason: str


@dataclass
class TreeOp:
    """One operation."""

    kind: str
    """"match", "split", "insert", "lock", "unlock", "evict", "load" (from the host), "reset", or "start": the tree
    as the recording found it."""
    step: int
    """Steps that had been planned before it."""
    rid: str
    """The request that it was for; empty where that is not known."""
    tokens: int = 0
    """Of the key that was looked up or inserted; evictions: tokens asked for."""
    found: int = 0
    """Match and insert: leading tokens that the tree had; evict, load: tokens that moved."""
    aligned: int = 0
    """Of `tokens`, those in whole pages: the rest is never in the tree."""
    path: tuple[int, ...] = ()
    """Nodes from the root's child down to where it ended; a split: the upper and the lower part."""
    changed: list[NodeState] = field(default_factory=list)
    """Nodes that are new or different."""
    removed: list[int] = field(default_factory=list)
    evicted: list[Evicted] = field(default_factory=list)
    free: int = 0
    """Slots of the allocator after it; the next two are the tree's."""
    evictable: int = 0
    protected: int = 0
    clock: int = 0


class TreeLog:
    """Records a tree from when it is made until `stop`.

    Args:
        tree: it goes on working as before.
        step: how many steps have been planned.

    Attributes:
        ops: in order; the first is "start", with the whole tree.
        page_size: the tree's.
        disabled: the tree keeps nothing.
    """

    def __init__(self, tree: RadixCache, step: Callable[[], int] = lambda: 0) -> None:
        self.page_size, self.disabled = tree.page_size, tree.disable
        self.ops: list[TreeOp] = []
        self._tree, self._step = tree, step
        self._known: dict[int, tuple[Any, ...]] = {}
        self._rid = ""
        self._unspoken = 0
        self._add("start")
        self._wrapped = Wrapped(tree)
        for name in ("match_prefix", "insert", "_split", "inc_lock_ref", "dec_lock_ref", "evict", "load_back", "reset"):
            self._wrapped.watch(name, getattr(self, f"_on_{name.strip('_')}"))
        for name in ("cache_unfinished_req", "cache_finished_req"):
            self._wrapped.watch(name, self._on_request)

    def stop(self) -> None:
        """Stop recording; what was recorded stays."""
        self._wrapped.undo()

    def nodes_at(self, ops: int) -> dict[int, NodeState]:
        """The tree after the first `ops` operations, by node."""
        nodes: dict[int, NodeState] = {}
        for op in self.ops[:ops]:
            if op.kind in ("start", "reset"):
                nodes.clear()
            nodes.update((state.id, state) for state in op.changed)
            for node in op.removed:
                nodes.pop(node, None)
        return nodes

    # What happens on the way.

    def _on_match_prefix(self, run: Callable[..., Any], key: RadixKey) -> Any:
        self._rid = key.rid or self._rid
        match = run(key)
        found = len(match.device_indices)
        self._add("match", tokens=len(key), found=found, aligned=self._aligned(key), path=self._path(match[1]))
        return match

    def _on_insert(self, run: Callable[..., Any], key: RadixKey, value: torch.Tensor) -> int:
        known = int(run(key, value))
        end = self._walk(key)
        self._add("insert", tokens=len(key), found=known, aligned=self._aligned(key), path=self._path(end))
        return known

    def _on_split(self, run: Callable[..., Any], child: TreeNode, length: int) -> TreeNode:
        upper: TreeNode = run(child, length)
        self._add("split", tokens=len(upper.key) + len(child.key), found=length, path=(upper.id, child.id))
        return upper

    def _on_inc_lock_ref(self, run: Callable[..., Any], node: TreeNode) -> int:
        delta = int(run(node))
        if node is not self._tree.root_node:
            self._add("lock", found=-delta, path=self._path(node))
        return delta

    def _on_dec_lock_ref(self, run: Callable[..., Any], node: TreeNode) -> int:
        delta = int(run(node))
        if node is not self._tree.root_node:
            self._add("unlock", found=delta, path=self._path(node))
        return delta

    def _on_evict(self, run: Callable[..., Any], num_tokens: int) -> int:
        before = {node.id: (node, node.parent, node.last_access_time, len(node.key)) for node in self._on_device()}
        with self._alone():
            evicted = int(run(num_tokens))
        left = {node.id for node in self._on_device()}
        gone = {node: each for node, each in before.items() if node not in left}
        if gone or num_tokens:
            self._add("evict", tokens=num_tokens, found=evicted, evicted=eviction_order(gone))
        return evicted

    def _on_load_back(self, run: Callable[..., Any], req: PrefixHolder) -> int:
        loaded = int(run(req))
        if loaded:
            self._add("load", found=loaded, path=self._path(req.last_node or self._tree.root_node))
        return loaded

    def _on_reset(self, run: Callable[..., Any]) -> None:
        run()
        self._known = {}
        self._add("reset")

    def _on_request(self, run: Callable[..., Any], req: PrefixHolder, *options: Any, **named: Any) -> None:
        self._rid = req.rid
        run(req, *options, **named)

    # What is kept of it.

    def _add(self, kind: str, **fields: Any) -> None:
        if self._unspoken:
            return
        tree = self._tree
        op = TreeOp(
            kind,
            self._step(),
            "" if kind in ("start", "reset", "evict") else self._rid,
            free=tree.token_to_kv_pool_allocator.available_size(),
            evictable=tree.evictable_size(),
            protected=tree.protected_size(),
            clock=tree._clock,
            **fields,
        )
        present = set()
        for node in (tree.root_node, *tree.nodes()):
            present.add(node.id)
            seen = _seen(node)
            if self._known.get(node.id) != seen:
                self._known[node.id] = seen
                op.changed.append(self._state(node))
        op.removed = [node for node in self._known if node not in present]
        for node_id in op.removed:
            del self._known[node_id]
        self.ops.append(op)

    def _state(self, node: TreeNode) -> NodeState:
        size = self.page_size
        return NodeState(
            node.id,
            -1 if node.parent is None else node.parent.id,
            tuple(node.key.token_ids),
            tuple((node.value[::size] // size).tolist()),
            node.lock_ref,
            node.last_access_time,
            node.key.extra_key,
            node.on_device,
            node.host_value is not None,
        )

    def _on_device(self) -> Iterator[TreeNode]:
        return (node for node in self._tree.nodes() if node.on_device)

    def _path(self, node: TreeNode) -> tuple[int, ...]:
        path = []
        while node.parent is not None:
            path.append(node.id)
            node = node.parent
        return tuple(path[::-1])

    def _walk(self, key: RadixKey) -> TreeNode:
        """Where a key that was just inserted ends."""
        size, node = self.page_size, self._tree.root_node
        while len(key) >= size and (child := node.children.get(key.child_key(size))):
            node, key = child, key.cut(len(child.key))
        return node

    def _aligned(self, key: RadixKey) -> int:
        return len(key) // self.page_size * self.page_size

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """What an operation calls on its way is part of it."""
        self._unspoken += 1
        try:
            yield
        finally:
            self._unspoken -= 1


Gone = dict[int, tuple[TreeNode, TreeNode | None, int, int]]


def eviction_order(gone: Gone) -> list[Evicted]:
    """The order in which leaves went: least recently used first; a node when the last of its children has gone.

    Args:
        gone: node id -> the node, its parent, its last access and its tokens, before.
    """
    children = dict.fromkeys(gone, 0)
    for _, parent, *_ in gone.values():
        if parent is not None and parent.id in children:
            children[parent.id] += 1
    queue = [(gone[node][2], node) for node, count in children.items() if not count]
    heapq.heapify(queue)
    order: list[Evicted] = []
    while queue:
        access, node = heapq.heappop(queue)
        _, parent, _, tokens = gone[node]
        reason = "the least recently used leaf that no request locks" if not order else "the next: still too few tokens"
        order.append(Evicted(node, tokens, access, reason))
        if parent is not None and parent.id in children:
            children[parent.id] -= 1
            if not children[parent.id]:
                heapq.heappush(queue, (gone[parent.id][2], parent.id))
    return order


def _seen(node: TreeNode) -> tuple[Any, ...]:
    """What of a node may change; its tokens only shrink, by a split."""
    parent = None if node.parent is None else node.parent.id
    host = node.host_value is not None
    return parent, len(node.key), node.lock_ref, node.last_access_time, node.on_device, host
