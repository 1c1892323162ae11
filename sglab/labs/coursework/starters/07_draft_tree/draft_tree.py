"""Lab 07: a draft tree of D nodes. Node 0, the root, is the request's last token, whose KV is not cached yet; the
others are drafts. parents[node] is a node's parent, -1 the root's; parents come before their children. `prefix` tokens
are cached.
"""

import numpy as np


def tree_mask(parents, prefix):
    """(D, prefix + D) bool: row i says what node i sees: the prefix, its ancestors and itself."""
    return np.zeros((0, 0), bool)


def positions(parents, prefix):
    """(D,) integers: the position of each node in its text; the cached tokens are at 0 to prefix - 1."""
    raise NotImplementedError


def accept(parents, tokens, target):
    """Greedy verification.

    Args:
        tokens: of each node; those of siblings differ.
        target: the target model's choice after each node.

    Returns:
        [nodes that are kept, from the root (0) down; tokens that come out: the kept drafts' and the bonus token].
    """
    raise NotImplementedError
