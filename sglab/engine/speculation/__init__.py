"""Speculation without a model: draft trees, their masks, what a verification keeps of them, and their slots."""

from sglab.engine.speculation.ngram import ngram_tree
from sglab.engine.speculation.slots import accepted_moves
from sglab.engine.speculation.tree import (
    Drafts,
    Frontier,
    Tree,
    TreeStep,
    bitpacked_mask,
    build_tree,
    full_mask,
    organize_draft_results,
    qlen_only_mask,
    select_top_k_tokens,
    tree_of,
)
from sglab.engine.speculation.verify import (
    Accepted,
    VerifyInput,
    tree_speculative_sampling_target_only,
    verify_tree_greedy,
)

__all__ = [
    "Accepted",
    "Drafts",
    "Frontier",
    "Tree",
    "TreeStep",
    "VerifyInput",
    "accepted_moves",
    "bitpacked_mask",
    "build_tree",
    "full_mask",
    "ngram_tree",
    "organize_draft_results",
    "qlen_only_mask",
    "select_top_k_tokens",
    "tree_of",
    "tree_speculative_sampling_target_only",
    "verify_tree_greedy",
]
