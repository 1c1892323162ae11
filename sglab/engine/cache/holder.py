"""What the pools and the radix tree read and write of a request: all that the cache knows of requests. `Req` has it."""

from __future__ import annotations

from typing import Protocol

import torch

from sglab.engine.cache.radix_node import TreeNode


class RowHolder(Protocol):
    """Holds a row of ReqToTokenPool."""

    rid: str
    req_pool_idx: int | None
    """Its row; None when it holds none."""


class PrefixHolder(RowHolder, Protocol):
    """Holds a row, token slots and a prefix in the radix tree."""

    extra_key: str | None
    prefix_indices: torch.Tensor
    last_node: TreeNode | None
    holds_lock: bool
    last_host_node: TreeNode | None
    host_hit_length: int
    extend_input_len: int
    cache_protected_len: int
    kv_committed_len: int

    def token_ids(self) -> list[int]:
        """All of its tokens, of which the KV of the first `kv_committed_len` is in the pool."""
