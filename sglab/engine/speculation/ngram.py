"""N-gram drafts: what followed the last tokens where they stood before, in the same request."""

from __future__ import annotations

from collections.abc import Sequence

from sglab.engine.speculation.tree import Tree, tree_of


def ngram_tree(
    tokens: Sequence[int], num_draft_tokens: int, longest: int = 4, shortest: int = 1
) -> tuple[list[int], Tree]:
    """Draft from a request's own tokens.

    The longest suffix that occurred before is looked up first; its latest occurrence gives the first path. Further
    occurrences and shorter suffixes add branches while there is room. What is left over repeats the last token as
    further children of the root, so that every tree has the same size.

    Args:
        tokens: prompt and output; the last one is the root.
        num_draft_tokens: nodes, the root among them.
        longest, shortest: suffixes to look up, in tokens.

    Returns:
        The nodes' tokens and their tree.
    """
    nodes, parents = [tokens[-1]], [-1]
    children: dict[tuple[int, int], int] = {}
    for size in range(min(longest, len(tokens) - 1), shortest - 1, -1):
        suffix = list(tokens[-size:])
        for start in range(len(tokens) - size - 1, -1, -1):
            if len(nodes) == num_draft_tokens:
                return nodes, tree_of(parents)
            if list(tokens[start : start + size]) == suffix:
                _add(
                    tokens[start + size : start + size + num_draft_tokens - 1],
                    num_draft_tokens,
                    nodes,
                    parents,
                    children,
                )
    while len(nodes) < num_draft_tokens:
        nodes.append(tokens[-1])
        parents.append(0)
    return nodes, tree_of(parents)


def _add(
    path: Sequence[int], most: int, nodes: list[int], parents: list[int], children: dict[tuple[int, int], int]
) -> None:
    """Hang a path into the tree, sharing what is there."""
    node = 0
    for token in path:
        if (node, token) not in children:
            if len(nodes) == most:
                return
            children[node, token] = len(nodes)
            nodes.append(token)
            parents.append(node)
        node = children[node, token]
