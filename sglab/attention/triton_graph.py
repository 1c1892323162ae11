"""Buffers of the triton backend that a CUDA graph reads: allocated once for the largest, filled before each run."""

from __future__ import annotations

import torch


class TritonGraphState:
    """Decode scratch and indices for up to `max_num_tokens` rows.

    Attributes:
        attn_logits: float32 [max_num_tokens, heads, max_kv_splits, v_head_dim]; attn_lse: the same without the last.
        num_kv_splits: int32 [max_num_tokens]; every split until a replay says otherwise.
        kv_indices: int64 [max_num_tokens * max_context_len]; zero, the dummy slot, until filled.
    """

    def __init__(
        self,
        max_num_tokens: int,
        num_head: int,
        max_kv_splits: int,
        v_head_dim: int,
        max_context_len: int,
        device: torch.device,
    ) -> None:
        shape = (max_num_tokens, num_head, max_kv_splits)
        self.attn_logits = torch.zeros((*shape, v_head_dim), dtype=torch.float32, device=device)
        self.attn_lse = torch.zeros(shape, dtype=torch.float32, device=device)
        self.num_kv_splits = torch.full((max_num_tokens,), max_kv_splits, dtype=torch.int32, device=device)
        self.kv_indices = torch.zeros(max_num_tokens * max_context_len, dtype=torch.int64, device=device)
