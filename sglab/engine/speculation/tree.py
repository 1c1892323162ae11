"""Draft trees: candidates from a draft model's probabilities, and the arrays by which a tree is attended and verified.

Node 0 of a request's tree is its last token, the root; the others are drafts, parents before children.
Source: SGLang 0.5.23 `speculative/{eagle_utils,spec_utils}.py` and `sgl-kernel/csrc/speculative/eagle_utils.cu`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch


class TreeStep(NamedTuple):
    """A drafting step's candidates."""

    scores: torch.Tensor
    """float [B, n, topk], the probability of each candidate's path."""
    tokens: torch.Tensor
    """int64 [B, n · topk]."""
    parents: torch.Tensor
    """int64 [B, topk + 1] in step 0, then [B, topk]: numbers of the frontier's candidates among all of them."""


class Frontier(NamedTuple):
    """What the next drafting step goes on from."""

    input_ids: torch.Tensor
    """int64 [B, topk]."""
    scores: torch.Tensor
    """float [B, topk]."""
    parents: torch.Tensor
    """int64 [B, topk]: which node of the frontier before each of these continues; zeros in step 0."""
    step: TreeStep


def select_top_k_tokens(
    i: int, topk_p: torch.Tensor, topk_index: torch.Tensor, scores: torch.Tensor | None, topk: int
) -> Frontier:
    """Choose the `topk` candidates that step i + 1 continues.

    Args:
        topk_p, topk_index: [B · n, topk], probabilities and tokens after each node of the frontier (n is 1, then topk).
        scores: [B, topk], of the frontier; None in step 0.
    """
    if i == 0 or scores is None:
        parents = torch.arange(-1, topk, device=topk_p.device).repeat(len(topk_p), 1)
        step = TreeStep(topk_p[:, None], topk_index, parents)
        return Frontier(topk_index, topk_p, torch.zeros_like(topk_index), step)
    paths = scores[:, :, None] * topk_p.view(-1, topk, topk)
    best = paths.flatten(1).topk(topk, -1)
    tokens = topk_index.reshape(-1, topk * topk)
    step = TreeStep(paths, tokens, best.indices + (topk * topk * (i - 1) + topk))
    return Frontier(tokens.gather(1, best.indices), best.values, best.indices // topk, step)


class Drafts(NamedTuple):
    """The candidates that are verified."""

    parents: torch.Tensor
    """int64 [B, k]: which candidate each group of topk continues; the first entry is -1, the root."""
    selected: torch.Tensor
    """int64 [B, drafts], their numbers among all candidates, ascending."""
    tokens: torch.Tensor
    """int64 [B, drafts]."""


def organize_draft_results(steps: Sequence[TreeStep], num_draft_tokens: int) -> Drafts:
    """The num_draft_tokens - 1 likeliest of all candidates, in the order in which they were made."""
    scores = torch.cat([step.scores.flatten(1) for step in steps], 1)
    tokens = torch.cat([step.tokens for step in steps], 1)
    selected = scores.topk(num_draft_tokens - 1, -1).indices.sort(-1).values
    parents = [step.parents for step in steps[:-1]] or [steps[0].parents[:, :0]]
    return Drafts(torch.cat(parents, 1), selected, tokens.gather(1, selected))


class Tree(NamedTuple):
    """One request's tree of D nodes, the root among them."""

    parents: list[int]
    """Of each node its parent; -1: the root."""
    depths: list[int]
    next_token: list[int]
    """First child; -1: none."""
    next_sibling: list[int]
    """-1: none."""

    @property
    def mask(self) -> list[list[bool]]:
        """[D][D]: each node sees itself and its ancestors."""
        rows: list[list[bool]] = []
        for node, parent in enumerate(self.parents):
            row = list(rows[parent]) if parent >= 0 else [False] * len(self.parents)
            row[node] = True
            rows.append(row)
        return rows


def tree_of(parents: Sequence[int]) -> Tree:
    """A tree from each node's parent; node 0 is the root, and parents come before their children."""
    depths, first, sibling = [0], [-1] * len(parents), [-1] * len(parents)
    depths += [0] * (len(parents) - 1)
    for node in range(len(parents) - 1, 0, -1):  # in reverse, so that siblings are linked ascending
        parent = parents[node]
        sibling[node], first[parent] = first[parent], node
    for node in range(1, len(parents)):
        depths[node] = depths[parents[node]] + 1
    return Tree(list(parents), depths, first, sibling)


def build_tree(parents: Sequence[int], selected: Sequence[int], topk: int) -> Tree:
    """The tree of one request's selected candidates.

    Args:
        parents, selected: rows of `Drafts`.
    """
    node_of = {candidate: node for node, candidate in enumerate(selected, 1)}
    found = [-1]
    for candidate in selected:
        group = candidate // topk
        # A candidate whose parent was not chosen (a tie of scores) may hang on the root: verification decides anyway.
        found.append(0 if group == 0 else node_of.get(parents[group], 0))
    return tree_of(found)


def full_mask(prefixes: Sequence[int], trees: Sequence[Tree], device: torch.device) -> torch.Tensor:
    """FULL_MASK: bool, request after request [D, prefix + D], flat; every node sees the whole prefix."""
    parts = []
    for prefix, tree in zip(prefixes, trees, strict=True):
        own = torch.tensor(tree.mask)
        parts.append(torch.cat((torch.ones(len(own), prefix, dtype=torch.bool), own), 1).flatten())
    return torch.cat(parts).to(device)


def qlen_only_mask(trees: Sequence[Tree]) -> torch.Tensor:
    """QLEN_ONLY: bool [B, D, D], the drafts' part alone."""
    return torch.tensor([tree.mask for tree in trees])


def bitpacked_mask(trees: Sequence[Tree]) -> torch.Tensor:
    """QLEN_ONLY_BITPACKING: uint8 [B, D, ceil(D / 8)], bit j of a row is node j."""
    mask = qlen_only_mask(trees)
    padded = torch.nn.functional.pad(mask, (0, -mask.shape[-1] % 8)).unflatten(-1, (-1, 8))
    return (padded.to(torch.int64) << torch.arange(8)).sum(-1).to(torch.uint8)
