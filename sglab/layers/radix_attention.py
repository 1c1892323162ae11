"""RadixAttention: the layer that attends over the paged KV pool, through whatever backend the batch carries."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from sglab.engine import BadArgumentError, ForwardBatch, ScoreMod
from sglab.engine import RadixAttention as AttentionShape


class RadixAttention(nn.Module):
    """One attention layer of a model; `shape` is what backends read of it (`sglab.engine.RadixAttention`).

    Source: SGLang `layers/radix_attention.py`.
    """

    def __init__(
        self, num_heads: int, head_dim: int, scaling: float, num_kv_heads: int, layer_id: int, **options: Any
    ) -> None:
        super().__init__()
        self.shape = AttentionShape(num_heads, num_kv_heads, head_dim, scaling, layer_id, **options)

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None,
        v: torch.Tensor | None,
        forward_batch: ForwardBatch,
        *,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        topk_indices: torch.Tensor | None = None,
        slopes: torch.Tensor | None = None,
        score_mod: ScoreMod | None = None,
    ) -> torch.Tensor:
        """Store k and v in the pool and attend.

        Args:
            q, k, v: [tokens, heads · dim] or [tokens, heads, dim] of the new tokens.
            q_rope, k_rope: absorbed MLA's rotary parts, where q and k are the latent parts.
            sinks: float [heads], a logit per head for the denominator alone.
            topk_indices: int [tokens, topk], positions that each query attends to, −1 for none; None: all.
            slopes: float [heads], ALiBi's. score_mod: what the model adds to its logits.

        Returns:
            [tokens, heads · v_head_dim].

        Raises:
            BadArgumentError: the batch has no backend. UnsupportedError: its backend does not serve this layer.
        """
        if forward_batch.attn_backend is None:
            remedy = "Set it to a backend that was prepared with this batch."
            raise BadArgumentError("forward_batch.attn_backend", "an attention backend", None, remedy)
        return forward_batch.attn_backend.forward(
            q,
            k,
            v,
            self.shape,
            forward_batch,
            save_kv_cache=save_kv_cache,
            q_rope=q_rope,
            k_rope=k_rope,
            sinks=sinks,
            topk_indices=topk_indices,
            slopes=slopes,
            score_mod=score_mod,
        )
