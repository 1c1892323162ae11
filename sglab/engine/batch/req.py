"""Req: one request, from arrival to the last token. Source: SGLang 0.5.9 `managers/schedule_batch.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from sglab.engine.cache.radix_node import PrefixCache, RadixKey, TreeNode


@dataclass(eq=False)
class Req:
    """A request and what it holds of the pools."""

    rid: str
    """Its name, in messages and pictures."""
    origin_input_ids: list[int]
    """The prompt."""
    output_ids: list[int] = field(default_factory=list)
    """Tokens generated so far; the scheduler appends one per decode step."""
    extra_key: str | None = None
    """Namespace in the radix tree."""

    fill_ids: list[int] = field(default_factory=list)
    """Tokens whose KV this round leaves in the pool: all of them, unless a chunked prefill cuts it short."""
    prefix_indices: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    """int64, slots of the leading tokens already in the pool; filled from the radix tree."""
    last_node: TreeNode | None = None
    """Where the shared prefix ends in the tree, locked while the request runs."""
    cache_protected_len: int = 0
    """Leading tokens whose slots the tree owns: the request never frees them."""
    extend_input_len: int = 0
    """Tokens to compute this round."""
    req_pool_idx: int | None = None
    """Row of ReqToTokenPool; None when not running."""
    kv_committed_len: int = 0
    """Tokens whose KV is in the pool."""

    @property
    def seqlen(self) -> int:
        return len(self.origin_input_ids) + len(self.output_ids)

    def token_ids(self) -> list[int]:
        return self.origin_input_ids + self.output_ids

    def init_next_round_input(self, tree_cache: PrefixCache | None = None) -> None:
        """Take all tokens as this round's input and look their prefix up in the tree.

        At least the last token is always computed: a fully cached prompt would leave nothing to take logits from.
        The match is not locked yet; `allocation.alloc_for_extend` does that.
        """
        self.fill_ids = self.token_ids()
        if tree_cache is not None:
            key = RadixKey(self.fill_ids[: max(len(self.fill_ids) - 1, 0)], self.extra_key)
            self.prefix_indices, self.last_node = tree_cache.match_prefix(key)
            self.cache_protected_len = len(self.prefix_indices)
        self.extend_input_len = len(self.fill_ids) - len(self.prefix_indices)
