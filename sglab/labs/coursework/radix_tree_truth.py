"""A radix tree as lab 03 wants it, and the trees that known wrong ideas lead to."""

from __future__ import annotations

from typing import Any


class Node:
    def __init__(self, parent: Node | None, tokens: tuple[int, ...], slots: list[int]) -> None:
        self.parent, self.tokens, self.slots = parent, tokens, slots
        self.children: dict[int, Node] = {}
        self.used, self.locks = 0, 0


class Tree:
    """The truth; what subclasses change are wrong ideas."""

    def __init__(self) -> None:
        self.root, self.clock = Node(None, (), []), 0

    def match(self, tokens: list[int]) -> list[int]:
        self.tick()
        return [slot for node in self.path(tokens) for slot in node.slots]

    def insert(self, tokens: list[int], slots: list[int]) -> int:
        self.tick()
        path = self.path(tokens)
        known = sum(len(node.tokens) for node in path)
        if known < len(tokens):
            parent = path[-1] if path else self.root
            node = Node(parent, tuple(tokens[known:]), list(self.kept(slots, known)))
            node.used = self.clock
            parent.children[tokens[known]] = node
        return known

    def kept(self, slots: list[int], known: int) -> list[int]:
        return slots[known:]

    def evict(self, count: int) -> list[int]:
        freed: list[int] = []
        while len(freed) < count:
            leaves = [node for node in self.nodes() if self.evictable(node)]
            if not leaves:
                break
            node = min(leaves, key=self.age)
            freed += self.cut(node, count - len(freed))
        return freed

    def cut(self, node: Node, count: int) -> list[int]:
        assert node.parent is not None
        del node.parent.children[node.tokens[0]]
        return node.slots

    def evictable(self, node: Node) -> bool:
        return not node.children and node.locks == 0

    def age(self, node: Node) -> Any:
        return node.used

    def lock(self, tokens: list[int]) -> None:
        self.tick()
        for node in self.path(tokens):
            node.locks += 1

    def unlock(self, tokens: list[int]) -> None:
        self.tick()
        for node in self.path(tokens):
            node.locks -= 1

    def size(self) -> int:
        return sum(len(node.tokens) for node in self.nodes())

    def tick(self) -> None:
        self.clock += 1

    def path(self, tokens: list[int]) -> list[Node]:
        """Nodes along the tokens, the last one split where they part; all are used now."""
        node, done, found = self.root, 0, []
        while done < len(tokens) and tokens[done] in node.children:
            child = node.children[tokens[done]]
            same = 0
            while same < len(child.tokens) and done + same < len(tokens) and child.tokens[same] == tokens[done + same]:
                same += 1
            if same < len(child.tokens):
                child = self.split(child, same)
            self.touch(child)
            found.append(child)
            node, done = child, done + same
        return found

    def touch(self, node: Node) -> None:
        node.used = self.clock

    def split(self, child: Node, at: int) -> Node:
        """The upper part, which is new; the lower part keeps its children."""
        assert child.parent is not None
        upper = Node(child.parent, child.tokens[:at], child.slots[:at])
        upper.used, upper.locks = child.used, self.locks_above(child)
        child.parent.children[child.tokens[0]] = upper
        child.parent, child.tokens, child.slots = upper, child.tokens[at:], child.slots[at:]
        upper.children[child.tokens[0]] = child
        return upper

    def locks_above(self, child: Node) -> int:
        return child.locks

    def nodes(self) -> list[Node]:
        found, todo = [], [self.root]
        while todo:
            for child in todo.pop().children.values():
                found.append(child)
                todo.append(child)
        return found


class _WholeNodes(Tree):
    """No split: a node matches whole or not at all."""

    def path(self, tokens: list[int]) -> list[Node]:
        node, done, found = self.root, 0, []
        while done < len(tokens) and tokens[done] in node.children:
            child = node.children[tokens[done]]
            if tuple(tokens[done : done + len(child.tokens)]) != child.tokens:
                break
            self.touch(child)
            found.append(child)
            node, done = child, done + len(child.tokens)
        return found


