"""Where the KV rows of accepted drafts go."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def accepted_moves(out_cache_loc: torch.Tensor, accepted: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Where rows of accepted nodes must go so that they follow the prefix without gaps.

    Args:
        out_cache_loc: int64 [B, slots], the slots of each request's nodes.
        accepted: per request its accepted nodes from the root down.

    Returns:
        int64 [n] each: from, to. All of them must be read before any is written.
    """
    pairs = [(i, node, at) for i, nodes in enumerate(accepted) for at, node in enumerate(nodes) if node != at]
    if not pairs:
        return out_cache_loc.new_empty(0), out_cache_loc.new_empty(0)
    rows, sources, targets = torch.tensor(pairs, device=out_cache_loc.device).T
    return out_cache_loc[rows, sources], out_cache_loc[rows, targets]
