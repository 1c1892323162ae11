"""Lab 07: a draft tree's mask and positions, and which of its tokens are kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CaseGroup, FunctionExercise
from sglab.labs.lab import Criterion, Hint, Idea, Lab
from sglab.labs.question import Question

Array = Any


def ancestors(parents: Sequence[int], node: int) -> list[int]:
    """The node and all above it, from below."""
    found = [node]
    while parents[found[-1]] >= 0:
        found.append(parents[found[-1]])
    return found


def mask(parents: Sequence[int], prefix: int) -> Array:
    own = np.zeros((len(parents), len(parents)), bool)
    for node in range(len(parents)):
        own[node, ancestors(parents, node)] = True
    return with_prefix(own, prefix)


def with_prefix(own: Array, prefix: int, value: bool = True) -> Array:
    return np.concatenate([np.full((len(own), prefix), value), own], 1)


def _own(parents: Sequence[int]) -> Array:
    return mask(parents, 0)


def positions(parents: Sequence[int], prefix: int) -> Array:
    return np.array([prefix + len(ancestors(parents, node)) - 1 for node in range(len(parents))])


def children_of(parents: Sequence[int], node: int) -> list[int]:
    return [child for child, parent in enumerate(parents) if parent == node]


def accept(
    parents: Sequence[int],
    tokens: Sequence[int],
    target: Sequence[int],
    chosen: Callable[[Sequence[int], int, int], int] = lambda target, node, child: target[node],
    bonus: bool = True,
    children: Callable[[Sequence[int], int], list[int]] = children_of,
) -> list[Any]:
    """[nodes from the root down, tokens]. What is given differently is a wrong idea."""
    node, nodes = 0, [0]
    out: list[int] = []
    while True:
        found = [c for c in children(parents, node) if tokens[c] == chosen(target, node, c)]
        if not found:
            return [nodes, [*out, target[node]] if bonus else out]
        out.append(target[node])
        node = found[0]
        nodes.append(node)


def _accept_all_matching(parents: Sequence[int], tokens: Sequence[int], target: Sequence[int]) -> list[Any]:
    nodes = [0, *(n for n in range(1, len(parents)) if tokens[n] == target[parents[n]])]
    return [nodes, [*(tokens[n] for n in nodes[1:]), target[nodes[-1]]]]


def _accept_draft_order(parents: Sequence[int], tokens: Sequence[int], target: Sequence[int]) -> list[Any]:
    nodes = [0]
    while nodes[-1] + 1 < len(parents) and tokens[nodes[-1] + 1] == target[nodes[-1]]:
        nodes.append(nodes[-1] + 1)
    return [nodes, [target[node] for node in nodes]]


def _deepest(parents: Sequence[int], tokens: Sequence[int], target: Sequence[int]) -> list[Any]:
    path = max((ancestors(parents, node)[::-1] for node in range(len(parents))), key=len)
    return [path, [*(tokens[n] for n in path[1:]), target[path[-1]]]]


def _sees_siblings(parents: Sequence[int], prefix: int) -> Array:
    own = _own(parents)
    for node, parent in enumerate(parents):
        own[node] |= np.array([other == parent for other in parents])
    return with_prefix(own, prefix)


def _depths(parents: Sequence[int]) -> Array:
    return positions(parents, 0)


MASK_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "causal": (
        lambda p, n: with_prefix(np.tril(np.ones((len(p), len(p)), bool)), n),
        "A causal mask is that of a chain. In a tree a node must not see other branches, though they come before it.",
    ),
    "no_self": (lambda p, n: with_prefix(_own(p) & ~np.eye(len(p), dtype=bool), n), "A node sees itself, too."),
    "transposed": (
        lambda p, n: with_prefix(_own(p).T, n),
        "Rows are queries: row i says what node i sees. You have what is seen by i.",
    ),
    "parent_only": (
        lambda p, n: with_prefix(
            np.array([[j in (i, p[i]) for j in range(len(p))] for i in range(len(p))], bool).reshape(len(p), len(p)), n
        ),
        "A node sees all its ancestors up to the root, not its parent alone.",
    ),
    "no_prefix": (
        lambda p, n: with_prefix(_own(p), n, False),
        "Every node sees the whole prefix: those columns are True.",
    ),
    "prefix_left_out": (lambda p, n: _own(p), "The columns of the prefix come first: the mask has prefix + D columns."),
    "prefix_last": (
        lambda p, n: np.concatenate([_own(p), np.ones((len(p), n), bool)], 1),
        "The prefix's columns come before the drafts'.",
    ),
    "everything": (
        lambda p, n: np.ones((len(p), n + len(p)), bool),
        "All nodes see each other: that lets drafts see the future.",
    ),
    "siblings": (_sees_siblings, "Siblings are alternatives to each other: they must not see each other."),
    "by_depth": (
        lambda p, n: with_prefix((_depths(p)[:, None] > _depths(p)[None]) | np.eye(len(p), dtype=bool), n),
        "Not everything that is higher in the tree is an ancestor: other branches are not.",
    ),
    "no_root": (
        lambda p, n: with_prefix(_own(p) & (np.arange(len(p)) > 0)[None], n),
        "The root is the last token, not yet in the prefix: every node sees it.",
    ),
}
POSITION_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "by_number": (
        lambda p, n: n + np.arange(len(p)),
        "Siblings stand at the same position: it is the depth that counts, not the node's number.",
    ),
    "depth_alone": (lambda p, n: _depths(p), "The prefix comes before: add its length."),
    "one_more": (lambda p, n: positions(p, n) + 1, "Positions count from 0: the root stands at position prefix."),
    "all_same": (lambda p, n: np.full(len(p), n), "Deeper nodes stand further on: add the depth."),
}
ACCEPT_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "no_bonus": (
        partial(accept, bonus=False),
        "The target's token after the last kept node is right in any case: it is the bonus token.",
    ),
    "own_target": (
        partial(accept, chosen=lambda target, node, child: target[child]),
        "Compare a child's token with the target's choice at its parent, not after the child itself.",
    ),
    "draft_order": (
        _accept_draft_order,
        "The next node in the list is not always a child: go down the tree, and look at all children.",
    ),
    "first_child": (
        partial(accept, children=lambda parents, node: [c for c, p in enumerate(parents) if p == node][:1]),
        "You look at the first child only: its siblings may be what the target chose.",
    ),
    "all_matching": (
        _accept_all_matching,
        "A node counts only if its whole path was accepted: what hangs on a refused node is refused.",
    ),
    "deepest": (_deepest, "The longest draft is not what the target says: follow its choices from the root."),
}


def tree(random: np.random.Generator, nodes: int | None = None) -> list[int]:
    count = nodes or int(random.integers(4, 10))
    return [-1, *(int(random.integers(max(0, node - 4), node)) for node in range(1, count))]


def drafts(random: np.random.Generator, agree: float = 0.7) -> list[Any]:
    parents = tree(random, int(random.integers(5, 12)))
    target = [int(token) for token in random.integers(100, 110, len(parents))]
    tokens, taken = [7] * len(parents), set()
    for node in range(1, len(parents)):
        right = random.random() < agree and (parents[node], target[parents[node]]) not in taken
        tokens[node] = target[parents[node]] if right else 200 + node
        taken.add((parents[node], tokens[node]))
    return [parents, tokens, target]


def _exercise(
    name: str, title: str, truth: Any, wrong: Any, criteria: Any, groups: Any, hints: Any
) -> FunctionExercise:
    return FunctionExercise(
        id=name,
        title=title,
        file="draft_tree.py",
        function=name,
        truth=truth,
        criteria=criteria,
        groups=groups,
        ideas=tuple(Idea(idea, text) for idea, (_, text) in wrong.items()),
        wrong={idea: function for idea, (function, _) in wrong.items()},
        hints=hints,
    )


MASK = _exercise(
    "tree_mask",
    "Who sees whom",
    mask,
    MASK_WRONG,
    (Criterion("trees", 25, "random trees after a prefix"), Criterion("chain", 10, "a chain, and a root alone")),
    (
        CaseGroup("trees", lambda r: [tree(r), int(r.integers(2, 9))], 8),
        CaseGroup("chain", lambda r: [[-1, *range(int(r.integers(0, 5)))], int(r.integers(2, 5))], 4),
    ),
    (
        Hint("Parents come before their children: a node's row is its parent's row, and itself.", 3),
        Hint("mask[node] = mask[parent] (or the prefix alone for the root); mask[node, prefix + node] = True.", 6),
    ),
)
POSITIONS = _exercise(
    "positions",
    "Where each node stands",
    positions,
    POSITION_WRONG,
    (Criterion("positions", 15, "positions for the rotary embedding"),),
    (CaseGroup("positions", lambda r: [tree(r, 7), int(r.integers(2, 60))], 8),),
    (Hint("The root stands right after the prefix, a child one further than its parent.", 2),),
)
ACCEPT = _exercise(
    "accept",
    "What is kept",
    accept,
    ACCEPT_WRONG,
    (
        Criterion("kept", 25, "the path that the target model takes, and the bonus token"),
        Criterion("refused", 10, "drafts that are all wrong"),
    ),
    (CaseGroup("kept", drafts, 12), CaseGroup("refused", lambda r: drafts(r, 0.0), 4)),
    (
        Hint("Start at the root; a child is kept if its token is what the target chose after the parent.", 3),
        Hint("The tokens are the target's choices after every kept node: one more than kept drafts.", 4),
    ),
)


def _length(random: Random) -> tuple[str, Question]:
    drafts_kept, steps = random.randrange(20, 60), random.randrange(20, 40)
    return (
        f"In {steps} verification passes {drafts_kept} drafts were kept. How many "
        f"tokens came out per pass, on average?",
        Question(lambda: (drafts_kept + steps) / steps, "{truth:.3f}.", "Each pass gives a bonus token besides."),
    )


def _drafts_alone(random: Random) -> float:
    drafts_kept, steps = random.randrange(20, 60), random.randrange(20, 40)
    return drafts_kept / steps


LAB = Lab(
    id="07",
    name="draft_tree",
    title="A draft tree's mask",
    goal="Verify a tree of drafts in one pass: its mask, its positions, and which of its tokens are kept.",
    minutes=45,
    exercises=(
        MASK,
        POSITIONS,
        ACCEPT,
        AnswerExercise.of(
            "07",
            Asked(
                "per_pass", 5, _length, (("no_bonus", "Each pass gives one token besides the drafts.", _drafts_alone),)
            ),
        ),
    ),
    reading=("notebooks/18_speculation.ipynb", "docs/engine.md"),
)
