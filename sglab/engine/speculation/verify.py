"""Which drafts are kept: a path from the root along which the target model says what was drafted.

Source: SGLang `sgl-kernel/csrc/speculative/{eagle_utils,speculative_sampling}.cu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from sglab.engine.speculation.tree import Tree


@dataclass(frozen=True)
class VerifyInput:
    """What an attention backend reads of a batch's drafts (`ForwardBatch.spec_info`)."""

    draft_token_num: int
    """Nodes per request, the root among them."""
    custom_mask: torch.Tensor
    """bool, FULL_MASK."""
    topk: int = 2
    """1: every tree is a chain."""


class Accepted(NamedTuple):
    """What a verification keeps of one request."""

    nodes: list[int]
    """Accepted nodes from the root down, the root first."""
    tokens: list[int]
    """The accepted drafts and the bonus token after them: one more than drafts."""


def verify_tree_greedy(tree: Tree, candidates: Sequence[int], target: Sequence[int]) -> Accepted:
    """Go down while a child is what the target model chose at its parent.

    Args:
        candidates: the nodes' tokens.
        target: the target model's choice after each node: its argmax, or what it sampled there. Since a draft is kept
            only where it equals a token that was chosen without it, the tokens are distributed as without drafts.
    """
    node, nodes, tokens = 0, [0], []
    while True:
        tokens.append(target[node])
        child = tree.next_token[node]
        while child >= 0 and candidates[child] != target[node]:
            child = tree.next_sibling[child]
        if child < 0:
            return Accepted(nodes, tokens)
        node = child
        nodes.append(node)


def tree_speculative_sampling_target_only(
    tree: Tree,
    candidates: Sequence[int],
    target_probs: torch.Tensor,
    coins: Sequence[float],
    final_coin: float,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
) -> Accepted:
    """Keep children by chance, from the target's probabilities alone; the draft's are taken as zero.

    A child is kept if its coin is below the probability of the children so far, divided by `threshold_acc`, or if it is
    likelier than `threshold_single`. Thresholds of 1 keep the target's distribution; lower ones keep more drafts and
    change it.

    Args:
        target_probs: float [D, vocab], after each node.
        coins: [D], uniform in [0, 1), one for the children of each node.
        final_coin: for the token after the last kept node.
    """
    node, nodes, tokens = 0, [0], []
    probs = target_probs.double()
    while True:
        rest = probs[node].clone()
        child, total = tree.next_token[node], 0.0
        while child >= 0:
            p = float(rest[candidates[child]])  # zero for a token that a sibling has had
            total += p
            if coins[node] < total / threshold_acc or p >= threshold_single:
                break
            rest[candidates[child]] = 0.0
            child = tree.next_sibling[child]
        if child >= 0:
            node = child
            nodes.append(node)
            tokens.append(candidates[node])
            continue
        sums = rest.cumsum(0)
        chosen = int(torch.searchsorted(sums, final_coin * sums[-1], right=True))
        tokens.append(min(chosen, len(sums) - 1))
        return Accepted(nodes, tokens)
