"""Draft trees and their verification, against values worked out by hand from SGLang's code."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sglab.engine.speculation import (
    accepted_moves,
    bitpacked_mask,
    build_tree,
    full_mask,
    ngram_tree,
    organize_draft_results,
    qlen_only_mask,
    select_top_k_tokens,
    tree_of,
    tree_speculative_sampling_target_only,
    verify_tree_greedy,
)

TREE = build_tree([-1, 0, 1], [0, 1, 2, 4], topk=2)


def test_the_tree_of_two_levels() -> None:
    assert TREE.next_token == [1, 3, 4, -1, -1]
    assert TREE.next_sibling == [-1, 2, -1, -1, -1]
    assert [7 + depth for depth in TREE.depths] == [7, 8, 8, 9, 9]
    rows = ["".join(str(int(seen)) for seen in row) for row in TREE.mask]
    assert rows == ["10000", "11000", "10100", "11010", "10101"]


def test_the_masks_of_the_three_modes() -> None:
    mask = full_mask([7, 2], [TREE, TREE], torch.device("cpu"))
    assert len(mask) == (7 + 2) * 5 + 5 * 5 * 2  # seq_lens_sum · D + D² · bs
    first = mask[: 5 * 12].view(5, 12)
    assert first[:, :7].all() and torch.equal(first[:, 7:], qlen_only_mask([TREE])[0])
    assert bitpacked_mask([TREE])[0, :, 0].tolist() == [0b1, 0b11, 0b101, 0b1011, 0b10101]


def test_the_path_that_the_target_says_is_accepted() -> None:
    accepted = verify_tree_greedy(TREE, [50, 11, 12, 13, 14], [12, 0, 14, 0, 99])
    assert accepted.nodes == [0, 2, 4]
    assert accepted.tokens == [12, 14, 99], "two drafts and the bonus"


def test_nothing_accepted_still_gives_the_targets_token() -> None:
    assert verify_tree_greedy(TREE, [50, 11, 12, 13, 14], [7, 0, 0, 0, 0]) == ([0], [7])


def test_two_steps_of_drafting() -> None:
    """topk 2: candidates 0 and 1 after the root; 2, 3 after candidate 0 and 4, 5 after candidate 1."""
    first = select_top_k_tokens(0, torch.tensor([[0.6, 0.4]]), torch.tensor([[11, 12]]), None, 2)
    assert first.input_ids.tolist() == [[11, 12]] and first.step.parents.tolist() == [[-1, 0, 1]]
    probs = torch.tensor([[0.5, 0.1], [0.9, 0.05]])
    second = select_top_k_tokens(1, probs, torch.tensor([[21, 22], [31, 32]]), first.scores, 2)
    torch.testing.assert_close(second.step.scores, torch.tensor([[[0.30, 0.06], [0.36, 0.02]]]))
    assert second.input_ids.tolist() == [[31, 21]] and second.parents.tolist() == [[1, 0]]
    assert second.step.parents.tolist() == [[4, 2]]
    drafts = organize_draft_results([first.step, second.step], 5)
    assert drafts.selected.tolist() == [[0, 1, 2, 4]] and drafts.tokens.tolist() == [[11, 12, 21, 31]]
    assert drafts.parents.tolist() == [[-1, 0, 1]]
    assert build_tree(drafts.parents[0].tolist(), drafts.selected[0].tolist(), 2) == TREE


@st.composite
def trees(draw: st.DrawFn) -> list[int]:
    size = draw(st.integers(1, 9))
    return [-1] + [draw(st.integers(0, node - 1)) for node in range(1, size)]


@settings(deadline=None)
@given(trees())
def test_any_tree_links_every_node_once_and_sees_its_ancestors(parents: list[int]) -> None:
    tree = tree_of(parents)
    children: dict[int, list[int]] = {}
    for node in range(len(parents)):
        child = tree.next_token[node]
        while child >= 0:
            children.setdefault(node, []).append(child)
            child = tree.next_sibling[child]
    for parent, found in children.items():
        assert found == [node for node, one in enumerate(parents) if one == parent], "ascending"
    for node, row in enumerate(tree.mask):
        seen, up = {node}, parents[node]
        while up >= 0:
            seen.add(up)
            up = parents[up]
        assert {i for i, one in enumerate(row) if one} == seen
        assert tree.depths[node] == len(seen) - 1


def test_accepted_rows_move_to_follow_the_prefix() -> None:
    slots = torch.tensor([[10, 11, 12, 13, 14], [20, 21, 22, 23, 24]])
    sources, targets = accepted_moves(slots, [[0, 2, 4], [0, 1]])
    assert (sources.tolist(), targets.tolist()) == ([12, 14], [11, 12])


def test_an_ngram_continues_as_it_did_before() -> None:
    tokens, tree = ngram_tree([1, 2, 3, 9, 8, 1, 2, 3], 4)
    assert tokens == [3, 9, 8, 1] and tree.parents == [-1, 0, 1, 2]
    tokens, tree = ngram_tree([5, 6, 5, 7, 5], 4)
    assert tokens == [5, 7, 5, 6] and tree.parents == [-1, 0, 1, 0], "the latest first, then a branch"
    tokens, tree = ngram_tree([1, 2], 3)
    assert tokens == [2, 2, 2] and tree.parents == [-1, 0, 0]


@pytest.mark.parametrize("candidates", [[0, 1, 2, 3, 4], [0, 3, 3, 1, 2]])
def test_target_only_sampling_has_the_targets_distribution(candidates: list[int]) -> None:
    """Chi-square over the first token, whichever way it came."""
    generator = torch.Generator().manual_seed(4)
    probs = torch.randn(5, 6, generator=generator).softmax(-1)
    count = 20_000
    coins = torch.rand(count, 6, generator=generator).tolist()
    first = [tree_speculative_sampling_target_only(TREE, candidates, probs, row[:5], row[5]).tokens[0] for row in coins]
    counts = torch.bincount(torch.tensor(first), minlength=6).double()
    wanted = probs[0].double() / probs[0].double().sum() * count
    statistic = float(((counts - wanted) ** 2 / wanted).sum())
    assert (statistic - 5) / math.sqrt(10) < 5


def test_a_lower_threshold_keeps_more_drafts() -> None:
    probs = torch.full((5, 6), 1 / 6)
    kept = [
        len(tree_speculative_sampling_target_only(TREE, [0, 1, 2, 3, 4], probs, [0.5] * 5, 0.5, **given).nodes)
        for given in ({}, {"threshold_acc": 0.3}, {"threshold_single": 0.1})
    ]
    assert kept[0] == 1 and kept[1] > 1 and kept[2] == 3