class _NewSlots(Tree):
    def kept(self, slots: list[int], known: int) -> list[int]:
        return slots[: len(slots) - known] if known else slots


class _InsertCountsNew(Tree):
    def insert(self, tokens: list[int], slots: list[int]) -> int:
        return len(tokens) - super().insert(tokens, slots)


class _InsertsTwice(Tree):
    def match(self, tokens: list[int]) -> list[int]:
        found = super().match(tokens)
        return found if len(found) == len(tokens) else []


class _OldestMade(Tree):
    def touch(self, node: Node) -> None:
        """Nothing: the age is that of the node's making."""


class _NewestFirst(Tree):
    def age(self, node: Node) -> Any:
        return -node.used


class _Largest(Tree):
    def age(self, node: Node) -> Any:
        return -len(node.tokens)


class _InnerNodes(Tree):
    def evictable(self, node: Node) -> bool:
        return node.locks == 0


class _LocksIgnored(Tree):
    def evictable(self, node: Node) -> bool:
        return not node.children


class _LocksTheLastNode(Tree):
    def lock(self, tokens: list[int]) -> None:
        self.tick()
        for node in self.path(tokens)[-1:]:
            node.locks += 1

    def unlock(self, tokens: list[int]) -> None:
        self.tick()
        for node in self.path(tokens)[-1:]:
            node.locks -= 1


class _SplitUnlocked(Tree):
    def locks_above(self, child: Node) -> int:
        return 0


class _LockIsAFlag(Tree):
    def lock(self, tokens: list[int]) -> None:
        self.tick()
        for node in self.path(tokens):
            node.locks = 1

    def unlock(self, tokens: list[int]) -> None:
        self.tick()
        for node in self.path(tokens):
            node.locks = 0


class _ExactlyAsMany(Tree):
    def cut(self, node: Node, count: int) -> list[int]:
        if len(node.slots) <= count:
            return super().cut(node, count)
        gone = node.slots[-count:]
        node.tokens, node.slots = node.tokens[:-count], node.slots[:-count]
        return gone


class _OneLeaf(Tree):
    def evict(self, count: int) -> list[int]:
        leaves = [node for node in self.nodes() if self.evictable(node)]
        return self.cut(min(leaves, key=self.age), count) if leaves and count > 0 else []


class _CountsNodes(Tree):
    def size(self) -> int:
        return len(self.nodes())


WRONG: dict[str, tuple[type[Tree], str]] = {
    "whole_nodes": (_WholeNodes, "A prefix may end within a node: split the node there, instead of giving up."),
    "first_slots": (
        _NewSlots,
        "The new node takes the slots of the tokens that are new: slots[known:], not the first ones.",
    ),
    "counts_new": (
        _InsertCountsNew,
        "insert returns how many tokens the tree had already: the caller frees its own copies of those.",
    ),
    "all_or_nothing": (
        _InsertsTwice,
        "match returns the slots of the longest known prefix, also where the rest is unknown.",
    ),
    "oldest_made": (
        _OldestMade,
        "Least recently used, not least recently made: match and insert touch every node on their path.",
    ),
    "newest_first": (_NewestFirst, "The least recently used leaf goes first; you take the most recent."),
    "largest_first": (_Largest, "The least recently used leaf goes first, not the largest."),
    "inner_nodes": (_InnerNodes, "Only leaves may go: a node with children is the prefix of theirs."),
    "locks_ignored": (_LocksIgnored, "A locked node is being read by a running request: it may not go."),
    "split_unlocked": (_SplitUnlocked, "When a locked node is split, its upper part is locked, too."),
    "locks_last": (
        _LocksTheLastNode,
        "lock holds the whole path: otherwise a later split or eviction takes a part of it.",
    ),
    "lock_flag": (_LockIsAFlag, "Two requests may lock the same prefix: count the locks."),
    "exactly": (_ExactlyAsMany, "A leaf goes whole, so evict may return more slots than were requested."),
    "one_leaf": (_OneLeaf, "evict goes on until enough slots are free or no leaf may go."),
    "counts_nodes": (_CountsNodes, "size is in tokens, not in nodes."),
}
